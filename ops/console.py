"""What every command says to a terminal: results on stdout, errors on stderr, one table of exit
codes, and never a password."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from ..schemas.errors import SluiceError
from .plain_text import escaped, plain
from .redaction import redact

OK: Final = 0
FAILED: Final = 1  # the work failed, or a difference was found
USAGE: Final = 2  # bad arguments, settings or input
CANNOT_START: Final = 3  # broker unreachable, topology missing, model not found ...


class CannotStart(SluiceError):
    """A service, or a command, lacks something it needs to begin; the message says what."""


def error(text: str) -> None:
    """Say on stderr what went wrong; the text itself says what to do."""
    click.echo(f"Error: {plain(redact(text))}", err=True)


def warning(text: str) -> None:
    """Say on stderr what may surprise later."""
    click.echo(f"Warning: {plain(redact(text))}", err=True)


def print_json(value: Any) -> None:
    """Machine output, alone on stdout."""
    click.echo(escaped(msgspec.json.format(msgspec.json.encode(value), indent=2)))


def table(rows: Iterable[Sequence[str]], *, indent: str = "") -> Iterator[str]:
    """Lines with the columns aligned; the last column is as long as it likes."""
    lines = [list(row) for row in rows]
    columns = max((len(line) for line in lines), default=0)
    widths = [
        max((len(line[column]) for line in lines if column < len(line) - 1), default=0)
        for column in range(columns)
    ]
    for line in lines:
        *fixed, last = line
        cells = [cell.ljust(width) for cell, width in zip(fixed, widths, strict=False)]
        yield (indent + "  ".join([*cells, last])).rstrip()
