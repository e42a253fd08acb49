"""`sluice calibrate`: the checks' thresholds from labelled texts."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

import click
from msgspec import Struct

from ..guards.checks.thresholds import CALIBRATED, Calibrated, profile_names, read_tables
from ..worker.config import Config
from . import console
from .calibration import Aim, Table, calibrate
from .calibration_report import as_json, report, warnings
from .calibration_run import all_samples
from .calibration_toml import document
from .labelled_files import read_checks, read_labelled, writable
from .settings import ByTopic, option_flags

_SETTINGS = ("scoring_model", "embedding_model", "check_batch", "check_threads")


class Rate(click.ParamType[float]):
    """A share above 0 and at most half, as `0.1%` or `0.001`."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The share."""
        text = str(value).strip()
        try:
            rate = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            rate = 0.0
        if not 0 < rate <= 0.5:
            self.fail(f"{value!r} is no rate from 0 to 50%, such as 0.1% or 0.001", param, ctx)
        return rate


class Share(click.ParamType[float]):
    """A number above 0 and at most 1."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The share. NaN is none, which comparing the other way round would let pass."""
        try:
            share = float(value)
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            self.fail(f"{value!r} is no share above 0 and up to 1, such as 0.75", param, ctx)
        return share


class Only(click.ParamType[tuple[Calibrated, ...]]):
    """Checks or thresholds, with commas between them."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Calibrated, ...]:
        """What is calibrated of them, in the usual order."""
        names = {name.strip() for name in str(value).split(",") if name.strip()}
        known = {each.check for each in CALIBRATED} | {each.key for each in CALIBRATED}
        if not names or not names <= known:
            wrong = ", ".join(sorted(names - known)) or "nothing"
            self.fail(f"{wrong}: there are {', '.join(sorted(known))}", param, ctx)
        return tuple(each for each in CALIBRATED if {each.check, each.key} & names)


class _Options(Struct, frozen=True, kw_only=True):
    """What was said on the command line."""

    out: Path | None
    force: bool
    rate: float
    margin: bool
    coherence_share: float | None
    least: int
    only: tuple[Calibrated, ...] | None
    scores_file: Path | None
    checks: TextIO | None
    default_profile: str
    full: bool
    as_object: bool


@click.command(name="calibrate", cls=ByTopic)
@click.argument("files", type=click.File("rb"), nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the thresholds to this TOML file. Without it they are only shown.",
)
@click.option("--force", is_flag=True, help="Replace that file if it is there and has thresholds.")
@click.option(
    "--fpr",
    "rate",
    type=Rate(),
    default="0.1%",
    show_default=True,
    help="Of good texts that are still to come, how many all thresholds together may reject. At "
    "the worst of N good texts T thresholds reject about T/N: ten reject 3.3% with 300, 1% with "
    "1,000, 0.33% with 3,000, and 0.1% with 10,000. Where N is too small, a margin is left beyond "
    "the worst.",
)
@click.option(
    "--margin/--no-margin",
    default=True,
    show_default=True,
    help="Whether a margin is left beyond the worst good text where they are too few for the rate.",
)
@click.option(
    "--coherence-share",
    type=Share(),
    help="Set coherence_min to this share of the mean of good text, such as 0.75, in place of the "
    "rate.",
)
@click.option(
    "--least",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="Good texts that it takes to set a threshold. A profile with fewer has those of [base], "
    "[base] with fewer those of the installation.",
)
@click.option("--only", type=Only(), help="Checks, or thresholds, to set: perplexity,relevance_min")
@click.option(
    "--scores",
    "scores_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the scores in this file: another rate then takes no time, and a run that was "
    "interrupted goes on.",
)
@click.option(
    "--checks",
    type=click.File(encoding="utf-8"),
    help="A deployment's own thresholds, in force for what is not calibrated.",
)
@click.option(
    "--profile",
    "default_profile",
    type=click.Choice(profile_names()),
    default="chat",
    show_default=True,
    help="The profile of lines that name none.",
)
@click.option("--full", is_flag=True, help="Show classes and distributions of each profile.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object.")
@option_flags(*_SETTINGS)
def command(config: Config, files: Sequence[BinaryIO], **said: Any) -> None:
    """Set the thresholds of the checks by the labelled texts of FILE, for `sluice checker
    --checks-file`.

    A line is as `sluice evaluate` reads it, with "rules" and "finish_reason" where they are known;
    `sluice dlq export` writes such lines. The good texts set the thresholds, for each profile that
    has enough of them, the bad ones show what is found with them. Printed are the thresholds, the
    recall by class, and the distributions of the scores; and a warning where there are too few
    texts for what is wanted.

    \b
    Examples:
      sluice calibrate labelled.jsonl -o thresholds.toml --scores scores.jsonl
      sluice calibrate good.jsonl rejected.jsonl --fpr 0.5% --only perplexity,coherence
      sluice evaluate other.jsonl --heavy --checks thresholds.toml
    """
    options = _Options(**said)
    out, force = options.out, options.force
    if out is not None and (problem := writable(out, force=force)):
        _refuse(problem)
    deployment = read_checks(options.checks)
    lines = read_labelled(files)
    if not any(line.label == "good" for line in lines):
        _refuse("no line is a good text, and it is these that thresholds are set by")
    aim = Aim(
        rate=options.rate,
        margin=options.margin,
        least=options.least,
        coherence_share=options.coherence_share,
        wanted=options.only or CALIBRATED,
    )
    samples, model = all_samples(
        lines,
        config,
        default_profile=options.default_profile,
        deployment=deployment,
        scores_file=options.scores_file,
    )
    tables = calibrate(samples, aim, deployment)
    if options.as_object:
        console.print_json({"scoring_model": model, **as_json(tables, aim)})
    else:
        _print(tables, aim, full=options.full)
    text = document(tables, aim, scoring_model=model)
    if not read_tables(text):
        console.error("the texts set no threshold: the warnings say why")
        click.get_current_context().exit(console.FAILED)
    if out is not None:
        _write(out, text, force=force)


def _refuse(problem: str) -> NoReturn:
    console.error(problem)
    click.get_current_context().exit(console.USAGE)


def _print(tables: Sequence[Table], aim: Aim, *, full: bool) -> None:
    width = shutil.get_terminal_size((100, 24)).columns
    for line in report(tables, console.table, width=width, full=full):
        click.echo(line)
    for warning in warnings(tables, aim):
        console.warning(warning)


def _write(path: Path, text: str, *, force: bool) -> None:
    """The whole file or none."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        # It may have come while the texts were scored.
        if problem := writable(path, force=force):
            _refuse(problem)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
    click.echo(f"Written: {path}", err=True)
