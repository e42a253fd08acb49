"""The size of a job's state as a message: kept within the limit of the body by cutting short what
can be cut short, with a clear error where it can't."""

from collections.abc import Callable
from typing import Final

import msgspec

from ...schemas import AgentContext, CallSample, Reason, Round, RoundSample, SluiceError
from ...schemas.errors import tame
from ...schemas.limits import MAX_CONTEXT_BYTES
from .shortening import shortened, shorter_round

# What may still be written into a context after it was measured: its revision, times, an approval.
_SPARE: Final = 16 * 1024
# The latest samples keep everything that the watchdog goes by.
_SAMPLES_WHOLE: Final = 8

replace = msgspec.structs.replace


class ContextFull(SluiceError):
    """A job's history can't be made to fit. The sentence says what takes the room."""

    def __init__(self, detail: str) -> None:
        self.reason = Reason.CONTEXT_FULL
        self.detail = tame(detail)
        super().__init__(self.detail)


# How a round is cut short, one step after the other; older rounds first. The latest round is spared
# until the others are as short as they can be.
_OLDER: Final[tuple[Callable[[Round], Round], ...]] = (
    lambda this: shorter_round(this, results=2_000),
    lambda this: shorter_round(this, said=2_000, prose=500),
    lambda this: shorter_round(this, results=200, said=200, prose=200),
    lambda this: shorter_round(this, results=200, said=200, prose=200, arguments=200),
)
_LATEST: Final[tuple[Callable[[Round], Round], ...]] = (
    lambda this: shorter_round(this, results=2_000, said=4_000, prose=500),
    lambda this: shorter_round(this, results=200, said=200, prose=200),
    lambda this: shorter_round(this, results=200, said=200, prose=200, arguments=200),
)


def within_limit(context: AgentContext, max_bytes: int = MAX_CONTEXT_BYTES) -> AgentContext:
    """The context, small enough for a message. Where it is too large these go, in this order, older
    ones first, and no more than needed: what the watchdog keeps of older rounds (prose, then the
    words of arguments); results, then what was said, then arguments of the older rounds; the same
    of the latest one. Calls that are still open stay whole. Raises ContextFull where that is not
    enough. O(size); one encoding where nothing is to be done."""
    size = _size(context)
    limit = max_bytes - _SPARE
    if size <= limit:
        return context
    context, size = _shorter_samples(context, size, limit)
    rounds = list(context.execution.rounds)
    older, latest = range(len(rounds) - 1), range(max(0, len(rounds) - 1), len(rounds))
    for steps, indices in ((_OLDER, older), (_LATEST, latest)):
        for step in steps:
            for index in indices:
                if size <= limit:
                    break
                before = rounds[index]
                rounds[index] = step(before)
                if rounds[index] is not before:
                    size -= _size(before) - _size(rounds[index])
    context = replace(context, execution=replace(context.execution, rounds=tuple(rounds)))
    if _size(context) > limit:
        raise ContextFull(_what_is_large(context, limit))
    return context


def _shorter_samples(context: AgentContext, size: int, limit: int) -> tuple[AgentContext, int]:
    samples = list(context.monitoring.samples)
    older = range(max(0, len(samples) - _SAMPLES_WHOLE))
    for step, indices in (
        (_less_prose, older),
        (_without_words, older),
        (_less_prose, range(len(samples))),
    ):
        for index in indices:
            if size <= limit:
                break
            before = samples[index]
            samples[index] = step(before)
            size -= _size(before) - _size(samples[index])
    return replace(context, monitoring=replace(context.monitoring, samples=tuple(samples))), size


def _less_prose(sample: RoundSample) -> RoundSample:
    return replace(sample, prose=shortened(sample.prose, 500))


def _without_words(sample: RoundSample) -> RoundSample:
    def bare(call: CallSample) -> CallSample:
        return replace(call, words=())

    return replace(sample, calls=tuple(map(bare, sample.calls)))


def _size(value: object) -> int:
    """Bytes of JSON."""
    return len(msgspec.json.encode(value))


def _what_is_large(context: AgentContext, limit: int) -> str:
    execution = context.execution
    latest = execution.rounds[-1:]
    parts = {
        "the job": context.job,
        "the latest round": latest,
        "older rounds": execution.rounds[:-1],
        "summary and ledger": execution.memory,
        "the watchdog's samples": context.monitoring,
    }
    sizes = {name: _size(value) for name, value in parts.items()}
    told = ", ".join(f"{name} {size:,}" for name, size in sizes.items() if size > 100)
    return (
        f"The state of the job takes {_size(context):,} bytes, the limit is {limit:,}, and nothing "
        f"more of it can be cut short. It takes: {told}."
    )
