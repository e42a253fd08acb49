"""The strings that open and close a model's reasoning, and how they are told from other text."""

from collections.abc import Callable, Container, Sequence

from msgspec import Struct


class Tags(Struct, frozen=True, kw_only=True):
    """A model's tags, as text and as token ids.

    `by_id`: they are made of special or added tokens, so ids tell them, and the same characters
    typed as ordinary text are no tag. Else their text does, in whatever tokens it comes.
    """

    start: str
    end: str
    start_ids: tuple[int, ...]
    end_ids: tuple[int, ...]
    by_id: bool = False

    def may_open(self, text: str, token_ids: Sequence[int]) -> bool:
        """Whether an output that began like this may still turn out to open a block. Blanks may
        stand before it. O(len(text) + len(token_ids)): for the first few tokens of an output."""
        said = text.lstrip()
        if self.by_id:
            begun = range(1, min(len(self.start_ids), len(token_ids) + 1))
            return not said or any(token_ids[-n:] == self.start_ids[:n] for n in begun)
        return self.start.startswith(said)

    def opened_by(self, token_ids: Sequence[int], text_of: Callable[[Sequence[int]], str]) -> bool:
        """Whether a prompt ends in an open block: the start tag, and nothing but blanks behind it.
        `text_of` decodes ids. O(1) in the length of the prompt."""
        tail = tuple(token_ids[-_TAIL:])
        if not self.by_id:
            return text_of(tail).rstrip().endswith(self.start.rstrip())
        size = len(self.start_ids)
        for at in range(len(tail) - size, -1, -1):
            if tail[at : at + size] == self.start_ids:
                return not text_of(tail[at + size :]).strip() and not _has(
                    tail[at + size :], self.end_ids
                )
        return False


# Tokens at the end of a prompt that may be the tag and the blanks behind it.
_TAIL = 64


def make_tags(
    start: str, end: str, encode: Callable[[str], Sequence[int]], added: Container[int]
) -> Tags:
    """`encode` gives a text's ids, special tokens as such; `added` are the ids that are no ordinary
    text. ValueError where a tag is blank or both are alike."""
    if not start.strip() or not end.strip() or start.strip() == end.strip():
        raise ValueError("the start and the end of reasoning must be two different texts")
    start_ids, end_ids = tuple(encode(start.strip())), tuple(encode(end.strip()))
    return Tags(
        start=start.strip(),
        end=end.strip(),
        start_ids=start_ids,
        end_ids=end_ids,
        by_id=any(token in added for token in start_ids)
        and any(token in added for token in end_ids),
    )


def _has(token_ids: Sequence[int], wanted: Sequence[int]) -> bool:
    size = len(wanted)
    return any(
        tuple(token_ids[at : at + size]) == tuple(wanted) for at in range(len(token_ids) - size + 1)
    )
