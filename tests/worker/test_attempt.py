"""Time limits, and endings imposed from outside."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, cast

import pytest
from sluicegate.producer.subscription import Delivery
from sluicegate.schemas import GenerationJob
from sluicegate.worker.attempt import Attempt
from sluicegate.worker.endings import (
    Answered,
    Cancelled,
    DeadlinePassed,
    Faulted,
    Interrupted,
    Report,
    TimedOut,
)
from sluicegate.worker.engine import Piece, Segment
from sluicegate.worker.event_stream import JobEvents
from sluicegate.worker.lanes import LaneSlots
from sluicegate.worker.scripted import ScriptedEngine, echo
from sluicegate.worker.session import GenerationSession

NO_DELIVERY = cast("Delivery", None)
NO_EVENTS = cast("JobEvents", None)


async def attempt_at(job: GenerationJob, engine: ScriptedEngine | None = None) -> Attempt:
    engine = engine or ScriptedEngine(echo, chunk=1, step_s=0.01)
    await engine.open()
    session = GenerationSession(job, engine, worker="w", nonce="n")
    return Attempt(job, NO_DELIVERY, session, NO_EVENTS)


def run(
    attempt: Attempt, limit_s: float, slots: LaneSlots | None = None
) -> Coroutine[Any, Any, Report]:
    return attempt.run(limit_s, slots or LaneSlots({"interactive": 1}))


LONG = "a text that takes a second or so to come back, letter by letter, from the script" * 2


async def test_in_time() -> None:
    attempt = await attempt_at(GenerationJob(prompt="hi"))
    report = await run(attempt, 10)
    assert report.ending == Answered("stop")


async def test_the_wall_time_ends_it() -> None:
    attempt = await attempt_at(GenerationJob(prompt=LONG))
    report = await run(attempt, 0.05)
    assert report.ending == TimedOut(0.05)
    assert LONG.startswith(report.text)


async def test_a_deadline_that_passes_while_it_runs() -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=0.1)
    attempt = await attempt_at(GenerationJob(prompt=LONG, deadline=deadline))
    assert (await run(attempt, 10)).ending == DeadlinePassed(deadline)


async def test_a_deadline_that_has_passed_costs_no_token() -> None:
    asked: list[str] = []

    def script(_segment: Segment, prompt: str) -> str:
        asked.append(prompt)
        return prompt

    deadline = datetime.now(UTC) - timedelta(seconds=1)
    attempt = await attempt_at(
        GenerationJob(prompt="hi", deadline=deadline), ScriptedEngine(script)
    )
    assert (await run(attempt, 10)).ending == DeadlinePassed(deadline)
    assert asked == []


@pytest.mark.parametrize("ending", [Interrupted("shutting down"), Cancelled()])
async def test_an_imposed_ending(ending: Interrupted | Cancelled) -> None:
    attempt = await attempt_at(GenerationJob(prompt=LONG))
    running = asyncio.create_task(run(attempt, 10))
    await asyncio.sleep(0.03)
    attempt.end(ending)
    attempt.end(Interrupted("too late"))
    assert (await running).ending == ending


async def test_an_ending_imposed_before_it_starts() -> None:
    attempt = await attempt_at(GenerationJob(prompt=LONG))
    attempt.end(Cancelled())
    assert (await run(attempt, 10)).ending == Cancelled()


async def test_an_ending_imposed_after_the_end_changes_nothing() -> None:
    attempt = await attempt_at(GenerationJob(prompt="hi"))
    report = await run(attempt, 10)
    attempt.end(Cancelled())
    assert report.ending == Answered("stop")


async def test_cancelling_the_attempt_is_no_ending_and_aborts_the_request() -> None:
    engine = ScriptedEngine(echo, chunk=1, step_s=0.01)
    attempt = await attempt_at(GenerationJob(prompt=LONG), engine)
    running = asyncio.create_task(run(attempt, 10))
    while not engine.running:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not engine.running


async def test_a_bug_comes_out_as_it_is() -> None:
    def script(_segment: Segment, _prompt: str) -> str:
        raise ZeroDivisionError("a bug")

    attempt = await attempt_at(GenerationJob(prompt="hi"), ScriptedEngine(script))
    with pytest.raises(ZeroDivisionError):
        await run(attempt, 10)


async def test_time_in_the_queue_is_never_negative() -> None:
    ahead = datetime.now(UTC) + timedelta(minutes=1)
    behind = datetime.now(UTC) - timedelta(minutes=1)
    assert (await attempt_at(GenerationJob(prompt="x", enqueued_at=ahead))).queued_s == 0
    waited = (await attempt_at(GenerationJob(prompt="x", enqueued_at=behind))).queued_s
    assert waited is not None
    assert 60 <= waited < 65
    assert (await attempt_at(GenerationJob(prompt="x"))).queued_s is None


async def test_an_attempt_waits_for_a_slot_and_its_time_begins_there() -> None:
    slots = LaneSlots({"interactive": 1})
    first, second = [await attempt_at(GenerationJob(prompt="0123456789")) for _ in range(2)]
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(run(each, 0.5, slots)) for each in (first, second)]
    assert [task.result().ending for task in running] == [Answered("stop"), Answered("stop")]
    assert slots.running == 0


@pytest.mark.parametrize("how", ["ended", "cancelled"])
async def test_an_attempt_that_ends_while_it_waits_takes_no_slot(how: str) -> None:
    slots = LaneSlots({"interactive": 1})
    await slots.acquire("interactive")
    attempt = await attempt_at(GenerationJob(prompt="x"))
    running = asyncio.create_task(run(attempt, 10, slots))
    await asyncio.sleep(0.01)
    if how == "ended":
        attempt.end(Interrupted("shutting down"))
        assert (await running).ending == Interrupted("shutting down")
    else:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert slots.running == 1


async def test_an_engine_that_cancels_by_itself_is_at_fault() -> None:
    class Cancelling(ScriptedEngine):
        async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
            del segment
            raise asyncio.CancelledError
            yield Piece(token_ids=(), text="")

    attempt = await attempt_at(GenerationJob(prompt="x"), Cancelling())
    assert isinstance((await run(attempt, 10)).ending, Faulted)


class SetBack(datetime):
    """A wall clock that is set back by an hour."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return datetime.now(tz) - timedelta(hours=1)


@pytest.mark.parametrize("runs", [True, False], ids=["it runs", "it waits for a slot"])
async def test_a_deadline_holds_where_the_clock_is_set_back_meanwhile(
    monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    slots = LaneSlots({"interactive": 1})
    if not runs:
        await slots.acquire("interactive")
    deadline = datetime.now(UTC) + timedelta(seconds=0.2)
    attempt = await attempt_at(GenerationJob(prompt=LONG, deadline=deadline))
    running = asyncio.create_task(run(attempt, 10, slots))
    await asyncio.sleep(0.05)
    monkeypatch.setattr("sluicegate.worker.attempt.datetime", SetBack)
    assert (await running).ending == DeadlinePassed(deadline)


async def test_who_is_ended_as_a_slot_comes_free_does_not_take_it() -> None:
    slots = LaneSlots({"interactive": 1})
    await slots.acquire("interactive")
    attempt = await attempt_at(GenerationJob(prompt="x"))
    running = asyncio.create_task(run(attempt, 10, slots))
    await asyncio.sleep(0.01)
    attempt.end(Cancelled())
    slots.release("interactive")
    assert (await running).ending == Cancelled()
    # Given back twice, it would let in more than the engine has room for.
    assert slots.running == 0
