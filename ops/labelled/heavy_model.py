"""What the real model writes for the heavy set: answers to many tasks, and rot to put into them."""

import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...worker.model_tokenizer import ModelTokenizer
from .heavy_line import Pair, Rot
from .stages import kept

if TYPE_CHECKING:
    from .heavy_writer import HeavyWriter

# Of a passage that a task is about, in characters: its prompt must fit a step of the engine.
_PASSAGE: Final = (200, 650)


def heavy_texts(
    folder: Path,
    tokenizer: ModelTokenizer,
    seed_of: Callable[[str], random.Random],
    scale: float,
    passages: Sequence[str],
    progress: Callable[[str], None],
) -> tuple[list[Pair], list[Rot]]:
    """Everything; what is in `folder` is not written again. `passages`: for tasks about a text."""

    @cache
    def writer() -> "HeavyWriter":
        from .heavy_writer import HeavyWriter  # noqa: PLC0415  imports vLLM, which takes seconds

        return HeavyWriter(tokenizer, seed_of, scale, progress)

    short = [one for one in passages if _PASSAGE[0] <= len(one) <= _PASSAGE[1]]
    pairs = kept(folder / "pairs.json", Pair, lambda: writer().pairs(short))
    rot = kept(folder / "rot.json", Rot, lambda: writer().rot(pairs))
    progress(f"heavy: {len(pairs)} answers, {len(rot)} rotten passages")
    return pairs, rot
