"""A job's text as it comes: the answer to standard output, the reasoning to standard error."""

import sys
from collections.abc import Callable
from typing import TextIO

import click

from ..producer import Delta
from ..schemas.lineage import Channel

# Text as it may go to a stream, which may be a terminal.
Printable = Callable[[str, TextIO], str]


class StreamedText:
    """Prints deltas. Whoever reads standard output reads the answer alone; on a terminal, where
    both streams meet, the reasoning is dim and has a head line.

    `answer` is what was printed of the answer. An attempt begun anew begins anew.
    """

    def __init__(self, printable: Printable) -> None:
        self._printable = printable
        self._seen: dict[Channel, str] = {"reasoning": "", "content": ""}
        self._at: Channel | None = None

    @property
    def answer(self) -> str:
        """What was printed of the answer, as far as it stands."""
        return self._seen["content"]

    @property
    def begun(self) -> bool:
        """Whether anything was printed."""
        return any(self._seen.values())

    def show(self, delta: Delta) -> None:
        """Print one more piece, in its place."""
        if delta.offset < len(self._seen[delta.channel]):
            self._begin_anew(delta)
        if delta.channel != self._at:
            self._turn_to(delta.channel)
        self._seen[delta.channel] += delta.text
        if delta.channel == "reasoning":
            text = self._printable(delta.text, sys.stderr)
            click.secho(text, nl=False, err=True, dim=True)
        else:
            click.echo(self._printable(delta.text, sys.stdout), nl=False)

    def end_reasoning(self) -> None:
        """Leave the line of the reasoning: what follows is something else."""
        if self._at == "reasoning":
            click.echo(err=True)
        self._at = None

    def _turn_to(self, channel: Channel) -> None:
        self.end_reasoning()
        if channel == "reasoning":
            click.secho("[reasoning]", err=True, dim=True)
        elif self._seen["reasoning"]:
            click.secho("[answer]", err=True, dim=True)
        self._at = channel

    def _begin_anew(self, delta: Delta) -> None:
        if self._at == "content":
            click.echo(err=True)
        self.end_reasoning()
        click.echo("[the attempt was begun anew]", err=True)
        kept = self._seen[delta.channel][: delta.offset]
        self._seen = {"reasoning": "", "content": ""}
        self._seen[delta.channel] = kept
