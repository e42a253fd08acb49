"""What the doctor finds, and how it is told: for reading and for programs. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from ..schemas.errors import tame

# `unknown`: it could not be looked at. `trouble`: what stops work, or loses it, sooner or later.
Verdict = Literal["ok", "note", "unknown", "trouble"]
_SIGNS: Final[dict[Verdict, str]] = {"ok": "ok", "note": "note", "unknown": "?", "trouble": "BAD"}
_WIDTH: Final = 18


class Finding(Struct, frozen=True):
    """One thing looked at. `remedy`: what to do, where something is to be done."""

    name: str
    verdict: Verdict
    said: str
    remedy: str = ""


def ok(name: str, said: str) -> Finding:
    """All is well."""
    return Finding(name, "ok", said)


def note(name: str, said: str, remedy: str = "") -> Finding:
    """It may surprise, and stops nothing."""
    return Finding(name, "note", said, remedy)


def unknown(name: str, said: str, remedy: str = "") -> Finding:
    """It could not be told."""
    return Finding(name, "unknown", said, remedy)


def trouble(name: str, said: str, remedy: str) -> Finding:
    """It will bite, if it does not yet."""
    return Finding(name, "trouble", said, remedy)


def is_healthy(findings: Sequence[Finding]) -> bool:
    """Whether nothing is in the way."""
    return not any(each.verdict == "trouble" for each in findings)


def as_data(findings: Sequence[Finding]) -> dict[str, Any]:
    """For programs."""
    return {"healthy": is_healthy(findings), "findings": list(findings)}


def line(finding: Finding) -> Iterator[str]:
    """One finding for reading."""
    sign, name = _SIGNS[finding.verdict], finding.name
    yield f"{sign:>4}  {name:<{_WIDTH}}  {tame(finding.said, 2_000)}"
    if finding.remedy:
        yield f"{'':>6}{'':<{_WIDTH}}  -> {tame(finding.remedy, 2_000)}"


def summary(findings: Sequence[Finding]) -> str:
    """The last line."""
    bad = sum(each.verdict == "trouble" for each in findings)
    unseen = sum(each.verdict == "unknown" for each in findings)
    looked = f"{len(findings)} looked at"
    if unseen:
        looked += f", {unseen} could not be told"
    if not bad:
        return f"{looked}: nothing in the way."
    return f"{looked}: {bad} in the way. Each says what to do."
