"""What a dead agent job becomes when it is sent back. Pure.

A job that was ended is begun anew, with another attempt, and so with calls of its own: what its
tools did before may be done again. A context that the broker buried under way goes on where it was.
"""

from datetime import datetime
from typing import Final

import msgspec

from ..schemas import AgentContext, AgentJob, InvalidMessage, Names, encode
from .dlq_changes import PLAIN, Changes, merged, require_gates, without_null
from .dlq_letter import Letter
from .dlq_sending import Refusal, Sending, late, through_retry

ANEW: Final = "it begins anew: calls of tools that it made before may be made again"
GOES_ON: Final = (
    "it goes on where it was: a call that was under way is made again only where its tool says "
    "that twice is as good as once"
)


def agent_again(
    letter: Letter, job: AgentJob, names: Names, changes: Changes, now: datetime
) -> Sending | Refusal:
    """What is published in the letter's place, or why nothing can be. Raises InvalidMessage."""
    if of_texts := changes.of_texts:
        return Refusal(f"it is an agent job, which has no {', '.join(of_texts)}")
    if (refusal := late(changes.deadline(job, now), now)) is not None:
        return refusal
    gates = without_null({**job.gates, **changes.sets.get("gates", {})})
    try:
        require_gates(changes.profile or job.profile, gates)
    except InvalidMessage as error:
        return Refusal(f"{error}: --profile gives it another, --set gates.NAME=null takes one away")
    changed = _changed(job, changes, now)
    if isinstance(letter.message, AgentContext):
        context = _waited(msgspec.structs.replace(letter.message, job=changed), now)
        return through_retry(context, names.agents_key, encode(context), names, changed, GOES_ON)
    sent = msgspec.structs.replace(changed, attempt=job.attempt + 1, enqueued_at=now)
    return through_retry(sent, names.new_agents_key, encode(sent), names, sent, ANEW)


def _changed(job: AgentJob, changes: Changes, now: datetime) -> AgentJob:
    sets = changes.sets
    job = merged(job, sets.get(PLAIN, {}), "agent job")
    return msgspec.structs.replace(
        job,
        sampling=merged(job.sampling, sets.get("sampling", {}), "sampling"),
        reasoning=merged(job.reasoning, sets.get("reasoning", {}), "reasoning"),
        budget=merged(job.budget, sets.get("budget", {}), "budget"),
        gates=without_null({**job.gates, **sets.get("gates", {})}),
        watchdog=without_null({**job.watchdog, **sets.get("watchdog", {})}),
        profile=changes.profile or job.profile,
        lane=changes.lane or job.lane,
        deadline=changes.deadline(job, now),
    )


def _waited(context: AgentContext, now: datetime) -> AgentContext:
    """The context, not charged for the time that it lay among the dead letters: there it waited for
    a person. Where it waited for one before, that clock runs on by itself."""
    orchestration = context.orchestration
    if orchestration.waiting_since is not None:
        return context
    spent = orchestration.spent
    waited_s = spent.waited_s + max(0.0, (now - context.at).total_seconds())
    return msgspec.structs.replace(
        context,
        orchestration=msgspec.structs.replace(
            orchestration, spent=msgspec.structs.replace(spent, waited_s=waited_s)
        ),
    )
