"""Who ended a dead job, and where. Pure."""

from ..schemas import AgentContext, Candidate, DeadLetter, Lineage, Reason
from ..schemas.errors import tame


def culprit(
    message: object, lineage: Lineage, scene: AgentContext | None
) -> tuple[str, str | None]:
    """The gate or check that ended the job, and what it found. Of an agent job that the breaker
    ended, the metric that the watchdog counted most for."""
    if not isinstance(message, DeadLetter):
        return "", None
    if message.found_by or message.flaw:
        return message.found_by, message.flaw.value if message.flaw else None
    if scene is not None:
        return _metric(scene) if message.reason is Reason.BREAKER_TRIPPED else ("", None)
    return _of_attempts(lineage)


def _of_attempts(lineage: Lineage) -> tuple[str, str | None]:
    if not lineage.attempts:
        return "", None
    last = lineage.attempts[-1]
    if last.found_by or last.flaw:
        return last.found_by, last.flaw.value if last.flaw else None
    for trip in reversed(last.trips):
        if trip.action == "give_up":
            return trip.gate, trip.flaw.value
    return "", None


def _metric(scene: AgentContext) -> tuple[str, str | None]:
    found = [
        each.assessment.findings
        for each in scene.execution.rounds
        if each.assessment is not None and each.assessment.findings
    ]
    worst = max(found[-1] if found else (), key=lambda finding: finding.points, default=None)
    return "watchdog", tame(worst.metric) if worst is not None else None


def worker_of(message: object, lineage: Lineage) -> str:
    """Who had the job last."""
    if isinstance(message, DeadLetter):
        return message.origin.worker
    if isinstance(message, AgentContext):
        return message.by
    if isinstance(message, Candidate) and message.result.worker:
        return message.result.worker
    return lineage.attempts[-1].worker if lineage.attempts else ""
