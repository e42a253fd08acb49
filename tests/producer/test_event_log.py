"""Following a job's events: order, gaps, and when to stop."""

import asyncio
from datetime import UTC, datetime

from sluicegate.producer.event_log import EventLog
from sluicegate.schemas import Accepted, Completed, Delta, Finished, JobEvent


def event(seq: int, happening: Accepted | Delta | Finished | None = None) -> JobEvent:
    return JobEvent(
        job_id="a",
        attempt=1,
        seq=seq,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        worker="w",
        event=happening or Delta(offset=seq, text="x"),
    )


FINISHED = Finished(outcome=Completed())


async def seqs(log: EventLog) -> list[int]:
    return [each.seq async for each in log.follow()]


async def test_what_came_before_and_what_comes_after_up_to_the_end() -> None:
    log = EventLog()
    log.add(event(0, Accepted()))
    followers = [asyncio.create_task(seqs(log)) for _ in range(2)]
    await asyncio.sleep(0)
    log.add(event(1))
    await asyncio.sleep(0)
    log.add(event(2, FINISHED))
    log.add(event(3))
    assert await asyncio.gather(*followers) == [[0, 1, 2], [0, 1, 2]]
    assert await seqs(log) == [0, 1, 2]


async def test_a_slow_follower_sees_a_gap_and_the_newest() -> None:
    log = EventLog(keep=3)
    read: list[int] = []
    stream = log.follow()
    log.add(event(0, Accepted()))
    read.append((await anext(stream)).seq)
    for seq in range(1, 10):
        log.add(event(seq))
    log.add(event(10, FINISHED))
    read += [each.seq async for each in stream]
    assert read == [0, 8, 9, 10]
    assert log.dropped == 8


async def test_after_the_result_the_last_events_get_a_moment(monkeypatch: object) -> None:
    log = EventLog()
    follower = asyncio.create_task(seqs(log))
    await asyncio.sleep(0)
    log.end_soon()
    log.end_soon()
    log.add(event(0))
    log.add(event(1, FINISHED))
    assert await follower == [0, 1]
    unfinished = EventLog()
    unfinished.add(event(0))
    loop = asyncio.get_running_loop()
    began = loop.time()
    unfinished.end_soon()
    assert await seqs(unfinished) == [0]
    assert 0.5 < loop.time() - began < 3


async def test_the_end_is_the_end() -> None:
    log = EventLog()
    log.add(event(0))
    follower = asyncio.create_task(seqs(log))
    await asyncio.sleep(0)
    log.end()
    assert await follower == [0]
    assert await seqs(log) == [0]
