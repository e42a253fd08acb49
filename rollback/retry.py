"""Whether a job is tried again, when, and with what: pure functions, nothing is published here."""

from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct

from ..schemas import AttemptRecord, FaultRecord, Flaw, GenerationJob, Lineage, Rules
from ..schemas.topology import RUNGS
from .retry_mutation import next_mutation
from .retry_table import RetryLimits, RetryTable

_RUNG_NAMES: Final = tuple(RUNGS)
_SHORTEST: Final = min(RUNGS, key=lambda rung: RUNGS[rung])
# A rung is a queue: a message that may go waits for those before it. With expirations drawn from
# the last part of the rung alone it waits no longer than that part.
_JITTER: Final = 0.2
# A worker that should not have the job passes it on so often; then there may be no other.
_MAX_PASSES: Final = 2
# Going back costs a short text as much as a long one: up to 2,048 tokens an attempt, and the last
# rollback may go over.
_LEAST_COUNTED: Final = 1024


class Retry(Struct, frozen=True, kw_only=True):
    """Publish `job` to the retry exchange, on `rung`; it is due again after `expiration_s` seconds,
    or after the whole rung where that is None."""

    job: GenerationJob
    rung: str
    expiration_s: float | None = None


class NoRetry(Struct, frozen=True, kw_only=True):
    """The job ends. "exhausted": no attempts left; "deadline": it has passed; "tokens": too many
    were spent; "pointless": another try would not help; "faults": the engine failed too often.
    `sentence` says so to a person."""

    reason: Literal["exhausted", "deadline", "tokens", "pointless", "faults"]
    sentence: str


def flaws_of(record: AttemptRecord) -> tuple[Flaw, ...]:
    """Why the attempt's text was not accepted, each flaw once: by the checks' verdict, by what the
    record names, and by the gate that gave up."""
    verdict = record.verdict.flaws() if record.verdict is not None else ()
    named = (record.flaw,) if record.flaw is not None else ()
    gave_up = (trip.flaw for trip in record.trips if trip.action == "give_up")
    return tuple(dict.fromkeys((*named, *verdict, *gave_up)))


def decide_retry(
    job: GenerationJob,
    lineage: Lineage,
    now: datetime,
    table: RetryTable,
    *,
    flaws: tuple[Flaw, ...] | None = None,
    rules: Rules | None = None,
    engine_fault: bool = False,
) -> Retry | NoRetry:
    """What follows from an attempt whose text was not accepted.

    `job`: as it was attempted; `lineage`: its story, this attempt at the end. `flaws`: what was
    wrong; by default what the record says (`flaws_of`). `rules`: those in force, where a profile
    adds to the job's. `engine_fault`: the attempt ended because its worker is suspect. The same
    arguments give the same answer. Raises ValueError for a lineage without an attempt.
    """
    if not lineage.attempts:
        raise ValueError("a retry follows an attempt; the lineage has none")
    record = lineage.attempts[-1]
    flaws = flaws_of(record) if flaws is None else flaws
    refused = (
        _no_attempts(job)
        or _too_late(job, now)
        or _too_often(job, lineage, flaws, table)
        or _too_dear(job, lineage, table.limits)
    )
    if refused is not None:
        return refused
    mutation = next_mutation(job, flaws, record, table, rules=rules, engine_fault=engine_fault)
    retried = msgspec.structs.replace(
        job, attempt=job.attempt + 1, mutation=mutation, lineage=lineage
    )
    return Retry(job=retried, rung=_SHORTEST)


