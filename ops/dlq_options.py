"""The flags that pick dead letters, and the passes over the queue that the commands share."""

import difflib
import functools
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import aclosing, contextmanager
from typing import Any, Final, TypeVar

import click

from ..schemas import Reason
from ..schemas.topology import LANES
from ..worker.config import Config
from . import console
from .dlq_advice import BROKER_REASONS, UNDECODABLE, UNKNOWN
from .dlq_filter import Duration, Filter, KeyValue
from .dlq_letter import Letter
from .plain_text import one_line

R = TypeVar("R")
_WIDEST: Final = 120
_REASONS: Final = (*map(str, Reason), *BROKER_REASONS, UNDECODABLE, UNKNOWN)
_EVERY_S: Final = 0.5
# Where nobody watches a line that changes: in a log, say.
_EVERY_LOGGED_S: Final = 5.0


def filter_options(*, changes: bool = False) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command the flags of a `Filter`, and call it with `wanted`. Where a command `changes`
    letters, --profile and --lane say to what; everywhere --of-profile and --of-lane pick."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def filtered(**values: Any) -> R:
            for said in values["reason"]:
                _hint(said)
            wanted = Filter(
                reasons=values.pop("reason"),
                gates=(*values.pop("gate"), *values.pop("check")),
                flaws=values.pop("flaw"),
                workers=values.pop("worker"),
                profiles=values.pop("of_profile"),
                lane=values.pop("of_lane"),
                jobs=values.pop("job"),
                metadata=values.pop("metadata"),
                older_than_s=values.pop("older_than"),
                newer_than_s=values.pop("newer_than"),
            )
            return function(wanted=wanted, **values)

        decorated: Callable[..., R] = filtered
        for option in reversed(_filters(changes=changes)):
            decorated = option(decorated)
        return decorated

    return decorate


def _hint(said: str) -> None:
    """Say what was probably meant. A newer side may have codes that this one does not know."""
    if said in _REASONS or any(char in said for char in "*?["):
        return
    near = difflib.get_close_matches(said, _REASONS, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    console.warning(f"{one_line(said, 64)!r} is no reason that is known here{meant}")


def _several(metavar: str, text: str, *flags: str) -> Any:
    return click.option(*flags, metavar=metavar, multiple=True, help=text)


def _filters(*, changes: bool) -> list[Any]:
    profile = ["of_profile", "--of-profile", *([] if changes else ["--profile"])]
    lane = ["of_lane", "--of-lane", *([] if changes else ["--lane"])]
    return [
        _several("CODE", "Only with this reason; `*` fits anything. Repeatable.", "--reason"),
        _several("NAME", "Only where this gate was not content. Repeatable, with `*`.", "--gate"),
        _several("NAME", "Only where this check was not content. Repeatable, with `*`.", "--check"),
        _several("NAME", "Only where this was found. Repeatable, with `*`.", "--flaw"),
        _several("NAME", "Only where this worker had it. Repeatable, with `*`.", "--worker"),
        _several("NAME", "Only of this profile. Repeatable.", *profile),
        click.option(*lane, type=click.Choice(LANES), help="Only of this lane."),
        _several("ID", "Only of this job. Repeatable.", "--job"),
        click.option(
            "--metadata",
            metavar="KEY=VALUE",
            type=KeyValue(),
            multiple=True,
            help="Only where the job's metadata say this. Repeatable: all must fit.",
        ),
        click.option(
            "--older-than", metavar="AGE", type=Duration(), help="Only older than 30m, 2h, 3d ..."
        ),
        click.option("--newer-than", metavar="AGE", type=Duration(), help="Only newer than that."),
    ]


class Progress:
    """How far a pass is, on standard error: a line that changes, on a terminal; elsewhere one now
    and then. Short passes say nothing."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what = what
        self._total = f" of {total}" if total is not None else ""
        self._watched = sys.stderr.isatty()
        self._last = time.monotonic()
        self._shown = False
        self.done = 0

    def __call__(self, done: int) -> None:
        """So many are done."""
        self.done = done
        now = time.monotonic()
        if now - self._last < (_EVERY_S if self._watched else _EVERY_LOGGED_S):
            return
        self._last, self._shown = now, True
        text = f"{self._what} {done}{self._total}"
        click.echo(f"\r{text}" if self._watched else text, nl=not self._watched, err=True)

    @contextmanager
    def shown(self) -> Generator["Progress"]:
        """Inside, it may be shown; at the end its line is taken away."""
        try:
            yield self
        finally:
            if self._shown and self._watched:
                click.echo("\r\x1b[K", nl=False, err=True)


async def each_letter(config: Config, visit: Callable[[Letter], bool | None]) -> int:
    """Show every dead letter to `visit`, the oldest first, until it returns True; and put all of
    them back. Gives how many lie there. Errors as `looking`."""
    # It pulls in the broker's client, which `--help` doesn't need.
    from .dlq_queue import looking  # noqa: PLC0415

    async with looking(config) as look:
        with Progress("looked at", look.total).shown() as progress:
            async with aclosing(look.letters()) as letters:
                async for dead in letters:
                    if visit(dead.letter):
                        break
                    progress(dead.letter.head.position + 1)
        return look.total


def colour_wanted() -> bool:
    """Whether standard output is a terminal that may be coloured (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def terminal_width() -> int:
    """Columns to write in."""
    return min(_WIDEST, shutil.get_terminal_size().columns)
