"""`sluice dlq requeue` and `sluice dlq purge`: they say what they would do, ask, and do it."""

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal

import click
import msgspec
from msgspec import structs

from ..guards.profiles import profile_names
from ..schemas import Lane, Names
from ..schemas.limits import MAX_ATTEMPTS
from ..schemas.topology import LANES
from ..worker.config import Config
from . import console
from .cli import INTERRUPTED
from .dlq_again import again, twin
from .dlq_changes import Changes, parse_sets, said_sets
from .dlq_filter import Duration, Filter, KeyValue, Wanted, utc_now
from .dlq_letter import Head, Letter
from .dlq_options import Progress, each_letter, filter_options
from .dlq_readers import without_queue
from .dlq_sending import Refusal, Sending
from .plain_text import one_line
from .settings import ByTopic, option_flags

_BROKER: Final = (
    "amqp_url",
    "namespace",
    "connect_timeout_s",
    "publish_timeout_s",
    "dlq_key_file",
)
_REFUSALS_SHOWN: Final = 20


class Entry:
    """A letter that is meant: what would be sent or why nothing can be, and what is taken with it:
    `keys` of letters, `copies` in all. Of one `group` one alone is sent, the best by
    `Letter.rank`."""

    __slots__ = ("copies", "group", "head", "keys", "note", "rank", "refusal", "reply_to", "where")

    def __init__(
        self, letter: Letter, becomes: Sending | Refusal | None = None, group: str = ""
    ) -> None:
        sending = becomes if isinstance(becomes, Sending) else None
        self.head = letter.head
        self.rank = letter.rank
        self.where = sending.where if sending else ""
        self.note = sending.note if sending else ""
        self.reply_to = sending.reply_to if sending else ""
        self.refusal = becomes.why if isinstance(becomes, Refusal) else ""
        self.group = group or letter.head.key
        self.keys = {letter.head.key}
        self.copies = 1

    def with_(self, other: "Entry") -> "Entry":
        """The better of two, with what is taken with either."""
        best = max(self, other, key=lambda each: each.rank)
        best.keys, best.copies = self.keys | other.keys, self.copies + other.copies
        return best


