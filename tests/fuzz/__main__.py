"""Fuzz the codec for a while: `python -m tests.fuzz --minutes 5`.

With atheris (`pip install 'sluicegate[fuzz]'`) new inputs are led by what code they reach; without
it they are drawn.
"""

import importlib
import importlib.util
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from .examples import examples
from .hostile import changed
from .law import check


@click.command()
@click.option("--minutes", default=5.0, show_default=True, help="How long.")
@click.option("--seed", default=1, show_default=True, help="Of what is drawn.")
@click.option("--drawn", is_flag=True, help="Draw, although atheris is here.")
def main(minutes: float, seed: int, drawn: bool) -> None:
    """Feed the codec what nobody should send. Exit status 0: only clear refusals came out."""
    if not drawn and importlib.util.find_spec("atheris") is not None:
        guided(minutes, seed)
    sound = examples()
    draw = random.Random(seed)
    count = read = 0
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        kind, body = draw.choice(sound)
        hostile = changed(body, draw)
        try:
            read += check(hostile, kind)
        except BaseException:
            sys.stderr.write(f"{kind.__name__}: {hostile[:2_000]!r}\n")
            raise
        count += 1
    click.echo(f"{count:,} bodies, {read:,} of them could be read: only clear refusals")


def guided(minutes: float, seed: int) -> None:
    """By libFuzzer, which ends the process."""
    # Its functions have no types.
    atheris: Any = importlib.import_module("atheris")

    sound = examples()

    def once(data: bytes) -> None:
        for kind, _ in sound:
            check(data, kind)

    with TemporaryDirectory() as folder:
        for number, (_, body) in enumerate(sound):
            (Path(folder) / str(number)).write_bytes(body)
        arguments = [sys.argv[0], f"-max_total_time={int(60 * minutes)}", f"-seed={seed}", folder]
        atheris.instrument_all()
        atheris.Setup(arguments, once)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
