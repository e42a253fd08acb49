"""`sluice evaluate`: the gates against labelled texts, and the checks of whole texts."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final, NoReturn, TextIO

import click
from msgspec import Struct

from ..guards.checks.thresholds import profile_names as check_profiles
from ..guards.checks.thresholds import thresholds as check_thresholds
from ..guards.coherence import Acting
from ..guards.pipeline import streaming_gates
from ..guards.profiles import BadProfile, Profile, profile, profile_names, read_tables
from ..schemas.reasoning import Effort
from . import console
from .effort_option import EFFORTS, EffortType
from .embedded_model import resolve_model
from .evaluation import Judged, Labelled, judge, mistakes, report, summary
from .evaluation_reasoning import Cut, cuts_report, cuts_summary, guard, inside, judge_reasoning
from .heavy import (
    Clock,
    Examined,
    Noting,
    Waiting,
    examine,
    heavy_mistakes,
    heavy_report,
    heavy_summary,
)
from .labelled_files import BatchProgress, in_batches, open_scorer, read_checks, read_labelled
from .plain_text import plain
from .settings import load

_EVERY_S: Final = 0.5
# Where a line names no profile and nobody said another.
_DEFAULT: Final = "chat"


class _Options(Struct, frozen=True, kw_only=True):
    """What was said on the command line."""

    default_profile: str
    ignore_profiles: bool
    gates: TextIO | None
    tokenizer: str | None
    channel: str
    effort: Effort | None
    heavy: bool
    checks: TextIO | None
    scoring_model: str | None
    show: bool
    as_json: bool


@click.command(name="evaluate")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--profile",
    "default_profile",
    type=click.Choice(profile_names()),
    default=_DEFAULT,
    show_default=True,
    help="The profile of lines that name none.",
)
@click.option("--ignore-profiles", is_flag=True, help="Judge every line as if it named no profile.")
@click.option(
    "--gates",
    type=click.File(encoding="utf-8"),
    help="A deployment's own thresholds: a TOML file with a table for each profile it changes.",
)
@click.option(
    "--tokenizer",
    metavar="MODEL",
    help="Whose tokens the texts are streamed in: a folder or hub name. Without it SLUICE_MODEL, "
    "else the embedded model.",
)
@click.option(
    "--channel",
    type=click.Choice(("content", "reasoning")),
    default="content",
    show_default=True,
    help="Whether the texts are answers, or what a model thought before them.",
)
@click.option(
    "--effort",
    metavar=EFFORTS,
    type=EffortType(),
    help="With --channel reasoning: how many tokens may be thought. Without it there is no cap, "
    "and only repetition counts.",
)
@click.option(
    "--heavy",
    is_flag=True,
    help="Have what the gates let pass judged by the checks of whole texts as well.",
)
@click.option(
    "--checks",
    type=click.File(encoding="utf-8"),
    help="With --heavy: a deployment's own thresholds of the checks, as `sluice calibrate` writes "
    "them.",
)
@click.option(
    "--scoring-model",
    metavar="MODEL",
    help="With --heavy: the model that scores texts, a folder or hub name. Without it "
    "SLUICE_SCORING_MODEL, else the embedded model.",
)
@click.option("--show", is_flag=True, help="List what was missed and what was a false alarm.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(file: BinaryIO, **said: Any) -> None:
    """Judge the labelled texts of FILE as if a model produced them, token by token.

    FILE has one JSON object a line: {"id", "text", "label": "good" or "bad", "class"?, "profile"?,
    "prompt"?, "token_ids"?, "onset"?, "rules"?, "finish_reason"?, "tokens"?, "unit"?}; `-` is
    standard input. A text that runs to its end is then judged as a whole. Printed by class and
    overall: how many of the bad texts are found (recall), how many of the good ones are harmed,
    where, how long after the onset, and by which gate. With --heavy a second table follows: what
    the checks of whole texts find, and harm, of what the gates let pass.

    With --channel reasoning the texts are what was thought, with or without <think> and </think>
    around it: they are streamed through the reasoning guard, nothing is judged as a whole, and a
    second table says how soon loops are found, what a cut saves, and what it costs.

    \b
    Examples:
      sluice evaluate labelled.jsonl --show
      sluice evaluate labelled.jsonl --ignore-profiles --gates mine.toml
      sluice evaluate labelled.jsonl --heavy --checks thresholds.toml
      sluice evaluate traces.jsonl --channel reasoning --effort medium --show
      sluice evaluate - --profile code --json < labelled.jsonl | jq .recall
    """
    options = _Options(**said)
    for flag in ("checks", "scoring_model"):
        if getattr(options, flag) is not None and not options.heavy:
            _refuse(f"--{flag.replace('_', '-')} is for --heavy, which was not given")
    if options.effort is not None and options.channel != "reasoning":
        _refuse("--effort is for --channel reasoning, which was not given")
    if options.heavy and options.channel == "reasoning":
        _refuse("--heavy judges answers as a whole; there is no such check of --channel reasoning")
    lines = read_labelled([file])
    gates = _Gates(options, ids_given=any(line.token_ids is not None for line in lines))
    if options.heavy:
        _heavy(lines, gates, options)
        return
    if options.channel == "reasoning":
        _reasoning(lines, gates, options)
        return
    done = [gates.judge(line).judged for line in _with_progress(lines)]
    result = {"profile": options.default_profile, "tokenizer": gates.tokenizer, **summary(done)}
    _printed(result, done, options)


def _printed(result: dict[str, Any], done: Sequence[Judged], options: _Options) -> bool:
    """Print the result; whether that was as JSON."""
    missed = list(mistakes(done)) if options.show else []
    if options.as_json:
        console.print_json({**result, "mistakes": missed} if options.show else result)
        return True
    _print_mistakes(missed, show=options.show)
    for row in report(result, console.table):
        click.echo(row)
    return False


class _Gates:
    """The gates as the options would have them."""

    def __init__(self, options: _Options, *, ids_given: bool) -> None:
        from ..worker.model_tokenizer import load_tokenizer  # noqa: PLC0415  not for `--help`

        self._options = options
        self._deployment = _thresholds(options.gates)
        self._loaded = load_tokenizer(resolve_model(options.tokenizer))
        # Ordinary text has no special tokens: what is denied matters only where ids are given.
        self._denied = self._loaded.denied() if ids_given else {}

    @property
    def tokenizer(self) -> str:
        """Its name."""
        return self._loaded.name

    def judge(self, line: Labelled) -> Waiting:
        """Stream one text."""
        name, thresholds = self._profile(line)
        noting = Noting(
            streaming_gates(
                thresholds, vocabulary_size=len(self._loaded.tokenizer), denied=self._denied
            )
        )
        acting = Acting(
            noting, findings=thresholds.coherence_findings, span=thresholds.coherence_span
        )
        ids = self._loaded.encode(line.text) if line.token_ids is None else line.token_ids
        judged = judge(line, self._loaded.steps(ids), acting.feed, thresholds)
        return Waiting(judged, name, noting.notes())

    def judge_reasoning(self, line: Labelled) -> Cut:
        """Stream one trace."""
        line = inside(line)
        _, thresholds = self._profile(line)
        ids = self._loaded.encode(line.text) if line.token_ids is None else line.token_ids
        gate = guard(thresholds, self._options.effort)
        return judge_reasoning(line, list(self._loaded.steps(ids)), gate)

    def _profile(self, line: Labelled) -> tuple[str, Profile]:
        named = None if self._options.ignore_profiles else line.profile
        name = named or self._options.default_profile
        return name, profile(name, deployment=self._deployment)


def _reasoning(lines: Sequence[Labelled], gates: _Gates, options: _Options) -> None:
    cuts = [gates.judge_reasoning(line) for line in _with_progress(lines)]
    done = [cut.judged for cut in cuts]
    reasoning = cuts_summary(cuts)
    result = {
        "channel": options.channel,
        "effort": options.effort,
        "profile": options.default_profile,
        "tokenizer": gates.tokenizer,
        **summary(done),
        "reasoning": reasoning,
    }
    if _printed(result, done, options):
        return
    click.echo()
    for row in cuts_report(reasoning, console.table):
        click.echo(row)


def _heavy(lines: Sequence[Labelled], gates: _Gates, options: _Options) -> None:
    tables = read_checks(options.checks)
    said = {} if options.scoring_model is None else {"scoring_model": options.scoring_model}
    config = load(
        config_file=click.get_current_context().find_root().params.get("config_file"), flags=said
    )
    rules = {name: check_thresholds(name, deployment=tables) for name in check_profiles()}
    scorer = open_scorer(config)
    progress = BatchProgress(len(lines), 0, sys.stderr)
    clock = Clock()
    done: list[Examined] = []
    try:
        for batch in in_batches(map(gates.judge, lines), config.check_batch):
            done += clock.timed(lambda some: examine(some, rules, scorer), batch)
            progress.batch(len(batch))
    finally:
        progress.end()
        scorer.close()
    heavy = heavy_summary(done, clock, model=scorer.name)
    result = {
        "profile": options.default_profile,
        "tokenizer": gates.tokenizer,
        **summary([each.judged for each in done]),
        "heavy": heavy,
    }
    missed = list(heavy_mistakes(done)) if options.show else []
    if options.as_json:
        console.print_json({**result, "mistakes": missed} if options.show else result)
        return
    _print_mistakes(missed, show=options.show)
    for row in report(result, console.table):
        click.echo(row)
    click.echo("\nGates and checks together:\n")
    for row in heavy_report(heavy, console.table):
        click.echo(row)


def _print_mistakes(missed: Sequence[dict[str, Any]], *, show: bool) -> None:
    for one in missed:
        about = f": {one['flaw']} ({one['detail']})" if one["flaw"] else ""
        said = f"{one['mistake']}  {one['id']}  {one['class']}{about}\n    {one['text']}"
        click.echo(plain(said))
    if show:
        click.echo()


def _refuse(problem: str) -> NoReturn:
    console.error(problem)
    click.get_current_context().exit(console.USAGE)


def _thresholds(gates: TextIO | None) -> dict[str, dict[str, Any]]:
    if gates is None:
        return {}
    try:
        tables = read_tables(gates.read())
    except (BadProfile, UnicodeDecodeError) as error:
        _refuse(f"{gates.name}: {error}")
    return tables


def _with_progress(lines: Sequence[Labelled]) -> Iterator[Labelled]:
    """The lines; on a terminal it is shown how far they are."""
    shown = sys.stderr.isatty()
    last = time.monotonic()
    for number, line in enumerate(lines):
        if shown and time.monotonic() - last > _EVERY_S:
            last = time.monotonic()
            click.echo(f"\r{number} of {len(lines)} texts", nl=False, err=True)
        yield line
    if shown:
        click.echo("\r\x1b[K", nl=False, err=True)
