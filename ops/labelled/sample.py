"""A small sample of the set, to be kept: `python -m sluicegate.ops.labelled.sample FILE > OUT`."""

import random
import sys
from pathlib import Path
from typing import Final

import click
import msgspec

from .line import Line, rng

# Whose texts may be kept with one licence text beside them, and what is nobody's.
_SOURCES: Final = ("Django", "made.", "SmolLM2")
_GOOD, _BAD = 3, 5  # of each class
_AMONG: Final = 4


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--seed", default=1, show_default=True)
def command(file: Path, seed: int) -> None:
    """Print some lines of every class of FILE, a labelled set, that are short and whose sources are
    Django, the makers of this package or the embedded model."""
    lines = [msgspec.json.decode(line, type=Line) for line in file.read_bytes().splitlines()]
    for line in drawn(lines, rng(seed, "sample")):
        sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")


def drawn(lines: list[Line], draw: random.Random) -> list[Line]:
    """The sample, in the order of the set: of each class some of the short ones."""
    fitting: dict[str, list[Line]] = {}
    for line in lines:
        if (line.source or "").startswith(_SOURCES):
            fitting.setdefault(line.kind, []).append(line)
    chosen: set[str] = set()
    for kind, some in sorted(fitting.items()):
        most = 1 if kind.startswith("language:") else _GOOD if some[0].label == "good" else _BAD
        short = sorted(some, key=_size)[: max(_AMONG, len(some) // 2)]
        chosen |= {line.id for line in draw.sample(short, min(most, len(short)))}
    return [line for line in lines if line.id in chosen]


def _size(line: Line) -> int:
    return len(msgspec.json.encode(line))


if __name__ == "__main__":
    command()
