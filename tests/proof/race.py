"""Runs the contenders in turn, batch by batch, on one engine, and keeps what each batch came to."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from .contender import GATED, JUDGED, REPETITION, Came, Contender
from .oracle import Decode, Made, Request, made
from .work import Maker, Say, Task

if TYPE_CHECKING:
    from .tap import Tap


class Outcome(Struct, frozen=True, kw_only=True):
    """One job with one contender. `latency_s` from before publishing to the result, `engine_s` that
    of all its requests, `tokens` all that they brought, `kept` those in the delivered text. `bad`:
    tokens of a fault in the delivered text; `obeys`: whether that text keeps to the job's rule."""

    arm: str
    batch: int
    number: int
    kind: str
    text: str | None
    detail: str
    latency_s: float
    engine_s: float
    tokens: int
    kept: int
    struck: bool
    bad: int
    explained: bool
    obeys: bool
    touched: bool
    rollbacks: int
    retries: int
    dead: bool


class Turn(Struct, frozen=True, kw_only=True):
    """One batch with one contender. `busy_s`: how long the engine had any request of it."""

    arm: str
    batch: int
    wall_s: float
    busy_s: float
    outcomes: list[Outcome]


class Head(Struct, frozen=True, kw_only=True):
    """What a file of turns is about. One with another head is not gone on with."""

    part: str
    jobs: int
    rate: float
    seed: int
    concurrency: int
    batch: int
    model: str
    arms: tuple[str, ...]


def kept(path: Path) -> tuple[Head, list[Turn]]:
    """What a file holds. Raises OSError and msgspec's errors."""
    first, *lines = path.read_bytes().splitlines()
    head = msgspec.json.decode(first, type=Head)
    return head, [msgspec.json.decode(line, type=Turn) for line in lines]


class Book:
    """The turns so far, in a file that survives an end in the middle: a head, then a line each."""

    def __init__(self, path: Path, head: Head, say: Say) -> None:
        self._path = path
        self.turns: list[Turn] = []
        if not self._read(head):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.encode(head) + b"\n")
        elif self.turns:
            say(f"going on with {path}: {len(self.turns)} turns are there")

    def _read(self, head: Head) -> bool:
        try:
            first, *lines = self._path.read_bytes().splitlines()
            if msgspec.json.decode(first, type=Head) != head:
                return False
        except (OSError, ValueError, msgspec.MsgspecError):
            return False
        for line in lines:
            try:
                self.turns.append(msgspec.json.decode(line, type=Turn))
            except msgspec.MsgspecError:
                # It was cut off.
                break
        whole = [msgspec.json.encode(each) for each in (head, *self.turns)]
        self._path.write_bytes(b"\n".join(whole) + b"\n")
        return True

    def has(self, arm: str, batch: int) -> bool:
        """Whether this turn has been."""
        return any(turn.arm == arm and turn.batch == batch for turn in self.turns)

    def add(self, turn: Turn) -> None:
        """Keep a turn."""
        self.turns.append(turn)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(turn) + b"\n")


async def race(
    contenders: dict[str, Contender],
    work: Sequence[Sequence[Task]],
    book: Book,
    tap: "Tap",
    maker: Maker,
    *,
    prefix: str,
    concurrency: int,
    until: float,
    say: Say,
) -> bool:
    """Every batch with every contender, each in turn the first. False where the monotonic clock
    passed `until`, and batches are left out: always for all contenders."""
    names = list(contenders)
    for number, batch in enumerate(work):
        if time.monotonic() > until:
            return False
        shift = number % len(names)
        for arm in (*names[shift:], *names[:shift]):
            if book.has(arm, number):
                continue
            turn = await _turn(
                arm, contenders[arm], number, batch, tap, maker, prefix=prefix, at_once=concurrency
            )
            book.add(turn)
            done = sum(len(one.outcomes) for one in book.turns)
            bad = sum(one.bad > 0 for one in turn.outcomes)
            say(
                f"{prefix} {number + 1}/{len(work)}  {arm:<22}{turn.wall_s:6.1f} s"
                f"  {sum(one.kept for one in turn.outcomes) / turn.busy_s:6.1f} tokens/s"
                f"  {bad} bad of {len(batch)}  ({done} jobs)"
            )
    return True


async def _turn(
    arm: str,
    run: Contender,
    number: int,
    batch: Sequence[Task],
    tap: "Tap",
    maker: Maker,
    *,
    prefix: str,
    at_once: int,
) -> Turn:
    tap.clear()
    await tap.forget_prefixes()
    waiting = iter(batch)
    found: dict[int, Outcome] = {}

    async def runner() -> None:
        for task in waiting:
            found[task.number] = await _one(arm, run, number, task, tap, maker, prefix)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(batch))):
            group.create_task(runner())
    wall_s = time.monotonic() - began
    requests = [each for task in batch for each in tap.of(_id(prefix, arm, task))]
    return Turn(
        arm=arm,
        batch=number,
        wall_s=wall_s,
        busy_s=_union(requests),
        outcomes=[found[task.number] for task in batch],
    )


async def _one(
    arm: str, run: Contender, number: int, task: Task, tap: "Tap", maker: Maker, prefix: str
) -> Outcome:
    job = task.job(_id(prefix, arm, task))
    if (ordered := maker.order(task)) is not None:
        tap.place(job.id, ordered)
    began = time.monotonic()
    came = await run(job)
    latency_s = time.monotonic() - began
    requests = tap.of(job.id)
    prompt = await tap.engine.prompt_token_ids(job)

    def as_ours(ids: Sequence[int]) -> list[str]:
        detokenizer = tap.engine.detokenizer(prompt)
        return [detokenizer.step(one) for one in ids]

    # Text that our engine's own detokenizer made; the others deliver all that a request brought.
    decode: Decode | None = as_ours if arm == GATED else None
    return outcome_of(
        arm, number, task, came, requests, made(requests, came.text, decode), latency_s
    )


def outcome_of(
    arm: str,
    number: int,
    task: Task,
    came: Came,
    requests: Sequence[Request],
    of: Made,
    latency_s: float,
) -> Outcome:
    """All that is known of one job."""
    return Outcome(
        arm=arm,
        batch=number,
        number=task.number,
        kind=task.kind,
        text=came.text,
        detail=came.detail,
        latency_s=latency_s,
        engine_s=sum(each.ended - each.began for each in requests),
        tokens=sum(len(each.tokens) for each in requests),
        kept=of.tokens,
        struck=of.struck,
        bad=of.bad,
        explained=of.explained,
        obeys=came.text is None or task.obeys(came.text),
        touched=came.touched,
        rollbacks=came.rollbacks,
        retries=came.retries,
        dead=came.dead,
    )


_SHORT: Final = {GATED: "gated", REPETITION: "repetition", JUDGED: "judged"}


def _id(prefix: str, arm: str, task: Task) -> str:
    return f"{prefix}-{_SHORT.get(arm, arm)}-{task.number}"


def _union(requests: Sequence[Request]) -> float:
    """Seconds in which there was at least one."""
    total, end = 0.0, float("-inf")
    for request in sorted(requests, key=lambda each: each.began):
        total += max(0.0, request.ended - max(end, request.began))
        end = max(end, request.ended)
    return max(total, 1e-9)
