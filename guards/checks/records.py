"""Records of the checks, built in one place so that each is bounded and plain JSON."""

import traceback
from collections.abc import Iterable
from typing import Final

from ...schemas import CheckRecord, Evidence, Flaw
from ...schemas.limits import MAX_DETAIL, MAX_EVIDENCE, MAX_QUOTE_CHARS, MAX_TRACE_CHARS

# Why a check was skipped that is off: a verdict leaves such records out.
SWITCHED_OFF: Final = "switched off"
_GAP: Final = " … "
# NUL (databases refuse it) and lone surrogates (not UTF-8).
_UNTAME: Final = dict.fromkeys((0, *range(0xD800, 0xE000)), "�")


def tame(text: str) -> str:
    """Text that JSON and databases take: U+FFFD for NUL and for halves of surrogate pairs."""
    return text.translate(_UNTAME)


def passed(
    check: str, score: float | None = None, threshold: float | None = None, detail: str = ""
) -> CheckRecord:
    """Nothing wrong; `detail` says what was not looked at."""
    return CheckRecord(
        check=check,
        outcome="passed",
        score=score,
        threshold=threshold,
        detail=_cut(tame(detail), MAX_DETAIL),
    )


def skipped(check: str, why: str) -> CheckRecord:
    """The check does not apply, or could say nothing."""
    return CheckRecord(check=check, outcome="skipped", detail=_cut(tame(why), MAX_DETAIL))


def rejected(
    check: str,
    flaw: Flaw,
    detail: str,
    *,
    score: float | None = None,
    threshold: float | None = None,
    evidence: Iterable[Evidence] = (),
) -> CheckRecord:
    """Something is wrong with the text; `detail` is a sentence for a person."""
    return CheckRecord(
        check=check,
        outcome="rejected",
        flaw=flaw,
        score=score,
        threshold=threshold,
        detail=_cut(tame(detail), MAX_DETAIL),
        evidence=tuple(evidence)[:MAX_EVIDENCE],
    )


def failed(check: str, detail: str, error: BaseException | None = None) -> CheckRecord:
    """The check broke: on `error`, whose trace is kept from its end, or for the reason said."""
    trace = "" if error is None else "".join(traceback.format_exception(error))
    return CheckRecord(
        check=check,
        outcome="failed",
        flaw=Flaw.CHECK_FAILED,
        detail=_cut(tame(detail), MAX_DETAIL),
        trace=tame(trace)[-MAX_TRACE_CHARS:],
    )


def evidence(text: str, start: int, end: int) -> Evidence:
    """The place from `start` to before `end`, and what stands there: its two ends where it is
    long."""
    return Evidence(chars=(start, end), quote=_cut(tame(_ends(text, start, end)), MAX_QUOTE_CHARS))


def _ends(text: str, start: int, end: int) -> str:
    if end - start <= MAX_QUOTE_CHARS:
        return text[start:end]
    half = (MAX_QUOTE_CHARS - len(_GAP)) // 2
    return text[start : start + half] + _GAP + text[end - half : end]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
