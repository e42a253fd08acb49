"""Synthetic traces of loops in which every call or result has something new that means nothing, and
no tool declares it; and of those that try ever other things in vain."""

import random
import uuid
from collections.abc import Callable
from typing import Any, Final

from ..schemas.tools import ToolSpec, ToolStatus
from .agent_trace_parts import BEHIND, call, moment, one, page, path, reading, trace
from .agent_trace_words import Words
from .agent_traces import Trace, TraceRound

LOOK_UP: Final = ToolSpec(name="look_up", description="what is known of a subject")
READ: Final = ToolSpec(name="read_file")
LIST: Final = ToolSpec(name="list_items")
_TOOLS: Final = (LOOK_UP, READ, LIST)


def nonce(draw: random.Random, words: Words) -> Trace:
    """A number of chance in every call, by one name or another."""
    name = draw.choice(("nonce", "request_id", "traceId", "X-Request-Id"))
    return _noisy("nonce", draw, words, lambda _: {name: f"{draw.getrandbits(64):x}"})


def moments(draw: random.Random, words: Words) -> Trace:
    """The time of the call is in it."""
    name, start = draw.choice(("ts", "timestamp", "requestedAt")), draw.randrange(10**9, 2 * 10**9)

    def more(n: int) -> dict[str, Any]:
        stamp = f"2026-01-05T09:{n:02}:{draw.randrange(1, 60):02}Z"
        return {name: stamp if name == "requestedAt" else start - start % 60 + 7 + 5 * n}

    return _noisy("moment of the call", draw, words, more)


def tries(draw: random.Random, words: Words) -> Trace:
    """The tries are counted, and no tool says that they mean nothing."""
    name = draw.choice(("attempt", "retry_count", "tryNumber"))
    return _noisy("counted, undeclared", draw, words, lambda n: {name: n})


def seeds(draw: random.Random, words: Words) -> Trace:
    """Another seed each time."""
    return _noisy("seeds", draw, words, lambda _: {"seed": draw.randrange(10**6)})


def uuids(draw: random.Random, words: Words) -> Trace:
    """A UUID beside the question."""
    name = draw.choice(("uuid", "call", "tracking"))
    return _noisy("UUIDs", draw, words, lambda _: {name: _uuid(draw)})


def growing_limit(draw: random.Random, words: Words) -> Trace:
    """More and more of the same two documents."""
    name = draw.choice(("limit", "top_k", "maxResults"))
    return _noisy("growing limit", draw, words, lambda n: {name: 5 * n + 5})


def stamped_json(draw: random.Random, words: Words) -> Trace:
    """The result has a moment and an id, and its tool calls neither volatile."""
    place, value = draw.choice(words.places), draw.randrange(30)
    moments, ids = draw.choice((("timestamp", "request_id"), ("as_of", "traceId")))
    rounds = [
        one(
            draw.choice(words.talk),
            call(
                "look_up",
                {"subject": place},
                {
                    "data": {"celsius": value, moments: moment(draw, n)},
                    ids: f"{draw.getrandbits(48):x}",
                    "took_ms": draw.randrange(3, 90),
                },
            ),
        )
        for n in range(1 + BEHIND)
    ]
    return trace("stamped result", rounds, onset=2, tools=_TOOLS)


def stamped_text(draw: random.Random, words: Words) -> Trace:
    """The same in plain text."""
    place, value = draw.choice(words.places), draw.randrange(30)
    rounds = [
        one(
            draw.choice(words.talk),
            call(
                "look_up",
                {"subject": place},
                f"[2026-01-05 09:{n:02}:{draw.randrange(1, 60):02}] {place}: {value} degrees "
                f"(request {_uuid(draw)}, took {draw.randrange(3, 90)} ms)",
            ),
        )
        for n in range(1 + BEHIND)
    ]
    return trace("stamped text", rounds, onset=2, tools=_TOOLS)


def only_errors(draw: random.Random, words: Words) -> Trace:
    """Ever other files that are not there: five are enough to know."""
    first = [reading(draw, words, topic) for topic in draw.sample(words.topics, 3)]
    rounds: list[TraceRound] = []
    for n in range(4 + BEHIND):
        file = f"{path(words, draw.choice(words.topics))}.{n}"
        said = draw.choice(("no such file", f"FileNotFoundError: {file}"))
        rounds.append(
            one(draw.choice(words.talk), call("read_file", {"path": file}, said, ToolStatus.ERROR))
        )
    return trace("errors alone", [*first, *rounds], onset=8, tools=_TOOLS)


def beyond_the_end(draw: random.Random, words: Words) -> Trace:
    """Page after page on which there is nothing; the second is one too many."""
    name = draw.choice(("page", "offset", "pageNumber"))
    pages = draw.randrange(2, 6)
    nothing = draw.choice(("[]", "No more items.", f'{{"items": [], "total": {20 * pages}}}'))
    rounds = [
        one(
            "On to the next page.",
            call(
                "list_items",
                {name: n, "size": 20},
                page(draw, words, f"page {n}", 8) if n <= pages else nothing,
            ),
        )
        for n in range(1, pages + 2 + BEHIND)
    ]
    return trace("beyond the end", rounds, onset=pages + 2, tools=_TOOLS)


def _noisy(
    kind: str, draw: random.Random, words: Words, more: Callable[[int], dict[str, Any]]
) -> Trace:
    question = f"{draw.choice(words.topics)} {draw.choice(words.places)}"
    found = page(draw, words, draw.choice(words.topics), 2)
    rounds = [
        one(draw.choice(words.talk), call("look_up", {"query": question, **more(n)}, found))
        for n in range(1 + BEHIND)
    ]
    return trace(kind, rounds, onset=2, tools=_TOOLS)


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


NOISE: Final[tuple[Callable[[random.Random, Words], Trace], ...]] = (
    nonce,
    moments,
    tries,
    seeds,
    uuids,
    growing_limit,
    stamped_json,
    stamped_text,
    only_errors,
    beyond_the_end,
)
"""Every kind."""
