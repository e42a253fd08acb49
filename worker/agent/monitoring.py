"""The end of a round: the watchdog measures it, the breaker decides, and it is written down."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial

from ...guards.breaker import decide, reminder
from ...guards.watchdog import assess, watch
from ...guards.watchdog_samples import round_sample
from ...schemas import AgentContext, Reason, RoundEnded, ToolCall
from ...schemas.agents import Closed
from .. import metrics
from . import rounds
from .body import within_limit
from .journal import Journal
from .moves import Goes, Site, no_tool_left, stop_for


class Monitor:
    """Closes rounds."""

    def __init__(
        self,
        journal: Journal,
        clock: Callable[[], datetime],
        cosine: Callable[[str, str], float] | None = None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._cosine = cosine

    async def close(self, context: AgentContext, site: Site) -> Goes:
        """The context with its last round closed: on to the next, or to the end."""
        now = self._clock()
        done = rounds.last_round(context)
        sample = round_sample(
            done,
            site.by_name,
            site.thresholds,
            at=now,
            whole_s=done.engine_s + max(0.0, (now - done.at).total_seconds()),
        )
        monitoring = watch(context.monitoring, sample, site.thresholds)
        # Comparing texts takes milliseconds.
        assessment = await asyncio.to_thread(
            partial(assess, cosine=self._cosine), monitoring, site.thresholds, context.job.budget
        )
        decision = decide(context.decision, assessment, site.thresholds)
        context = rounds.closed(
            rounds.measured(context, monitoring),
            assessment,
            decision,
            reminder(assessment, decision),
        )
        # What was done must be told, however much came of it: results are cut before they are lost.
        context = within_limit(context)
        this = rounds.last_round(context)
        await self._journal.write(context.id, Closed(round=this))
        metrics.AGENT_ROUNDS.labels(degree=decision.degree).inc()
        event = RoundEnded(
            round=this.number,
            calls=tuple(map(_in_a_word, this.calls)),
            tokens=sample.tokens,
            score=assessment.score,
            decision=decision,
        )
        if decision.degree == "terminate":
            stop = stop_for(Reason.BREAKER_TRIPPED, decision.because)
            context = rounds.stopping(context, stop)
        elif decision.degree == "degrade" and not rounds.unused(context, site.specs):
            context = rounds.stopping(context, no_tool_left(context))
        return Goes(context, events=(event,))


def _in_a_word(call: ToolCall) -> str:
    return f"{call.name} {call.result.status.value if call.result is not None else 'open'}"
