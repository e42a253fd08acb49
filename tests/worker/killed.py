"""Services that end by SIGKILL at a chosen place, each in a process of its own.

As a program it reads orders from its standard input, one a line, forks a service for each, waits
until that has ended, and answers with its exit status: forked, a service is up in no time. The
engine and the scorer here do what a prompt or a text says in its first word.
"""

import asyncio
import os
import signal
import sys
import time
import traceback
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from sluicegate.guards.checks.scores import TextScores
from sluicegate.producer.subscription import Delivery
from sluicegate.worker import checker, service
from sluicegate.worker.config import Config
from sluicegate.worker.engine import EngineDead, EngineError, Piece, Segment
from sluicegate.worker.publications import Publication, Settlement, Verb
from sluicegate.worker.scoring import ScoreRequest, Wants
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.settler import Settler

# "consumed": the work is done, nothing is published. "between": the first of two publications is
# confirmed. "published": all are, and the delivery is not settled. "never": or the work does it.
Point = Literal["consumed", "between", "published", "never"]

# What no service of these tests needs; then a process that hangs is gone.
_LONGEST_S = 60
_PIECES = 10
GARBAGE = "\x00"


class Order(Struct, frozen=True, kw_only=True):
    """Which service to run, and where it ends."""

    service: Literal["worker", "checker"]
    point: Point
    config: Config


def _nothing() -> None:
    """In a service that nobody wants to stop."""


def die() -> None:
    """End this process as the kernel ends it when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


class ActingEngine(ScriptedEngine):
    """Answers with the prompt, unless its first word is one of these:

    garbage: what no gate lets pass; fault, lost: it fails; slow: no answer for a minute;
    stop: the same, and the service is told to stop; kill: the process dies; linger: a moment later.
    preempt: after ten pieces the service is told to stop, and no more comes. A `harmless` one knows
    only the first two and slow.
    """

    def __init__(self, *, harmless: bool = False, max_model_len: int = 8192) -> None:
        super().__init__(max_model_len=max_model_len)
        self._harmless = harmless
        self.stop: Callable[[], None] = _nothing
        self.seeds: list[int] = []

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """Pieces of the answer, after what the prompt asks for."""
        self.seeds.append(segment.seed)
        asked = len(segment.prompt_token_ids) - segment.carried
        prompt = bytes(segment.prompt_token_ids[:asked]).decode()
        word = prompt.split()[0]
        if word == "garbage":
            yield Piece(token_ids=tuple(GARBAGE.encode()), finish_reason=None)
        if word == "fault":
            raise EngineError("the engine fails under this prompt")
        if not self._harmless:
            await self._act(word)
        elif word == "slow":
            await asyncio.sleep(_LONGEST_S)
        pieces = 0
        async for piece in super().stream(segment):
            yield piece
            pieces += 1
            if word == "preempt" and pieces == _PIECES and not self._harmless:
                self.stop()
                await asyncio.sleep(_LONGEST_S)

    async def _act(self, word: str) -> None:
        if word == "lost":
            raise EngineDead("the engine is gone")
        if word == "kill":
            die()
        if word == "linger":
            # Time for the jobs beside it.
            await asyncio.sleep(0.4)
            die()
        if word == "stop":
            self.stop()
        if word in ("stop", "slow"):
            await asyncio.sleep(_LONGEST_S)


class ActingScorer:
    """Has no opinion of any text, unless its first word is one of these:

    break: it raises; late TIME: it takes until then; fail: it fails beside its work; stop: the
    service is told to stop, and that takes a while; kill: the process dies. A `harmless` one takes
    the last three as any other.
    """

    def __init__(self, *, harmless: bool = False) -> None:
        self._harmless = harmless
        self._fails = False
        self.stop: Callable[[], None] = _nothing

    @property
    def name(self) -> str:
        """Where nothing can go wrong, unless it was told to."""
        if self._fails:
            raise ZeroDivisionError("a bug where nobody reckons with one")
        return "acting"

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        """Empty scores, after what the texts ask for."""
        del wants
        for request in requests:
            self._act(*request.text.split()[:2])
        return [TextScores(model=self.name, chars=(), logprobs=()) for _ in requests]

    def _act(self, word: str, argument: str = "") -> None:
        if word == "break":
            raise ZeroDivisionError("a bug in the scorer")
        if word == "late":
            time.sleep(max(0.0, float(argument) - time.time()))
        if self._harmless:
            return
        if word == "kill":
            die()
        if word == "fail":
            self._fails = True
        if word == "stop":
            self.stop()
            time.sleep(3)

    def close(self) -> None:
        """There is nothing to let go of."""


class _Doomed(Settler):
    """Carries a settlement out up to the point where the process ends."""

    point: Point = "never"

    async def settle(self, settlement: Settlement, deliveries: list[Delivery]) -> Settlement:
        """Or not even that."""
        if self.point == "consumed" and deliveries:
            die()
        return await super().settle(settlement, deliveries)

    async def _publish(self, publication: Publication) -> None:
        await super()._publish(publication)
        if self.point == "between":
            die()

    async def _say(self, delivery: Delivery, verb: Verb) -> None:
        if self.point == "published":
            die()
        await super()._say(delivery, verb)


def _serve(order: Order) -> int:
    _Doomed.point = order.point
    service.Settler = checker.Settler = _Doomed
    if order.service == "worker":
        return asyncio.run(_work(order.config))
    return asyncio.run(_check(order.config))


async def _work(config: Config) -> int:
    engine = ActingEngine(max_model_len=config.max_model_len or 8192)
    worker = service.Worker(config, engine)
    engine.stop = worker.stop
    return await worker.run()


async def _check(config: Config) -> int:
    scorer = ActingScorer()
    one = checker.Checker(config, scorer)
    loop = asyncio.get_running_loop()
    scorer.stop = lambda: loop.call_soon_threadsafe(one.stop) and None
    return await one.run()


def _forked(line: bytes) -> int:
    """The exit status of a service; of one that a signal ended, the signal's number, negative."""
    order = msgspec.json.decode(line, type=Order)
    process = os.fork()
    if not process:
        signal.alarm(_LONGEST_S)
        try:
            status = _serve(order)
        except BaseException:
            traceback.print_exc()
            status = 70
        os._exit(status)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


class Nursery:
    """The program, from the side of the tests."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> "Nursery":
        """One that is ready."""
        program = str(Path(__file__))
        return cls(
            await asyncio.create_subprocess_exec(sys.executable, program, stdin=PIPE, stdout=PIPE)
        )

    async def run(self, order: Order) -> int:
        """The exit status of the service that is ordered, when it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        async with asyncio.timeout(_LONGEST_S + 10):
            return int(await self._process.stdout.readline())

    async def close(self) -> None:
        """It ends when it gets no more orders."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


if __name__ == "__main__":
    for each in sys.stdin.buffer:
        print(_forked(each), flush=True)
