"""What became of an agent job, in words."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ..schemas import AgentRecord, ApprovalWanted, RoundEnded
from .plain_text import one_line
from .submit_progress import counted

_LISTED: Final = 5
_SENTENCE: Final = 200
_ROUND: Final = re.compile(r"round ([0-9]+): ")


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
    sentences = told_once(record.not_done)
    shown = sentences[-_LISTED:]
    more = len(sentences) - len(shown)
    yield f"not done{f' ({more} more before these)' if more else ''}:"
    yield from (f"  - {one_line(each, _SENTENCE)}" for each in shown)


def told_once(sentences: Sequence[str]) -> list[str]:
    """Sentences of a record that differ in their rounds alone, as one, where the first of them
    is: "rounds 4 to 8 (×5): ..."."""
    alike: dict[str, list[str]] = {}
    for sentence in sentences:
        alike.setdefault(_ROUND.sub("", sentence, count=1), []).append(sentence)
    return [_one_of(what, several) for what, several in alike.items()]


def _one_of(what: str, alike: Sequence[str]) -> str:
    if len(alike) == 1:
        return alike[0]
    numbers = [int(found[1]) for each in alike if (found := _ROUND.match(each)) is not None]
    if not numbers:
        return f"×{len(alike)}: {what}"
    first, last = min(numbers), max(numbers)
    where = f"round {first}" if first == last else f"rounds {first} to {last}"
    return f"{where} (×{len(alike)}): {what}"


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
