"""Calls that do something, each once: written down before they are made, and their results after.

What another left open is looked up in the journal: a result that is there is used again; a call
that was dispatched, and whose result is not there, is made again only where its tool says that
twice is as good as once. Otherwise the model is told that nobody knows.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from ...producer.errors import BrokerError
from ...schemas import AgentContext, Round, SluiceError, ToolCall, ToolResult, ToolSpec, ToolStatus
from ...schemas.agents import Dispatched, Returned
from .. import metrics
from .journal import Journal, Past
from .judging import is_waiting, refused
from .rounds import last_round

log = logging.getLogger(__name__)

# Calls of one round that are made at once.
AT_ONCE: Final = 8
# Results kept for the case that the broker could not be told of them.
_REMEMBERED: Final = 1_000


Held = Callable[[], bool]
replace = msgspec.structs.replace
_NOT_OURS: Final = "its delivery is gone, and the broker has given the job to another, or will"


class NotOurs(SluiceError):
    """The job is in other hands: whatever is decided here does not count."""


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
        held: Held = lambda: True,
    ) -> Ran:
        """Make those that are open and wait for nobody, within `limit_s` seconds all together.
        `again`: another may have begun to. `held`: whether the job is still ours; where it is not,
        no further call is begun, for whoever has it now begins them. What runs is seen to its end
        and written down. Then raises NotOurs, or BrokerError where a call can't be written down,
        which was not made."""
        this = last_round(context)
        past = await self._past(context.id, this, calls) if again else Past()
        making = _Making(self, context.id, this.number, specs, past, limit_s, held)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(making.one(each), name=f"call {each.id}") for each in calls]
        if making.failures:
            raise making.failures[0]
        if not held():
            raise NotOurs(_NOT_OURS)
        return Ran(tuple(task.result() for task in tasks), time.monotonic() - making.began)

    def remembered(self, effect: str) -> ToolResult | None:
        """A result that the broker could not be told of, perhaps."""
        return self._results.get(effect)

    async def make(
        self, job_id: str, number: int, call: ToolCall, spec: ToolSpec, held: Held
    ) -> ToolCall:
        """Make one call, written down before and after. Errors as `run`."""
        if not held():
            raise NotOurs(_NOT_OURS)
        entry = Dispatched(effect_id=call.effect_id, round=number, call=call)
        await self._journal.write(job_id, entry)
        # Confirmed on a connection that came back, it was too late.
        if not held():
            raise NotOurs(_NOT_OURS)
        result = await self._caller(spec, call, job_id, number)
        self._remember(call.effect_id, result)
        try:
            await self._journal.write(job_id, Returned(effect_id=call.effect_id, result=result))
        except BrokerError as error:
            # It is in the context that comes, or, if that can't be published, still in memory.
            log.warning("the result of %s can't be written down: %s", call.id, error)
        metrics.TOOL_CALLS.labels(tool=spec.name, status=result.status.value).inc()
        metrics.TOOL_SECONDS.observe(result.seconds)
        return replace(call, result=result)

    async def _past(self, job_id: str, this: Round, calls: Sequence[ToolCall]) -> Past:
        """What the journal knows of these calls. One that a person allowed was not made before."""
        begun = (
            call.approval.at if call.approval is not None and call.approval.at else this.at
            for call in calls
            if call.result is None
        )
        return await self._journal.calls(job_id, min(begun, default=this.at))

    def _remember(self, effect: str, result: ToolResult) -> None:
        self._results[effect] = result
        while len(self._results) > _REMEMBERED:
            self._results.popitem(last=False)


class _Making:
    """The calls of one round while they are made."""

    def __init__(
        self,
        effects: Effects,
        job_id: str,
        number: int,
        specs: Mapping[str, ToolSpec],
        past: Past,
        limit_s: float,
        held: Held,
    ) -> None:
        self._effects = effects
        self._job_id = job_id
        self._number = number
        self._specs = specs
        self._past = past
        self._limit_s = limit_s
        self._held = held
        self._turn = asyncio.Semaphore(AT_ONCE)
        self.began = time.monotonic()
        self.failures: list[BrokerError | NotOurs] = []

    async def one(self, call: ToolCall) -> ToolCall:
        """The call with its result; as it was where it is not to be made, or can't be now."""
        if call.result is not None or is_waiting(call):
            return call
        spec = self._specs.get(call.name)
        if spec is None:
            return refused(call, ToolStatus.UNKNOWN_TOOL, f"{call.name} is no longer there.")
        if (known := self._from_the_past(call, spec)) is not None:
            return known
        async with self._turn:
            return call if self.failures else await self._made(call, spec)

    def _from_the_past(self, call: ToolCall, spec: ToolSpec) -> ToolCall | None:
        result = self._past.results.get(call.effect_id)
        result = result or self._effects.remembered(call.effect_id)
        if result is not None:
            return replace(call, result=result)
        if self._past.may_have(call.effect_id) and not spec.idempotent:
            log.warning(
                "%s of %s was dispatched, and nobody knows what came of it", call.name, call.id
            )
            return refused(call, ToolStatus.UNKNOWN, _UNKNOWN.format(name=call.name))
        return None

    async def _made(self, call: ToolCall, spec: ToolSpec) -> ToolCall:
        left_s = self._limit_s - (time.monotonic() - self.began)
        if left_s <= 0:
            text = f"Not run: the round's calls have used up their {self._limit_s:g} s."
            return refused(call, ToolStatus.NOT_RUN, text)
        spec = replace(spec, timeout_s=min(spec.timeout_s, left_s))
        try:
            return await self._effects.make(self._job_id, self._number, call, spec, self._held)
        except (BrokerError, NotOurs) as error:
            # The others are not cancelled for it: what they do is done.
            self.failures.append(error)
            return call


_UNKNOWN: Final = (
    "It is not known whether this call of {name} was carried out: the service that made it ended "
    "before it could say. It is not made again by itself. Find out, if you can, before you repeat "
    "it."
)
