"""One step of an agent job: from one context to the next, or to its end.

A step has at most one answer of the model, or one round of calls, in it: so much a crash repeats.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from ...schemas import AgentContext, InvalidMessage, Reason, Stop
from . import rounds
from .answers import Answers
from .body import within_limit
from .calling import Calling
from .effects import Effects
from .final import close_open_calls
from .finishing import Finisher
from .folding import ContextFull
from .generation import Generator
from .journal import Journal
from .monitoring import Monitor
from .moves import Goes, Limits, Move, Over, Site, over, partial, stop_for
from .thinking import Thinker


class Stepper:
    """Takes steps. Stateless but for what its parts remember; one serves all jobs of a process."""

    def __init__(
        self,
        generate: Generator,
        effects: Effects,
        journal: Journal,
        limits: Limits,
        clock: Callable[[], datetime],
        cosine: Callable[[str, str], float] | None = None,
    ) -> None:
        answers = Answers(generate, limits, clock)
        monitor = Monitor(journal, clock, cosine)
        self._thinker = Thinker(answers, monitor, journal, limits, clock)
        self._calling = Calling(effects, monitor, limits, clock)
        self._finisher = Finisher(answers, limits)

    async def step(
        self,
        context: AgentContext,
        site: Site,
        *,
        again: bool,
        held: Callable[[], bool] = lambda: True,
    ) -> Move:
        """The next state of a job. `again`: another may have taken this step already; `held`:
        whether the job is still ours. Raises BrokerError where the broker is in the way; then
        nothing is decided."""
        try:
            move = await self._move(context, site, again=again, held=held)
        except InvalidMessage as error:
            # What comes next can't be said in a message, or not in the model's template.
            return _cut_short(context, stop_for(Reason.GENERATION_FAILED, str(error)))
        if isinstance(move, Over):
            if context.orchestration.phase == "ending":
                return move
            # Decided here, and told in a step of its own: who lost the job can't end it, and who
            # tells it twice tells the same.
            move = Goes(rounds.ending(move.context, move.text, move.record.written_by))
        try:
            return msgspec.structs.replace(move, context=within_limit(move.context))
        except ContextFull as error:
            return _cut_short(move.context, stop_for(Reason.CONTEXT_FULL, str(error)))

    async def cut_off(
        self, context: AgentContext, site: Site, *, held: Callable[[], bool] = lambda: True
    ) -> AgentContext:
        """The context of a job that was ended from outside in the middle of a step, with what is
        known of the calls that ran. Raises BrokerError, or NotOurs."""
        if context.orchestration.phase != "calling":
            return context
        return await self._calling.looked_up(context, site, held)

    async def _move(
        self, context: AgentContext, site: Site, *, again: bool, held: Callable[[], bool]
    ) -> Move:
        match context.orchestration.phase:
            case "thinking":
                return await self._thinker.step(context, site)
            case "calling":
                return await self._calling.step(context, site, again=again, held=held)
            case "approving":
                return self._calling.ask(context)
            case "finishing":
                return await self._finisher.step(context, site)
            case "ending":
                return over(context)


def _cut_short(context: AgentContext, stop: Stop) -> Over:
    """The end without another word of the model's. Calls that are closed may be cut to fit."""
    return partial(within_limit(close_open_calls(context)), stop)
