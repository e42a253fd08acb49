"""What a dead letter becomes when it is sent back. Pure."""

from datetime import timedelta

import msgspec
import pytest
from sluicegate.ops.dlq_again import again
from sluicegate.ops.dlq_changes import Changes, parse_sets
from sluicegate.ops.dlq_letter import Properties, read_letter
from sluicegate.ops.dlq_sending import Refusal, Sending
from sluicegate.schemas import (
    Candidate,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Mutation,
    Names,
    Reasoning,
    Sampling,
    decode,
    encode,
)

from .dlq_letters import NOW, candidate, job, moved, rejected, result, undecodable, unroutable

NAMES = Names("n")
LATE = NOW + timedelta(hours=1)
AS_IT_WAS = Changes()


def sent(
    message: DeadLetter | GenerationJob | Candidate | bytes, changes: Changes = AS_IT_WAS
) -> Sending | Refusal:
    if isinstance(message, bytes):
        letter = read_letter(message, Properties(headers=moved("rejected")))
    elif isinstance(message, DeadLetter):
        letter = read_letter(encode(message), Properties())
    else:
        letter = read_letter(encode(message), Properties(headers=moved("delivery_limit")))
    return again(letter, NAMES, changes, LATE)


def sent_job(
    message: DeadLetter | GenerationJob | Candidate, changes: Changes = AS_IT_WAS
) -> GenerationJob:
    sending = sent(message, changes)
    assert isinstance(sending, Sending), sending
    assert sending.exchange == "n.retry"
    assert sending.headers["rung"] == "5s"
    assert not sending.safe
    again_there = decode(sending.body, GenerationJob)
    assert sending.routing_key == f"jobs.{again_there.lane}"
    assert sending.job_id == again_there.id
    return again_there


class TestJob:
    def test_as_it_was(self) -> None:
        letter = rejected(attempts=3, max_attempts=3, metadata={"a": 1})
        assert letter.job is not None
        mutated = msgspec.structs.replace(
            letter.job, mutation=Mutation(sampling=Sampling(temperature=0.1))
        )
        back = sent_job(msgspec.structs.replace(letter, job=mutated))
        assert (back.id, back.attempt, back.first_attempt, back.last_attempt) == ("job-1", 4, 4, 6)
        assert back.mutation is None
        assert back.enqueued_at == LATE
        same = msgspec.structs.replace(
            letter.job, attempt=4, first_attempt=4, enqueued_at=LATE, lineage=back.lineage
        )
        assert back == same
        assert back.lineage == letter.job.lineage

    def test_sent_back_twice(self) -> None:
        first = sent_job(rejected(attempts=2))
        again_dead = msgspec.structs.replace(rejected(), job=first)
        assert sent_job(again_dead).first_attempt == first.attempt + 1

    def test_what_the_broker_moved_begins_anew_too(self) -> None:
        assert sent_job(job(attempt=2)).attempt == 3

    def test_with_changes(self) -> None:
        changes = Changes(
            sets=parse_sets(
                [
                    ("sampling.temperature", "0.3"),
                    ("sampling.max_tokens", "200"),
                    ("sampling.stop", '["END"]'),
                    ("rules.must_include", '["sea"]'),
                    ("gates.min_length", "12"),
                    ("reasoning.effort", "512"),
                ]
            ),
            profile="code",
            lane="batch",
            max_attempts=5,
            checks="observe",
        )
        letter = rejected(sampling=Sampling(temperature=1.2, top_p=0.8, seed=7))
        back = sent_job(letter, changes)
        assert back.sampling == Sampling(
            temperature=0.3, top_p=0.8, seed=7, max_tokens=200, stop=("END",)
        )
        assert back.rules.must_include == ("sea",)
        assert back.reasoning == Reasoning(effort=512)
        assert back.gates == {"min_length": 12}
        assert (back.profile, back.lane, back.max_attempts) == ("code", "batch", 5)
        assert back.checks == "observe"

    def test_a_gate_that_is_wrong_can_be_mended(self) -> None:
        letter = rejected(gates={"min_lenght": 5, "loop_copies": 3})
        for changes in (AS_IT_WAS, Changes(profile="code")):
            refusal = sent(letter, changes)
            assert isinstance(refusal, Refusal)
            assert "min_lenght" in refusal.why
            assert "null takes one away" in refusal.why
        mended = Changes(sets=parse_sets([("gates.min_lenght", "null"), ("gates.min_length", "5")]))
        assert sent_job(letter, mended).gates == {"loop_copies": 3, "min_length": 5}

    def test_a_profile_that_there_is_not(self) -> None:
        letter = rejected(profile="chatty")
        refusal = sent(letter)
        assert isinstance(refusal, Refusal)
        assert "chatty" in refusal.why
        assert sent_job(letter, Changes(profile="chat")).profile == "chat"

    def test_a_value_that_fits_this_job(self) -> None:
        letter = rejected(sampling=Sampling(max_tokens=8000))
        changes = Changes(sets=parse_sets([("sampling.min_tokens", "600")]))
        assert sent_job(letter, changes).sampling.min_tokens == 600
        assert isinstance(sent(rejected(), changes), Refusal)

    def test_numbers_that_are_keys(self) -> None:
        changes = Changes(sets=parse_sets([("sampling.logit_bias", '{"5":1}')]))
        assert sent_job(rejected(), changes).sampling.logit_bias == {5: 1.0}
        kept = rejected(sampling=Sampling(logit_bias={7: -2.0}))
        cooler = Changes(sets=parse_sets([("sampling.temperature", "0.3")]))
        assert sent_job(kept, cooler).sampling.logit_bias == {7: -2.0}

    def test_null_is_the_default(self) -> None:
        letter = rejected(sampling=Sampling(seed=7, temperature=0.2))
        changes = Changes(sets=parse_sets([("sampling.seed", "null")]))
        assert sent_job(letter, changes).sampling == Sampling(temperature=0.2)

    def test_a_deadline_that_passed(self) -> None:
        letter = rejected(deadline=NOW)
        refusal = sent(letter)
        assert isinstance(refusal, Refusal)
        assert "--no-deadline" in refusal.why
        assert sent_job(letter, Changes(no_deadline=True)).deadline is None
        back = sent_job(letter, Changes(deadline_in_s=60))
        assert back.deadline == LATE + timedelta(seconds=60)
        kept = rejected(deadline=LATE + timedelta(seconds=1))
        assert sent_job(kept).deadline == LATE + timedelta(seconds=1)

    def test_a_value_that_goes_with_others_only(self) -> None:
        letter = rejected(sampling=Sampling(max_tokens=10))
        refusal = sent(letter, Changes(sets=parse_sets([("sampling.min_tokens", "100")])))
        assert isinstance(refusal, Refusal)
        assert "max_tokens" in refusal.why

    def test_numbers_that_are_used_up(self) -> None:
        refusal = sent(job(attempt=10_000, first_attempt=10_000))
        assert isinstance(refusal, Refusal)


