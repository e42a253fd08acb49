"""What the counts allow one to say, and what is saved. Pure."""

from collections.abc import Sequence

from msgspec import Struct
from sluicegate.ops.intervals import harm_bound

from .contender import GATED, JUDGED
from .figures import Part


class Claim(Struct, frozen=True, kw_only=True):
    """What the counts say of the rate of invalid outputs, where `rate` of all jobs have a fault.
    Shares; bounds hold with 95% confidence, one-sided (Clopper and Pearson). `bound` is from the
    outputs of the headline alone, `derived` from the share of all faults, in both parts, that got
    through, times `rate`."""

    invalid: int
    outputs: int
    bound: float
    missed: int
    faults: int
    miss_bound: float
    rate: float
    derived: float
    touched: int
    good: int
    touched_bound: float


def claim(headline: Part, parts: Sequence[Part]) -> Claim | None:
    """From the gated outputs of all parts."""
    first = headline.row(GATED)
    rows = [row for each in parts if (row := each.row(GATED)) is not None]
    if first is None:
        return None
    missed, faults = sum(row.invalid for row in rows), sum(row.struck for row in rows)
    touched, good = sum(row.touched for row in rows), sum(row.good for row in rows)
    miss_bound = harm_bound(missed, faults)
    return Claim(
        invalid=first.invalid,
        outputs=first.delivered,
        bound=harm_bound(first.invalid, first.delivered),
        missed=missed,
        faults=faults,
        miss_bound=miss_bound,
        rate=headline.rate,
        derived=headline.rate * miss_bound,
        touched=touched,
        good=good,
        touched_bound=harm_bound(touched, good),
    )


class Saving(Struct, frozen=True, kw_only=True):
    """Against judging at the end, for each fault: tokens generated in vain, and seconds that the
    job's requests were in the engine."""

    tokens: float
    tokens_judged: float
    engine_s: float
    engine_judged_s: float

    @property
    def share(self) -> float:
        """Of the tokens in vain, those that are not generated."""
        return 1 - self.tokens / self.tokens_judged if self.tokens_judged else 0.0

    @property
    def time_share(self) -> float:
        """Of the engine's seconds, those that are not taken."""
        return 1 - self.engine_s / self.engine_judged_s if self.engine_judged_s else 0.0


def saving(of: Part) -> Saving | None:
    """None where judging at the end took no part, or nothing was struck."""
    ours, theirs = of.row(GATED), of.row(JUDGED)
    if ours is None or theirs is None or not ours.struck:
        return None
    return Saving(
        tokens=ours.waste_each,
        tokens_judged=theirs.waste_each,
        engine_s=ours.engine_each_s,
        engine_judged_s=theirs.engine_each_s,
    )
