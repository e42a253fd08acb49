"""Processes below this one: which there are, and making sure that they are gone. Linux only."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Final

from .orphan_guard import start_time

# A process id, and when the process started: ids are used again.
Processes = frozenset[tuple[int, str]]
_LOOK_EVERY_S: Final = 0.05


def descendants(pid: int | None = None) -> Processes:
    """Every process that this one has started, and theirs, as far as they still live."""
    found: set[tuple[int, str]] = set()
    for children in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        try:
            numbers = [int(each) for each in children.read_text().split()]
        except OSError:
            continue  # The thread, or all of the process, ended meanwhile.
        for number in numbers:
            if (began := start_time(number)) is not None:
                found |= {(number, began)} | descendants(number)
    return frozenset(found)


def alive(processes: Processes) -> Processes:
    """Those that still live."""
    return frozenset((pid, began) for pid, began in processes if start_time(pid) == began)


async def kill(processes: Processes, timeout_s: float) -> Processes:
    """SIGKILL to each, and wait until they are gone; those that are not after `timeout_s`."""
    for pid, _ in alive(processes):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    end = time.monotonic() + timeout_s
    while (left := alive(processes)) and time.monotonic() < end:  # noqa: ASYNC110  not our children
        await asyncio.sleep(_LOOK_EVERY_S)
    return left
