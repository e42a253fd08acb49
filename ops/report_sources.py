"""Where a report's results and dead letters come from: lines of JSON, one at a time."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import msgspec
from msgspec import Struct

from ..schemas import GenerationResult, InvalidMessage, decode
from ..schemas.limits import MAX_CONTEXT_BYTES
from .dlq_letter import Letter, Properties, read_letter
from .report_figures import Gathering

if TYPE_CHECKING:
    from ..producer.sealing import OpeningKey

# A letter whole, in base64, and what stands around it.
MOST_LINE_BYTES: Final = 4 * MAX_CONTEXT_BYTES
_PROBLEMS_KEPT: Final = 5


class Problems:
    """Lines that could not be read: how many, and what was wrong with the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, text: str) -> None:
        """One more."""
        self.count += 1
        if len(self.first) < _PROBLEMS_KEPT:
            self.first.append(text)


class _Line(Struct):
    """A letter as `sluice dlq export --raw` writes it; of other lines `message` and `body` are not
    there."""

    message: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    body: bytes | msgspec.UnsetType = msgspec.UNSET
    message_id: str = ""
    message_type: str = ""
    position: int = 0
    reason: str = ""
    at: datetime | None = None


def read_results(
    file: BinaryIO, into: Gathering, problems: Problems, tick: Callable[[], None]
) -> int:
    """Results, a line each, as `sluice submit --out` and `sluice results --json` write them; how
    many there were."""
    count = 0
    for number, line in _lines(file, problems):
        try:
            into.result(decode(line, GenerationResult))
            count += 1
        except InvalidMessage as error:
            problems.add(f"{_name(file)}:{number}: no result: {error}")
        tick()
    return count


def read_dead(
    file: BinaryIO,
    into: Gathering,
    problems: Problems,
    tick: Callable[[], None],
    *,
    key: "OpeningKey | None" = None,
) -> int:
    """An export of dead letters, with --raw or without; how many lines there were. `key` opens
    those that are encrypted for it."""
    count = 0
    for number, line in _lines(file, problems):
        try:
            letter = msgspec.json.decode(line, type=_Line)
            if letter.message is msgspec.UNSET and letter.body is msgspec.UNSET:
                if not into.line(msgspec.json.decode(line, type=dict[str, Any])):
                    problems.add(f"{_name(file)}:{number}: neither a dead letter nor a text")
                    continue
            else:
                into.letter(_letter(letter, key))
            count += 1
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            problems.add(f"{_name(file)}:{number}: {error}")
        tick()
    return count


def _letter(line: _Line, key: "OpeningKey | None") -> Letter:
    body = line.body if isinstance(line.body, bytes) else bytes(cast("msgspec.Raw", line.message))
    properties = Properties(message_id=line.message_id, message_type=line.message_type)
    letter = read_letter(body, properties, line.position, key)
    # What the broker knew stands in the line alone.
    head = msgspec.structs.replace(
        letter.head, reason=line.reason or letter.head.reason, at=letter.head.at or line.at
    )
    return msgspec.structs.replace(letter, head=head)


def _lines(file: BinaryIO, problems: Problems) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers. Empty ones are none, and of one that is too long nothing stays."""
    number = 0
    while line := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > MOST_LINE_BYTES:
            problems.add(f"{_name(file)}:{number}: longer than {MOST_LINE_BYTES:,} bytes")
            while line and not line.endswith(b"\n"):
                line = file.readline(MOST_LINE_BYTES)
        elif line.strip():
            yield number, line


def _name(file: BinaryIO) -> str:
    return str(getattr(file, "name", "-"))
