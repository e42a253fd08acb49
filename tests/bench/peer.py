"""One process of one contender: `python -m tests.bench.peer worker|backend NAME`.

It is told what to do by lines of JSON on standard input, answers each with a line of JSON on
standard output, and leaves when its input ends, which it does when the parent dies.
The set-up is in the environment, since a URL may hold a password.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from . import work
from .contender import Setup, load

SETUP_VARIABLE: Final = "SLUICE_BENCH_SETUP"

Answer = dict[str, float]


class Command(msgspec.Struct):
    """Run `jobs` jobs with the prompts of this seed; none: say how much CPU time was used."""

    jobs: int = 0
    seed: int = 0


async def listen(answer: Callable[[Command], Awaitable[Answer]]) -> None:
    """Answer command after command until the input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    say({})
    while line := await reader.readline():
        say(await answer(msgspec.json.decode(line, type=Command)))


def say(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


async def work_on(name: str, setup: Setup) -> None:
    async def answer(_: Command) -> Answer:
        return {"cpu_s": time.process_time()}

    async with load(name).serve(setup):
        await listen(answer)


async def ask(name: str, setup: Setup) -> None:
    async with load(name).backend(setup) as run:

        async def answer(command: Command) -> Answer:
            prompts = work.prompts(command.jobs, command.seed)
            used_s, began = time.process_time(), time.perf_counter()
            await run(prompts)
            return {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - used_s}

        await listen(answer)


def main(arguments: list[str]) -> None:
    role, name = arguments
    setup = msgspec.json.decode(os.environ[SETUP_VARIABLE], type=Setup)
    # A line or two for each job is what the libraries differ in most, and what nobody compares.
    logging.basicConfig(level=logging.WARNING)
    roles: dict[str, Callable[[str, Setup], Any]] = {"worker": work_on, "backend": ask}
    asyncio.run(roles[role](name, setup))


if __name__ == "__main__":
    main(sys.argv[1:])
