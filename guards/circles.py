"""Rounds that go round in circles: cycles, refusals or errors in a row, and rounds that bring
nothing new.

They are one piece of evidence seen in four ways, so at most one of them has points.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from ..schemas.agents import Finding
from .watchdog_findings import finding, shown
from .watchdog_rounds import SeenRound
from .watchdog_thresholds import Watchdog

CYCLE: Final = "cycle"
FAILURES: Final = "failures"
STALE: Final = "stale_rounds"
ERRORS: Final = "errors"
# Calls of a cycle that are told.
_SHOWN: Final = 4


def circle(rounds: Sequence[SeenRound], rules: Watchdog) -> Iterator[Finding]:
    """The four metrics of the last rounds. `cycle` is how many of them equal the one a period
    before."""
    points = rules.circle_points
    for metric, value, threshold, detail in (
        _cycle(rounds, rules),
        _failures(rounds, rules),
        _stale(rounds, rules),
        _errors(rounds, rules),
    ):
        made = finding(metric, value, threshold, points, detail, at_least=True)
        points = 0 if made.points else points
        yield made


def _cycle(rounds: Sequence[SeenRound], rules: Watchdog) -> tuple[str, int, int, str]:
    longest = 0
    for period in range(1, rules.cycle_period_max + 1):
        again = _run(rounds, period)
        last = rounds[-period:]
        if not again or not any(each.has_substance for each in last):
            continue
        needed = rules.cycle_rounds_of_errors if _may_pass(last) else rules.cycle_rounds
        if any(each.reworded for each in rounds[-again:]):
            needed = max(needed, rules.cycle_rounds_reworded)
        needed = max(needed, period)
        if again >= needed:
            return CYCLE, again, needed, _told(last, period, again)
        longest = max(longest, again)
    return CYCLE, longest, longest + 1, ""


def _may_pass(last: Sequence[SeenRound]) -> bool:
    """Whether it is right to do it a few times more: it came to an error, which may be a passing
    one, to a page with nothing on it, or to no more than "ok", which may have done something."""
    return all(each.erred or each.beyond or each.only_acts or each.only_idle for each in last)


def _run(rounds: Sequence[SeenRound], period: int) -> int:
    """How many of the last rounds equal the one `period` before."""
    again = 0
    while (
        again + period < len(rounds)
        and rounds[-1 - again].token == rounds[-1 - again - period].token
    ):
        again += 1
    return again


def _told(last: Sequence[SeenRound], period: int, again: int) -> str:
    calls = [call.sample for each in last for call in each.calls]
    names = ", ".join(dict.fromkeys(shown(call) for call in calls[:_SHOWN]))
    more = " and others" if len(calls) > _SHOWN else ""
    came = "error" if all(each.erred for each in last) else "result" if period == 1 else "results"
    if period == 1:
        return f"you called {names}{more} {again + 1} times in a row, with the same {came}"
    return (
        f"the last {again + period} rounds went in a circle of {period} ({names}{more}), with the "
        f"same {came}"
    )


def _failures(rounds: Sequence[SeenRound], rules: Watchdog) -> tuple[str, int, int, str]:
    count = 0
    while count < len(rounds) and rounds[-1 - count].refused:
        count += 1
    last = rounds[-1].calls
    if last:
        call = last[0].sample
        detail = (
            f"the calls of the last {count} rounds were all refused, the last one "
            f"{shown(call)}: {_WHY.get(call.status.value, call.status.value)}"
        )
    else:
        detail = f"your last {count} answers had neither a call nor an end that could be read"
    return FAILURES, count, rules.failures_max, detail


_WHY: Final = {
    "unknown_tool": "there is no such tool",
    "not_allowed": "it may not be called",
    "invalid_arguments": "its arguments do not fit",
    "quota_spent": "it was called as often as it may be",
    "denied": "it was not approved",
}


def _stale(rounds: Sequence[SeenRound], rules: Watchdog) -> tuple[str, int, int, str]:
    stale, substance = 0, False
    run = rounds[_behind_news(rounds) :] if not rounds[-1].only_polls else ()
    since: Counter[int] = Counter()
    for each in run:
        if each.only_polls:
            continue
        least = 1
        if _may_pass([each]) or each.reworded:
            least = rules.cycle_rounds_reworded if each.reworded else rules.cycle_rounds_of_errors
        again = all(
            call.refused or call.polls or since[call.identity] >= least for call in each.calls
        )
        stale += again and each.stale(rules.stale_times)
        substance = substance or each.has_substance
        since.update({call.identity for call in each.calls})
    detail = f"the last {len(run)} rounds brought nothing that was not there before"
    return STALE, stale if substance else 0, rules.stale_rounds, detail


def _behind_news(rounds: Sequence[SeenRound]) -> int:
    at = len(rounds)
    while at and not rounds[at - 1].is_news:
        at -= 1
    return at


def _errors(rounds: Sequence[SeenRound], rules: Watchdog) -> tuple[str, int, int, str]:
    count, erred = 0, False
    for each in reversed(rounds if not rounds[-1].only_idle else ()):
        if each.only_idle:
            continue
        if not (each.refused or each.erred):
            break
        count += 1
        erred = erred or each.erred
    detail = f"{count} rounds in a row came to nothing but errors"
    return ERRORS, count if erred else 0, rules.errors_max, detail
