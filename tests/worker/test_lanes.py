"""No lane starves, and no slot is idle while anything waits."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas import Lane
from sluicegate.worker.borrowing import Needs
from sluicegate.worker.lanes import LaneSlots, next_lane

counts = st.integers(0, 6)
shares = st.fixed_dictionaries({"interactive": st.integers(1, 6), "batch": st.integers(1, 6)})
LANE = st.sampled_from(["interactive", "batch"])


def other(lane: Lane) -> Lane:
    return "batch" if lane == "interactive" else "interactive"


@given(shares, counts, counts, counts, counts)
def test_whose_turn_it_is(
    share: dict[Lane, int], run_i: int, run_b: int, wait_i: int, wait_b: int
) -> None:
    running: dict[Lane, int] = {"interactive": run_i, "batch": run_b}
    waiting: dict[Lane, int] = {"interactive": wait_i, "batch": wait_b}
    lane = next_lane(share, running, waiting)
    full = run_i + run_b >= sum(share.values())
    # Nothing is idle while anything waits, and never more run than there are slots.
    assert (lane is None) == (full or not wait_i + wait_b)
    if lane is None:
        return
    assert waiting[lane] > 0
    rival = other(lane)
    if waiting[rival] and running[rival] < share[rival]:
        assert running[lane] < share[lane]


@given(shares, st.lists(st.tuples(LANE, st.booleans()), max_size=80))
async def test_a_lane_below_its_share_gets_the_next_slot(  # noqa: C901 - a little simulation
    share: dict[Lane, int], moves: list[tuple[Lane, bool]]
) -> None:
    """Whatever comes and ends in whatever order."""
    slots = LaneSlots(share)
    running: Counter[Lane] = Counter()
    waiting: dict[Lane, list[asyncio.Task[None]]] = {"interactive": [], "batch": []}

    async def settle() -> list[Lane]:
        for _ in range(4):
            await asyncio.sleep(0)
        begun: list[Lane] = []
        for lane, tasks in waiting.items():
            while tasks and tasks[0].done():
                tasks.pop(0)
                running[lane] += 1
                begun.append(lane)
        return begun

    for lane, comes in moves:
        if comes:
            waiting[lane].append(asyncio.create_task(slots.acquire(lane)))
            await settle()
        elif running[lane]:
            running[lane] -= 1
            short = [each for each in share if waiting[each] and running[each] < share[each]]
            slots.release(lane)
            begun = await settle()
            if short:
                assert begun
                assert begun[0] in short
        assert sum(running.values()) <= sum(share.values())
        idle = sum(share.values()) - sum(running.values())
        assert not idle or not any(waiting.values())
    for tasks in waiting.values():
        for task in tasks:
            task.cancel()
    await asyncio.gather(*waiting["interactive"], *waiting["batch"], return_exceptions=True)
    for lane, count in running.items():
        for _ in range(count):
            slots.release(lane)
    assert slots.running == 0


async def test_who_gives_up_at_the_moment_of_its_turn_keeps_no_slot() -> None:
    slots = LaneSlots({"batch": 1})
    await slots.acquire("batch")
    task = asyncio.create_task(slots.acquire("batch"))
    await asyncio.sleep(0)
    slots.release("batch")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert slots.running == 0


@given(shares, st.lists(st.tuples(counts, counts), min_size=1, max_size=20))
def test_what_is_lent_is_what_the_others_did_not_need(
    share: dict[Lane, int], held: list[tuple[int, int]]
) -> None:
    needs = Needs(share, window_s=5.0)
    for number, (interactive, batch) in enumerate(held):
        needs.see(float(number), {"interactive": interactive, "batch": batch})
    recent = held[-6:]
    highest: dict[Lane, int] = {
        "interactive": max(each[0] for each in recent),
        "batch": max(each[1] for each in recent),
    }
    for lane, own in share.items():
        expected = 0
        if highest[lane] >= own:
            expected = max(0, share[other(lane)] - highest[other(lane)])
        assert needs.allowance(lane) == expected


async def test_who_gives_up_while_its_turn_is_passed_over_leaves_nothing_behind() -> None:
    """A slot comes free between the giving up and the moment when the waiting hears of it."""
    slots = LaneSlots({"batch": 1})
    await slots.acquire("batch")
    task = asyncio.create_task(slots.acquire("batch"))
    await asyncio.sleep(0)
    task.cancel()
    slots.release("batch")
    await asyncio.wait([task])
    assert task.cancelled()
    assert slots.running == 0
