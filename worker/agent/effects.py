"""Calls that do something, each once: written down before they are made, and their results after.

What another left open is looked up in the journal: a result that is there is used again; a call
that was dispatched, and whose result is not there, is made again only where its tool says that
twice is as good as once. Otherwise the model is told that nobody knows.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from ...producer.errors import BrokerError
from ...schemas import AgentContext, ToolCall, ToolResult, ToolSpec, ToolStatus
from ...schemas.agents import Dispatched, Returned
from .. import metrics
from .journal import Journal
from .judging import is_waiting, refused
from .rounds import last_round

log = logging.getLogger(__name__)

# Calls of one round that are made at once.
AT_ONCE: Final = 8
# Results kept for the case that the broker could not be told of them.
_REMEMBERED: Final = 1_000


class Caller(Protocol):
    """Makes one call of a tool, here or elsewhere. Raises nothing but CancelledError."""

    async def __call__(
        self, spec: ToolSpec, call: ToolCall, job_id: str, number: int
    ) -> ToolResult: ...


class Ran(Struct, frozen=True):
    """The calls of a round with what came of them, and how long that took, in seconds."""

    calls: tuple[ToolCall, ...]
    seconds: float


class Effects:
    """Makes the open calls of a round."""

    def __init__(self, journal: Journal, caller: Caller) -> None:
        self._journal = journal
        self._caller = caller
        self._results: OrderedDict[str, ToolResult] = OrderedDict()

    async def run(
        self,
        context: AgentContext,
        calls: Sequence[ToolCall],
        specs: Mapping[str, ToolSpec],
        *,
        again: bool,
        limit_s: float,
    ) -> Ran:
        """Make those that are open and wait for nobody, within `limit_s` seconds all together.
        `again`: another may have begun to. Raises BrokerError where a call can't be written down:
        then it was not made."""
        this = last_round(context)
        known: dict[str, ToolResult] = {}
        maybe: set[str] = set()
        if again:
            dispatched, known = await self._journal.calls(context.id, this.at)
            maybe = dispatched.keys() - known.keys()
        began = time.monotonic()
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(call: ToolCall) -> ToolCall:
            if call.result is not None or is_waiting(call):
                return call
            spec = specs.get(call.name)
            if spec is None:
                return refused(call, ToolStatus.UNKNOWN_TOOL, f"{call.name} is no longer there.")
            result = known.get(call.effect_id) or self._results.get(call.effect_id)
            if result is not None:
                return msgspec.structs.replace(call, result=result)
            if call.effect_id in maybe and not spec.idempotent:
                log.warning(
                    "%s of %s was dispatched, and nobody knows what came of it", call.name, call.id
                )
                return refused(call, ToolStatus.UNKNOWN, _UNKNOWN.format(name=call.name))
            async with turn:
                left_s = limit_s - (time.monotonic() - began)
                if left_s <= 0:
                    text = f"Not run: the round's calls have used up their {limit_s:g} s."
                    return refused(call, ToolStatus.NOT_RUN, text)
                spec = msgspec.structs.replace(spec, timeout_s=min(spec.timeout_s, left_s))
                return await self._make(context.id, this.number, call, spec)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(call), name=f"call {call.id}") for call in calls]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return Ran(tuple(task.result() for task in tasks), time.monotonic() - began)

    async def _make(self, job_id: str, number: int, call: ToolCall, spec: ToolSpec) -> ToolCall:
        entry = Dispatched(effect_id=call.effect_id, round=number, call=call)
        await self._journal.write(job_id, entry)
        result = await self._caller(spec, call, job_id, number)
        self._remember(call.effect_id, result)
        try:
            await self._journal.write(job_id, Returned(effect_id=call.effect_id, result=result))
        except BrokerError as error:
            # It is in the context that comes, or, if that can't be published, still in memory.
            log.warning("the result of %s can't be written down: %s", call.id, error)
        metrics.TOOL_CALLS.labels(tool=spec.name, status=result.status.value).inc()
        metrics.TOOL_SECONDS.observe(result.seconds)
        return msgspec.structs.replace(call, result=result)

    def _remember(self, effect: str, result: ToolResult) -> None:
        self._results[effect] = result
        while len(self._results) > _REMEMBERED:
            self._results.popitem(last=False)


_UNKNOWN: Final = (
    "It is not known whether this call of {name} was carried out: the service that made it ended "
    "before it could say. It is not made again by itself. Find out, if you can, before you repeat "
    "it."
)
