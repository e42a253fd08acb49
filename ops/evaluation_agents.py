"""Watchdog and breaker against traces of agents: who is ended, who is warned, and how soon."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

from msgspec import Struct

from ..guards.breaker import decide
from ..guards.watchdog import assess, watch
from ..guards.watchdog_thresholds import Watchdog, watchdog
from ..schemas.agents import Decision, Monitoring
from ..schemas.tools import RAN
from .agent_traces import Trace, samples
from .intervals import percent

SOON: Final = 6
"""Rounds behind the onset that a loop should be stopped within."""


class Followed(Struct, frozen=True):
    """A trace that was followed to its end, or to the breaker's. `told`: rounds at which it was
    told something; `warned`: those of them that count towards an end; `spent`: the first at which
    it might call none of its tools any more, which is as good as ended; `ended`: the round at which
    the breaker tripped, `because` why."""

    trace: Trace
    told: tuple[int, ...]
    warned: tuple[int, ...]
    ended: int | None
    because: str = ""
    spent: int | None = None

    @property
    def over(self) -> int | None:
        """The round at which it had to give its final answer, for either cause."""
        rounds = [each for each in (self.spent, self.ended) if each is not None]
        return min(rounds, default=None)

    @property
    def over_soon(self) -> bool:
        """Whether a loop was over, for either cause, at its onset or not long behind it."""
        onset, over = self.trace.onset, self.over
        return onset is not None and over is not None and onset <= over <= onset + SOON

    @property
    def delay(self) -> int | None:
        """Rounds from the onset to the end, of a loop that was stopped at or behind it."""
        onset = self.trace.onset
        if self.ended is None or onset is None or self.ended < onset:
            return None
        return self.ended - onset

    @property
    def stopped_soon(self) -> bool:
        """Whether a loop was stopped at its onset or not long behind it."""
        return self.delay is not None and self.delay <= SOON


def follow(trace: Trace, rules: Watchdog) -> Followed:
    """Feed the rounds to the watchdog and the breaker until it ends the job."""
    monitoring, decision = Monitoring(), Decision()
    told: list[int] = []
    warned: list[int] = []
    spent: int | None = None
    used: set[str] = set()
    for each, sample in zip(trace.rounds, samples(trace, rules), strict=True):
        used.update(call.tool for call in each.calls if call.status in RAN)
        monitoring = watch(monitoring, sample, rules)
        before = decision.warnings
        decision = decide(decision, assess(monitoring, rules, trace.budget), rules)
        if decision.degree == "terminate":
            because = decision.because
            return Followed(trace, tuple(told), tuple(warned), sample.number, because, spent)
        if spent is None and decision.degree == "degrade" and _tools(trace) <= used:
            spent = sample.number
        if decision.degree != "none":
            told.append(sample.number)
        if decision.warnings > before:
            warned.append(sample.number)
    return Followed(trace, tuple(told), tuple(warned), None, "", spent)


def _tools(trace: Trace) -> set[str]:
    """Those that it may call: where it names none, those that ran."""
    named = {spec.name for spec in trace.tools}
    calls = (call for each in trace.rounds for call in each.calls)
    return named or {call.tool for call in calls if call.status in RAN}


def judge_traces(
    traces: Iterable[Trace],
    *,
    as_worded: bool = False,
    deployment: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Followed]:
    """All of them, each by its task type's thresholds. Raises BadWatchdog."""
    return [
        follow(trace, watchdog(trace.task_type, deployment=deployment, as_worded=as_worded))
        for trace in traces
    ]


def summary(done: Sequence[Followed]) -> dict[str, Any]:
    """Counts, overall and by kind, for JSON. A loop that was ended before its onset was stopped for
    a wrong reason, and counts as not stopped."""
    kinds: defaultdict[str, list[Followed]] = defaultdict(list)
    for each in done:
        kinds[each.trace.kind].append(each)
    return {
        **_counts(done),
        "kinds": {kind: _counts(some) for kind, some in kinds.items()},
        "mistakes": [
            {
                "id": each.trace.id,
                "looping": each.trace.looping,
                "onset": each.trace.onset,
                "ended": each.ended,
                "tools_spent": each.spent,
                "because": each.because,
            }
            for each in done
            if (each.over is not None if not each.trace.looping else not each.stopped_soon)
        ],
    }


def report(
    summaries: Mapping[str, dict[str, Any]],
    table: Callable[[Iterable[Sequence[str]]], Iterator[str]],
) -> Iterator[str]:
    """Two tables for a person, a column for each variant: overall, and by kind."""
    names = list(summaries)
    rows = [["", *names]]
    for title, show in _ROWS:
        rows.append([title, *(show(each) for each in summaries.values())])
    yield from table(rows)
    yield ""
    first = next(iter(summaries.values()))
    head = ["kind", "traces"]
    for name in names:
        head += [f"{name}: ended", "no tool left", "warned", "stopped", "rounds"]
    rows = [head]
    for kind in first["kinds"]:
        counts = first["kinds"][kind]
        row = [kind, str(counts["healthy"] + counts["looping"])]
        for each in summaries.values():
            row += _of_kind(each["kinds"][kind])
        rows.append(row)
    yield from table(rows)


def _counts(done: Sequence[Followed]) -> dict[str, Any]:
    healthy = [each for each in done if not each.trace.looping]
    looping = [each for each in done if each.trace.looping]
    delays = [each.delay for each in looping if each.delay is not None]
    return {
        "healthy": len(healthy),
        "healthy_ended": sum(each.ended is not None for each in healthy),
        "healthy_tools_spent": sum(each.spent is not None for each in healthy),
        "healthy_warned": sum(bool(each.warned) for each in healthy),
        "healthy_told": sum(bool(each.told) for each in healthy),
        "looping": len(looping),
        "stopped_soon": sum(each.stopped_soon for each in looping),
        "over_soon": sum(each.over_soon for each in looping),
        "stopped": len(delays),
        "median_rounds": median(delays) if delays else None,
        "most_rounds": max(delays, default=None),
    }


def _share(part: int, of: int) -> str:
    return f"{part} of {of} ({percent(part / of)})" if of else "-"


def _rounds(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


_ROWS: Final[tuple[tuple[str, Callable[[dict[str, Any]], str]], ...]] = (
    ("healthy, ended", lambda each: _share(each["healthy_ended"], each["healthy"])),
    (
        "healthy, no tool left",
        lambda each: _share(each["healthy_tools_spent"], each["healthy"]),
    ),
    ("healthy, warned of a circle", lambda each: _share(each["healthy_warned"], each["healthy"])),
    ("healthy, told anything", lambda each: _share(each["healthy_told"], each["healthy"])),
    (
        f"loops, stopped within {SOON} rounds",
        lambda each: _share(each["stopped_soon"], each["looping"]),
    ),
    (
        f"the same, or no tool left within {SOON}",
        lambda each: _share(each["over_soon"], each["looping"]),
    ),
    ("loops, stopped at all", lambda each: _share(each["stopped"], each["looping"])),
    ("rounds to the stop, median", lambda each: _rounds(each["median_rounds"])),
    ("rounds to the stop, most", lambda each: _rounds(each["most_rounds"])),
)


def _of_kind(counts: dict[str, Any]) -> list[str]:
    if counts["healthy"] and not counts["looping"]:
        healthy = ("healthy_ended", "healthy_tools_spent", "healthy_warned")
        return [*(str(counts[each]) for each in healthy), "-", "-"]
    return ["-", "-", "-", str(counts["stopped_soon"]), _rounds(counts["median_rounds"])]
