"""Which ids are denied, from a tokenizer that has one of every kind."""

from collections.abc import Mapping, Sequence

import pytest
from sluicegate.guards.denied import Denial, denied_tokens


class FakeTokenizer:
    """Ids are places in a list of names; a name in angles or brackets is an added token."""

    def __init__(self, names: Sequence[str | None], **ids: int) -> None:
        self._names = names
        self.pad_token_id = ids.get("pad")
        self.unk_token_id = ids.get("unk")
        self.bos_token_id = ids.get("bos")
        self.mask_token_id = ids.get("mask")
        self.all_special_ids = list(ids.values())

    def __len__(self) -> int:
        return len(self._names)

    def get_vocab(self) -> Mapping[str, int]:
        return {name: token for token, name in enumerate(self._names) if name is not None}

    def get_added_vocab(self) -> Mapping[str, int]:
        return {name: token for name, token in self.get_vocab().items() if name[:1] in "<["}

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [self.get_vocab()[text]]

    def batch_decode(
        self,
        sequences: Sequence[Sequence[int]],
        *,
        skip_special_tokens: bool,
        clean_up_tokenization_spaces: bool,
    ) -> list[str]:
        assert not skip_special_tokens
        assert not clean_up_tokenization_spaces
        return [self._decode(ids) for ids in sequences]

    def _decode(self, ids: Sequence[int]) -> str:
        text = "".join(self._names[token] or "" for token in ids)
        return text.replace("EMPTY", "").replace("▁", " ").lstrip(" ")


def test_every_reason() -> None:
    names = [
        "<pad>",
        "<unk>",
        "<s>",
        "</s>",
        "<mask>",
        "a",
        "▁",
        "<unused7>",
        "<|reserved_special_token_1|>",
        "[unused3]",
        "<extra_id_0>",
        "<think>",
        "<tool_call>",
        "EMPTY",
        None,
        "unused",
        "<|im_end|>",
    ]
    tokenizer = FakeTokenizer(names, pad=0, unk=1, bos=2, mask=4)
    assert denied_tokens(tokenizer, vocabulary_size=20, legal=[3]) == {
        0: Denial.PADDING,
        1: Denial.UNKNOWN,
        2: Denial.OPENING,
        4: Denial.MASK,
        7: Denial.RESERVED,
        8: Denial.RESERVED,
        9: Denial.RESERVED,
        10: Denial.RESERVED,
        13: Denial.UNDECODABLE,
        14: Denial.UNDECODABLE,
        17: Denial.BEYOND_TOKENIZER,
        18: Denial.BEYOND_TOKENIZER,
        19: Denial.BEYOND_TOKENIZER,
    }


@pytest.mark.parametrize("role", ["pad", "unk", "bos"])
def test_what_ends_a_text_is_free_whatever_else_it_is(role: str) -> None:
    tokenizer = FakeTokenizer(["<end>", "a"], **{role: 0})
    assert denied_tokens(tokenizer, legal=[0]) == {}
    assert list(denied_tokens(tokenizer)) == [0]


def test_without_a_size_the_tokenizer_s_own() -> None:
    assert denied_tokens(FakeTokenizer(["a", "b"])) == {}
