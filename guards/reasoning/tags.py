"""The strings that open and close a model's reasoning, and how they are told from other text."""

from collections.abc import Callable, Container, Sequence
from typing import Final

from msgspec import Struct

# What each of some ids adds to a text: nothing where it is a special token, or ends inside of a
# character.
Pieces = Callable[[Sequence[int]], Sequence[str]]
# Tokens at the end of a prompt that may be the tag and the blanks behind it.
_TAIL: Final = 64


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

    def opened_by(self, token_ids: Sequence[int], pieces_of: Pieces) -> bool:
        """Whether a prompt ends in an open block: the start tag, and nothing but blanks behind it.
        O(1) in the length of the prompt."""
        return self._ends_with(self.start, self.start_ids, token_ids, pieces_of)

    def closed_by(self, token_ids: Sequence[int], pieces_of: Pieces) -> bool:
        """Whether it ends with a block that is closed, as templates write one to say that nothing
        is to be thought."""
        return self._ends_with(self.end, self.end_ids, token_ids, pieces_of)

    def _ends_with(
        self, tag: str, tag_ids: tuple[int, ...], token_ids: Sequence[int], pieces_of: Pieces
    ) -> bool:
        tail = tuple(token_ids[-_TAIL:])
        if not self.by_id:
            return _last_message(pieces_of(tail)).rstrip().endswith(tag)
        size = len(tag_ids)
        for at in range(len(tail) - size, -1, -1):
            if tail[at : at + size] == tag_ids:
                return all(piece and not piece.strip() for piece in pieces_of(tail[at + size :]))
        return False

    def begun_at_end(self, text: str, token_ids: Sequence[int]) -> int:
        """How many characters (of text, told by that) or tokens (told by ids) at the end are the
        beginning of an end tag. A single character is none: it may be a sign of its own."""
        if self.by_id:
            most = min(len(self.end_ids) - 1, len(token_ids))
            begun = (n for n in range(most, 0, -1) if tuple(token_ids[-n:]) == self.end_ids[:n])
            return next(begun, 0)
        most = min(len(self.end) - 1, len(text))
        return next((n for n in range(most, 1, -1) if text.endswith(self.end[:n])), 0)


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


def _last_message(pieces: Sequence[str]) -> str:
    """What stands behind the last special token, which has no text. Half a character has none
    either, but the other half is next to it."""
    said = ""
    for piece in reversed(pieces):
        if not piece and (not said or said[0].isascii()):
            break
        said = piece + said
    return said
