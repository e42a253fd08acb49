"""Thresholds of the checks from labelled texts: where good ones end.

The wanted rate of false positives is that of all thresholds together, and of good texts that are
still to come. A threshold stands just beyond the worst good text that it must pass. Of new texts it
then rejects those that are like the ones it lets go of, and those that are like the one it stands
on (`intervals.expected_harm`). Each threshold lets go of the same number of good texts, the largest
with which what is expected of all of them keeps to the rate, and of the texts that it can judge
none rejects more than the rate either. Where the texts are too few for that, none is let go, and a
margin is left beyond the worst one (`calibration_tail`).
"""

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..guards.checks.thresholds import CALIBRATED, Calibrated, thresholds
from .calibration_tail import beyond
from .intervals import expected_harm

BASE: Final = "base"
_DIGITS: Final = 4
# A threshold of 0 is off; this is as strict.
_ALMOST_NONE: Final = 1e-4
# 0.001 times 7,000 is not quite 7.
_ROUNDING: Final = 1e-9

Tables = Mapping[str, Mapping[str, Any]]
Source = Literal["rate", "share", "kept"]


class Sample(Struct, frozen=True):
    """A labelled text, by its scores: `scores[name]` in the check's own unit, none where the check
    can't judge it."""

    profile: str
    good: bool
    kind: str
    scores: dict[str, float]


class Aim(Struct, frozen=True, kw_only=True):
    """What is wanted. `rate`: of good texts that are rejected, 0 to 1; `least`: good texts that it
    takes to set a threshold, for a profile as for [base]; `coherence_share`: of the mean of good
    text, in place of the rate, for the thresholds that are minima of coherence; `margin`: whether
    one is left beyond the worst good text where texts are few; `wanted`: what is set."""

    rate: float = 0.001
    least: int = 300
    coherence_share: float | None = None
    margin: bool = True
    wanted: tuple[Calibrated, ...] = CALIBRATED


class Setting(Struct, frozen=True, kw_only=True):
    """A threshold. `source`: the wanted rate, the share of the mean, or "kept": as it was, for the
    reason `why`. Of `n_good` good texts that its check can judge, it rejects `harmed`. `edge`: its
    value without a margin."""

    about: Calibrated
    value: float
    before: float
    source: Source
    n_good: int
    harmed: int
    edge: float
    why: str = ""

    @property
    def is_set(self) -> bool:
        """Whether the sample says it."""
        return self.source != "kept"


class Table(Struct, frozen=True, kw_only=True):
    """The thresholds of a profile, or of [base], where all texts count. `harmed` of `n_good` good
    texts are rejected by any of them."""

    name: str
    settings: tuple[Setting, ...]
    n_good: int
    harmed: int
    samples: tuple[Sample, ...]

    @property
    def drawn(self) -> int:
        """How many thresholds stand at the edge of this sample."""
        return sum(each.source == "rate" for each in self.settings)

    @property
    def expected(self) -> float:
        """The rate of good texts, 0 to 1, that are rejected on average, margins left out."""
        return expected_harm(self.harmed, self.n_good, self.drawn)

    def own(self) -> dict[str, float]:
        """What the file gets, by key."""
        return {each.about.key: each.value for each in self.settings if each.is_set}


def calibrate(samples: Sequence[Sample], aim: Aim, deployment: Tables | None = None) -> list[Table]:
    """The base, then each profile that texts have, in the order of the first of each. `deployment`:
    the tables in force so far, over those of the installation. What the table of a profile switches
    off stays so, and its texts don't count for it."""
    tables: dict[str, Mapping[str, Any]] = dict(deployment or {})
    samples = _without_what_is_off(samples, aim, tables)
    # The profile that changes no threshold: it makes no check.
    before = thresholds("off", deployment={BASE: tables.get(BASE, {})})
    base = _table(BASE, samples, aim, {each.key: getattr(before, each.key) for each in aim.wanted})
    tables[BASE] = {**tables.get(BASE, {}), **base.own()}
    made = [base]
    for profile in dict.fromkeys(sample.profile for sample in samples):
        inherited = thresholds(profile, deployment=tables)
        theirs = [sample for sample in samples if sample.profile == profile]
        now = {each.key: getattr(inherited, each.key) for each in aim.wanted}
        made.append(_table(profile, theirs, aim, now))
    return made


def _without_what_is_off(samples: Sequence[Sample], aim: Aim, tables: Tables) -> list[Sample]:
    """The samples without the scores that their profile has no use for. In [base] a threshold of 0
    is one that nobody has set yet."""
    on = {**tables.get(BASE, {}), **{each.key: 1.0 for each in aim.wanted}}
    off: dict[str, set[str]] = {}
    for profile in {sample.profile for sample in samples}:
        force = thresholds(profile, deployment={**tables, BASE: on})
        off[profile] = {each.score for each in aim.wanted if not getattr(force, each.key)}
    return [
        replace(
            sample,
            scores={
                name: score
                for name, score in sample.scores.items()
                if name not in off[sample.profile]
            },
        )
        for sample in samples
    ]


