"""What sluicegate is worth: the same jobs and faults with it and without, on the real engine.

`python -m tests.proof --help` from the root of the checkout, or `make proof`.
"""

import asyncio
import sys
import time
from pathlib import Path

import click
import msgspec
from sluicegate.ops.console import print_json

from .claims import claim, saving
from .pages import cases, headline, side_by_side, write
from .run import Options, plans, run, shown

ROOT = Path(__file__).parents[2]
COMMAND = "make proof"


@click.command()
@click.option("--jobs", default=1_000, show_default=True, help="Of the headline, both halves.")
@click.option("--fault-rate", default=0.005, show_default=True, help="Of the headline.")
@click.option(
    "--side-jobs", default=120, show_default=True, help="For each contender side by side; 0: none."
)
@click.option("--side-rate", default=0.2, show_default=True, help="Their rate of faults.")
@click.option("--seed", default=1, show_default=True, help="Of prompts, faults and texts.")
@click.option("--concurrency", default=8, show_default=True, help="Jobs at once.")
@click.option("--batch", default=25, show_default=True, help="Jobs of one turn.")
@click.option("--minutes", default=40.0, show_default=True, help="Begin no batch after so long.")
@click.option("--compiled", is_flag=True, help="Compile the model: minutes first, faster then.")
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=ROOT / "build" / "proof",
    show_default="build/proof",
    help="Where each turn is kept: a run that was cut off goes on from there.",
)
@click.option("--fresh", is_flag=True, help="Forget what is there.")
@click.option("--show", is_flag=True, help="Run nothing: what is there already.")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON, for programs.")
@click.option(
    "--write-pages", is_flag=True, help="Put the tables into README.md and docs/proof.md."
)
def main(  # noqa: PLR0917 - one for each option
    jobs: int,
    fault_rate: float,
    side_jobs: int,
    side_rate: float,
    seed: int,
    concurrency: int,
    batch: int,
    minutes: float,
    compiled: bool,
    folder: Path,
    fresh: bool,
    show: bool,
    as_json: bool,
    write_pages: bool,
) -> None:
    """Run the same jobs, seeds and faults with sluicegate and without, in turns on one engine, and
    count what is delivered: by what the engine was made to say, never by what a gate found.

    The headline has few faults, as in production; the other part has many, and puts beside
    sluicegate what vLLM has by itself, a judge at the end, and llmq where it is installed. Takes
    about a quarter of an hour on two cores. Exit status 1: an aim was missed.
    """
    began = time.monotonic()

    def say(line: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - began:6.1f} s] {line}\n")
        sys.stderr.flush()

    if fresh and not show:
        for old in folder.glob("*.jsonl"):
            old.unlink()
    options = Options(
        plans=plans(jobs, fault_rate, side_jobs, side_rate),
        seed=seed,
        concurrency=concurrency,
        batch=batch,
        minutes=minutes,
        folder=folder,
        compiled=compiled,
    )
    parts = shown(folder) if show else asyncio.run(run(options, say))
    if not parts:
        raise click.UsageError(f"there is nothing in {folder}")
    claimed = claim(parts[0], parts)
    if as_json:
        saved = [saving(each) for each in parts]
        print_json({"parts": parts, "claim": claimed, "saving": saved})
    else:
        for line in (
            *headline(parts, COMMAND),
            "",
            *(line for each in parts[1:] for line in side_by_side(each)),
            "",
            *cases(parts),
        ):
            click.echo(line)
    if write_pages:
        write(ROOT / "README.md", headline(parts, COMMAND))
        whole = [*headline(parts, COMMAND), ""]
        for each in parts[1:]:
            whole += [*side_by_side(each), ""]
        if looked := cases(parts):
            whole += ["Cases to look at:", "", *looked]
        write(ROOT / "docs" / "proof.md", whole)
        (folder / "figures.json").write_bytes(msgspec.json.encode(parts))
    missed = claimed is None or claimed.invalid > 0 or claimed.touched > 0
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
