"""What a step comes to, and what it is taken with."""

from msgspec import Struct

from ...guards.watchdog_thresholds import Watchdog
from ...schemas import AgentContext, AgentRecord, Outcome, Reason, Stop, ToolSpec
from ...schemas import results as outcomes
from ...schemas.errors import tame
from ...schemas.events import Happening
from ..dialects.dialect import Dialect
from . import rounds
from .final import agent_record, template_answer
from .judging import Validate


class Goes(Struct, frozen=True):
    """It goes on: the context to publish, whether a person must decide first, and what to tell."""

    context: AgentContext
    to_person: bool = False
    events: tuple[Happening, ...] = ()


class Over(Struct, frozen=True):
    """It is over."""

    context: AgentContext
    outcome: Outcome
    text: str
    record: AgentRecord


Move = Goes | Over


class Site(Struct, frozen=True, kw_only=True):
    """What a job works with: its dialect, its tools as the model is told them, the names of all
    tools there are, what says whether arguments fit, and the watchdog's thresholds. `holds`: each
    answer is held to the dialect's grammar."""

    dialect: Dialect
    specs: tuple[ToolSpec, ...]
    known: frozenset[str]
    validate: Validate
    thresholds: Watchdog
    holds: bool = False

    @property
    def by_name(self) -> dict[str, ToolSpec]:
        """The tools by their names."""
        return {spec.name: spec for spec in self.specs}


class Limits(Struct, frozen=True, kw_only=True):
    """Of a deployment: tokens that fit the model, seconds of one step, rounds kept in full."""

    max_model_len: int
    step_timeout_s: float
    keep_rounds: int
    fold_after: int


def stopped(context: AgentContext, stop: Stop) -> Goes:
    """It goes to its end."""
    return Goes(rounds.stopping(context, stop))


def stop_for(reason: Reason, detail: str) -> Stop:
    """Why it is ended, in a sentence fit to show."""
    return Stop(reason=reason, detail=tame(detail))


def no_tool_left(context: AgentContext) -> Stop:
    """The breaker leaves it only tools that it has not used, and there is none."""
    because = context.decision.because
    return stop_for(
        Reason.TOOLS_SPENT,
        f"it went round in circles, and no tool is left that it has not used: {because}",
    )


def over(context: AgentContext) -> Over:
    """The end that was decided on. The same each time it is asked for."""
    orchestration = context.orchestration
    stop, told = orchestration.stop, orchestration.ending
    if told is None:
        return partial(context, stop or stop_for(Reason.INVALID_FIELD, "it has no ending"))
    record = agent_record(context, stop, told.written_by)
    if stop is None:
        return Over(context, outcomes.Completed(), told.text, record)
    return Over(
        context, outcomes.Partial(reason=stop.reason, detail=stop.detail), told.text, record
    )


def called_off(context: AgentContext) -> Over:
    """The end of a job that was called off: the record of it, and no text."""
    stop = stop_for(Reason.CANCELLED, "")
    record = agent_record(context, stop, "template")
    return Over(rounds.stopping(context, stop), outcomes.Cancelled(), "", record)


def partial(context: AgentContext, stop: Stop, text: str = "") -> Over:
    """The end before the model said so. Where there is no text of the model's, the record is put
    into words."""
    outcome = outcomes.Partial(reason=stop.reason, detail=stop.detail)
    record = agent_record(context, stop, "model" if text else "template")
    text = text or template_answer(context, stop)
    return Over(rounds.stopping(context, stop), outcome, text, record)
