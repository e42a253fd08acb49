"""The attempts of a dead job once more, on an engine here, on the same seeds."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..schemas import AttemptRecord, GenerationJob, Mutation, TripRecord
from ..schemas.errors import SluiceError
from ..worker.config import Config
from ..worker.endings import Answered, Report
from ..worker.engine import Engine
from ..worker.engines import make_engine
from ..worker.gating import Gating, gating
from ..worker.session import GenerationSession
from .dlq_changes import merged
from .dlq_letter import Letter
from .plain_text import one_line

_CONTEXT: Final = 60
WORKER: Final = "sluice dlq replay"


class NothingToReplay(SluiceError):
    """The letter has no attempt that can be run again."""


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that is not as it was."""

    what: str
    then: str
    now: str


class Replayed(Struct, frozen=True, kw_only=True):
    """One attempt, then and now. `compared` is how many characters of text could be compared:
    accepted texts, and the ends of long ones, are not kept in the record."""

    attempt: int
    ending: str
    compared: int
    text: str
    differences: tuple[Difference, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing differs of what is known."""
        return not self.differences


def attempts_of(
    letter: Letter, attempt: int | None = None
) -> list[tuple[GenerationJob, AttemptRecord]]:
    """Each attempt on record with the job as it ran it; or one of them alone.

    Raises NothingToReplay: without a job or a record; and for attempts from before the job was sent
    back, whose parameters nobody knows any more; or where its texts are hidden.
    """
    if letter.hidden:
        raise NothingToReplay(f"{letter.hidden}; there is nothing to run again")
    if letter.agent_job is not None:
        raise NothingToReplay(
            "an agent job is not run again here: its tools would do again what they did. `sluice "
            "dlq show` has its rounds; `sluice dlq requeue` has it done anew"
        )
    job = letter.job
    if job is None:
        raise NothingToReplay("there is no job in this letter that could be run again")
    records = letter.lineage.attempts
    if not records:
        raise NothingToReplay(
            "no attempt of this job is on record: whoever ran it died before it could say how it "
            "went. `sluice dlq requeue` runs it again"
        )
    mine = [each for each in records if each.attempt >= job.first_attempt]
    chosen = [each for each in mine if attempt is None or each.attempt == attempt]
    if not chosen:
        known = ", ".join(str(each.attempt) for each in mine) or "none"
        raise NothingToReplay(
            f"there is no such attempt that could be run again; there are: {known}"
            + ("" if len(mine) == len(records) else ", besides those before it was sent back")
        )
    return [(as_it_ran(job, each), each) for each in chosen]


def as_it_ran(job: GenerationJob, record: AttemptRecord) -> GenerationJob:
    """The job with the number, the changes and the instruction of one attempt."""
    mutation = None
    if record.parameters or record.instruction:
        mutation = Mutation(
            sampling=merged(job.sampling, record.parameters, "sampling"),
            instruction=record.instruction,
        )
    return msgspec.structs.replace(
        job,
        attempt=record.attempt,
        first_attempt=record.attempt,
        mutation=mutation,
        progress=None,
    )


async def replay_all(
    config: Config,
    attempts: list[tuple[GenerationJob, AttemptRecord]],
    say: Callable[[str], None],
    show: Callable[[Replayed], None],
) -> list[Replayed]:
    """Run them one after another on an engine of their own; `show` has each as it is done.

    Raises EngineUnavailable, and ConfigError for a file of gates or policy that makes no sense.
    """
    rules = gating(config)
    done: list[Replayed] = []
    say("starting an engine")
    engine = await make_engine(config)
    try:
        await engine.open()
        for job, record in attempts:
            say(f"attempt {record.attempt}")
            done.append(await _once(engine, rules, job, record))
            show(done[-1])
        say("stopping the engine")
        return done
    finally:
        await engine.close()


async def _once(
    engine: Engine, rules: Gating, job: GenerationJob, record: AttemptRecord
) -> Replayed:
    session = GenerationSession(job, engine, worker=WORKER, nonce="replay", gating=rules)
    ending = await session.run()
    return compared(record, session.report(ending, None))


def compared(record: AttemptRecord, report: Report) -> Replayed:
    """What was on record of an attempt against what came of it now."""
    now = report.record
    ending = "answered" if isinstance(report.ending, Answered) else type(report.ending).__name__
    detail = getattr(report.ending, "detail", "") or getattr(report.ending, "error", "")
    return Replayed(
        attempt=record.attempt,
        ending=f"{ending}: {detail}" if detail else ending,
        compared=len(record.text),
        text=report.text,
        differences=(
            *_facts(record, now),
            *_text(record, report.text),
            *_trips(record, now.trips),
        ),
    )


def _facts(then: AttemptRecord, now: AttemptRecord) -> Iterator[Difference]:
    pairs: list[tuple[str, Any, Any]] = [("model", then.model or now.model, now.model)]
    if then.segments:
        first = now.segments[0].seed if now.segments else None
        pairs.append(("seed", then.segments[0].seed, first))
    pairs.append(("prompt tokens", then.usage.prompt_tokens, now.usage.prompt_tokens))
    pairs += (
        []
        if _was_broken_off(then)
        else [
            ("tokens", then.usage.completion_tokens, now.usage.completion_tokens),
            ("wasted tokens", then.usage.wasted_tokens, now.usage.wasted_tokens),
            ("finish reason", then.finish_reason, now.finish_reason),
        ]
    )
    for what, before, after in pairs:
        if before != after:
            yield Difference(what=what, then=str(before), now=str(after))


def _was_broken_off(record: AttemptRecord) -> bool:
    """Whether it ended before its text did: by a time limit, a fault, or because it was called
    off. Where, is nothing that comes out the same twice."""
    return record.finish_reason is None and record.flaw is None and not record.found_by


def _text(then: AttemptRecord, now: str) -> Iterator[Difference]:
    kept = then.text
    if not kept:
        return
    is_cut = then.text_chars > len(kept) or _was_broken_off(then)
    common = common_length(kept, now)
    if common < len(kept) or (not is_cut and len(now) > len(kept)):
        start = max(0, common - _CONTEXT)
        yield Difference(
            what=f"text, from character {common} on",
            then=_window(kept, start, common),
            now=_window(now, start, common),
        )
    elif not _was_broken_off(then) and len(now) != then.text_chars:
        yield Difference(what="length of the text", then=str(then.text_chars), now=str(len(now)))


def common_length(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


def _window(text: str, start: int, at: int) -> str:
    """The text around a place, the place marked."""
    lead = "…" if start else ""
    rest = text[at : at + _CONTEXT]
    more = "…" if at + _CONTEXT < len(text) else ""
    return one_line(f"{lead}{text[start:at]}▸{rest}{more}", 4 * _CONTEXT)


def _trips(record: AttemptRecord, now: tuple[TripRecord, ...]) -> Iterator[Difference]:
    then = record.trips
    if record.shortened:  # it has no longer all of them
        return
    if _was_broken_off(record):
        now = now[: len(then)]
    for number in range(max(len(then), len(now))):
        before = _trip(then[number]) if number < len(then) else "none"
        after = _trip(now[number]) if number < len(now) else "none"
        if before != after:
            yield Difference(what=f"trip {number + 1}", then=before, now=after)
            return


def _trip(trip: TripRecord) -> str:
    return f"{trip.gate} found {trip.flaw.value} at token {trip.tokens[0]}: {trip.action}"


def lines(replayed: Replayed) -> Iterator[str]:
    """One attempt for a terminal."""
    if replayed.same:
        known = f"{replayed.compared:,} characters of text, " if replayed.compared else ""
        yield f"attempt {replayed.attempt}: the same ({known}tokens, seeds and trips compared)"
        return
    yield f"attempt {replayed.attempt}: differs ({one_line(replayed.ending, 200)})"
    for each in replayed.differences:
        yield f"  {each.what}"
        yield f"    then  {one_line(each.then, 300)}"
        yield f"    now   {one_line(each.now, 300)}"
