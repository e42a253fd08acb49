"""Whether a fault is in what was delivered, told from what the engine brought, never from what a
gate found. Pure.

Every request to the engine is on record: the tokens of earlier ones that it carried on from, what
it brought, and the fault that it was to be struck by. So for each token that an answer was made
from it is known which request made it, and whether it was struck.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct, field
from sluicegate.ops.faults import Strike

# Token ids to text, as the engine's detokenizer has it.
Decode = Callable[[Sequence[int]], list[str]]


class Request(Struct, kw_only=True):
    """One request for a job. Seconds of the monotonic clock."""

    job: str
    carried: tuple[int, ...] = ()
    strike: Strike | None = None
    tokens: list[int] = field(default_factory=list[int])
    finish: str = ""
    began: float = 0.0
    ended: float = 0.0

    def struck(self, position: int) -> bool:
        """Whether the fault covers this token, the first being 0. A forced token that is not there
        was not struck: an earlier request of the job had the fault."""
        strike = self.strike
        if strike is None or not strike.covers(position):
            return False
        forced = strike.token(position)
        return forced is None or forced == self.tokens[position]


class Made(Struct, frozen=True, kw_only=True):
    """What became of a job's fault. `struck`: it happened. `bad`: tokens of it that the delivered
    answer was made from. `explained`: whether the delivered text is what the engine brought."""

    struck: bool
    bad: int
    explained: bool
    tokens: int


def made(requests: Sequence[Request], text: str | None, decode: Decode | None) -> Made:
    """By a job's requests in order, and the text that was delivered, None where none was. Without
    `decode` the answer is all that the last request brought, as with any worker that delivers what
    it gets."""
    struck = _once([[each.struck(at) for at in range(len(each.tokens))] for each in requests])
    happened = any(any(flags) for flags in struck)
    if text is None or not requests:
        return Made(struck=happened, bad=0, explained=True, tokens=0)
    ids: list[int] = []
    flags: list[bool] = []
    for request, own in zip(requests, struck, strict=True):
        keep = len(request.carried)
        del ids[keep:], flags[keep:]
        ids += request.tokens
        flags += own
    if requests[-1].finish == "stop" and ids:
        # What ended the text is no part of it.
        del ids[-1:], flags[-1:]
    if decode is None:
        return Made(struck=happened, bad=sum(flags), explained=True, tokens=len(ids))
    length = _length(decode(ids), text)
    if length is None:
        return Made(struck=happened, bad=sum(flags), explained=False, tokens=len(ids))
    # Tokens behind the last text count where the fault ended the answer there.
    tail = any(struck[-1]) and sum(flags[length:])
    return Made(struck=happened, bad=sum(flags[:length]) + tail, explained=True, tokens=len(ids))


# Of 546 texts that the small model made without any fault, 12 lie below, each a loop to the eye;
# the next ones above, at 0.30 and from 0.38 on, are a stutter and prose.
_LOOP: Final = 0.25


def goes_round(text: str) -> bool:
    """Whether a text repeats itself, by how far zlib shortens it: no gate's measure, and none of
    ours. A small model makes such texts by itself."""
    body = text.encode()
    return len(body) > 0 and len(zlib.compress(body, 9)) / len(body) < _LOOP


def _once(struck: list[list[bool]]) -> list[list[bool]]:
    """A fault strikes the first request that gets to it, and no other."""
    first = next((index for index, flags in enumerate(struck) if any(flags)), None)
    return [flags if index == first else [False] * len(flags) for index, flags in enumerate(struck)]


def _length(parts: Sequence[str], text: str) -> int | None:
    """How many of the parts make the text, as few as do; None where none do."""
    so_far = ""
    for length, part in enumerate(("", *parts)):
        so_far += part
        if so_far == text:
            return length
        if not text.startswith(so_far):
            return None
    return None
