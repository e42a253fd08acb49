"""Patterns of the `regex` package, bounded: no pattern compiles or searches without end.

Compiling unrolls counted repeats, so `((a{1000}){1000}){1000}` takes all memory there is; such
patterns are refused by size. None is kept: compiling again is cheap, and what a thousand jobs
brought would fill the memory. Compiling and searching share a limit of time for all patterns of a
text together.
"""

from itertools import islice
from time import monotonic
from typing import Final

import regex

from ...schemas import CheckRecord, Evidence, Flaw
from .records import evidence, failed, passed, rejected

# Elements that a pattern comes to, repeats unrolled: so many take at most 0.03 s and 8 MB, of the
# dearest kinds (`\R`, `\X`, full case folding).
_ELEMENTS: Final = 5_000
# A property or an escaped character is one element, and a closing parenthesis stays one, lest an
# escaped one hide a group.
_ONE: Final = regex.compile(r"\\[pPN]\{[^{}]*\}|\\(?!\))(.)", regex.DOTALL)
_COUNT: Final = regex.compile(r"\{(\d++)(?:,\d*+)?\}")
_VERBOSE: Final = regex.compile(r"\(\?[a-zA-Z0-9-]*x")
# A pattern that calls itself, or a group, may do so without end.
_CALL: Final = regex.compile(r"\(\?(?:R|[+-]?\d|&|P[>&])")
_SHOWN: Final = 4


class Budget:
    """Seconds for all patterns of one text together."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = monotonic() + seconds

    def left(self) -> float:
        """Seconds left, at least a millisecond: the search itself says when it is cut off."""
        return max(0.001, self._end - monotonic())

    def is_spent(self) -> bool:
        """Whether nothing is left, not even for compiling."""
        return monotonic() >= self._end


def pattern_problem(pattern: str) -> str | None:
    """Why the pattern can't be used, or None. For the place where jobs come in, too."""
    found = _compiled(pattern)
    return found if isinstance(found, str) else None


def check_must_match(
    check: str, text: str, patterns: tuple[str, ...], budget: Budget
) -> list[CheckRecord]:
    """Whether each pattern is found somewhere."""
    records: list[CheckRecord] = []
    for pattern in patterns:
        found = _search(check, pattern, text, budget)
        if isinstance(found, CheckRecord):
            records.append(found)
        elif not found:
            detail = f"the pattern {_short(pattern)} is found nowhere in the text"
            records.append(rejected(check, Flaw.PATTERN_MISMATCH, detail, evidence=_whole(text)))
    return records or [passed(check)]


def check_must_not_match(
    check: str, text: str, patterns: tuple[str, ...], budget: Budget
) -> list[CheckRecord]:
    """Whether no pattern is found anywhere."""
    records: list[CheckRecord] = []
    for pattern in patterns:
        found = _search(check, pattern, text, budget)
        if isinstance(found, CheckRecord):
            records.append(found)
        elif found:
            detail = f"the text matches the forbidden pattern {_short(pattern)}"
            places = [evidence(text, *span) for span in found]
            records.append(rejected(check, Flaw.FORBIDDEN_TEXT, detail, evidence=places))
    return records or [passed(check)]


def _search(
    check: str, pattern: str, text: str, budget: Budget
) -> list[tuple[int, int]] | CheckRecord:
    """Where the pattern is found first, or the record that says why nobody knows."""
    late = f"{budget.seconds:g} s were not enough to search for the pattern {_short(pattern)}"
    if budget.is_spent():
        return failed(check, f"{late}, the others took them: make them simpler")
    compiled = _compiled(pattern)
    if isinstance(compiled, str):
        return failed(check, f"the pattern {_short(pattern)} can't be used: {compiled}")
    try:
        matches = compiled.finditer(text, timeout=budget.left())
        return [match.span() for match in islice(matches, _SHOWN)]
    except TimeoutError:
        return failed(check, f"{late}: make it simpler")
    except MemoryError:
        return failed(check, f"searching for the pattern {_short(pattern)} takes too much memory")


def _compiled(pattern: str) -> regex.Pattern[str] | str:
    """The pattern, or why it can't be used."""
    bare = "".join(pattern.split())
    if _CALL.search(bare):
        return "it calls itself or a group, which may go on without end"
    if (size := _elements(bare)) > _ELEMENTS:
        return f"its repeats come to {size:,} elements, the limit is {_ELEMENTS:,}"
    try:
        return regex.compile(pattern, cache_pattern=False)
    except RecursionError:
        return "it is nested too deeply"
    except (regex.error, ValueError, TypeError, OverflowError, KeyError, IndexError) as error:
        return f"it is no pattern of the regex package: {error}"


def _elements(pattern: str) -> int:
    """At least how many elements the pattern comes to, never too few: whatever stands before a
    repeated group is taken to be in it, for what a bracket means depends on where it stands."""
    verbose = _VERBOSE.search(pattern) is not None
    plain = _ONE.sub("e", pattern)
    total = at = 0
    for found in _COUNT.finditer(plain):
        total += found.start() - at
        at = found.end()
        times = int(found[1][:9])
        before = plain[found.start() - 1 : found.start()]
        if verbose or before in (")", "}", "?", "*", "+"):
            total *= max(1, times)
        else:
            total += times
        if total > _ELEMENTS:
            break
    return total + len(plain) - at


def _whole(text: str) -> list[Evidence]:
    return [evidence(text, 0, len(text))]


def _short(pattern: str) -> str:
    return repr(pattern if len(pattern) <= 100 else pattern[:100] + "…")