@click.command(name="requeue", cls=ByTopic)
@option_flags(*_BROKER)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filter_options(changes=True)
@click.option("--all", "take_all", is_flag=True, help="Every one, where no filter is given.")
@click.option(
    "--set",
    "sets",
    metavar="FIELD=VALUE",
    type=KeyValue(),
    multiple=True,
    help="Change sampling., rules., gates. or reasoning.<name>, of an agent job budget. or "
    "watchdog.<name>, task_type, format or tools; null is the default, and takes a gate's value "
    "away. Repeatable.",
)
@click.option("--profile", type=click.Choice(profile_names()), help="Give it another profile.")
@click.option("--lane", type=click.Choice(LANES), help="Send it to another lane.")
@click.option(
    "--max-attempts", type=click.IntRange(1, MAX_ATTEMPTS), metavar="N", help="So many attempts."
)
@click.option("--checks", type=click.Choice(["off", "observe", "block"]), help="Check it this way.")
@click.option("--no-deadline", is_flag=True, help="Take its deadline away.")
@click.option(
    "--deadline-in", metavar="TIME", type=Duration(), help="Give it a new one: 10m, 2h ..."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Don't ask.")
def requeue(  # noqa: PLR0913, PLR0917 - one for each flag
    config: Config,
    ids: tuple[str, ...],
    wanted: Filter,
    take_all: bool,
    sets: tuple[tuple[str, str], ...],
    profile: str | None,
    lane: Lane | None,
    max_attempts: int | None,
    checks: Literal["off", "observe", "block"] | None,
    no_deadline: bool,
    deadline_in: float | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Send dead letters back: their jobs are done again, as they were or with changes.

    A job begins with the attempt after its last one, and workers have it after about 5 seconds: the
    way leads through the retry queue, which loses nothing where the jobs queue is full. A result
    that found no reader is published again, as it is. A candidate goes back to the checks, or with
    changes is generated anew. An agent job begins anew, and may do again what it did; one that died
    under way, and has no letter of its service, goes on where it was. Exactly those that are meant
    are taken, and several letters of one attempt of a job are one job; whenever this is ended, even
    by kill -9, each is sent back once or still there, and the same command does the rest. A broker
    that dies in that moment may lose what was on its way, or have it twice.

    \b
    Examples:
      sluice dlq requeue 01975c3e-6f
      sluice dlq requeue order-1042 --set sampling.temperature=0.3 --set sampling.max_tokens=200
      sluice dlq requeue --reason deadline_passed --newer-than 1h --deadline-in 10m
      sluice dlq requeue --worker 'gpu-7:*' --dry-run
      sluice dlq requeue report-7 --set budget.tokens=400000 --set task_type=analysis

    \b
    Exit status: 0 all sent back; 1 some could not be, and why is said; 3 no broker.
    """
    if no_deadline and deadline_in is not None:
        raise click.UsageError("--no-deadline and --deadline-in are one too many")
    changes = Changes(
        sets=parse_sets(sets),
        profile=profile,
        lane=lane,
        max_attempts=max_attempts,
        checks=checks,
        no_deadline=no_deadline,
        deadline_in_s=deadline_in,
    )
    names = Names(config.namespace)

    def judged(letter: Letter) -> Entry:
        return Entry(letter, again(letter, names, changes, utc_now()), twin(letter, changes))

    entries = _grouped(_meant(config, ids, wanted, judged, take_all=take_all))
    possible = [each for each in entries if not each.refusal]
    refused = [(each.head, each.refusal) for each in entries if each.refusal]
    where = Counter(each.where for each in possible)
    said = ", ".join(f"{count} to {one_line(to, 140)}" for to, count in where.most_common())
    how = _said(changes)
    _announce(f"{_count(possible)} to send back{f': {said}' if said else ''}{how}", possible)
    for note, count in Counter(each.note for each in possible if each.note).most_common():
        console.warning(f"of {count} {'agent job' if count == 1 else 'agent jobs'}: {note}")
    _tell_without_reader(config, possible)
    _tell_refused(refused)
    if dry_run or not possible:
        click.get_current_context().exit(console.FAILED if refused else console.OK)
    if not yes:
        click.confirm(f"Send back {len(possible)}?", abort=True, err=True)
    from .dlq_take import send_back  # noqa: PLC0415  what `--help` doesn't need

    chosen = {key for each in possible for key in each.keys}
    progress = Progress("sent back", len(possible))
    taken = _run(
        lambda stop: send_back(config, chosen, changes, stop=stop, progress=progress), progress
    )
    _tell_refused(taken.refused)
    _end("sent back", taken.done, taken.left, stopped=taken.stopped)
    if refused or taken.refused:
        click.get_current_context().exit(console.FAILED)


@click.command(name="purge", cls=ByTopic)
@option_flags(*_BROKER)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@filter_options()
@click.option("--all", "take_all", is_flag=True, help="Every one, where no filter is given.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Don't ask.")
def purge(
    config: Config,
    ids: tuple[str, ...],
    wanted: Filter,
    take_all: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Throw dead letters away, for good. `sluice dlq export --raw` keeps what may be of use.

    Needs ids, a filter or --all, says how many it means, and asks. Exactly those are taken.

    \b
    Examples:
      sluice dlq purge --older-than 30d
      sluice dlq purge --reason cancelled --yes
      sluice dlq purge 01975c3e-6f
    """
    entries = _meant(config, ids, wanted, Entry, take_all=take_all)
    by_reason = Counter(each.head.reason for each in entries)
    said = ", ".join(f"{count} {reason}" for reason, count in by_reason.most_common())
    _announce(f"{_count(entries)} to throw away{f': {said}' if said else ''}", entries)
    if dry_run or not entries:
        return
    if not yes:
        click.confirm(f"Throw away {len(entries)}, for good?", abort=True, err=True)
    from .dlq_take import clear_away  # noqa: PLC0415  what `--help` doesn't need

    chosen = {each.head.key for each in entries}
    progress = Progress("thrown away", len(chosen))
    taken = _run(lambda stop: clear_away(config, chosen, stop=stop, progress=progress), progress)
    _end("thrown away", taken.done, taken.left, stopped=taken.stopped)


def _meant(
    config: Config,
    ids: Sequence[str],
    wanted: Filter,
    judged: Callable[[Letter], Entry],
    *,
    take_all: bool,
) -> list[Entry]:
    """What the command line means, the oldest first. Raises NoSuchLetter."""
    if bool(ids) + (not wanted.is_empty) + take_all != 1:
        raise click.UsageError("say which: by ID, by a filter such as --reason, or with --all")
    by_id, now = Wanted(ids), utc_now()
    entries: dict[str, Entry] = {}

    def visit(letter: Letter) -> None:
        if by_id.feed(letter.head) if ids else wanted.fits(letter, now):
            key = letter.head.key
            entry = judged(letter)
            entries[key] = entries[key].with_(entry) if key in entries else entry

    asyncio.run(each_letter(config, visit))
    return [entries[key] for key in by_id.meant()] if ids else list(entries.values())


def _grouped(entries: Sequence[Entry]) -> list[Entry]:
    """One for each group, in the order of their first."""
    groups: dict[str, Entry] = {}
    for each in entries:
        known = groups.get(each.group)
        groups[each.group] = each if known is None else known.with_(each)
    return list(groups.values())


def _count(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} dead letter{'' if len(entries) == 1 else 's'}"


def _announce(text: str, entries: Sequence[Entry]) -> None:
    copies = sum(each.copies - len(each.keys) for each in entries)
    more = f" (and {copies} more copies of the same letters)" if copies else ""
    click.echo(f"{text}{more}")
    if twins := sum(len(each.keys) - 1 for each in entries):
        click.echo(
            f"{twins} more tell of the same attempt of the same job as one of them: they are taken "
            "with it, and the newest alone is sent"
        )


def _said(changes: Changes) -> str:
    """What is changed, in words."""
    sets = [
        f"{said}={msgspec.json.encode(value).decode()}"
        for table, values in changes.sets.items()
        for said, value in zip(said_sets(table, values), values.values(), strict=True)
    ]
    given: dict[str, Any] = structs.asdict(changes)
    names = ("profile", "lane", "max_attempts", "checks")
    sets += [f"{name}={given[name]}" for name in names if given[name] is not None]
    if changes.no_deadline:
        sets.append("no deadline")
    if changes.deadline_in_s is not None:
        sets.append(f"a deadline in {changes.deadline_in_s:g} s")
    return f"; with {', '.join(sets)}" if sets else ""


def _tell_without_reader(config: Config, entries: Sequence[Entry]) -> None:
    """Whose results will find nobody, as those of a program that has ended."""
    waited_for = Counter(each.reply_to for each in entries if each.reply_to)
    gone = asyncio.run(without_queue(config, waited_for)) if waited_for else set[str]()
    if jobs := sum(waited_for[key] for key in gone):
        key = min(gone)
        console.warning(
            f"of {jobs} of them nobody is there for the result: the queue of reply key "
            f"{one_line(key, 80)}{' (and others)' if len(gone) > 1 else ''} is gone. It would be "
            f"a dead letter, unless `sluice results --reply {one_line(key, 80)}` makes the queue "
            "before"
        )


def _tell_refused(refused: Sequence[tuple[Head, str]]) -> None:
    if not refused:
        return
    console.error(f"{len(refused)} can't be sent back:")
    rows = [
        (one_line(head.id, 40), one_line(head.job_id or "?", 40), one_line(why, 300))
        for head, why in refused[:_REFUSALS_SHOWN]
    ]
    for line in console.table(rows, indent="  "):
        click.echo(line, err=True)
    if len(refused) > _REFUSALS_SHOWN:
        click.echo(f"  and {len(refused) - _REFUSALS_SHOWN} more", err=True)


def _run(work: "Callable[[asyncio.Event], Awaitable[Any]]", progress: Progress) -> Any:
    """Do it; SIGINT and SIGTERM end it between two letters."""

    async def watched() -> Any:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        return await work(stop)

    finished = False
    try:
        with progress.shown():
            taken = asyncio.run(watched())
        finished = True
        return taken
    finally:
        if not finished:
            console.warning(f"it ended early: {progress.done} were taken, the rest is still there")


def _end(what: str, done: int, left: int, *, stopped: bool) -> None:
    if stopped:
        click.echo(
            f"Stopped: {done} {what}, {left} left. The same command does the rest.", err=True
        )
        click.get_current_context().exit(INTERRUPTED)
    click.echo(f"{done} {what}")
    if left:
        console.warning(f"{left} had gone from the queue meanwhile")
