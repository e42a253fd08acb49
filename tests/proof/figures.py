"""What the turns come to: counts, ratios and what they can and can't show. Pure."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Final

from msgspec import Struct

from .contender import GATED, PLAIN
from .oracle import goes_round
from .race import Outcome, Turn

# The aims: shares of outputs, and of the plain worker's median.
MOST_INVALID: Final = 0.0005
MOST_TOUCHED: Final = 0.001
MOST_LATENCY: Final = 1.02
_RESAMPLES: Final = 1_000
_SEED: Final = 1


class Estimate(Struct, frozen=True, kw_only=True):
    """A figure with its 95% interval, by resampling whole batches (a bootstrap)."""

    value: float
    low: float
    high: float


class Row(Struct, frozen=True, kw_only=True):
    """One contender. `struck` jobs had the fault; of these `invalid` were delivered with tokens of
    it, `struck_lost` brought no text. Of the good ones (not struck, and fine with the plain worker)
    `touched` were cut or made again, `good_lost` brought no text. `broke_rule`: delivered without
    the word that the job demands. `wasted`: tokens generated that are in no valid answer.
    `looping`: delivered without a fault, and going round in circles by the model's own doing.
    `waste_each`: of these, for each struck job; `engine_each_s`: seconds in the engine, for each of
    them. `each_ratio`: the same job's latency to that with the plain worker, at the median of jobs:
    medians of two lots of jobs differ by chance far more. `calm_ratio`: as `rate_ratio`, over the
    batches in which nothing was touched, so that repairs are not in it; they have `calm_jobs`
    jobs."""

    arm: str
    jobs: int
    struck: int
    delivered: int
    invalid: int
    struck_lost: int
    good: int
    touched: int
    good_lost: int
    broke_rule: int
    looping: int
    unexplained: int
    same_text: float
    p50_s: float
    p95_s: float
    p50_ratio: Estimate | None
    p95_ratio: Estimate | None
    each_ratio: Estimate | None
    tokens_per_s: float
    rate_ratio: Estimate | None
    calm_ratio: Estimate | None
    calm_jobs: int
    tokens: int
    wasted: int
    waste_each: float
    engine_each_s: float
    rollbacks: int
    retries: int
    dead: int
    invalid_by_kind: dict[str, int]
    struck_by_kind: dict[str, int]


class Touched(Struct, frozen=True, kw_only=True):
    """A case to look at: a good text that was touched, a fault that was delivered, or a text that
    is not what the engine brought."""

    arm: str
    number: int
    kind: str
    what: str
    detail: str
    text: str | None


class Part(Struct, frozen=True, kw_only=True):
    """One run of some contenders over the same jobs. `complete`: no batch was left out."""

    name: str
    rate: float
    seed: int
    concurrency: int
    planned: int
    jobs: int
    complete: bool
    rows: list[Row]
    cases: list[Touched]

    def row(self, arm: str) -> Row | None:
        """A contender's, if it took part."""
        return next((row for row in self.rows if row.arm == arm), None)


def part(
    name: str,
    turns: Sequence[Turn],
    *,
    rate: float,
    seed: int,
    concurrency: int,
    planned: int,
) -> Part:
    """Over the batches that all contenders have run."""
    arms = list(dict.fromkeys(turn.arm for turn in turns))
    have = Counter(turn.batch for turn in turns)
    turns = [turn for turn in turns if have[turn.batch] == len(arms)]
    plain = {one.number: one for turn in turns if turn.arm == PLAIN for one in turn.outcomes}
    rows = [_row(arm, turns, plain) for arm in sorted(arms, key=_order)]
    return Part(
        name=name,
        rate=rate,
        seed=seed,
        concurrency=concurrency,
        planned=planned,
        jobs=len(plain),
        complete=len(plain) == planned,
        rows=rows,
        cases=[case for turn in turns for one in turn.outcomes for case in _cases(one, plain)],
    )


def _order(arm: str) -> int:
    return 0 if arm == PLAIN else 1 if arm == GATED else 2


def _is_good(one: Outcome, plain: dict[int, Outcome]) -> bool:
    """No fault was to strike it, and what the plain worker delivers keeps to the job's rule and
    does not go round in circles."""
    reference = plain.get(one.number)
    if one.kind or reference is None:
        return not one.kind
    return reference.obeys and not goes_round(reference.text or "")


