"""The end of a text, kept as the pieces in which it came."""

from typing import Final

# Pieces without text cost a look too: no gate looks back over more steps than this.
_STEPS: Final = 1_000


class Tail:
    """Pieces by position. Looking back costs O(characters asked for); memory O(tokens)."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def last(self, characters: int) -> tuple[str, int]:
        """The end of the text, at least so long where there is as much, and the position of the
        token that it begins with."""
        pieces = self.pieces
        first = len(pieces)
        earliest = max(0, first - _STEPS)
        length = 0
        while first > earliest and length < characters:
            first -= 1
            length += len(pieces[first])
        return "".join(pieces[first:]), first

    def position(self, first: int, character: int) -> int:
        """The position of the token with a character, counted from the start of token `first`."""
        position = first
        while (character := character - len(self.pieces[position])) >= 0:
            position += 1
        return position
