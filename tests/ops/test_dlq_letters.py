"""What is made of a dead message: the view, the advice, the filters, the ids. Pure."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops.dlq_advice import ADVICE, BROKER_REASONS, advice
from sluicegate.ops.dlq_again import again
from sluicegate.ops.dlq_changes import Changes
from sluicegate.ops.dlq_filter import Filter, NoSuchLetter, Wanted, age
from sluicegate.ops.dlq_letter import Head, Letter, bad_spans
from sluicegate.ops.dlq_sending import Refusal
from sluicegate.ops.dlq_story import story
from sluicegate.ops.dlq_tables import Newest, Tally, counted, listed
from sluicegate.schemas import (
    Candidate,
    Flaw,
    GenerationJob,
    Names,
    Reason,
    encode,
)

from .dlq_letters import (
    BAD,
    NOW,
    attempt,
    candidate,
    job,
    moved,
    rejected,
    trip,
    verdict,
    view,
    written_again,
)


class TestView:
    def test_a_letter_of_ours(self) -> None:
        letter = rejected()
        head = view(letter).head
        assert (head.id, head.kind, head.job_id) == (letter.id, "letter", "job-1")
        assert (head.reason, head.gate, head.flaw) == (
            "checks_rejected",
            "perplexity",
            "high_perplexity",
        )
        assert (head.at, head.attempts, head.profile, head.lane) == (NOW, 2, "chat", "interactive")

    def test_the_culprit_is_in_the_last_attempt_where_the_letter_does_not_say(self) -> None:
        bare = msgspec.structs.replace(rejected(), flaw=None, found_by="")
        assert (view(bare).head.gate, view(bare).head.flaw) == ("perplexity", "high_perplexity")
        given_up = attempt(
            1, flaw=None, found_by="", trips=(trip(), trip(gate="loops", action="give_up"))
        )
        assert bare.job is not None
        story_of = msgspec.structs.replace(bare.job.lineage, attempts=(given_up,))
        by_gate = msgspec.structs.replace(
            bare, job=msgspec.structs.replace(bare.job, lineage=story_of)
        )
        assert view(by_gate).head.gate == "loops"

    @pytest.mark.parametrize("reason", BROKER_REASONS)
    @pytest.mark.parametrize("message", [job(), candidate(), b"{half a bo"])
    def test_what_the_broker_moved(
        self, reason: str, message: GenerationJob | Candidate | bytes
    ) -> None:
        letter = view(message, moved(reason, "the.queue"))
        assert letter.head.reason == reason
        assert "the.queue" in letter.head.sentence
        assert letter.head.at == NOW - timedelta(minutes=30)
        assert letter.head.job_id == (None if isinstance(message, bytes) else "job-1")
        assert letter.deaths[0].routing_keys == ("jobs.interactive",)
        assert advice(reason, None) == ADVICE[reason]

    def test_its_id_is_the_same_at_each_look_and_nobody_elses(self) -> None:
        one = view(job(), moved("expired"))
        again = view(job(), moved("expired"), position=7)
        assert one.head.id == again.head.id
        assert one.head.id != view(job("job-2"), moved("expired")).head.id
        assert one.head.id != view(job(), moved("expired"), message_id="m2").head.id

    def test_the_first_death_counts_where_the_list_is_gone(self) -> None:
        headers = {"x-first-death-reason": "expired", "x-first-death-queue": "q"}
        assert view(job(), headers).head.reason == "expired"

    @pytest.mark.parametrize(
        "headers",
        [
            {"x-death": "rejected"},
            {"x-death": ["rejected", {"reason": 5}, {"reason": "a lie"}]},
            {"x-death": {"reason": "expired"}},
            {"x-first-death-reason": 7},
        ],
    )
    def test_headers_that_somebody_made_up(self, headers: dict[str, Any]) -> None:
        assert view(job(), headers).head.reason == "unknown"
        assert view(b"\xff", headers).head.reason == "undecodable"

    def test_a_letter_from_the_future_is_kept_as_a_body(self) -> None:
        body = encode(rejected()).replace(b'"schema_version":1', b'"schema_version":99', 1)
        letter = view(body)
        assert (letter.head.kind, letter.head.job_id) == ("raw", "job-1")
        assert "newer" in letter.trouble
        self.keeps_its_words(letter)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'"reason":"checks_rejected"', b'"reason":"a_new_one"'),
            (b'"flaw":"high_perplexity"', b'"flaw":"a_new_one"'),
            (b'"stage":"check"', b'"stage":"a_new_one"'),
        ],
    )
    def test_a_letter_with_codes_that_are_not_known_here(self, old: bytes, new: bytes) -> None:
        body = encode(rejected())
        assert old in body
        letter = view(body.replace(old, new))
        assert letter.head.kind == "raw"
        reason = "a_new_one" if b"reason" in old else "checks_rejected"
        self.keeps_its_words(letter, reason)

    def keeps_its_words(self, letter: Letter, reason: str = "checks_rejected") -> None:
        head = letter.head
        assert (head.reason, head.at, head.job_id) == (reason, NOW, "job-1")
        assert head.sentence.startswith("no text passed the checks. This side is older")
        text = "\n".join(story(letter, now=NOW, width=400, colour=False))
        assert letter.advice in text
        assert "Upgrade" in letter.advice
        assert "export --raw" in letter.advice
        assert "purge" not in letter.advice
        refusal = again(letter, Names("n"), Changes(), NOW)
        assert isinstance(refusal, Refusal)
        assert "older" in refusal.why

    @pytest.mark.parametrize("message", [job(), candidate()])
    def test_a_job_that_is_not_valid_today(self, message: GenerationJob | Candidate) -> None:
        body = encode(message).replace(b'"prompt":"Tell', b'"max_attempts":-3,"prompt":"Tell')
        for headers, reason in ((moved("expired"), "expired"), ({}, "unknown")):
            letter = view(body, headers)
            assert (letter.head.kind, letter.head.reason) == ("raw", reason)
            assert letter.head.job_id == "job-1"
            assert "not valid for this side" in letter.head.sentence
            assert "export it with --raw" in letter.advice
            assert "purge" not in letter.advice

    def test_what_is_not_ours_is_told_so(self) -> None:
        for body in (b"{", b"[]", b'{"type":"mail","schema_version":99}', b'{"type":7}'):
            assert view(body).head.reason == "undecodable"
            assert view(body).advice == ADVICE["undecodable"]

    @pytest.mark.parametrize(
        "at", ["0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00"]
    )
    @pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
    def test_the_ends_of_the_calendar(
        self, at: str, zone: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", zone)
            time.tzset()
            late = datetime.fromisoformat(at).replace(tzinfo=UTC)
            extreme = rejected(at=datetime.fromisoformat(at), deadline=late)
            letter = view(extreme)
            tally, newest = Tally(), Newest(1)
            for each in (letter, view(rejected("other"))):
                tally.feed(each.head)
                newest.feed(each.head)
            assert list(counted(tally.counts(), NOW))
            assert list(listed(newest.heads(), NOW))
            assert list(story(letter, now=NOW, width=80, colour=False))
            assert Filter(newer_than_s=1e9, older_than_s=0).fits(letter, NOW) in (True, False)
            assert again(letter, Names("n"), Changes(), NOW)
        time.tzset()

    @given(st.binary(max_size=200))
    def test_no_body_makes_it_raise(self, body: bytes) -> None:
        letter = view(body)
        assert letter.head.bytes == len(body)
        assert list(story(letter, now=NOW, width=80, colour=False))

    def test_bad_places_are_merged_and_inside_the_text(self) -> None:
        one = attempt(
            1,
            verdict=verdict(),
            trips=(trip(chars=(0, 5)), trip(chars=(20, 900), action="give_up")),
        )
        assert bad_spans(one) == [(12, len(BAD))]


class TestAdvice:
    def test_there_is_some_for_every_reason(self) -> None:
        assert {*Reason, *BROKER_REASONS, "undecodable", "unknown"} <= set(ADVICE)
        assert set(ADVICE) <= {*Reason, *Flaw, *BROKER_REASONS, "undecodable", "unknown"}

    def test_the_flaw_says_more_where_text_was_the_trouble(self) -> None:
        assert advice("gate_tripped", Flaw.LOOP) == ADVICE[Flaw.LOOP]
        assert advice("deadline_passed", Flaw.LOOP) == ADVICE["deadline_passed"]
        assert advice("gate_tripped", Flaw.CONTROL_CHARACTER) == ADVICE["gate_tripped"]


class TestFilter:
    @pytest.mark.parametrize(
        ("wanted", "fits"),
        [
            (Filter(), True),
            (Filter(reasons=("checks_rejected",)), True),
            (Filter(reasons=("cancelled", "checks_*")), True),
            (Filter(reasons=("cancelled",)), False),
            (Filter(gates=("perplexity",)), True),
            (Filter(gates=("runs",)), True),
            (Filter(gates=("own:*",)), True),
            (Filter(gates=("language",)), False),
            (Filter(flaws=("character_run",)), True),
            (Filter(flaws=("loop",)), False),
            (Filter(workers=("gpu-2:*",)), True),
            (Filter(workers=("cpu-1:5",)), True),
            (Filter(workers=("gpu-9:*",)), False),
            (Filter(profiles=("chat",)), True),
            (Filter(profiles=("code",)), False),
            (Filter(lane="interactive"), True),
            (Filter(lane="batch"), False),
            (Filter(jobs=("job-1",)), True),
            (Filter(jobs=("job-2",)), False),
            (Filter(metadata=(("tenant", "acme"),)), True),
            (Filter(metadata=(("tenant", "acme"), ("n", "5"))), True),
            (Filter(metadata=(("tenant", "acme"), ("n", "6"))), False),
            (Filter(metadata=(("nothing", "x"),)), False),
            (Filter(older_than_s=3600), True),
            (Filter(older_than_s=3601), False),
            (Filter(newer_than_s=3600), True),
            (Filter(newer_than_s=3599), False),
            (Filter(reasons=("checks_*",), lane="batch"), False),
        ],
    )
    def test_each_part(self, wanted: Filter, fits: bool) -> None:
        letter = view(rejected(metadata={"tenant": "acme", "n": 5}))
        assert wanted.fits(letter, NOW + timedelta(hours=1)) is fits

    def test_what_has_no_time_has_no_age(self) -> None:
        assert not Filter(older_than_s=0).fits(view(b"?"), NOW)
        assert not Filter(newer_than_s=1e9).fits(view(b"?"), NOW)

    def test_notes_don_t_count(self) -> None:
        letter = rejected()
        assert letter.job is not None
        noted = attempt(1, trips=(trip(gate="novelty", action="note"),))
        kept = msgspec.structs.replace(letter.job.lineage, attempts=(noted,))
        letter = msgspec.structs.replace(
            letter, job=msgspec.structs.replace(letter.job, lineage=kept)
        )
        assert not Filter(gates=("novelty",)).fits(view(letter), NOW)

    @pytest.mark.parametrize(
        ("ago", "said"), [(5, "5s"), (90, "2m"), (7200, "2h"), (200_000, "2d"), (-5, "0s")]
    )
    def test_age(self, ago: float, said: str) -> None:
        assert age(NOW - timedelta(seconds=ago), NOW) == said


class TestIds:
    def heads(self) -> list[Head]:
        letters = [
            msgspec.structs.replace(rejected(f"order-{number}"), id=f"{number}1975c3e-{number}")
            for number in range(3)
        ]
        twin = msgspec.structs.replace(rejected("order-1"), id="aaaaaaa-1")
        return [view(each).head for each in [*letters, twin]]

    def meant(self, *ids: str) -> list[str]:
        wanted, heads = Wanted(ids), self.heads()
        for head in heads:
            wanted.feed(head)
        by_key = {head.key: head.id for head in heads}
        return [by_key[key] for key in wanted.meant()]

    def test_whole_and_cut_short(self) -> None:
        assert self.meant("01975c3e-0") == ["01975c3e-0"]
        assert self.meant("21975c") == ["21975c3e-2"]
        assert self.meant("order-2", "aaaaaa", "21975c") == ["21975c3e-2", "aaaaaaa-1"]

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            ("01975", "too short"),
            ("nothing-like-it", "no dead letter"),
            ("order-", "4 dead letters"),
        ],
    )
    def test_what_means_none_or_several(self, asked: str, said: str) -> None:
        with pytest.raises(NoSuchLetter, match=said):
            self.meant(asked)

    def test_several_are_listed(self) -> None:
        with pytest.raises(NoSuchLetter, match=r"(?s)11975c3e-1.*aaaaaaa-1"):
            self.meant("order-")

    def test_a_jobs_id_means_its_newest_letter_that_tells_of_the_job(self) -> None:
        first, second = (
            msgspec.structs.replace(
                rejected("order-1"), id=f"letter-{n}", at=NOW + timedelta(days=n)
            )
            for n in range(2)
        )
        lost = msgspec.structs.replace(
            second, id="letter-9", reason=Reason.RESULT_UNROUTABLE, at=NOW + timedelta(days=2)
        )
        wanted = Wanted(["order-1"])
        heads = [view(each).head for each in (first, lost, second)]
        for head in heads:
            wanted.feed(head)
        assert wanted.meant() == [heads[2].key]
        only = Wanted(["order-1"])
        only.feed(heads[1])
        assert only.meant() == [heads[1].key]

    def test_what_was_written_again_is_one_letter(self) -> None:
        wanted = Wanted(["the-letter", "one"])
        heads = [view(each, position=n).head for n, each in enumerate(written_again("one", 3))]
        assert all(wanted.feed(head) for head in heads)
        assert len({head.key for head in heads}) == 1
        assert wanted.meant() == [heads[0].key]

    def test_a_whole_id_wins_however_short_it_is(self) -> None:
        wanted, heads = Wanted(["o-1"]), [view(rejected(f"o-1{n}")).head for n in range(30)]
        heads.append(view(rejected("o-1")).head)
        assert [wanted.feed(head) for head in heads] == [False] * 30 + [True]
        assert wanted.meant() == [heads[-1].key]

    def test_another_letter_with_the_same_id_is_no_copy(self) -> None:
        one, other = rejected("a"), msgspec.structs.replace(rejected("b"), id="x" * 36)
        one = msgspec.structs.replace(one, id="x" * 36)
        wanted = Wanted(["x" * 36])
        for each in (one, other, one):
            wanted.feed(view(each).head)
        with pytest.raises(NoSuchLetter, match="2 dead letters"):
            wanted.meant()
