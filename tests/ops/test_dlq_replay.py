"""Attempts run again: the scripted engine, which says the same to the same."""

import msgspec
import pytest
from sluicegate.ops.dlq_letter import Properties, read_letter
from sluicegate.ops.dlq_replay import (
    NothingToReplay,
    Replayed,
    as_it_ran,
    attempts_of,
    common_length,
    lines,
    replay_all,
)
from sluicegate.schemas import (
    AttemptRecord,
    DeadLetter,
    Flaw,
    GenerationJob,
    Lineage,
    Mutation,
    Sampling,
    encode,
)
from sluicegate.worker.config import Config
from sluicegate.worker.engines import make_engine
from sluicegate.worker.session import GenerationSession

from .dlq_letters import attempt, job, rejected, undecodable

CONFIG = Config(engine="scripted")


async def ran(asked: GenerationJob) -> AttemptRecord:
    """A record as a worker and a checker leave it."""
    engine = await make_engine(CONFIG)
    await engine.open()
    session = GenerationSession(asked, engine, worker="gpu-1", nonce="x")
    ending = await session.run()
    report = session.report(ending, None)
    await engine.close()
    return msgspec.structs.replace(
        report.record,
        flaw=Flaw.IRRELEVANT,
        found_by="relevance",
        text=report.text,
        text_chars=len(report.text),
    )


async def replayed(asked: GenerationJob, *records: AttemptRecord) -> list[Replayed]:
    letter = rejected()
    letter = msgspec.structs.replace(
        letter, job=msgspec.structs.replace(asked, lineage=Lineage(attempts=records))
    )
    attempts = attempts_of(read_letter(encode(letter), Properties()))
    shown: list[Replayed] = []
    done = await replay_all(CONFIG, attempts, lambda _: None, shown.append)
    assert shown == done
    return done


class TestReplay:
    async def test_the_same(self) -> None:
        asked = job(attempt=2)
        mutated = msgspec.structs.replace(
            asked,
            mutation=Mutation(sampling=Sampling(temperature=0.2), instruction="Be brief."),
        )
        first = await ran(msgspec.structs.replace(asked, attempt=1))
        second = await ran(mutated)
        assert second.parameters == {"temperature": 0.2}
        done = await replayed(asked, first, second)
        assert [(each.attempt, each.same) for each in done] == [(1, True), (2, True)]
        assert next(lines(done[0])).startswith("attempt 1: the same (18 characters of text")

    async def test_another_text(self) -> None:
        record = await ran(job())
        other = msgspec.structs.replace(record, text=f"{record.text[:8]}XY", text_chars=10)
        (done,) = await replayed(job(), other)
        assert [each.what for each in done.differences] == ["text, from character 8 on"]
        assert done.differences[0].then == "Tell me ▸XY"
        assert done.differences[0].now == "Tell me ▸of rivers."
        assert "differs" in next(lines(done))

    async def test_tokens_seeds_and_trips(self) -> None:
        record = await ran(job())
        assert record.segments
        other = msgspec.structs.replace(
            record,
            usage=msgspec.structs.replace(record.usage, completion_tokens=1),
            segments=(msgspec.structs.replace(record.segments[0], seed=1),),
            trips=rejected().job.lineage.attempts[-1].trips,  # pyright: ignore[reportOptionalMemberAccess]
        )
        (done,) = await replayed(job(), other)
        assert [each.what for each in done.differences] == ["seed", "tokens", "trip 1"]
        assert done.differences[-1].now == "none"

    async def test_a_text_that_was_cut_for_the_record(self) -> None:
        record = await ran(job())
        cut = msgspec.structs.replace(record, text=record.text[:5])
        assert (await replayed(job(), cut))[0].same
        longer = msgspec.structs.replace(cut, text_chars=99)
        (done,) = await replayed(job(), longer)
        assert [each.what for each in done.differences] == ["length of the text"]

    async def test_an_attempt_that_was_broken_off(self) -> None:
        record = await ran(job())
        off = msgspec.structs.replace(
            record,
            text=record.text[:5],
            text_chars=5,
            flaw=None,
            found_by="",
            finish_reason=None,
            usage=msgspec.structs.replace(record.usage, completion_tokens=5),
        )
        assert (await replayed(job(), off))[0].same


class TestAttempts:
    def test_which(self) -> None:
        letter = rejected(attempts=3)
        assert letter.job is not None
        back = msgspec.structs.replace(letter.job, first_attempt=2)
        view = read_letter(encode(msgspec.structs.replace(letter, job=back)), Properties())
        assert [each.attempt for _, each in attempts_of(view)] == [2, 3]
        assert [each.attempt for _, each in attempts_of(view, 3)] == [3]
        with pytest.raises(NothingToReplay, match="there are: 2, 3, besides"):
            attempts_of(view, 1)

    @pytest.mark.parametrize(
        ("letter", "said"),
        [(undecodable("job-1"), "no job"), (rejected(attempts=0), "died before")],
    )
    def test_none(self, letter: DeadLetter, said: str) -> None:
        with pytest.raises(NothingToReplay, match=said):
            attempts_of(read_letter(encode(letter), Properties()))

    def test_as_it_ran(self) -> None:
        record = attempt(2, parameters={"temperature": 0.5, "stop": ["x"]}, instruction="Be brief.")
        asked = job(sampling=Sampling(top_p=0.7))
        was = as_it_ran(asked, record)
        assert (was.attempt, was.first_attempt) == (2, 2)
        assert was.mutation == Mutation(
            sampling=Sampling(top_p=0.7, temperature=0.5, stop=("x",)), instruction="Be brief."
        )
        assert as_it_ran(asked, attempt(1)).mutation is None

    def test_common_length(self) -> None:
        assert common_length("abc", "abd") == 2
        assert common_length("abc", "abcd") == 3
        assert common_length("", "x") == 0
