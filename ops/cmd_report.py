"""`sluice report`: one HTML page about results, dead letters and a time span."""

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import click
import msgspec

from ..producer.connection import safe_url
from ..worker.config import Config
from . import console, report_page, report_prometheus
from .dlq_filter import Duration, utc_now
from .dlq_keys import opener
from .dlq_letter import Letter
from .dlq_options import Progress, each_letter
from .dlq_output import opened
from .plain_text import escaped
from .report_figures import Figures, Gathering, Span
from .report_sources import Problems, read_dead, read_results
from .settings import ByTopic, option_flags

_DEFAULT_SPAN: Final = timedelta(days=1)
_FILES = click.File("rb")


class When(click.ParamType[datetime]):
    """A time, or how long ago: `2031-05-02`, `2031-05-02T03:00`, `2h`, `3d`."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """The time with its offset, or click's own error about the flag."""
        if isinstance(value, datetime):
            return value
        said = str(value)
        if re.fullmatch(r"[\d.]+[smhdw]?", said):
            return utc_now() - timedelta(seconds=Duration().convert(said, param, ctx))
        try:
            return datetime.fromisoformat(said).astimezone()
        except (ValueError, OverflowError):
            self.fail(
                f"{said!r} is no time: say 2031-05-02, 2031-05-02T03:00 (local, or with an offset),"
                " or how long ago: 2h, 3d.",
                param,
                ctx,
            )


