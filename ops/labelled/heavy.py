"""The heavy set: whole texts, good and bad, for the checks that judge nothing less."""

from collections.abc import Sequence
from typing import Any

import msgspec

from .heavy_bad import bad_lines
from .heavy_good import SeedOf, good_lines
from .heavy_line import HeavyLine, Pair, Rot
from .heavy_material import material
from .line import Line


def heavy_lines(
    documents: Sequence[Line],
    pairs: Sequence[Pair],
    rot: Sequence[Rot],
    tokenizer: Any,
    seed_of: SeedOf,
    scale: float,
) -> list[HeavyLine]:
    """All lines, from good documents and what the model wrote. Without the latter the classes that
    need it are missing."""
    made_of = material(documents, pairs, rot, tokenizer)
    lines = good_lines(made_of, seed_of, scale) + bad_lines(made_of, seed_of, scale)
    return [
        msgspec.structs.replace(line, tokens=len(tokenizer.encode(line.text))) for line in lines
    ]
