"""A call in a child process, from the side of the service: started, heard out, and ended."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from typing import Any, Final

import msgspec

from ...producer.tasks import see_through
from ...schemas.checks import lone_surrogate
from ...schemas.tools import ToolResult, ToolStatus
from .child import Ended, Order
from .context import ToolContext
from .outcome import failed
from .tool import Tool

log = logging.getLogger(__name__)

# What the keeper has to kill all it started, and then what the kernel has to end the keeper.
_KEEPER_GRACE_S: Final = 3.0
_KILL_GRACE_S: Final = 5.0
_LAST_WORDS_S: Final = 1.0
# A result is cut short before it is sent, so that more than this is no result.
_MAX_ANSWER_BYTES: Final = 1024 * 1024
_CHUNK: Final = 65_536
_MAX_LINES: Final = 200
_MAX_LINE_BYTES: Final = 2_000
# Settings of ours, which hold the broker's password and perhaps others.
_PRIVATE: Final = "SLUICE_"


class _TooMuch(Exception):
    """More came than a result can have."""


async def call_in_child(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, timeout_s: float
) -> ToolResult:
    """Run a sync tool in a process of its own, and end that with all it started. Cancelled, it is
    killed as well. Raises OSError where no process can be started."""
    order = Order(
        module=tool.module,
        qualname=tool.function.__qualname__,
        arguments=arguments,
        job_id=context.job_id,
        round=context.round,
        effect_id=context.effect_id,
        folder=str(context.folder),
        path=[each for each in sys.path if lone_surrogate(each) is None],
        volatile=tool.spec.volatile,
    )
    volatile = tool.spec.volatile
    try:
        line = msgspec.json.encode(order) + b"\n"
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return failed(f"not JSON: {error}", volatile, ToolStatus.INVALID_ARGUMENTS)
    process = await _start()
    listening = asyncio.create_task(_log_output(process, tool.name), name=f"output of {tool.name}")
    try:
        async with asyncio.timeout(timeout_s):
            answer = await _talk(process, line)
    except TimeoutError:
        return failed(
            f"it took longer than {timeout_s:g} s and was killed; what it had done by then is not "
            "known",
            volatile,
            ToolStatus.TIMEOUT,
        )
    except _TooMuch:
        return failed("it wrote more than a result can have, and was killed", volatile)
    finally:
        await see_through(_end(process, listening))
    return _understood(answer, process.returncode, tool)


async def _start() -> Process:
    # Its module's name, and not its file: imports in it are relative.
    module = f"{__package__}.child"
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        module,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
        env={key: value for key, value in os.environ.items() if not key.startswith(_PRIVATE)},
    )


async def _talk(process: Process, order: bytes) -> bytes:
    assert process.stdin is not None  # noqa: S101 - both were asked for
    assert process.stdout is not None  # noqa: S101
    # A keeper that is gone already says so by the end of its answer.
    with contextlib.suppress(ConnectionError):
        process.stdin.write(order)
        await process.stdin.drain()
    answer = bytearray()
    while piece := await process.stdout.read(_CHUNK):
        answer += piece
        if len(answer) > _MAX_ANSWER_BYTES:
            raise _TooMuch
    return bytes(answer)


async def _end(process: Process, listening: asyncio.Task[None]) -> None:
    """Have the keeper kill what is left, and see to it where the keeper can't."""
    assert process.stdin is not None  # noqa: S101 - it was asked for
    process.stdin.close()
    try:
        async with asyncio.timeout(_KEEPER_GRACE_S):
            await _over(process)
    except TimeoutError:
        log.warning("process %d does not end by itself", process.pid)
    if process.returncode != 0:
        # Its own group outlives it where the tool has killed its keeper.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            async with asyncio.timeout(_KILL_GRACE_S):
                await _over(process)
        except TimeoutError:
            log.error("process %d can't be killed", process.pid)  # noqa: TRY400 - nothing to trace
    await asyncio.wait([listening], timeout=_LAST_WORDS_S)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def _over(process: Process) -> None:
    """Wait until a process has ended. What it still has to say is read: unread it would wait for us
    to do so, and so would the pipe to be closed."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    while await process.stdout.read(_CHUNK):
        pass
    await process.wait()


async def _log_output(process: Process, name: str) -> None:
    """What a tool prints, line by line, up to a bound; what is beyond is read and dropped, so that
    the tool does not wait for a reader."""
    assert process.stderr is not None  # noqa: S101 - it was asked for
    lines = dropped = 0
    rest = b""
    while piece := await process.stderr.read(_CHUNK):
        *whole, rest = (rest + piece).split(b"\n")
        rest = rest[:_MAX_LINE_BYTES]
        for line in whole[: _MAX_LINES - lines]:
            log.info("%s: %s", name, line[:_MAX_LINE_BYTES].decode(errors="replace"))
        dropped += max(0, len(whole) - (_MAX_LINES - lines))
        lines = min(_MAX_LINES, lines + len(whole))
    if rest:
        log.info("%s: %s", name, rest.decode(errors="replace"))
    if dropped:
        log.info("%s: %d more lines were printed", name, dropped)


def _understood(answer: bytes, code: int | None, tool: Tool) -> ToolResult:
    """The result in an answer, or why there is none."""
    *before, last = answer.splitlines() or [b""]
    try:
        ended = msgspec.json.decode(last, type=Ended)
        if before:
            return msgspec.json.decode(before[0], type=ToolResult)
    except msgspec.MsgspecError:
        return failed(f"its process was ended ({_how(code)}) before it gave a result")
    return failed(
        f"its process ended before it gave a result ({_how(ended.code)})", tool.spec.volatile
    )


def _how(code: int | None) -> str:
    if code is None:
        return "from outside"
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {-code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
