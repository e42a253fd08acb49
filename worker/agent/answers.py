"""Answers of the model for one job: prompts in its tokens, and generation within what is left."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from ...schemas import AgentContext, GenerationResult, StructuredOutput
from ..dialects.dialect import Prompt, Turn
from .generation import Generator, generation_job, until
from .moves import Limits, Site

# With less time than this no answer is asked for.
LEAST_S: Final = 1.0
# A job's own end is heard of a little later than it comes.
_GRACE_S: Final = 5.0


class Answers:
    """Has answers generated. One serves all jobs."""

    def __init__(self, generate: Generator, limits: Limits, clock: Callable[[], datetime]) -> None:
        self._generate = generate
        self._limits = limits
        self._clock = clock

    async def prompt(self, site: Site, turns: Sequence[Turn]) -> Prompt:
        """The conversation in the model's tokens; made in a thread."""
        return await asyncio.to_thread(site.dialect.prompt, turns, site.specs)

    async def get(
        self,
        context: AgentContext,
        site: Site,
        prompt: Prompt,
        job_id: str,
        *,
        tokens: int,
        grammar: StructuredOutput | None = None,
        calls: bool = True,
        seconds: float | None = None,
    ) -> GenerationResult | None:
        """The result of a generation job; None where none came in time. It has `seconds`, or what
        is left of the job's wall time. `calls` False: no call of a tool may come in it."""
        left_s = max(LEAST_S, self.left_s(context)) if seconds is None else seconds
        job = generation_job(
            context,
            job_id,
            prompt,
            site.dialect,
            max_tokens=tokens,
            deadline=until(self._clock(), left_s, context.job.deadline),
            grammar=grammar,
            calls=calls,
        )
        return await self._generate(job, min(self._limits.step_timeout_s, left_s + _GRACE_S))

    def left_s(self, context: AgentContext) -> float:
        """Seconds until the wall time is used up, or the deadline comes."""
        orchestration = context.orchestration
        waited = timedelta(seconds=orchestration.spent.waited_s)
        end = orchestration.started_at + waited + timedelta(seconds=context.job.budget.wall_s)
        if context.job.deadline is not None:
            end = min(end, context.job.deadline)
        return (end - self._clock()).total_seconds()
