"""A step of thinking: the model is told what there is, and says what to call, or the answer."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from ...schemas import AgentContext, GenerationResult, ParseFailure, Reason, Stop
from ...schemas import results as outcomes
from ...schemas.agents import Closed, round_job_id
from ...schemas.errors import tame
from ...schemas.limits import MAX_QUOTE_CHARS
from .. import metrics
from ..dialects.dialect import Parsed
from . import rounds
from .answers import Answers
from .budget import hard_stop, left_s, room, time_stop, tokens_left
from .final import agent_record
from .folding import ContextFull, Fold, folded, plan_folding, summary_turns
from .journal import Journal
from .monitoring import Monitor
from .moves import Goes, Limits, Move, Over, Site, no_tool_left, stop_for, stopped
from .window import conversation

log = logging.getLogger(__name__)

# More than the rounding of a time.
_A_MOMENT_S: Final = 0.001


class Thinker:
    """Takes steps of thinking."""

    def __init__(
        self,
        answers: Answers,
        monitor: Monitor,
        journal: Journal,
        limits: Limits,
        clock: Callable[[], datetime],
    ) -> None:
        self._answers = answers
        self._monitor = monitor
        self._journal = journal
        self._limits = limits
        self._clock = clock

    async def step(self, context: AgentContext, site: Site) -> Move:
        """A round, or what must come before one: the end, or making room."""
        stop = hard_stop(context, self._clock())
        if stop is not None:
            return stopped(context, stop)
        try:
            fold = await asyncio.to_thread(
                plan_folding,
                context,
                site.dialect,
                site.specs,
                room_tokens=self._limits.max_model_len,
                keep=self._limits.keep_rounds,
                fold_after=self._limits.fold_after,
            )
        except ContextFull as error:
            return stopped(context, stop_for(Reason.CONTEXT_FULL, str(error)))
        return await (
            self._round(context, site) if fold is None else self._fold(context, site, fold)
        )

    async def _fold(self, context: AgentContext, site: Site, fold: Fold) -> Move:
        """The older rounds summed up; where no model can, by the record alone."""
        metrics.AGENT_FOLDS.inc()
        if fold.excerpt is None:
            return Goes(folded(context, fold, None))
        prompt = await self._answers.prompt(site, summary_turns(context, fold))
        if tokens_left(context) - prompt.tokens < fold.answer_tokens:
            return Goes(folded(context, fold, None))
        result = await self._answers.get(
            context,
            site,
            prompt,
            round_job_id(context.job, rounds.next_number(context), "fold"),
            tokens=fold.answer_tokens,
            calls=False,
        )
        if result is None:
            return Goes(folded(context, fold, None))
        text = rounds.clean(site.dialect.answer(result.text)) if result.ok else None
        return Goes(folded(rounds.spent(context, result), fold, text))

    async def _round(self, context: AgentContext, site: Site) -> Move:
        prompt = await self._answers.prompt(
            site, conversation(context, site.specs, room_tokens=self._limits.max_model_len)
        )
        if stop := hard_stop(context, self._clock(), next_prompt_tokens=prompt.tokens):
            return stopped(context, stop)
        degraded = context.decision.degree == "degrade"
        tools = rounds.unused(context, site.specs) if degraded else site.specs
        if degraded and not tools:
            return stopped(context, no_tool_left(context))
        result = await self._answers.get(
            context,
            site,
            prompt,
            round_job_id(context.job, rounds.next_number(context)),
            tokens=room(context, prompt.tokens, room_tokens=self._limits.max_model_len),
            # The prompt is the same, with all tools in it, so that the prefix cache holds.
            grammar=site.dialect.grammar(tools) if degraded or site.holds else None,
        )
        if result is None:
            log.info("no answer within %g s; asking again", self._limits.step_timeout_s)
            return Goes(context)
        return await self._read(context, site, result)

    async def _read(self, context: AgentContext, site: Site, result: GenerationResult) -> Move:
        number = rounds.next_number(context)
        context = rounds.spent(context, result)
        if not result.ok:
            return stopped(context, _not_generated(context, result, number, self._clock()))
        parsed = _read(site, result)
        context = rounds.said(context, result, parsed, self._clock())
        if parsed.answer is not None:
            await self._journal.write(context.id, Closed(round=rounds.last_round(context)))
            record = agent_record(context, None, "model")
            return Over(context, outcomes.Completed(), rounds.clean(parsed.answer), record)
        if parsed.calls:
            return Goes(context)
        return await self._monitor.close(context, site)


def _read(site: Site, result: GenerationResult) -> Parsed:
    """What the model said, strictly. An answer that went on with a made-up result, where a stop
    string of the dialect's ended it, is half an answer."""
    parsed = site.dialect.parse(result.text, result.finish_reason, site.specs)
    if parsed.answer is not None and result.stop_string in site.dialect.stop:
        detail = f"the answer ran into {result.stop_string!r}: begin no line of it with that"
        quote = tame(" ".join(parsed.answer.split()), MAX_QUOTE_CHARS)
        failure = ParseFailure(kind="mixed", detail=tame(detail), quote=quote)
        return Parsed(prose=parsed.prose, failure=failure)
    return parsed


def _not_generated(
    context: AgentContext, result: GenerationResult, number: int, now: datetime
) -> Stop:
    if isinstance(result.outcome, outcomes.Expired):
        # By the worker's clock, which may be ahead of this one.
        end = now + timedelta(seconds=max(0.0, left_s(context, now)) + _A_MOMENT_S)
        if (stop := time_stop(context, end)) is not None:
            detail = f"round {number} was not answered in time: {stop.detail}"
            return stop_for(stop.reason, detail)
    kind = result.outcome.__struct_config__.tag
    why = f": {detail}" if (detail := getattr(result.outcome, "detail", "")) else ""
    return stop_for(Reason.GENERATION_FAILED, f"the answer of round {number} was {kind}{why}")
