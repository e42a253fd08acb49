"""Answers of the model for one job: prompts in its tokens, and generation within what is left."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from ...schemas import AgentContext, GenerationResult, StructuredOutput
from ..dialects.dialect import Prompt, Turn
from .budget import allowance, left_s, reserve
from .generation import Generator, generation_job, until, wasted_tokens
from .moves import Limits, Site

# With less time than this no answer is asked for.
LEAST_S: Final = 0.2
# A job's own end is heard of a little later than it comes: so much, or half of the reserve.
_LEAST_GRACE_S: Final = 0.5
_MOST_GRACE_S: Final = 5.0


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
        is left of the job's time, and of `tokens` as many as its budget allows, its rollbacks and
        retries included. `calls` False: no call of a tool may come in it."""
        seconds = self.left_s(context) if seconds is None else seconds
        job = generation_job(
            context,
            job_id,
            prompt,
            site.dialect,
            allowance=allowance(context, prompt.tokens, tokens, wasted_tokens(context.job)),
            deadline=until(self._clock(), seconds, context.job.deadline),
            grammar=grammar,
            calls=calls,
        )
        grace = min(_MOST_GRACE_S, max(_LEAST_GRACE_S, reserve(context.job.budget)[1] / 2))
        return await self._generate(job, min(self._limits.step_timeout_s, seconds + grace))

    def left_s(self, context: AgentContext) -> float:
        """Seconds that an answer may take, at least `LEAST_S`."""
        return max(LEAST_S, left_s(context, self._clock()))

    def is_late(self, context: AgentContext) -> bool:
        """Whether there is no time for an answer."""
        return left_s(context, self._clock()) < LEAST_S
