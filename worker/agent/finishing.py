"""The last step of a job that is ended: what is open is closed, and the work is put into words."""

import asyncio

from ...schemas import AgentContext, GenerationResult, Reason, Stop
from ...schemas.agents import round_job_id
from ..dialects.dialect import Prompt
from . import rounds
from .answers import Answers
from .budget import reserve
from .final import close_open_calls, final_prompt
from .moves import Limits, Over, Site, partial, stop_for


class Finisher:
    """Ends jobs, by one tool-free answer out of what was kept back for it, or by the record."""

    def __init__(self, answers: Answers, limits: Limits) -> None:
        self._answers = answers
        self._limits = limits

    async def step(self, context: AgentContext, site: Site) -> Over:
        """The end."""
        stop = context.orchestration.stop or stop_for(Reason.BUDGET_SPENT, "")
        context = close_open_calls(context)
        result = await self._last_answer(context, site, stop)
        if result is None:
            return partial(context, stop)
        text = rounds.clean(site.dialect.answer(result.text)).strip() if result.ok else ""
        return partial(rounds.spent(context, result), stop, text)

    async def _last_answer(
        self, context: AgentContext, site: Site, stop: Stop
    ) -> GenerationResult | None:
        """None where there is no time or room for one, or the model can't be had. Where no answer
        to a round could be generated it is tried all the same: the prompt is another one."""
        if self._answers.is_late(context):
            return None
        seconds = min(reserve(context.job.budget)[1], self._answers.left_s(context))
        asked = await asyncio.to_thread(self._prompt, context, site, stop)
        if asked is None:
            return None
        prompt, tokens = asked
        return await self._answers.get(
            context,
            site,
            prompt,
            round_job_id(context.job, rounds.next_number(context), "final"),
            tokens=tokens,
            # One in which no call can begin.
            grammar=site.dialect.grammar(()),
            calls=False,
            seconds=seconds,
        )

    def _prompt(self, context: AgentContext, site: Site, stop: Stop) -> tuple[Prompt, int] | None:
        room = self._limits.max_model_len
        return final_prompt(
            context, stop, site.dialect, site.specs, room_tokens=room
        ) or final_prompt(context, stop, site.dialect, site.specs, room_tokens=room, over=True)
