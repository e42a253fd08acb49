"""What a sample of texts allows to be said of all texts: intervals and bounds of rates, at 95%."""

import math
from typing import Final

_Z95: Final = 1.959963984540054
_RISK: Final = 0.05
# Halvings of an interval of rates: a double has no more.
_HALVINGS: Final = 60
_ROUNDING: Final = 1e-12


def wilson(hits: int, of: int) -> tuple[float, float] | None:
    """The 95% interval of a rate, by Wilson: right for small samples and rates near 0 and 1."""
    if not of:
        return None
    rate, square = hits / of, _Z95 * _Z95
    middle = (rate + square / (2 * of)) / (1 + square / of)
    half = _Z95 / (1 + square / of) * math.sqrt(rate * (1 - rate) / of + square / (4 * of * of))
    # At either end the two are equal, but for rounding.
    return (
        max(0.0, middle - half) if hits else 0.0,
        min(1.0, middle + half) if hits < of else 1.0,
    )


def harm_bound(harmed: int, of: int, thresholds: int = 1) -> float:
    """The rate of good texts, 0 to 1, that thresholds harm at most, with 95% confidence, if they
    were drawn at the edge of a sample of `of` good texts and reject `harmed` of these.

    Each threshold takes the text that it stands on besides those that it rejects: Tukey's
    statistically equivalent blocks ("Non-parametric estimation II", Annals of Mathematical
    Statistics 18, 1947). For one threshold and no text harmed it is the rule of three, 3/n. Time is
    proportional to the blocks.
    """
    blocks = harmed + thresholds
    if not blocks:
        return 0.0
    if blocks > of:
        return 1.0
    # The share beyond has the distribution Beta(blocks, of + 1 - blocks).
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        if _at_most(blocks - 1, of, rate) > _RISK:
            low = rate
        else:
            high = rate
    return high


def expected_harm(harmed: int, of: int, thresholds: int = 1) -> float:
    """The rate of good texts, 0 to 1, that such thresholds harm on average, over samples of `of`;
    with scores that depend on each other it is less. The mean of the distribution that `harm_bound`
    takes its bound from: where it keeps to a rate, the bound keeps to three times the rate."""
    return min(1.0, (harmed + thresholds) / (of + 1))


def needed(rate: float, thresholds: int = 1) -> int:
    """How many good texts, none of them harmed, keep what is expected to this rate."""
    # 1 by 0.001 is not quite 1,000.
    return max(0, math.ceil(thresholds / rate * (1 - _ROUNDING)) - 1)


def percent(rate: float | None) -> str:
    """A rate for a person; a dash for none."""
    return "-" if rate is None else f"{100 * rate:.2f}%"


def with_interval(rate: float | None, interval: tuple[float, float] | None) -> str:
    """A rate with its interval."""
    if rate is None or interval is None:
        return "- (no such texts)"
    return f"{percent(rate)} (95%: {percent(interval[0])} to {percent(interval[1])})"


def _at_most(hits: int, of: int, rate: float) -> float:
    """The probability of so many hits or fewer in a binomial sample."""
    if rate <= 0:
        return 1.0
    if rate >= 1:
        return float(hits >= of)
    hit, miss = math.log(rate), math.log1p(-rate)
    log_of = math.lgamma(of + 1)
    return math.fsum(
        math.exp(log_of - math.lgamma(k + 1) - math.lgamma(of - k + 1) + k * hit + (of - k) * miss)
        for k in range(hits + 1)
    )