def rejects(about: Calibrated, value: float, sample: Sample) -> bool:
    """Whether the threshold does; one of 0 is off."""
    score = sample.scores.get(about.score)
    if score is None or not value:
        return False
    return score > value if about.bad == "above" else score < value


def rejected(settings: Sequence[Setting], sample: Sample) -> bool:
    """Whether any of the thresholds does."""
    return any(rejects(each.about, each.value, sample) for each in settings)


def _table(name: str, samples: Sequence[Sample], aim: Aim, before: Mapping[str, float]) -> Table:
    goods = [sample for sample in samples if sample.good]
    settings: dict[str, Setting] = {}
    drawn: list[tuple[Calibrated, list[float]]] = []
    for about in aim.wanted:
        scores = [each.scores[about.score] for each in goods if about.score in each.scores]
        share = aim.coherence_share if about.check == "coherence" else None
        now = before[about.key]
        if why := _why_kept(scores, aim.least, share):
            settings[about.key] = _setting(about, now, now, "kept", goods, why)
        elif share is not None:
            value = share * math.fsum(scores) / len(scores)
            value = _threshold(about, _badness(about, value))
            settings[about.key] = _setting(about, value, now, "share", goods)
        else:
            # From the worst to the best, the worst being the highest.
            drawn.append((about, sorted((_badness(about, each) for each in scores), reverse=True)))
    # What is kept rejects some whatever the depth; a share of the mean has a rate of its own.
    fixed = [each for each in settings.values() if each.source == "kept"]
    left = [sample for sample in goods if not rejected(fixed, sample)]
    allowed = _share_of(aim.rate, len(goods) + 1) - len(drawn) - (len(goods) - len(left))
    edges = _deepest(drawn, left, allowed, aim.rate)
    for (about, worst), edge in zip(drawn, edges, strict=True):
        value = edge
        if aim.margin:
            # Its part of the rate, of the texts that it can judge.
            part = aim.rate * (len(goods) + 1) / (len(worst) + 1) / len(drawn)
            limit = beyond(worst, min(aim.rate, part), about.score)
            # Where it lets go of any, the worst is rare enough, and it stays.
            value = _threshold(about, limit) if limit > worst[0] else edge
        settings[about.key] = _setting(about, value, before[about.key], "rate", goods, edge=edge)
    final = tuple(settings[about.key] for about in aim.wanted)
    return Table(
        name=name,
        settings=final,
        n_good=len(goods),
        harmed=sum(rejected(final, sample) for sample in goods),
        samples=tuple(samples),
    )


def _why_kept(scores: Sequence[float], least: int, share: float | None) -> str:
    """Why the sample can't say where the threshold is; "" where it can."""
    if not scores:
        return "no good text has this score"
    if len(scores) < least:
        return f"only {len(scores)} good texts have this score"
    if min(scores) == max(scores):
        return f"all good texts have the same score, {scores[0]:g}"
    if share is not None and math.fsum(scores) <= 0:
        return "the mean of good text is not above 0"
    return ""


def _deepest(
    drawn: Sequence[tuple[Calibrated, list[float]]],
    goods: Sequence[Sample],
    allowed: int,
    rate: float,
) -> list[float]:
    """The thresholds that each let go of the most good texts with which all let go of no more than
    allowed. More let go by each is more let go by all, so halving finds it."""
    # Each takes the text that it stands on as well.
    most = [max(0, _share_of(rate, len(worst) + 1) - 1) for _, worst in drawn]

    def at(depth: int) -> list[float]:
        return [
            _threshold(about, worst[min(depth, deepest)])
            for (about, worst), deepest in zip(drawn, most, strict=True)
        ]

    def fits(depth: int) -> bool:
        limits = [(about, value) for (about, _), value in zip(drawn, at(depth), strict=True)]
        gone = sum(any(rejects(*each, sample) for each in limits) for sample in goods)
        return gone <= allowed

    low, high = 0, max(0, allowed) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return at(low)


def _share_of(rate: float, count: int) -> int:
    return math.floor(rate * count + _ROUNDING)


def _badness(about: Calibrated, score: float) -> float:
    return score if about.bad == "above" else -score


def _threshold(about: Calibrated, badness: float) -> float:
    """Just beyond the text of this badness, which passes, in a few digits."""
    if not badness:
        return _badness(about, _ALMOST_NONE)
    exact = Decimal(repr(badness))
    step = Decimal(1).scaleb(exact.adjusted() - _DIGITS + 1)
    value = float(exact.quantize(step, rounding=ROUND_CEILING))
    return _badness(about, value)


def _setting(
    about: Calibrated,
    value: float,
    before: float,
    source: Source,
    goods: Sequence[Sample],
    why: str = "",
    *,
    edge: float | None = None,
) -> Setting:
    return Setting(
        about=about,
        value=value,
        before=before,
        source=source,
        n_good=sum(about.score in sample.scores for sample in goods),
        harmed=sum(rejects(about, value, sample) for sample in goods),
        edge=value if edge is None else edge,
        why=why,
    )
