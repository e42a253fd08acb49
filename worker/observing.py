"""What happened, told to the metrics and the log: attempts, publications, jobs that end."""

import logging
from datetime import UTC, datetime

from ..schemas import (
    AgentContext,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    Outcome,
    ReasoningRecord,
    Retrying,
    TripRecord,
)
from ..schemas.agents import AgentJob
from ..schemas.progress import Costs
from . import metrics
from .endings import Ending, EngineLost, Faulted, GaveUp, Interrupted, Report
from .publications import Publication, Settlement, Verb
from .tracing import TRACING

log = logging.getLogger(__name__)


def detail(ending: Ending) -> str:
    """What the ending says of itself, where it says anything."""
    told = isinstance(ending, GaveUp | Faulted | EngineLost | Interrupted)
    return ending.detail if told else ""


def outcome_of(outcome: Outcome) -> str:
    """An outcome's name, as labels and events have it."""
    return str(outcome.__struct_config__.tag)


def _kind(settlement: Settlement) -> str:
    """How the attempt ended, for metrics and logs."""
    if settlement.outcome is not None:
        return outcome_of(settlement.outcome)
    if isinstance(settlement.event, Retrying):
        return "retrying"
    return "to_check" if settlement.over else "returned"


def observe_publication(publication: Publication) -> None:
    """Count what the broker has confirmed: results, dead letters, and what goes to a retry."""
    match publication.message:
        case GenerationResult() as result:
            metrics.RESULTS.labels(outcome=outcome_of(result.outcome)).inc()
        case DeadLetter() as letter:
            metrics.DEAD_LETTERS.labels(reason=letter.reason.value, stage=letter.origin.stage).inc()
        case _ if publication.cause is not None:
            metrics.RETRIES.labels(reason=publication.cause).inc()
        case _:
            pass


def observe_end(job: GenerationJob | AgentJob, outcome: Outcome) -> None:
    """A job is over, and its result is out."""
    metrics.ATTEMPTS.observe(job.attempt)
    if job.enqueued_at is not None:
        took_s = (datetime.now(UTC) - job.enqueued_at).total_seconds()
        # Clocks differ.
        metrics.END_TO_END.labels(outcome=outcome_of(outcome)).observe(max(0.0, took_s))


def observe_change(before: AgentContext, after: AgentContext) -> None:
    """A step of an agent job is over: count what of its state it changed."""
    phase = after.orchestration.phase
    if phase != before.orchestration.phase:
        metrics.AGENT_CHANGES.labels(state="phase", to=phase).inc()
    if after.decision.state != before.decision.state:
        metrics.AGENT_CHANGES.labels(state="breaker", to=after.decision.state).inc()


def observe(report: Report, settlement: Settlement, job: GenerationJob | None) -> None:
    """Count an attempt, and say it in a line. `job` where its outcome, if it has one, is out."""
    kind = _kind(settlement)
    metrics.JOBS.labels(outcome=kind).inc()
    if isinstance(report.ending, Interrupted):
        handed_on = settlement.verb is Verb.ACK and report.progress is not None
        metrics.PREEMPTED.labels(kept="yes" if handed_on else "no").inc()
    _observe_tokens(report)
    if report.record.reasoning is not None:
        _observe_reasoning(report.record.reasoning)
    # What other workers saw of the attempt they have counted.
    before = report.resumed.spent if report.resumed is not None else Costs()
    for trip in report.record.trips[len(before.trips) :]:
        _observe_trip(trip)
    metrics.ENGINE.observe(report.timings.engine_s - before.engine_s)
    first_run = report.record.attempt == 1 and report.resumed is None
    if report.timings.queued_s is not None and first_run:
        # What comes again was published long ago, and did not wait all that time.
        metrics.QUEUED.observe(report.timings.queued_s)
    if report.timings.first_token_s is not None and before.first_token_s is None:
        metrics.FIRST_TOKEN.observe(report.timings.first_token_s)
    if job is not None:
        TRACING.attempt(job, report, kind)
        if settlement.outcome is not None:
            observe_end(job, settlement.outcome)
    log.info(
        "%s: %d tokens in %.2f s%s",
        kind,
        report.usage.completion_tokens,
        report.timings.engine_s,
        f" ({said})" if (said := detail(report.ending)) else "",
    )


def _observe_tokens(report: Report) -> None:
    """Count what this worker spent, and what it was spared."""
    usage, resumed = report.usage, report.resumed
    if resumed is None:
        metrics.TOKENS.labels(kind="prompt").inc(usage.prompt_tokens)
        metrics.TOKENS.labels(kind="cached").inc(usage.cached_tokens)
    before = resumed.spent if resumed is not None else Costs()
    completed = usage.completion_tokens - (before.produced - before.wasted)
    # It may have thrown away what another had written.
    metrics.TOKENS.labels(kind="completion").inc(max(0, completed))
    metrics.TOKENS.labels(kind="wasted").inc(usage.wasted_tokens - before.wasted)
    if resumed is not None:
        metrics.TOKENS.labels(kind="saved").inc(resumed.kept)


def _observe_trip(trip: TripRecord) -> None:
    level = str(int(trip.level))
    metrics.TRIPS.labels(level=level, flaw=trip.flaw.value, action=trip.action).inc()
    if trip.action == "rollback":
        metrics.ROLLBACKS.labels(level=level).inc()
        metrics.ROLLED_BACK.labels(level=level).inc(trip.wasted)
    log.info(
        "level %d, %s at token %d: %s%s",
        trip.level,
        trip.flaw,
        trip.tokens[0],
        trip.action.replace("_", " "),
        f" to token {trip.kept}, {trip.wasted} wasted" if trip.wasted else "",
    )


def _observe_reasoning(record: ReasoningRecord) -> None:
    flaw = record.flaw.value if record.flaw is not None else "none"
    metrics.REASONING.labels(mode=record.mode, ended=record.ended, flaw=flaw).inc()
    metrics.TOKENS.labels(kind="reasoning").inc(record.tokens)
    metrics.TOKENS.labels(kind="reasoning_dropped").inc(record.dropped_tokens)
    if record.cuts:
        metrics.REASONING_CUTS.labels(flaw=flaw).inc(record.cuts)
        # It was allowed that much, and what goes in circles takes all that it is given.
        left = record.cap - record.tokens - record.dropped_tokens
        metrics.REASONING_SAVED.inc(max(0, left))
    if record.first_answer_token_s is not None:
        metrics.ANSWER_AFTER_CUT.observe(record.first_answer_token_s)
    if record.ended == "not_opened" and not record.tripped:
        return
    log.info(
        "reasoning %s after %d tokens of at most %d, %d dropped%s",
        record.ended.replace("_", " "),
        record.tokens,
        record.cap,
        record.dropped_tokens,
        f" ({flaw} by {record.gate}, {record.mode})" if record.tripped else "",
    )
