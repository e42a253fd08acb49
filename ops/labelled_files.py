"""What the commands on labelled texts share: reading them, and what judges whole texts."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO, TypeVar

import click

from ..guards.checks.thresholds import BadThresholds, read_tables
from ..worker.config import Config
from ..worker.scorers import make_scorer
from ..worker.scoring import Scorer, ScoringUnavailable
from . import console
from .evaluation import Labelled, parse
from .submit_progress import LINE_EVERY_S, line

_PROBLEMS_SHOWN: Final = 20

T = TypeVar("T")


def read_labelled(files: Sequence[BinaryIO]) -> list[Labelled]:
    """The texts of all files. Ends the command where one of them is no text, or there is none."""
    lines: list[Labelled] = []
    problems: list[str] = []
    for file in files:
        texts, wrong = parse(file)
        lines += texts
        where = f"{getattr(file, 'name', '-')}: " if len(files) > 1 else ""
        problems += [f"{where}{problem}" for problem in wrong]
    for problem in problems[:_PROBLEMS_SHOWN]:
        console.error(problem)
    if len(problems) > _PROBLEMS_SHOWN:
        console.error(f"and {len(problems) - _PROBLEMS_SHOWN} lines more")
    if not problems and not lines:
        console.error("there is nothing to evaluate: no line has a text")
    if problems or not lines:
        click.get_current_context().exit(console.USAGE)
    return lines


def read_checks(file: TextIO | None) -> dict[str, dict[str, Any]]:
    """A deployment's thresholds of the checks. Ends the command where they are none."""
    if file is None:
        return {}
    try:
        return read_tables(file.read())
    except (BadThresholds, UnicodeDecodeError) as error:
        console.error(f"{file.name}: {error}")
        click.get_current_context().exit(console.USAGE)


def open_scorer(config: Config) -> Scorer:
    """The scoring model, loaded; the embedded one where none is set. Raises CannotStart."""
    from .cmd_checker import with_scoring_model  # noqa: PLC0415  only these commands need it

    try:
        return make_scorer(with_scoring_model(config))
    except ScoringUnavailable as error:
        raise console.CannotStart(str(error)) from error


def in_batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of so many, in order; the last may be shorter."""
    batch: list[T] = []
    for value in values:
        batch.append(value)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


class BatchProgress:
    """How far the batches are: a bar on a terminal, a line now and then elsewhere."""

    def __init__(
        self,
        total: int,
        done: int,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._done = self._at_start = done
        self._failed = 0
        self._stream = stream
        self._terminal = stream.isatty()
        self._clock = clock
        self._began = self._shown = clock()

    def batch(self, count: int, *, failed: int = 0) -> None:
        """So many more are done."""
        self._done += count
        self._failed += failed
        now = self._clock()
        if not self._terminal and now - self._shown < LINE_EVERY_S:
            return
        self._shown = now
        text = line(
            self._done,
            self._total,
            failed=self._failed,
            fresh=self._done - self._at_start,
            elapsed_s=now - self._began,
            bar=self._terminal,
        )
        begin, end = ("\r\x1b[K", "") if self._terminal else ("", "\n")
        print(f"{begin}{text}", end=end, file=self._stream, flush=True)

    def end(self) -> None:
        """Leave the terminal clean."""
        if self._terminal:
            print("\r\x1b[K", end="", file=self._stream, flush=True)


def writable(path: Path, *, force: bool) -> str | None:
    """Why thresholds are not to be written there; None where they may be."""
    if path.is_dir():
        return f"{path} is a folder"
    if not path.parent.is_dir():
        return f"{path.parent} is no folder"
    if path.exists() and not force:
        return f"{path} is there already; --force replaces it"
    if path.exists():
        try:
            read_tables(path.read_text(encoding="utf-8"))
        except (BadThresholds, UnicodeDecodeError):
            # It is the texts, or whatever else a slip of the hand names.
            return f"{path} is no file of thresholds, and --force replaces only such"
    return None
