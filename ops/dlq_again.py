"""What a dead letter becomes when it is sent back: the job, the candidate or the result again.

Pure. A job that comes back begins with the attempt after its last one, so that none of its outcomes
is a duplicate of one that was published before. Agent jobs: `dlq_again_agents`.
"""

from datetime import datetime
from typing import Final

import msgspec

from ..schemas import (
    Candidate,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Names,
    encode,
)
from ..schemas.codec import tag_of
from .dlq_again_agents import agent_again
from .dlq_changes import Changes, merged, require_gates, without_null
from .dlq_letter import Letter
from .dlq_sending import Refusal, Sending, late, through_retry

CHECKS_KEY: Final = "checks"


def twin(letter: Letter, changes: Changes) -> str:
    """Letters for which this is the same would send the same attempt of the same job: only one of
    them may be sent. Copies of a letter are twins, too."""
    if (agent := letter.agent_job) is not None:
        return f"agent {agent.attempt} {agent.id}"
    match letter.message:
        case DeadLetter(result=GenerationResult()) | None:
            return letter.head.key
        case Candidate(job=job) if not changes.asks_anew:
            return f"candidate {job.attempt} {job.id}"
        case _:
            job = letter.job
            return f"job {_next_attempt(letter, job)} {job.id}" if job else letter.head.key


def _next_attempt(letter: Letter, job: GenerationJob) -> int:
    return max([job.attempt, *(each.attempt for each in letter.lineage.attempts)]) + 1


def again(letter: Letter, names: Names, changes: Changes, now: datetime) -> Sending | Refusal:
    """What is published in the letter's place, or why nothing can be."""
    if letter.hidden:
        return Refusal(letter.hidden)
    try:
        if letter.agent_job is not None:
            return agent_again(letter, letter.agent_job, names, changes, now)
        return _again(letter, names, changes, now)
    except InvalidMessage as error:
        return Refusal(str(error))


def _again(letter: Letter, names: Names, changes: Changes, now: datetime) -> Sending | Refusal:
    match letter.message:
        case DeadLetter(result=GenerationResult() as result) as message:
            return _result(message, result, names, changes)
        case Candidate() as candidate if not changes.asks_anew:
            return _candidate(letter, candidate, names, changes, now)
        case None:
            return Refusal(f"it can't be read: {letter.head.sentence}")
        case _:
            job = letter.job
            if job is None:
                return Refusal("it has no job that could be read")
            return _job(letter, job, names, changes, now)


def _job(
    letter: Letter, job: GenerationJob, names: Names, changes: Changes, now: datetime
) -> Sending | Refusal:
    deadline = changes.deadline(job, now)
    if (refusal := late(deadline, now)) is not None:
        return refusal
    if of_agents := changes.of_agents:
        return Refusal(f"it is one text, and no agent job: it has no {', '.join(of_agents)}")
    lineage = letter.lineage
    attempt = _next_attempt(letter, job)
    gates = without_null({**job.gates, **changes.sets.get("gates", {})})
    try:
        require_gates(changes.profile or job.profile, gates)
    except InvalidMessage as error:
        return Refusal(f"{error}: --profile gives it another, --set gates.NAME=null takes one away")
    sent = msgspec.structs.replace(
        job,
        sampling=merged(job.sampling, changes.sets.get("sampling", {}), "sampling"),
        rules=merged(job.rules, changes.sets.get("rules", {}), "rules"),
        reasoning=merged(job.reasoning, changes.sets.get("reasoning", {}), "reasoning"),
        gates=gates,
        profile=changes.profile or job.profile,
        lane=changes.lane or job.lane,
        checks=changes.checks or job.checks,
        max_attempts=changes.max_attempts or job.max_attempts,
        deadline=deadline,
        attempt=attempt,
        first_attempt=attempt,
        mutation=None,
        progress=None,
        lineage=lineage,
        enqueued_at=now,
    )
    return through_retry(sent, names.jobs_key(sent.lane), encode(sent), names, sent)


def _candidate(
    letter: Letter, candidate: Candidate, names: Names, changes: Changes, now: datetime
) -> Sending | Refusal:
    job = candidate.job
    deadline = changes.deadline(job, now)
    if (refusal := late(deadline, now)) is not None:
        return refusal
    body = letter.body
    if deadline != job.deadline:
        job = msgspec.structs.replace(job, deadline=deadline)
        body = encode(msgspec.structs.replace(candidate, job=job))
    return through_retry(candidate, CHECKS_KEY, body, names, job)


def _result(
    letter: DeadLetter, result: GenerationResult, names: Names, changes: Changes
) -> Sending | Refusal:
    if changes.asks_anew:
        return Refusal("it is a finished result: nothing of it can be changed")
    key = letter.origin.routing_key
    if not key:
        return Refusal("it does not say whose result it is")
    return Sending(
        exchange=names.results,
        routing_key=key,
        body=encode(result),
        kind=tag_of(GenerationResult),
        job_id=result.job_id,
        headers={},
        safe=True,
    )
