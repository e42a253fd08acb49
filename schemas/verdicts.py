"""Verdicts: what the checks of a whole text say, each with score, threshold and evidence."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .flaws import Flaw
from .limits import MAX_CHECKS, MAX_EVIDENCE, MAX_TRACE_CHARS
from .measures import Name, Quote, Seconds, Sentence, Span, WorkerName
from .timestamps import Timestamp

CheckOutcome = Literal["passed", "rejected", "skipped", "failed"]


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place in the text, in characters, half open, and what stands there, cut short."""

    chars: Span
    quote: Quote = ""


class CheckRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one check said of a text.

    "skipped": it does not apply to this text, or could say nothing; "failed": it broke, and `trace`
    says where. `score` and `threshold` are in the check's own unit; docs/checks.md has them.
    """

    check: Annotated[str, Meta(min_length=1, max_length=64)]
    outcome: CheckOutcome
    flaw: Flaw | None = None
    score: float | None = None
    threshold: float | None = None
    detail: Sentence = ""
    evidence: Annotated[tuple[Evidence, ...], Meta(max_length=MAX_EVIDENCE)] = ()
    trace: Annotated[str, Meta(max_length=MAX_TRACE_CHARS)] = ""


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all checks together say. "rejected": one of them did; "failed": none did, and one of
    them broke. `seconds`: from the candidate's arrival at the checker."""

    outcome: Literal["passed", "rejected", "failed"]
    checks: Annotated[tuple[CheckRecord, ...], Meta(max_length=MAX_CHECKS)] = ()
    checker: WorkerName
    model: Name = ""
    at: Timestamp
    seconds: Seconds = 0.0

    def worst(self) -> CheckRecord | None:
        """The first check that was not content; a rejection before a failure."""
        for outcome in ("rejected", "failed"):
            for record in self.checks:
                if record.outcome == outcome:
                    return record
        return None

    def flaws(self) -> tuple[Flaw, ...]:
        """What is wrong with the text, each once."""
        bad = (each.flaw for each in self.checks if each.outcome in ("rejected", "failed"))
        return tuple(dict.fromkeys(flaw for flaw in bad if flaw is not None))
