"""A step of calling: what the model asked for is judged, made, or left to a person."""

from collections.abc import Callable
from datetime import datetime

from ...schemas import AgentContext, ApprovalWanted, InvalidMessage, Reason
from . import rounds
from .budget import hard_stop
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

    async def step(self, context: AgentContext, site: Site, *, again: bool) -> Goes:
        """The last round with what came of its calls. `again`: another may have begun to make
        them."""
        stop = hard_stop(context, self._clock())
        if stop is not None and stop.reason is Reason.DEADLINE_PASSED:
            # A person may have taken their time; what nobody waits for is not done any more.
            return stopped(context, stop)
        specs = site.by_name
        calls = judged(context, specs, site.known, site.validate, self._clock())
        ran = await self._effects.run(
            context, calls, specs, again=again, limit_s=self._limits.step_timeout_s
        )
        context = rounds.with_calls(context, ran.calls, tools_s=ran.seconds)
        if any(map(is_waiting, ran.calls)):
            return self.ask(context)
        try:
            return await self._monitor.close(context, site)
        except (ContextFull, InvalidMessage) as error:
            # From here on, and not from before: what was done stays on record.
            return stopped(context, stop_for(Reason.CONTEXT_FULL, str(error)))

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
