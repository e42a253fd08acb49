"""What the backend of a run wrote down, line by line: what it tried to publish, what became of it,
and each result that it took. Written before anything follows from it, so it outlives a kill."""

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

# "try": it is about to be published. "stored": the broker confirmed it. "refused": it is surely not
# stored. "unknown": it may be. "result": its result was taken.
What = Literal["try", "stored", "refused", "unknown", "result"]


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event, `at` so many seconds of the machine's monotonic clock."""

    at: float
    what: What
    job: str
    attempt: int = 0
    outcome: str = ""
    detail: str = ""


class Journal:
    """Appends lines to a file."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)

    def write(self, line: Line) -> None:
        """One line, in one write."""
        self._file.write(msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        """It is on the file already."""
        self._file.close()


class Reader:
    """Reads a journal as it grows."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._offset = 0

    def new(self) -> list[Line]:
        """The lines since the last time. Half a line, of one who was killed, is none."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text.rpartition(b"\n")[0]
        self._offset += len(whole) + (b"\n" in text)
        return [_line(each) for each in whole.split(b"\n") if each]


def _line(text: bytes) -> Line:
    # Behind half a line of a killed process the next one begins on the same.
    return msgspec.json.decode(text[text.rindex(b'{"at"') :], type=Line)
