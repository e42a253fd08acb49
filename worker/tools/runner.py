"""Runs one call of a tool to its result, whatever the tool does."""

import asyncio
import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from ...producer.tasks import see_through
from ...schemas.errors import tame
from ...schemas.tools import ToolResult, ToolStatus
from .context import NO_FOLDER, ToolContext
from .outcome import failed, raised, returned, said
from .process import call_in_child
from .tool import Tool, problem

log = logging.getLogger(__name__)

GRACE_S: Final = 2.0
MAX_ABANDONED: Final = 64
MAX_CHILDREN: Final = 32
# Longer text is looked at in a thread: it would hold up everything else.
_SHORT_CHARS: Final = 50_000
_LOGGED_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class _Gave:
    """What a tool returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class _Raised:
    """What it raised instead."""

    error: BaseException


class Runner:
    """Runs calls, many at once. `close` it when the last has been run.

    An async tool whose time is over is cancelled; one that has not ended `grace_s` seconds later is
    abandoned. With `max_abandoned` of those about no further async call is run. At most
    `max_children` sync tools run at once; the others wait, which is not counted as their time.
    """

    def __init__(
        self,
        *,
        grace_s: float = GRACE_S,
        max_abandoned: int = MAX_ABANDONED,
        max_children: int = MAX_CHILDREN,
    ) -> None:
        self._grace_s = grace_s
        self._max_abandoned = max_abandoned
        self._children = asyncio.Semaphore(max_children)
        self._abandoned: set[asyncio.Task[_Gave | _Raised]] = set()

    def __repr__(self) -> str:
        return f"<Runner, {self.abandoned} abandoned>"

    @property
    def abandoned(self) -> int:
        """How many calls were left behind and have not ended yet."""
        return len(self._abandoned)

    async def run(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        context: ToolContext,
        *,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """The result of a call. Raises nothing that the tool does; only a cancellation of the
        caller passes through, and then the tool is cancelled, or its process killed.

        `timeout_s`: less than the tool's own, in seconds, where there is less left.
        """
        longest = tool.spec.timeout_s
        limit_s = longest if timeout_s is None else min(longest, timeout_s)
        began = time.monotonic()
        try:
            async with _folder(tool) as folder:
                result = await self._run(tool, arguments, replace(context, folder=folder), limit_s)
        except OSError as error:
            log.exception("tool %s could not be run", tool.name)
            result = failed(f"it could not be run here: {error}", tool.spec.volatile)
        return msgspec.structs.replace(result, seconds=time.monotonic() - began)

    async def close(self) -> None:
        """End what was abandoned, as far as that can be done: a task that lives on would keep the
        event loop from being closed. Bounded by twice the grace."""
        if not self._abandoned:
            return
        for task in self._abandoned:
            task.cancel()
        await asyncio.wait(self._abandoned, timeout=self._grace_s)
        for task in tuple(self._abandoned):
            # Behind its `except CancelledError` there are few that catch this as well.
            with contextlib.suppress(BaseException):
                task.get_coro().close()
            task.cancel()
        if self._abandoned:
            await asyncio.wait(self._abandoned, timeout=self._grace_s)

    async def _run(
        self, tool: Tool, arguments: dict[str, Any], context: ToolContext, limit_s: float
    ) -> ToolResult:
        try:
            read = tool.signature.read(arguments)
        except Exception as error:
            why = problem(error, tool.signature.names)
            return failed(why, tool.spec.volatile, ToolStatus.INVALID_ARGUMENTS)
        if tool.is_async:
            positional, by_name = tool.signature.bind(read, context)
            return await self._in_loop(tool, lambda: tool.function(*positional, **by_name), limit_s)
        async with self._children:
            return await call_in_child(tool, arguments, context, limit_s)

    async def _in_loop(self, tool: Tool, call: Callable[[], Any], limit_s: float) -> ToolResult:
        volatile = tool.spec.volatile
        if len(self._abandoned) >= self._max_abandoned:
            return failed(
                f"it was not run: {len(self._abandoned)} calls that would not end still run here",
                volatile,
            )
        task = asyncio.create_task(_guarded(call), name=f"tool {tool.name}")
        try:
            done, _ = await asyncio.wait([task], timeout=limit_s)
        except asyncio.CancelledError:
            await see_through(self._stop(task, tool))
            raise
        if not done:
            ended = await see_through(self._stop(task, tool))
            return _timed_out(tool, limit_s, ended)
        return await _result(task, tool)

    async def _stop(self, task: asyncio.Task[_Gave | _Raised], tool: Tool) -> bool:
        """Cancel a call; False where it had to be left behind."""
        task.cancel()
        await asyncio.wait([task], timeout=self._grace_s)
        if task.done():
            _look_at(task)
            return True
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)
        task.add_done_callback(_look_at)
        log.warning("tool %s ignores its cancellation; %d abandoned", tool.name, self.abandoned)
        return False


async def _guarded(call: Callable[[], Any]) -> _Gave | _Raised:
    """A tool that ends itself must not end the service."""
    try:
        return _Gave(await call())
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        return _Raised(error)


def _look_at(task: asyncio.Task[Any]) -> None:
    """Nobody asks for it any more; unseen it would be complained of."""
    if not task.cancelled():
        task.exception()


async def _result(task: asyncio.Task[_Gave | _Raised], tool: Tool) -> ToolResult:
    volatile = tool.spec.volatile
    if task.cancelled():
        return failed("it cancelled itself", volatile)
    error = task.exception()
    outcome = _Raised(error) if error is not None else task.result()
    # Of a class of its own not even the length may be asked for here.
    short = isinstance(outcome, _Raised) or (
        type(outcome.value) is str and len(outcome.value) <= _SHORT_CHARS
    )
    return _told(outcome, tool) if short else await asyncio.to_thread(_told, outcome, tool)


def _told(outcome: _Gave | _Raised, tool: Tool) -> ToolResult:
    """Whatever a tool gives back, or raises, is an object of its own making, and may raise at
    whatever is done with it."""
    volatile = tool.spec.volatile
    try:
        match outcome:
            case _Raised(error):
                # The model is told, and may have asked for it: nothing is wrong here.
                log.info("tool %s raised %s", tool.name, tame(said(error), _LOGGED_CHARS))
                log.debug("where tool %s raised", tool.name, exc_info=error)
                return raised(error, volatile)
            case _Gave(value):
                return returned(value, volatile)
    except BaseException:
        log.warning("tool %s gave back what can't be looked at", tool.name)
        return failed("it gave back something that can't be looked at without an error", volatile)


def _timed_out(tool: Tool, limit_s: float, ended: bool) -> ToolResult:
    what = (
        "was cancelled; what it had done by then is not known"
        if ended
        else "would not end when it was cancelled: it was left behind, and may still run"
    )
    return failed(
        f"it took longer than {limit_s:g} s and {what}",
        tool.spec.volatile,
        ToolStatus.TIMEOUT,
        abandoned=not ended,
    )


@contextlib.asynccontextmanager
async def _folder(tool: Tool) -> AsyncGenerator[Path]:
    """A folder for one call, where the tool asks for its context."""
    if not tool.signature.takes_context:
        yield NO_FOLDER
        return
    folder = Path(tempfile.mkdtemp(prefix="sluice-tool-"))
    try:
        yield folder
    finally:
        await see_through(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
