"""What became of an agent job, in words."""

from collections.abc import Iterator
from typing import Final

from ..schemas import AgentRecord, ApprovalWanted, RoundEnded
from .dlq_text import one_line
from .submit_progress import counted

_LISTED: Final = 5
_SENTENCE: Final = 200


def in_a_line(record: AgentRecord) -> str:
    """How it came to its text."""
    parts = [counted(record.rounds, "round"), counted(record.tool_calls, "call")]
    if record.warnings:
        parts.append(counted(record.warnings, "warning"))
    if record.written_by == "template":
        parts.append("its text was put together from the record")
    return ", ".join(parts)


def not_done(record: AgentRecord) -> Iterator[str]:
    """The calls that came to nothing, where the job was stopped, the latest few."""
    if record.stopped is None or not record.not_done:
        return
    shown = record.not_done[-_LISTED:]
    more = len(record.not_done) - len(shown)
    yield f"not done{f' ({more} more before these)' if more else ''}:"
    yield from (f"  - {one_line(each, _SENTENCE)}" for each in shown)


def round_ended(event: RoundEnded) -> str:
    """A round on one line."""
    decision = event.decision
    degree = f", {decision.degree}" if decision.degree != "none" else ""
    because = f": {decision.because}" if decision.because else ""
    calls = "; ".join(event.calls) or "no calls"
    return one_line(
        f"round {event.round}: {calls} ({counted(event.tokens, 'token')}, score {event.score}, "
        f"{decision.state}{degree}{because})",
        3 * _SENTENCE,
    )


def approval_wanted(event: ApprovalWanted) -> str:
    """What waits for a person, on one line."""
    return one_line(
        f"round {event.round} waits for a person until "
        f"{event.expires_at.astimezone():%Y-%m-%d %H:%M:%S}: {'; '.join(event.calls)}. See `sluice "
        "agent approvals`",
        3 * _SENTENCE,
    )