@click.command(name="report", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s", "dlq_key_file")
@click.option(
    "--dead",
    type=_FILES,
    multiple=True,
    metavar="FILE",
    help="Dead letters as `sluice dlq export --raw` writes them; without --raw there are their "
    "texts alone. Repeatable; `-` is standard input.",
)
@click.option(
    "--results",
    type=_FILES,
    multiple=True,
    metavar="FILE",
    help="Results as `sluice submit --out` and `sluice results --json` write them. Repeatable.",
)
@click.option(
    "--queue/--no-queue",
    "queue",
    default=None,
    help="Look at the queue of dead letters, and leave it as it is. [default: where no --dead and "
    "no --results is given]",
)
@click.option(
    "--prometheus",
    metavar="URL",
    envvar="SLUICE_PROMETHEUS_URL",
    help="Ask Prometheus for rates, latencies, trips and retries of the time span. "
    "[env: SLUICE_PROMETHEUS_URL]",
)
@click.option("--since", type=When(), metavar="TIME", help="From then on: a time, or 2h, 3d ago.")
@click.option("--until", type=When(), metavar="TIME", help="Before then.")
@click.option(
    "--worst",
    type=click.IntRange(0, 500),
    default=20,
    show_default=True,
    help="So many of the worst texts.",
)
@click.option("--title", default="sluicegate report", show_default=True, help="Of the page.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write there, all or nothing; otherwise to standard output.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON, no page.")
@click.argument("bare", metavar="", nargs=-1)
def command(  # noqa: PLR0913, PLR0917 - one for each flag
    config: Config,
    bare: tuple[str, ...],
    dead: tuple[BinaryIO, ...],
    results: tuple[BinaryIO, ...],
    queue: bool | None,
    prometheus: str | None,
    since: datetime | None,
    until: datetime | None,
    worst: int,
    title: str,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write one HTML page: rates, latency, gates, retries, dead letters, and the worst texts with
    their bad places marked.

    The page needs nothing else: no network, no script. It holds texts and prompts, so keep it as
    you keep those. Sources, which may be combined:

    \b
      --results FILE     outcomes, latency, gates, retries: of every job in it
      --dead FILE        why jobs died, with their texts
      the queue          the same of what lies there now, where no file is given
      --prometheus URL   the whole time span, of all jobs, without any text

    Latency is that of results alone. A job with a result and a dead letter counts once. --since and
    --until go by when a result was finished and when a letter was written; texts of an export
    without --raw have no time, so with one of both flags they are left out. Prometheus is asked for
    the last day where --since is not given.

    \b
    Examples:
      sluice report -o report.html                                   what lies in the queue now
      sluice report --since 1d --prometheus http://prometheus:9090 -o night.html
      sluice dlq export --raw -o dead.jsonl && sluice report --dead dead.jsonl -o dead.html
      sluice report --results results.jsonl --json | jq .latencies

    \b
    Exit status: 0 done; 2 a file can't be used; 3 no broker, no Prometheus.
    """
    if bare:
        raise click.UsageError(
            f"say what {bare[0]} holds: --dead {bare[0]} for dead letters, --results {bare[0]} for "
            "results"
        )
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since must be before --until")
    if out is not None and out.is_file() and out.stat().st_size and not force:
        raise click.UsageError(f"{out} is there already: --force replaces it")
    if out is not None and not out.parent.is_dir():
        raise click.UsageError(f"{out} can't be written: there is no folder {out.parent}")
    span = Span(since, until)
    gathered = Gathering(span, worst)
    problems = Problems()
    sources = [_read(file, read_results, "results", gathered, problems) for file in results]
    reader = partial(read_dead, key=opener(config))
    sources += [_read(file, reader, "dead letters", gathered, problems) for file in dead]
    if queue or (queue is None and not dead and not results):
        sources.append(_look(config, gathered))
    told = None
    if prometheus:
        told, source = _ask(prometheus, span)
        sources.append(source)
    figures = gathered.figures()
    remarks = list(_remarks(figures, problems))
    if problems.count:
        console.warning(remarks[-1])
    if as_json:
        data = {"figures": figures, "prometheus": told, "sources": sources, "remarks": remarks}
        _write(out, escaped(msgspec.json.encode(data)) + b"\n")
        return
    about = report_page.About(
        title=title,
        written=utc_now(),
        sources=tuple(sources),
        remarks=tuple(remarks),
        since=since,
        until=until,
    )
    watched = report_prometheus.html_of(told) if told is not None else ""
    _write(out, report_page.render(figures, about, watched).encode(errors="replace"))
    if out is not None:
        click.echo(
            f"{out}: {figures.results:,} results, {figures.letters:,} dead letters", err=True
        )


def _remarks(figures: Figures, problems: Problems) -> Iterator[str]:
    """What is not in the figures, or not whole; lines that can't be read are the last."""
    if figures.undated:
        yield f"left out, for nobody wrote down when they were: {figures.undated:,}"
    if figures.hidden:
        yield (
            f"dead letters without their texts: {figures.hidden:,}; --key FILE opens those that "
            "are encrypted for it"
        )
    if problems.count:
        yield f"{problems.count:,} lines could not be read: {'; '.join(problems.first)}"


_Reader = Callable[[BinaryIO, Gathering, Problems, Callable[[], None]], int]


def _read(
    file: BinaryIO, reader: _Reader, what: str, gathered: Gathering, problems: Problems
) -> str:
    """What to say of a file as a source, once it is read. Ends the command where it is none."""
    before, done = problems.count, 0
    name = str(getattr(file, "name", "-"))
    with Progress(f"{what} read", None).shown() as progress:

        def tick() -> None:
            nonlocal done
            done += 1
            progress(done)

        count = reader(file, gathered, problems, tick)
    if not count and problems.count > before:
        raise click.UsageError(f"{name} has no {what}: {problems.first[0]}")
    return f"{what} of {name}: {count:,} lines"


def _look(config: Config, gathered: Gathering) -> str:
    def visit(letter: Letter) -> None:
        gathered.letter(letter)

    total = asyncio.run(each_letter(config, visit))
    return f"the queue {config.namespace}.dead of {safe_url(config.amqp_url)}: {total:,} letters"


def _ask(url: str, span: Span) -> tuple[report_prometheus.Told, str]:
    until = span.until or utc_now()
    window = report_prometheus.Window(span.since or until - _DEFAULT_SPAN, until)
    try:
        told = report_prometheus.ask(url, window)
    except report_prometheus.NoPrometheus as error:
        raise console.CannotStart(f"Prometheus: {error}") from None
    return told, f"Prometheus, {window.seconds / 3600:.1f} hours of it"


def _write(out: Path | None, data: bytes) -> None:
    with opened(out) as file:
        file.write(data)
