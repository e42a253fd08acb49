"""A line of the labelled set, as `sluice evaluate` reads it."""

import random
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

MIN_CHARS: Final = 40


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One text. `onset` is the character where the fault begins; `token_ids` are given where the
    text's own would not show the fault; `source` says where the text is from."""

    id: str
    text: str
    label: Literal["good", "bad"]
    kind: str = msgspec.field(name="class")
    profile: str
    prompt: str | None = None
    onset: int | None = None
    token_ids: list[int] | None = None
    source: str | None = None


def rng(seed: int, part: str) -> random.Random:
    """Randomness of one part: what another part draws changes nothing here."""
    return random.Random(f"{seed}:{part}")  # noqa: S311  nothing secret


def good(kind: str, profile: str, texts: Iterable[str], source: str) -> list[Line]:
    """Good texts of one class, numbered."""
    return [
        Line(
            id=f"{kind}:{source}:{number}",
            text=text,
            label="good",
            kind=kind,
            profile=profile,
            source=source,
        )
        for number, text in enumerate(texts)
    ]


def thinned(lines: Sequence[Line], most: int, draw: random.Random) -> list[Line]:
    """At most so many, drawn evenly, in their order."""
    if len(lines) <= most:
        return list(lines)
    return [lines[at] for at in sorted(draw.sample(range(len(lines)), most))]
