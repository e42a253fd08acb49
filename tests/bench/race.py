"""Runs contenders turn by turn, round after round, so that whatever drifts hits all alike."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Never

import msgspec
from aio_pika.abc import AbstractRobustConnection
from sluicegate.producer import declare
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import Names, topology

from .contender import RESULT_TIMEOUT_S, Setup
from .peer import SETUP_VARIABLE, Command
from .report import Turn

ROOT: Final = Path(__file__).resolve().parents[2]
START_LIMIT_S: Final = 60.0
TURN_LIMIT_S: Final = RESULT_TIMEOUT_S + 30.0
LEAVE_LIMIT_S: Final = 15.0
CONNECT_LIMIT_S: Final = 10.0
# Before the first round: in its first seconds a fresh broker is slower than later.
WARM_UP_JOBS: Final = 1_000

Say = Callable[[str], None]


class BenchFailed(Exception):
    """The benchmark could not be run to its end, or what it measured is not what it claims."""


class Peer:
    """A child process that answers commands."""

    def __init__(self, role: str, name: str, process: asyncio.subprocess.Process) -> None:
        self._who = f"the {role} of {name}"
        self._process = process

    @classmethod
    @asynccontextmanager
    async def running(cls, role: str, name: str, setup: Setup) -> "AsyncGenerator[Peer]":
        """A peer that is ready; it leaves at the end of the context."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"{__package__}.peer",
            role,
            name,
            cwd=ROOT,
            env=os.environ | {SETUP_VARIABLE: msgspec.json.encode(setup).decode()},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C is for us: it leaves when we close its input.
            start_new_session=True,
        )
        peer = cls(role, name, process)
        try:
            await peer.hear(START_LIMIT_S)
            yield peer
        except BaseException:
            # It may wait for what will never come.
            peer.kill()
            raise
        finally:
            await peer.leave()

    async def tell(self, command: Command, limit_s: float) -> dict[str, float]:
        """What the peer answers. Raises BenchFailed where it died or said nothing in time."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(msgspec.json.encode(command) + b"\n")
        return await self.hear(limit_s)

    async def hear(self, limit_s: float) -> dict[str, float]:
        """The next line that the peer says; errors as `tell`."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                line = await stdout.readline()
        except TimeoutError as error:
            raise BenchFailed(f"{self._who} said nothing for {limit_s:g} s") from error
        if not line:
            await self.died()
        return msgspec.json.decode(line, type=dict[str, float])

    async def died(self) -> Never:
        """Raise BenchFailed when the process ends."""
        status = await self._process.wait()
        raise BenchFailed(f"{self._who} ended with status {status}; what it said is above")

    async def leave(self) -> None:
        """End the process: by closing its input, and by force where that is not enough."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.close()
        try:
            async with asyncio.timeout(LEAVE_LIMIT_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """End the process by force, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


class Pair:
    """Backend and worker of one contender, on a topology of their own."""

    def __init__(self, name: str, worker: Peer, backend: Peer) -> None:
        self.name = name
        self._worker = worker
        self._backend = backend

    async def turn(self, round_number: int, jobs: int) -> Turn:
        """Send `jobs` jobs through. Raises BenchFailed."""
        before = await self._worker.tell(Command(), START_LIMIT_S)
        told = await self._run(Command(jobs=jobs, seed=round_number))
        after = await self._worker.tell(Command(), START_LIMIT_S)
        return Turn(
            contender=self.name,
            round=round_number,
            jobs=jobs,
            wall_s=told["wall_s"],
            worker_cpu_s=after["cpu_s"] - before["cpu_s"],
            backend_cpu_s=told["cpu_s"],
        )

    async def _run(self, command: Command) -> dict[str, float]:
        try:
            async with asyncio.TaskGroup() as group:
                # Without its worker the backend would wait in vain.
                watching = group.create_task(self._worker.died())
                told = await self._backend.tell(command, TURN_LIMIT_S)
                watching.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return told


async def race(setups: dict[str, Setup], *, jobs: int, rounds: int, say: Say) -> list[Turn]:
    """All turns, in the order in which they ran: A B C D A B C D ... Raises BenchFailed.

    When they are over, every queue must be empty: what was measured did settle its messages.
    """
    turns: list[Turn] = []
    url = next(iter(setups.values())).url
    async with _connected(url) as connection, AsyncExitStack() as stages:
        for setup in setups.values():
            await stages.enter_async_context(_stage(connection, setup))
        async with AsyncExitStack() as peers:
            pairs = [await _start(peers, name, setup, say) for name, setup in setups.items()]
            say("warming up")
            for pair in pairs:
                await pair.turn(0, min(jobs, WARM_UP_JOBS))
            for number in range(1, rounds + 1):
                for pair in pairs:
                    turn = await pair.turn(number, jobs)
                    turns.append(turn)
                    say(f"round {number}/{rounds}  {pair.name:<18}{turn.rate:6.0f} jobs/s")
        for name, setup in setups.items():
            await _require_drained(connection, name, setup.names)
    return turns


async def _start(peers: AsyncExitStack, name: str, setup: Setup, say: Say) -> Pair:
    say(f"starting {name}")
    worker = await peers.enter_async_context(Peer.running("worker", name, setup))
    backend = await peers.enter_async_context(Peer.running("backend", name, setup))
    return Pair(name, worker, backend)


@asynccontextmanager
async def _connected(url: str) -> AsyncGenerator[AbstractRobustConnection]:
    connection = await connect(url, timeout_s=CONNECT_LIMIT_S, name="sluice bench")
    try:
        yield connection
    finally:
        await close(connection)


@asynccontextmanager
async def _stage(connection: AbstractRobustConnection, setup: Setup) -> AsyncGenerator[None]:
    """The topology under the set-up's namespace, removed in the end."""
    whole = topology(setup.namespace)
    try:
        await declare.apply(connection, whole)
        yield
    finally:
        channel = await open_channel(connection, timeout_s=CONNECT_LIMIT_S)
        for queue in whole.queues:
            await channel.queue_delete(queue.name)
        for exchange in whole.exchanges:
            await channel.exchange_delete(exchange.name)


async def _require_drained(connection: AbstractRobustConnection, name: str, names: Names) -> None:
    channel = await open_channel(connection, timeout_s=CONNECT_LIMIT_S)
    # Logs keep what was said.
    for queue in (each for each in topology(names.namespace).queues if not each.is_stream):
        left = (await channel.queue_declare(queue=queue.name, passive=True)).message_count
        if left:
            raise BenchFailed(f"{name} left {left} messages on {queue.name}")


def setups(url: str, contenders: Sequence[str], concurrency: int, run: str) -> dict[str, Setup]:
    """A namespace for each contender, under a name of this run."""
    return {
        name: Setup(url=url, namespace=f"bench.{run}.{name}", concurrency=concurrency)
        for name in contenders
    }
