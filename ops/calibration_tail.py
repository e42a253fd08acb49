"""How far beyond the worst of few good texts a threshold stands.

Of n good texts the worst is one that one in n + 1 exceeds. For a rarer one, a tail is fitted to the
worst twentieth and followed from the worst text on: peaks over a threshold (Davison & Smith,
"Models for exceedances over high thresholds", Journal of the Royal Statistical Society B 52, 1990),
a generalised Pareto tail by its probability-weighted moments (Hosking & Wallis, "Parameter and
quantile estimation for the generalized Pareto distribution", Technometrics 29, 1987).
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

# One in so many is in the tail, if these are so many.
_TAIL: Final = 20
_LEAST: Final = 10
# So few say little of the shape, and a tail taken for lighter than it is rejects good texts. The
# lowest that keeps a thousand with a tail as heavy as Student's t with 3 degrees of freedom to 1.5
# times the rate; normal and exponential tails are kept well below it.
_SHAPES: Final = (0.25, 0.5)
# So much rarer than the worst text, and no more: further on it is a guess.
_FURTHEST: Final = 1000.0
# Scores that have two ends. Their log odds have none.
_ENDS: Final = {
    "repetition_ngram": (0.0, 1.0),
    "duplicate_paragraphs": (0.0, 1.0),
    "language_other": (0.0, 1.0),
    "language_passage": (0.0, 1.0),
    # Of 1 to -1, and bad below.
    "relevance_similarity": (-1.0, 1.0),
}


def beyond(worst: Sequence[float], rate: float, score: str) -> float:
    """What a good text exceeds at this rate, 0 to 1; never less than the worst one. `worst`: how
    bad good texts are by this score, from the worst on, at least one. The worst itself where it is
    rare enough, or where too few are there for a tail, or are alike."""
    rarer = min(1 / (rate * (len(worst) + 1)), _FURTHEST)
    if rarer <= 1:
        return worst[0]
    there, back = _scale(score)
    tail = [there(value) for value in worst[: len(worst) // _TAIL + 1]]
    if tail[0] == math.inf:
        return worst[0]
    tail = [value for value in tail if value > -math.inf]
    excesses = [value - tail[-1] for value in tail[:-1]]
    if len(excesses) < _LEAST or not excesses[0]:
        return worst[0]
    shape, scale = _fit(excesses)
    # The tail beyond any point of it has the same shape, and a scale that grows with the point.
    further = (scale + shape * excesses[0]) * (rarer**shape - 1) / shape
    return max(worst[0], back(tail[0] + further))


def _fit(excesses: Sequence[float]) -> tuple[float, float]:
    """Shape and scale, from the largest excess to the smallest. The scale is that with which the
    mean is theirs."""
    count = len(excesses)
    mean = math.fsum(excesses) / count
    # By the share of the tail that lies beyond each.
    weighted = math.fsum((at + 0.65) / count * each for at, each in enumerate(excesses)) / count
    lowest, highest = _SHAPES
    spread = mean - 2 * weighted
    shape = 2 - mean / spread if spread > 0 else lowest
    shape = min(max(shape, lowest), highest)
    return shape, mean * (1 - shape)


def _scale(score: str) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """To a scale without ends, and back."""
    if score not in _ENDS:
        return (lambda value: value), (lambda value: value)
    low, high = _ENDS[score]

    def there(value: float) -> float:
        if not low < value < high:
            return math.inf if value >= high else -math.inf
        return math.log(value - low) - math.log(high - value)

    def back(odds: float) -> float:
        return low + (high - low) / (1 + math.exp(-odds)) if odds > -700 else low

    return there, back
