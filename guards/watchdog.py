"""The watchdog: what a round of an agent job looks like beside those before it.

`watch` takes a round into the windows, `assess` measures them. Both are pure: asking changes
nothing. Metrics of size (rounds, tokens and calls a minute, seconds of a round) say that much is
done; those of circling (repeated calls, similar outputs, cycles, failures, stale rounds) that
nothing comes of it. `watchdog.toml` has thresholds and points.

Cost: O(window) a round, in calls and in characters of prose, whatever the job has behind it.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from ..schemas.agents import Assessment, Budget, Finding, Monitoring, RoundSample
from ..schemas.limits import MAX_SAMPLES
from .circles import ERRORS, circle
from .similarity import Similarity, jaccard, terms
from .watchdog_findings import finding, shown
from .watchdog_rounds import SeenRound, outcome, seen
from .watchdog_thresholds import Watchdog

ROUNDS: Final = "rounds"
CALL_RATE: Final = "calls_per_minute"
TOKEN_RATE: Final = "tokens_per_minute"  # noqa: S105  no password
ROUND_SECONDS: Final = "round_seconds"
REPEAT_RATE: Final = "repeat_rate"
SIMILARITY: Final = "similarity"
COSINE: Final = "similarity_cosine"

SIZE: Final = frozenset({ROUNDS, CALL_RATE, TOKEN_RATE, ROUND_SECONDS})
"""Metrics that say how much was done, not whether anything came of it."""

_MINUTE: Final = timedelta(seconds=60)
# Characters of an output that are compared: its beginning and its end.
_PROSE: Final = 4_000
# Rounds whose calls keep their words: two of the longest period, and a little.
_WORDED: Final = 8


def watch(monitoring: Monitoring, sample: RoundSample, rules: Watchdog) -> Monitoring:
    """The windows with one more round, and without what no window needs any more: at most 64
    rounds, the prose of the last `similarity_window`, the words of the last 8."""
    samples = [*monitoring.samples, sample]
    needed = rules.memory_rounds
    while needed < len(samples) and samples[-1].at - samples[-needed - 1].at <= _MINUTE:
        needed += 1
    samples = samples[-min(needed, MAX_SAMPLES) :]
    return Monitoring(samples=tuple(_thinned(samples, rules)))


def assess(
    monitoring: Monitoring, rules: Watchdog, budget: Budget, *, cosine: Similarity | None = None
) -> Assessment:
    """What is to be said of the last round in the windows. `cosine`: the cosine of two outputs by
    an embedding model, a further measure of similarity beside the Jaccard index; what it raises is
    raised."""
    if not monitoring.samples:
        return Assessment(round=0)
    samples = monitoring.samples
    rounds = seen(samples[-rules.memory_rounds :], rules)
    news = rules.news_clears and rounds[-1].is_news
    late = rules.news_clears and any(each.is_news for each in rounds[-rules.news_rounds :])
    measured: dict[str, float] = {}
    found: list[Finding] = []
    for each in (
        *_size(samples, rules, budget),
        *_repeated(rounds, rules, news=late),
        *_similar(rounds, rules, cosine, news=late),
        *circle(rounds, rules),
    ):
        measured[each.metric] = each.value
        if each.points:
            found.append(each)
    return Assessment(
        round=samples[-1].number,
        score=sum(each.points for each in found),
        circling=any(
            each.metric not in SIZE and (not news or each.metric == ERRORS) for each in found
        ),
        findings=tuple(found),
        measured=measured,
    )


def size_points(assessment: Assessment) -> int:
    """The points that are for size."""
    return sum(found.points for found in assessment.findings if found.metric in SIZE)


def _thinned(samples: Sequence[RoundSample], rules: Watchdog) -> Iterator[RoundSample]:
    for number, sample in enumerate(samples):
        age = len(samples) - number
        changes: dict[str, Any] = {}
        if age > rules.similarity_window:
            changes["prose"] = ""
        elif len(sample.prose) > _PROSE:
            changes["prose"] = f"{sample.prose[: _PROSE // 2]}\n{sample.prose[-_PROSE // 2 + 1 :]}"
        if age > _WORDED and any(call.words for call in sample.calls):
            changes["calls"] = tuple(
                msgspec.structs.replace(call, words=()) for call in sample.calls
            )
        yield msgspec.structs.replace(sample, **changes) if changes else sample


def _size(samples: Sequence[RoundSample], rules: Watchdog, budget: Budget) -> Iterator[Finding]:
    last = samples[-1]
    yield finding(
        ROUNDS,
        last.number,
        rules.rounds_max,
        rules.rounds_points,
        f"this is round {last.number} of a task that should take {rules.rounds_max}",
    )
    calls = _calls_per_minute(samples, rules)
    yield finding(
        CALL_RATE,
        calls,
        rules.calls_per_minute_max,
        rules.call_rate_points,
        f"there were {calls:.0f} tool calls a minute",
    )
    tokens = _tokens_per_minute(samples)
    yield finding(
        TOKEN_RATE,
        tokens,
        budget.tokens * rules.tokens_per_minute_share,
        rules.token_rate_points,
        f"{tokens:,.0f} tokens went within a minute, of {budget.tokens:,} for the whole task",
    )
    yield finding(
        ROUND_SECONDS,
        last.wall_s,
        rules.round_seconds_max,
        rules.round_seconds_points,
        f"the last round took {last.wall_s:.0f} seconds",
    )


def _calls_per_minute(samples: Sequence[RoundSample], rules: Watchdog) -> float:
    if rules.sliding_minute:
        now = samples[-1].at
        return sum(now - call.at < _MINUTE for sample in samples for call in sample.calls)
    # As worded: those of the window, by the time that it spans.
    times = [call.at for sample in samples for call in sample.calls][-rules.repeat_window :]
    spans = (times[-1] - times[0]).total_seconds() if len(times) > 1 else 60.0
    return 60 * len(times) / max(1.0, spans)


def _tokens_per_minute(samples: Sequence[RoundSample]) -> float:
    """Those of the last minute; a round that began before it has its share in it."""
    now = samples[-1].at
    total = 0.0
    for sample in samples:
        ago = max(0.0, (now - sample.at).total_seconds())
        within = min(sample.wall_s, 60.0 - ago)
        if within > 0:
            total += sample.tokens * within / sample.wall_s
        elif within == 0 < 60.0 - ago:
            total += sample.tokens
    return total


def _repeated(rounds: Sequence[SeenRound], rules: Watchdog, *, news: bool) -> Iterator[Finding]:
    calls = [call for each in rounds for call in each.calls][-rules.repeat_window :]
    times = Counter(call.identity for call in calls)
    again = [call for call in calls if times[call.identity] > 1 and not call.polls]
    rate = len(again) / len(calls) if len(calls) >= rules.repeat_min_calls else 0.0
    most = max(again, key=lambda call: times[call.identity], default=None)
    detail = ""
    if most is not None:
        detail = (
            f"{len(again)} of the last {len(calls)} calls were repeated, "
            f"{shown(most.sample)} {times[most.identity]} times"
        )
    points = 0 if news else rules.repeat_points
    yield finding(REPEAT_RATE, rate, rules.repeat_rate_max, points, detail)


def _similar(
    rounds: Sequence[SeenRound], rules: Watchdog, cosine: Similarity | None, *, news: bool
) -> Iterator[Finding]:
    last = rounds[-1]
    far = rules.similarity_window if rules.similarity_looks_back else 2
    earlier = [each for each in rounds[-far:-1] if _comparable(last, each, rules)]
    detail = "you said nearly the same as before"
    if rules.similarity_needs_same_results:
        detail += ", and the results were the same, too"
    measures = (
        (SIMILARITY, jaccard, rules.similarity_jaccard),
        (COSINE, cosine, rules.similarity_cosine),
    )
    points = 0 if news else rules.similarity_points
    for metric, measure, limit in measures:
        if measure is None:
            continue
        alike = [measure(last.sample.prose, each.sample.prose) for each in earlier]
        value = max(filter(math.isfinite, alike), default=0.0)
        made = finding(metric, value, limit, points, detail, at_least=True)
        # Two measures of one thing.
        points = 0 if made.points else points
        yield made


def _comparable(one: SeenRound, other: SeenRound, rules: Watchdog) -> bool:
    if rules.similarity_needs_same_results and (one.only_polls or results(one) != results(other)):
        return False
    least = rules.similarity_min_terms
    return all(
        each.sample.prose and (not least or len(terms(each.sample.prose)) >= least)
        for each in (one, other)
    )


def results(seen_round: SeenRound) -> list[str]:
    """What came of a round's calls, in whatever order they were made."""
    return sorted(outcome(call.sample) for call in seen_round.calls)
