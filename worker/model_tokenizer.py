"""A model's tokenizer, its vocabulary and what may end its texts."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..guards.denied import Denial, denied_tokens
from ..guards.engine_gates import choose_sentinels
from ..guards.gate import Step
from ..guards.reasoning.tags import Tags, make_tags
from .engine import EngineUnavailable

# How repositories, files and issues were set apart in the text that models of code learnt from.
_CORPUS_MARKER: Final = re.compile(
    r"<\|?(repo_?name|file_?(name|sep)|gh_stars|issue_\w+|jupyter_\w+|commit_\w+|empty_output)\|?>"
)
NEEDS: Final = "this needs transformers: pip install 'sluicegate[gpu]' (or [cpu])"


class ModelTokenizer(NamedTuple):
    """A tokenizer as the engine sees it: `vocabulary_size` counts the embedding's padding rows,
    `stop_ids` are those that legally end a text."""

    name: str
    tokenizer: Any  # of transformers, whose types are not strict
    vocabulary_size: int
    stop_ids: frozenset[int]

    def denied(self, legal: Iterable[int] = ()) -> dict[int, Denial]:
        """The ids that must never come, with the reason; those that are `legal`, and those that
        end a text, are none of them. Takes a second or more."""
        return denied_tokens(
            self.tokenizer,
            vocabulary_size=self.vocabulary_size,
            legal=self.stop_ids.union(legal),
        )

    def tags(self, start: str, end: str) -> Tags:
        """The tags of the model's reasoning. Raises ValueError."""
        added: dict[str, int] = self.tokenizer.get_added_vocab()
        special: list[int] = self.tokenizer.all_special_ids

        def encode(text: str) -> list[int]:
            ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
            return ids

        return make_tags(start, end, encode, {*added.values(), *special})

    def sentinels(self, denied: dict[int, Denial], legal: Iterable[int] = ()) -> tuple[int, ...]:
        """The ids that the plug-in in the engine speaks with. Where there are too few denied ones,
        markers of training corpora, which have no place in an answer, are denied as well; but for
        `legal` ones."""
        added: dict[str, int] = self.tokenizer.get_added_vocab()
        needed = self.stop_ids.union(legal)
        spare = [
            token
            for name, token in added.items()
            if _CORPUS_MARKER.fullmatch(name) and token not in needed
        ]
        return choose_sentinels(denied, spare)

    def encode(self, text: str) -> list[int]:
        """The text's ids. What is spelled like a special token is ordinary text, for so it was in
        the answer: a real special token has no text."""
        backend = self.tokenizer.backend_tokenizer
        backend.encode_special_tokens = True
        try:
            ids: list[int] = backend.encode(text, add_special_tokens=False).ids
        finally:
            backend.encode_special_tokens = False
        return ids

    def steps(self, ids: Iterable[int]) -> Iterator[Step]:
        """The steps of a stream with these ids, whole characters only, decoded as the engine
        does. An id that nothing decodes brings no text."""
        from tokenizers.decoders import DecodeStream  # noqa: PLC0415  as transformers, below

        backend = self.tokenizer.backend_tokenizer
        stream = DecodeStream(skip_special_tokens=True)
        offset = 0
        size = len(self.tokenizer)
        for position, token_id in enumerate(ids):
            known = 0 <= token_id < size
            text: str = (stream.step(backend, token_id) if known else None) or ""
            yield Step(token_id, text, position, offset)
            offset += len(text)


def load_tokenizer(model: str) -> ModelTokenizer:
    """The tokenizer of a model's folder or hub name, without the model. Takes seconds. Raises
    EngineUnavailable without transformers, and where there is no such model."""
    if Path(model).is_dir():
        # Nothing is to be looked for on a hub.
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            os.environ.setdefault(name, "1")
    try:
        from transformers import (  # noqa: PLC0415  seconds, and not in every environment
            AutoConfig,
            AutoTokenizer,
        )
    except ImportError:
        raise EngineUnavailable(NEEDS) from None
    auto_tokenizer: Any = AutoTokenizer
    auto_config: Any = AutoConfig
    try:
        tokenizer: Any = auto_tokenizer.from_pretrained(model)
        config: Any = auto_config.from_pretrained(model)
    except (OSError, ValueError) as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        raise EngineUnavailable(f"no tokenizer for {model}: {lines[0]}") from error
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise EngineUnavailable(
            f"the tokenizer of {model} is not of the fast kind, which this needs"
        )
    text_config = config.get_text_config()
    ends: list[Any] = [text_config.eos_token_id]
    from transformers import GenerationConfig  # noqa: PLC0415  as above

    generation: Any = GenerationConfig
    # It is optional; the tokenizer and the configuration name an end as well.
    with contextlib.suppress(OSError):
        ends.append(generation.from_pretrained(model).eos_token_id)
    return of(model, tokenizer, int(text_config.vocab_size), ends)


def of(name: str, tokenizer: Any, vocabulary_size: int, ends: Iterable[Any]) -> ModelTokenizer:
    """A tokenizer that is loaded already. `ends`: ids, or lists of them, that end a text, besides
    the tokenizer's own; None is none."""
    stop_ids = frozenset(token for end in [tokenizer.eos_token_id, *ends] for token in _as_ids(end))
    return ModelTokenizer(name, tokenizer, max(len(tokenizer), vocabulary_size), stop_ids)


def _as_ids(said: Any) -> Iterator[int]:
    if isinstance(said, int):
        yield said
    elif isinstance(said, (list, tuple)):
        yield from (int(token) for token in said)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