def back_off(
    job: GenerationJob, fault: FaultRecord, now: datetime, draw: float, limits: RetryLimits
) -> Retry | NoRetry:
    """What follows from a fault of the engine: the same attempt once more, after a wait that grows
    with the number of its faults. It spends no attempt.

    `draw`, from [0, 1), spreads the waits over the last fifth of the rung. The job's lineage gets
    `fault` with the wait. A deadline that passes meanwhile is for the worker to see.
    """
    before = sum(1 for each in job.lineage.faults if each.attempt == job.attempt)
    if (late := _too_late(job, now)) is not None:
        return late
    if before >= limits.faults:
        return NoRetry(
            reason="faults",
            sentence=f"the engine failed {before + 1} times under attempt {job.attempt}, and "
            f"{limits.faults} are allowed: see to the workers, then requeue the job",
        )
    losses = job.lineage.losses(job.attempt)
    if fault.lost and losses >= limits.losses:
        return NoRetry(
            reason="faults",
            sentence=f"{losses + 1} engines were lost under attempt {job.attempt}, and "
            f"{limits.losses} are allowed: it may be what ends them; see to the workers' logs "
            "before the job is requeued",
        )
    rung = _RUNG_NAMES[min(before, len(_RUNG_NAMES) - 1)]
    wait_s = round(RUNGS[rung] * (1 - _JITTER + _JITTER * draw), 3)
    fault = msgspec.structs.replace(fault, attempt=job.attempt, wait_s=wait_s)
    return Retry(
        job=msgspec.structs.replace(job, lineage=job.lineage.with_fault(fault)),
        rung=rung,
        expiration_s=wait_s,
    )


def pass_on(job: GenerationJob, worker: str) -> Retry | None:
    """For a job that `worker` should leave to others: back to the queue by the shortest rung, at
    most twice. None: the worker does it."""
    mutation = job.mutation
    if mutation is None or worker not in mutation.avoid or mutation.passes >= _MAX_PASSES:
        return None
    passed = msgspec.structs.replace(mutation, passes=mutation.passes + 1)
    return Retry(job=msgspec.structs.replace(job, mutation=passed), rung=_SHORTEST)


def _no_attempts(job: GenerationJob) -> NoRetry | None:
    if job.attempt < job.last_attempt:
        return None
    several = job.max_attempts > 1
    attempts = f"all {job.max_attempts} attempts" if several else "the one attempt"
    verb = "are" if several else "is"
    return NoRetry(reason="exhausted", sentence=f"{attempts} that the job has {verb} spent")


def _too_late(job: GenerationJob, now: datetime) -> NoRetry | None:
    if job.deadline is None or now < job.deadline:
        return None
    return NoRetry(
        reason="deadline",
        sentence=f"the deadline {job.deadline.isoformat()} has passed, so there is no further try",
    )


def _too_often(
    job: GenerationJob, lineage: Lineage, flaws: tuple[Flaw, ...], table: RetryTable
) -> NoRetry | None:
    """A row whose retries are used up: this attempt and earlier ones failed for its reason."""
    earlier = [flaws_of(record) for record in _own(job, lineage)[:-1]]
    for row in table.rows_of(flaws):
        if row.retries is None:
            continue
        times = sum(1 for others in earlier if row in table.rows_of(others))
        if times >= row.retries:
            why = row.detail or f"another try does not help here (retries in [{row.name}])"
            return NoRetry(reason="pointless", sentence=why)
    return None


def _too_dear(job: GenerationJob, lineage: Lineage, limits: RetryLimits) -> NoRetry | None:
    usages = [record.usage for record in _own(job, lineage)]
    spent = sum(usage.completion_tokens + usage.wasted_tokens for usage in usages)
    counted = max(job.sampling.max_tokens, _LEAST_COUNTED) * job.max_attempts
    bounds = [int(limits.tokens_times * counted), limits.tokens]
    bound = min((bound for bound in bounds if bound), default=0)
    if not bound or spent < bound:
        return None
    return NoRetry(
        reason="tokens",
        sentence=f"{spent:,} tokens were generated for this job, and {bound:,} is the limit",
    )


def _own(job: GenerationJob, lineage: Lineage) -> list[AttemptRecord]:
    """Those since the job was last sent by a person: its attempts begin anew then."""
    return [record for record in lineage.attempts if record.attempt >= job.first_attempt]