class TestSets:
    @pytest.mark.parametrize(
        ("key", "value", "said"),
        [
            ("temperature", "1", "sampling.<name>"),
            ("sampling.temprature", "1", "did you mean sampling.temperature"),
            ("sampling.", "1", "sampling.<name>"),
            ("sampling.temperature", "hot", "float"),
            ("sampling.temperature", "99", "temperature"),
            ("rules.max_words", "-1", "max_words"),
            ("metadata.a", "1", "rules.<name>"),
            ("gates.min_lenght", "1", "min_length"),
            ("gates.min_length", '"x"', "whole number"),
            ("gates.min_length", "-1", "from"),
            ("sampling.min_tokens", "99999999", "min_tokens"),
            ("sampling.logit_bias", '{"x":1}', "int"),
            ("reasoning.efort", "low", "did you mean reasoning.effort"),
            ("reasoning.effort", "huge", "effort"),
            ("reasoning.mode", "cat", "mode"),
        ],
    )
    def test_what_makes_no_sense(self, key: str, value: str, said: str) -> None:
        with pytest.raises(InvalidMessage, match=said):
            parse_sets([(key, value)])


class TestOthers:
    def test_a_candidate_goes_back_to_the_checks(self) -> None:
        sending = sent(candidate())
        assert isinstance(sending, Sending)
        assert (sending.exchange, sending.routing_key) == ("n.retry", "checks")
        assert decode(sending.body, Candidate) == candidate()

    def test_a_candidate_with_another_deadline_is_a_candidate_still(self) -> None:
        late = candidate(deadline=NOW)
        assert isinstance(sent(late), Refusal)
        sending = sent(late, Changes(no_deadline=True))
        assert isinstance(sending, Sending)
        assert decode(sending.body, Candidate) == candidate()

    def test_a_candidate_with_changes_is_generated_anew(self) -> None:
        back = sent_job(candidate(), Changes(checks="off"))
        assert (back.attempt, back.checks) == (2, "off")
        assert back.lineage == result().lineage

    def test_a_result_is_published_again(self) -> None:
        sending = sent(unroutable(key="shop"))
        assert isinstance(sending, Sending)
        assert (sending.exchange, sending.routing_key, sending.safe) == ("n.results", "shop", True)
        assert decode(sending.body, GenerationResult) == result()

    def test_nothing_of_a_result_can_be_changed(self) -> None:
        assert isinstance(sent(unroutable(), Changes(lane="batch")), Refusal)

    def test_a_result_of_nobody_in_particular(self) -> None:
        letter = unroutable()
        lost = msgspec.structs.replace(
            letter, origin=msgspec.structs.replace(letter.origin, routing_key=None)
        )
        assert isinstance(sent(lost), Refusal)

    @pytest.mark.parametrize("message", [b"\xff\x00", b"{}", undecodable("job-1")])
    def test_what_can_t_be_read(self, message: bytes | DeadLetter) -> None:
        refusal = sent(message)
        assert isinstance(refusal, Refusal)
        assert "read" in refusal.why
