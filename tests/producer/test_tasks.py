"""Tasks that are ended, also those that did not hear of it the first time."""

import asyncio

import pytest
from sluicegate.producer import tasks


async def test_a_task_that_lost_its_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "AGAIN_S", 0.01)
    heard: list[str] = []

    async def deaf() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard.append("lost")
        await asyncio.sleep(60)

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await tasks.end(task)
    assert task.cancelled()
    assert heard == ["lost", "lost"]


async def test_what_tidies_up_is_left_to_it() -> None:
    done: list[str] = []

    async def tidy() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            done.append("tidied")

    task = asyncio.create_task(tidy())
    await asyncio.sleep(0)
    await tasks.end(task)
    assert done == ["tidied"]
