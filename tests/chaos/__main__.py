"""`python -m tests.chaos`: many jobs under faults, and a count of what became of them."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import click
import msgspec
from sluicegate.ops.console import CANNOT_START, FAILED
from sluicegate.schemas import SluiceError

from .report import render, troubles
from .run import Setup, run
from .site import Engine


@click.command(context_settings={"show_default": True})
@click.option("--jobs", type=click.IntRange(min=1), default=500, help="Jobs to publish.")
@click.option("--seed", type=int, default=1, help="Of the jobs, and of the faults' order.")
@click.option(
    "--engine",
    type=click.Choice(["scripted", "vllm"]),
    default="scripted",
    help="What generates: a script, or vLLM with the embedded model.",
)
@click.option("--minutes", type=float, default=8.0, help="Begin no further fault after.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the report here, as JSON.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep logs and journal here.")
def main(
    jobs: int, seed: int, engine: Engine, minutes: float, out: Path | None, folder: Path | None
) -> None:
    """Publish jobs while broker, network and services fail, and count as Jepsen does.

    Everything runs on a private broker. The exit code is 1 where a job was lost, doubled without a
    mark, or answered though nobody had published it; where a queue is not empty at the end; where
    a dead letter has no reason in its job; where a service holds more than before.

    \b
    Examples:
      python -m tests.chaos --jobs 500 --seed 7
      python -m tests.chaos --jobs 10000 --out report.json
      python -m tests.chaos --engine vllm --jobs 200
    """
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {text}", err=True)

    where = folder or Path(tempfile.mkdtemp(prefix="sluice-chaos-"))
    where.mkdir(parents=True, exist_ok=True)
    setup = Setup(jobs=jobs, seed=seed, engine=engine, minutes=minutes)
    try:
        report = asyncio.run(run(setup, where, say))
    except SluiceError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(CANNOT_START)
    if out is not None:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    for line in render(report):
        click.echo(line)
    for line in troubles(report):
        click.echo(f"Error: {line}", err=True)
    sys.exit(0 if report.ok else FAILED)


if __name__ == "__main__":
    main()
