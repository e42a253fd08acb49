"""Which token ids can never be legal output, derived from a tokenizer.

Special is not the same as denied: a model may need its special tokens to open a tool call or to
close its reasoning. Denied is what no answer has: padding, the unknown token, the opening of a
text, masks, ids kept in reserve, ids without a string, ids that only the padded embedding has.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol


class Denial(StrEnum):
    """Why an id is denied."""

    PADDING = "padding"
    UNKNOWN = "unknown"
    OPENING = "opening"
    MASK = "mask"
    RESERVED = "reserved"
    UNDECODABLE = "undecodable"
    BEYOND_TOKENIZER = "beyond_tokenizer"


class Tokenizer(Protocol):
    """What is asked of a tokenizer; those of transformers have it."""

    def __len__(self) -> int: ...
    @property
    def pad_token_id(self) -> int | None: ...
    @property
    def unk_token_id(self) -> int | None: ...
    @property
    def bos_token_id(self) -> int | None: ...
    @property
    def mask_token_id(self) -> int | None: ...
    @property
    def all_special_ids(self) -> list[int]: ...
    def get_vocab(self) -> Mapping[str, int]: ...
    def get_added_vocab(self) -> Mapping[str, int]: ...
    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...
    def batch_decode(
        self,
        sequences: Sequence[Sequence[int]],
        *,
        skip_special_tokens: bool,
        clean_up_tokenization_spaces: bool,
    ) -> list[str]: ...


# <unused12>, <|reserved_special_token_5|>, [unused3], <extra_id_0>, <dummy_1>, <|fim_unused|> ...
_RESERVED: Final = re.compile(
    r"[<\[](\|?｜?)[\w▁-]*(unused|reserved|dummy|placeholder|extra_id|extra_token)[\w▁-]*(\|?｜?)[>\]]",
    re.IGNORECASE,
)


def denied_tokens(
    tokenizer: Tokenizer, *, vocabulary_size: int | None = None, legal: Iterable[int] = ()
) -> dict[int, Denial]:
    """The denied ids in order, each with the reason.

    `vocabulary_size` is the model's, with its padding rows; without it, the tokenizer's. `legal`
    are the ids that may end a text and whatever else must stay free. Decodes the whole vocabulary
    once: about a second for 50,000 ids.
    """
    size = len(tokenizer)
    vocabulary = tokenizer.get_vocab()
    denied: dict[int, Denial] = dict.fromkeys(
        range(size, vocabulary_size or size), Denial.BEYOND_TOKENIZER
    )
    denied |= dict.fromkeys(_undecodable(tokenizer, size, vocabulary), Denial.UNDECODABLE)
    # A name like that among the ordinary tokens is a piece of somebody's source code.
    added = {*tokenizer.get_added_vocab().values(), *tokenizer.all_special_ids}
    denied |= {
        token: Denial.RESERVED
        for text, token in vocabulary.items()
        if token in added and _RESERVED.fullmatch(text)
    }
    for token, reason in (
        (tokenizer.mask_token_id, Denial.MASK),
        (tokenizer.bos_token_id, Denial.OPENING),
        (tokenizer.unk_token_id, Denial.UNKNOWN),
        (tokenizer.pad_token_id, Denial.PADDING),
    ):
        if token is not None:
            denied[token] = reason
    free = frozenset(legal)
    return {token: denied[token] for token in sorted(denied) if token not in free}


def _undecodable(tokenizer: Tokenizer, size: int, vocabulary: Mapping[str, int]) -> list[int]:
    """Holes in the vocabulary, and ids that add nothing to a text: not even half a character.

    They are decoded behind a letter, because a tokenizer may drop a space at the start of a text.
    """
    known = set(vocabulary.values())
    holes = [token for token in range(size) if token not in known]
    letter = tokenizer.encode("a", add_special_tokens=False)
    ids = [token for token in range(size) if token in known]
    texts = tokenizer.batch_decode(
        [letter, *([*letter, token] for token in ids)],
        skip_special_tokens=False,
        clean_up_tokenization_spaces=False,
    )
    alone = texts[0]
    return holes + [token for token, text in zip(ids, texts[1:], strict=True) if text == alone]
