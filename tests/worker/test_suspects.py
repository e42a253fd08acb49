"""Who is taken alone, and in which order: one that kills its service takes no other with it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas.topology import DELIVERY_LIMIT
from sluicegate.worker.suspects import Standing, Turns, parts

SETTLED = "settled"
DEAD = "dead"


@dataclass
class Message:
    name: str
    kills: bool = False
    returned: int = 0
    fate: str = ""

    def standing(self) -> Standing:
        return Standing((self.name, 1), self.returned)


def lost(waiting: list[Message]) -> None:
    """A service is killed: the broker counts it against all that it had."""
    for each in waiting:
        each.returned += 1
        if each.returned > DELIVERY_LIMIT:
            each.fate = DEAD


def run(waiting: list[Message]) -> None:
    """A service takes all there is, until one kills it. What is done together dies together."""
    for part in parts(waiting, Message.standing):
        if any(each.kills for each in part):
            break
        for each in part:
            each.fate = SETTLED
    lost([each for each in waiting if not each.fate])


@given(
    before=st.integers(0, 40),
    after=st.integers(0, 40),
    shuffle=st.randoms(use_true_random=False),
)
def test_only_the_one_that_kills_ends_in_the_dead_letters(
    before: int, after: int, shuffle: Random
) -> None:
    messages = [Message(f"{number:03}") for number in range(before + 1 + after)]
    messages[before].kills = True
    while waiting := [each for each in messages if not each.fate]:
        shuffle.shuffle(waiting)
        run(waiting)
    assert [each.fate == DEAD for each in messages] == [each.kills for each in messages]


@given(st.lists(st.integers(0, DELIVERY_LIMIT), max_size=20))
def test_everything_is_in_one_part_and_the_trusted_go_first_and_together(
    returned: list[int],
) -> None:
    batch = [Message(str(number), returned=each) for number, each in enumerate(returned)]
    found = parts(batch, Message.standing)
    assert sorted(each.name for part in found for each in part) == sorted(
        each.name for each in batch
    )
    trusted = [each for each in batch if not each.standing().suspect]
    if trusted:
        assert found[0] == trusted
    alone = found[1:] if trusted else found
    assert all(len(part) == 1 and part[0].standing().suspect for part in alone)


async def in_turn(turns: Turns, order: list[str], *standings: Standing) -> None:
    running = 0

    async def one(standing: Standing) -> None:
        nonlocal running
        async with turns.turn(standing):
            running += 1
            assert running == 1
            await asyncio.sleep(0)
            order.append(standing.key[0])
            running -= 1

    await asyncio.gather(*map(one, standings))


@pytest.mark.parametrize(
    ("returned", "expected"), [(2, ["a", "b", "c"]), (3, ["c", "b", "a"]), (4, ["a", "b", "c"])]
)
async def test_suspects_run_one_by_one_in_an_order_that_turns(
    returned: int, expected: list[str]
) -> None:
    order: list[str] = []
    standings = [Standing((name, 1), returned) for name in ("b", "c", "a")]
    await in_turn(Turns(60), order, *standings)
    assert order == expected


def held(turns: Turns, standing: Standing, until: asyncio.Event) -> "asyncio.Task[None]":
    async def hold() -> None:
        async with turns.turn(standing):
            await until.wait()

    return asyncio.create_task(hold())


async def test_others_are_let_through_while_a_suspect_runs() -> None:
    turns, done = Turns(60), asyncio.Event()
    suspect = held(turns, Standing(("a", 1), 2), done)
    async with turns.turn(Standing(("b", 1), 1)), turns.turn(Standing(("c", 1), 0)):
        assert not suspect.done()
    done.set()
    await suspect


async def test_who_has_waited_long_enough_goes_on() -> None:
    turns, done = Turns(0.4), asyncio.Event()
    suspect = held(turns, Standing(("a", 1), 2), done)
    async with turns.turn(Standing(("b", 1), 2)):
        assert not suspect.done()
    done.set()
    await suspect


async def test_one_that_is_cancelled_leaves_the_turn_to_the_next(
    until: Callable[[Callable[[], bool]], asyncio.Future[None]],
) -> None:
    turns, done = Turns(60), asyncio.Event()
    first, second, third = (held(turns, Standing((name, 1), 2), done) for name in ("a", "b", "c"))
    await until(lambda: repr(turns) == "<Turns: 2 waiting>")
    second.cancel()
    first.cancel()
    await until(lambda: repr(turns) == "<Turns: 0 waiting>")
    done.set()
    await third
    assert (first.cancelled(), second.cancelled()) == (True, True)