def _row(arm: str, turns: Sequence[Turn], plain: dict[int, Outcome]) -> Row:
    mine = [turn for turn in turns if turn.arm == arm]
    ones = [one for turn in mine for one in turn.outcomes]
    struck = [one for one in ones if one.struck]
    good = [one for one in ones if _is_good(one, plain)]
    untouched = [one for one in good if not one.touched and one.number in plain]
    useful = {one.number for one in ones if one.text is not None and not one.bad}
    latencies = sorted(one.latency_s for one in ones)
    pairs = _pairs(turns, arm) if arm != PLAIN else []
    calm = [pair for pair in pairs if not any(one.touched for one in pair[0].outcomes)]
    return Row(
        arm=arm,
        jobs=len(ones),
        struck=len(struck),
        delivered=sum(one.text is not None for one in ones),
        invalid=sum(one.bad > 0 for one in ones),
        struck_lost=sum(one.text is None for one in struck),
        good=len(good),
        touched=sum(one.touched for one in good),
        good_lost=sum(one.text is None for one in good),
        broke_rule=sum(not one.obeys and not one.bad for one in ones),
        looping=sum(not one.kind and goes_round(one.text or "") for one in ones),
        unexplained=sum(not one.explained for one in ones),
        same_text=_share(sum(one.text == plain[one.number].text for one in untouched), untouched),
        p50_s=quantile(latencies, 0.5),
        p95_s=quantile(latencies, 0.95),
        p50_ratio=_estimate(pairs, lambda some: _latency_ratio(some, 0.5)),
        p95_ratio=_estimate(pairs, lambda some: _latency_ratio(some, 0.95)),
        each_ratio=_estimate(pairs, _each_ratio),
        tokens_per_s=_rate(mine),
        rate_ratio=_estimate(pairs, _rate_ratio),
        calm_ratio=_estimate(calm, _rate_ratio),
        calm_jobs=sum(len(turn.outcomes) for turn, _ in calm),
        tokens=sum(one.tokens for one in ones),
        wasted=sum(_waste(one, useful) for one in ones),
        waste_each=mean(_waste(one, useful) for one in struck) if struck else 0.0,
        engine_each_s=mean(one.engine_s for one in struck) if struck else 0.0,
        rollbacks=sum(one.rollbacks for one in ones),
        retries=sum(one.retries for one in ones),
        dead=sum(one.dead for one in ones),
        invalid_by_kind=dict(Counter(one.kind for one in ones if one.bad)),
        struck_by_kind=dict(Counter(one.kind for one in struck)),
    )


def _waste(one: Outcome, useful: set[int]) -> int:
    return max(0, one.tokens - one.kept) if one.number in useful else one.tokens


def _share(count: int, of: Sequence[object]) -> float:
    return count / len(of) if of else 1.0


Pair = tuple[Turn, Turn]


def _pairs(turns: Sequence[Turn], arm: str) -> list[Pair]:
    """A contender's turns with the plain worker's of the same batch."""
    plain = {turn.batch: turn for turn in turns if turn.arm == PLAIN}
    return [(turn, plain[turn.batch]) for turn in turns if turn.arm == arm and turn.batch in plain]


def _latency_ratio(pairs: Sequence[Pair], at: float) -> float:
    mine = sorted(one.latency_s for turn, _ in pairs for one in turn.outcomes)
    theirs = sorted(one.latency_s for _, turn in pairs for one in turn.outcomes)
    return quantile(mine, at) / quantile(theirs, at)


def _each_ratio(pairs: Sequence[Pair]) -> float:
    ratios = [
        mine.latency_s / theirs.latency_s
        for turn, plain in pairs
        for mine, theirs in zip(turn.outcomes, plain.outcomes, strict=True)
    ]
    return quantile(sorted(ratios), 0.5)


def _rate(turns: Sequence[Turn]) -> float:
    """Delivered tokens for each second that the engine was at work."""
    kept = sum(one.kept for turn in turns for one in turn.outcomes)
    return kept / max(1e-9, sum(turn.busy_s for turn in turns))


def _rate_ratio(pairs: Sequence[Pair]) -> float:
    return _rate([mine for mine, _ in pairs]) / _rate([theirs for _, theirs in pairs])


def _estimate(pairs: Sequence[Pair], of: Callable[[Sequence[Pair]], float]) -> Estimate | None:
    if not pairs:
        return None
    draw = random.Random(_SEED)
    found = sorted(of(draw.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES))
    return Estimate(value=of(pairs), low=quantile(found, 0.025), high=quantile(found, 0.975))


def quantile(ordered: Sequence[float], at: float) -> float:
    """Of values in order, linear between neighbours; 0 of none."""
    if not ordered:
        return 0.0
    place = at * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _cases(one: Outcome, plain: dict[int, Outcome]) -> list[Touched]:
    what: list[str] = []
    if one.arm != PLAIN and one.touched and _is_good(one, plain):
        what.append("a good text touched")
    if one.arm == GATED and one.bad:
        what.append("a fault delivered")
    if not one.explained:
        what.append("not what the engine brought")
    return [
        Touched(
            arm=one.arm,
            number=one.number,
            kind=one.kind,
            what=each,
            detail=one.detail,
            text=one.text,
        )
        for each in what
    ]
