"""A step of calling: what the model asked for is judged, made, or left to a person."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from ...schemas import AgentContext, ApprovalWanted, InvalidMessage, Reason
from ...schemas.tools import RAN
from . import rounds
from .budget import left_s, time_stop
from .effects import Effects
from .folding import ContextFull
from .judging import is_waiting, judged
from .monitoring import Monitor
from .moves import Goes, Limits, Site, stop_for, stopped


class Calling:
    """Takes steps of calling."""

    def __init__(
        self,
        effects: Effects,
        monitor: Monitor,
        limits: Limits,
        clock: Callable[[], datetime],
    ) -> None:
        self._effects = effects
        self._monitor = monitor
        self._limits = limits
        self._clock = clock

    async def step(
        self,
        context: AgentContext,
        site: Site,
        *,
        again: bool,
        held: Callable[[], bool] = lambda: True,
    ) -> Goes:
        """The last round with what came of its calls. `again`: another may have begun to make
        them; `held`: whether the job is still ours."""
        stop = time_stop(context, self._clock())
        if stop is not None:
            # A person may have taken their time; what nobody waits for is not done any more.
            context = await self.looked_up(context, site, held) if again else context
            return stopped(context, stop)
        specs = site.by_name
        calls = judged(context, specs, site.known, site.validate, self._clock())
        ran = await self._effects.run(
            context, calls, specs, again=again, limit_s=self._limit_s(context), held=held
        )
        context = rounds.with_calls(context, ran.calls, tools_s=ran.seconds)
        if any(map(is_waiting, ran.calls)):
            return self.ask(context)
        try:
            return await self._monitor.close(context, site)
        except (ContextFull, InvalidMessage) as error:
            # From here on, and not from before: what was done stays on record.
            return stopped(context, stop_for(Reason.CONTEXT_FULL, str(error)))

    def _limit_s(self, context: AgentContext) -> float:
        return min(self._limits.step_timeout_s, left_s(context, self._clock()))

    async def looked_up(
        self, context: AgentContext, site: Site, held: Callable[[], bool]
    ) -> AgentContext:
        """The last round with what was done of it, here or by another, for the record. No call is
        made: of one that is begun, and that could be made again, it is not known what came of it.
        Errors as `Effects.run`."""
        calls = rounds.last_round(context).calls
        specs = {
            name: msgspec.structs.replace(spec, idempotent=False)
            for name, spec in site.by_name.items()
        }
        ran = await self._effects.run(context, calls, specs, again=True, limit_s=0.0, held=held)
        known = tuple(
            old if new.result is not None and new.result.status not in RAN else new
            for old, new in zip(calls, ran.calls, strict=True)
        )
        return rounds.with_calls(context, known)

    def ask(self, context: AgentContext) -> Goes:
        """The context, left to a person as long as a call waits for one."""
        this = rounds.last_round(context)
        waiting = [call for call in this.calls if is_waiting(call)]
        if not waiting:
            return Goes(rounds.to(context, "calling"))
        event = ApprovalWanted(
            round=this.number,
            calls=tuple(call.name for call in waiting),
            expires_at=min(
                call.approval.expires_at for call in waiting if call.approval is not None
            ),
        )
        return Goes(rounds.waiting(context, self._clock()), to_person=True, events=(event,))
