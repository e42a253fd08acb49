"""The program that runs one call of a sync tool: `python -P -m sluicegate.worker.tools.child`.

Two processes. The keeper reads the order from its standard input, forks the one that does the work,
and waits. However the work ends, the keeper then kills whatever was started on the way, in other
sessions too: orphans come to it, as their subreaper. It does so as well when its standard input
ends, which is how the service says "enough", and what the kernel says for one that was killed.

The order is one line of JSON. On the standard output come back the result, a line of JSON, where
there is one, and then how the work ended. What the tool prints goes to the standard error.
"""

import contextlib
import ctypes
import importlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import msgspec
from msgspec import Struct

from ...schemas.tools import ToolResult, ToolStatus
from .context import ToolContext
from .outcome import failed, raised, returned, said
from .signature import Signature, signature_of
from .tool import Tool, problem

_LONGEST_KILL_S: Final = 2.0
_BREATH_S: Final = 0.005
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class Order(Struct, frozen=True, kw_only=True):
    """Which function to call, and with what. `path`: where modules are looked for."""

    module: str
    qualname: str
    arguments: dict[str, Any]
    job_id: str
    round: int
    effect_id: str
    folder: str
    path: list[str]
    volatile: tuple[str, ...] = ()


class Ended(Struct, frozen=True, kw_only=True):
    """How the work ended: its exit code, or the number of the signal, negative. None: it was not
    waited for."""

    code: int | None


def main() -> None:
    """Read an order, have it done, and leave nothing behind."""
    order = msgspec.json.decode(_first_line(0), type=Order)
    lifeline, result = os.dup(0), os.dup(1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    woken, wake = os.pipe()
    for each in (woken, wake):
        os.set_blocking(each, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # The handlers do nothing, but a signal without one would wake nobody.
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, _noted)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    keeper = os.getpid()
    work = os.fork()
    if not work:
        _undo(lifeline, woken, wake, keeper)
        _work(order, result)
    code = _watch(work, lifeline, woken)
    _kill_all()
    with contextlib.suppress(OSError):  # nobody listens any more
        _write(result, msgspec.json.encode(Ended(code=code)) + b"\n")
    os._exit(0)


def _noted(number: int, frame: object) -> None:
    """The wake-up descriptor tells."""


def _first_line(descriptor: int) -> bytes:
    """Up to the end of the line, and not beyond: what follows is silence, and then its end."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(descriptor, 65_536)
        if not piece:
            os._exit(0)  # the service is gone, or has changed its mind
        line += piece
    return bytes(line)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# --- the keeper ---


def _watch(work: int, lifeline: int, woken: int) -> int | None:
    """Wait for the work, or for the end of the lifeline. The exit code."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == lifeline:
                return None
            if signal.SIGTERM in os.read(woken, 4_096):
                return None
        for pid, status in _dead():
            if pid == work:
                return os.waitstatus_to_exitcode(status)


def _dead() -> Iterator[tuple[int, int]]:
    """The children that have ended, with their wait statuses."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, status


def _kill_all() -> None:
    """Kill every child, and those that come to us when their parents die, until there is none."""
    deadline = time.monotonic() + _LONGEST_KILL_S
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_BREATH_S)


def _children() -> Iterator[int]:
    mine = str(os.getpid())
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except OSError:
            continue  # gone meanwhile
        # pid (name) state parent ...; a name may hold anything
        if text.rpartition(")")[2].split()[1] == mine:
            yield int(stat.parent.name)


# --- the work ---


def _undo(lifeline: int, woken: int, wake: int, keeper: int) -> None:
    """What the keeper set up for itself alone."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for each in (lifeline, woken, wake):
        os.close(each)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)


def _work(order: Order, descriptor: int) -> NoReturn:
    code = 1
    try:
        for stream in (sys.stdout, sys.stderr):
            # What is killed flushes nothing.
            cast("Any", stream).reconfigure(line_buffering=True, errors="backslashreplace")
        body = msgspec.json.encode(_call(order)) + b"\n"
        for stream in (sys.stdout, sys.stderr):
            # The tool may have closed them, or put something else in their place.
            with contextlib.suppress(Exception):
                stream.flush()
        _write(descriptor, body)
        code = 0
    finally:
        # No waiting for threads, no hooks: the call is over.
        os._exit(code)


def _call(order: Order) -> ToolResult:
    sys.path[:] = order.path
    try:
        function, signature = _found(order)
    except BaseException as error:
        traceback.print_exc()
        return failed(f"it can't be loaded: {said(error)}", order.volatile)
    context = ToolContext(
        job_id=order.job_id,
        round=order.round,
        effect_id=order.effect_id,
        folder=Path(order.folder),
    )
    try:
        read = signature.read(order.arguments)
    except Exception as error:
        why = problem(error, signature.names)
        return failed(why, order.volatile, ToolStatus.INVALID_ARGUMENTS)
    positional, by_name = signature.bind(read, context)
    try:
        value = function(*positional, **by_name)
    except BaseException as error:
        traceback.print_exc()
        return raised(error, order.volatile)
    return returned(value, order.volatile)


def _found(order: Order) -> tuple[Callable[..., Any], Signature]:
    if order.module == "__main__":
        raise ImportError("it stands in a script: put it into a module, which can be imported")
    found = attrgetter(order.qualname)(importlib.import_module(order.module))
    if isinstance(found, Tool):
        return found.function, found.signature
    # `made = tool(function)`: the name is that of the function itself.
    return found, signature_of(found, order.qualname)


def _write(descriptor: int, body: bytes) -> None:
    while body:
        body = body[os.write(descriptor, body) :]


if __name__ == "__main__":
    main()
