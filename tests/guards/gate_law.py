"""The law that every gate keeps: truncated, it is a gate that never saw what came after."""

from collections.abc import Callable, Sequence

from sluicegate.guards.finding import Finding
from sluicegate.guards.gate import Gate, Step


def steps(tokens: Sequence[tuple[int, str]], before: Sequence[Step] = ()) -> list[Step]:
    """Steps for tokens with the text of each, going on from those before."""
    position = len(before)
    offset = before[-1].offset + len(before[-1].text) if before else 0
    made: list[Step] = []
    for token_id, text in tokens:
        made.append(Step(token_id, text, position, offset))
        position += 1
        offset += len(text)
    return made


def feed(gate: Gate, some: Sequence[Step]) -> list[Finding | None]:
    return [gate.feed(step) for step in some]


def assert_law(
    fresh: Callable[[], Gate],
    first: Sequence[tuple[int, str]],
    cut: int,
    then: Sequence[tuple[int, str]],
) -> None:
    """After feed(first) and truncate(cut), `then` finds what it finds after first[:cut] alone."""
    gate = fresh()
    seen = steps(first)
    feed(gate, seen)
    gate.truncate(cut)
    kept = seen[:cut]
    more = steps(then, kept)
    after = feed(gate, more)
    whole = fresh()
    feed(whole, kept)
    assert after == feed(whole, more)
