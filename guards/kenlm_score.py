"""A language model of the deployment's own: KenLM (extra `kenlm`).

KenLM has n-gram models of whole words, and tells word salad that no model of characters can tell.
It knows the languages that it was trained on; another one scores as badly as salad. So it is for
deployments that know what language their jobs are in.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import regex

from .profiles import BadProfile

# Fewer words say nothing.
_WORDS: Final = 8
_WORD: Final = regex.compile(r"[\p{L}\p{M}\p{N}'’]+|[^\s\p{L}\p{M}\p{N}]")


def load_scorer(path: str) -> Callable[[str], float | None]:
    """A function that gives a text's log10 probability per word, or None where it has too few
    words. `path`: an ARPA file or a KenLM binary, of lower-case words and marks apart. A model is
    loaded once for each path. Raises BadProfile where there is no such file, or no KenLM."""
    model = _load(path)

    def score(text: str) -> float | None:
        words = _WORD.findall(text.lower())
        # The ends of a window are the middle of words and of sentences.
        words = words[1:-1]
        if len(words) < _WORDS:
            return None
        return float(model.score(" ".join(words), bos=False, eos=False)) / len(words)

    return score


@cache
def _load(path: str) -> Any:
    if not Path(path).is_file():
        raise BadProfile(f"coherence_model: there is no file {path}")
    try:
        kenlm: Any = import_module("kenlm")  # an extra
    except ModuleNotFoundError:
        raise BadProfile("coherence_model: install the extra `kenlm` to use one") from None
    try:
        return kenlm.Model(path)
    except OSError as error:
        raise BadProfile(f"coherence_model: {path} is no model of KenLM: {error}") from None
