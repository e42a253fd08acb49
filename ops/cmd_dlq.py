"""`sluice dlq`: see why jobs died, send them back, or clear them away."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from ..schemas.lineage import Channel
from ..worker.config import Config
from . import console
from .dlq_export import labelled, whole
from .dlq_filter import Filter, Wanted, utc_now
from .dlq_keygen import keygen
from .dlq_letter import Letter
from .dlq_options import colour_wanted, each_letter, filter_options, terminal_width
from .dlq_output import Telling, opened
from .dlq_story import TEXT_SHOWN, story
from .dlq_tables import Newest, Tally, as_data, counted, listed
from .dlq_take_commands import purge, requeue
from .plain_text import escaped
from .settings import ByTopic, option_flags

_BROKER: Final = ("amqp_url", "namespace", "connect_timeout_s", "dlq_key_file")
# Of letters that an id cut short may mean: with more, the id is not enough anyway.
_MOST_MEANT: Final = 16


@click.group(name="dlq", cls=Telling)
def command() -> None:
    """See why jobs died; send them back, or clear them away.

    What could not be done lies in the queue of dead letters, with its whole story, until somebody
    takes it. Looking changes nothing, however often: all stays there, in order. While one looks,
    a second one is told so, since he would see a part only.

    \b
    Examples:
      sluice dlq stats                                    how many, and of what
      sluice dlq list --reason checks_rejected --newer-than 2h
      sluice dlq show 01975c3e-6f                         the story of one
      sluice dlq requeue 01975c3e-6f --set sampling.temperature=0.3
      sluice dlq requeue --reason engine_fault --dry-run
      sluice dlq export -o dead.jsonl; sluice evaluate dead.jsonl
      sluice dlq purge --older-than 30d

    An ID is that of a letter or of its job; its first characters do, six at least, where they are
    nobody else's. A letter that was written twice is one letter, with copies.
    """


@command.command(name="list", cls=ByTopic)
@option_flags(*_BROKER)
@filter_options()
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    default=50,
    show_default=True,
    help="So many of the newest; 0: all.",
)
@click.option("--json", "as_json", is_flag=True, help="Each as a line of JSON.")
def list_(config: Config, wanted: Filter, limit: int, as_json: bool) -> None:
    """List dead letters, the newest first.

    \b
    Examples:
      sluice dlq list
      sluice dlq list --flaw '*json*' --limit 0
      sluice dlq list --metadata tenant=acme --json | jq -r .id

    \b
    Exit status: 0 done, however many there are; 1 somebody else is looking; 3 no broker.
    """
    newest, now = Newest(limit), utc_now()

    def visit(letter: Letter) -> None:
        if wanted.fits(letter, now):
            newest.feed(letter.head)

    total = asyncio.run(each_letter(config, visit))
    heads = newest.heads()
    if as_json:
        for head in heads:
            data = {**as_data(head), "copies": newest.copies(head)}
            click.echo(escaped(msgspec.json.encode(data)))
    elif heads:
        for line in listed(heads, now, width=terminal_width(), copies=newest.copies):
            click.echo(line)
    fitting = "" if wanted.is_empty else f" that fit, of {total} in all"
    copies = f", and {newest.more} more copies of them" if newest.more else ""
    click.echo(f"{len(heads)} of {newest.seen} dead letters{copies} shown{fitting}", err=True)


@command.command(name="stats", cls=ByTopic)
@option_flags(*_BROKER)
@filter_options()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(config: Config, wanted: Filter, as_json: bool) -> None:
    """Count dead letters by reason, gate, worker, profile and hour.

    \b
    Examples:
      sluice dlq stats --newer-than 1d
      sluice dlq stats --json | jq .reasons
    """
    tally, now = Tally(), utc_now()

    def visit(letter: Letter) -> None:
        if wanted.fits(letter, now):
            tally.feed(letter.head)

    asyncio.run(each_letter(config, visit))
    if as_json:
        data = msgspec.json.format(msgspec.json.encode(tally.counts()), indent=2)
        click.echo(escaped(data))
        return
    for line in counted(tally.counts(), now):
        click.echo(line)


@command.command(name="show", cls=ByTopic)
@option_flags(*_BROKER)
@click.argument("letter_id", metavar="ID")
@click.option("--full", is_flag=True, help="The texts as long as they were kept.")
@click.option("--json", "as_json", is_flag=True, help="Print the letter as one JSON object.")
def show(config: Config, letter_id: str, full: bool, as_json: bool) -> None:
    """Tell the story of one dead letter: what died, what was tried, and what would help.

    Where garbage was found in a text it is red, or ⟦in brackets⟧ where there is no colour.

    \b
    Examples:
      sluice dlq show 01975c3e-6f
      sluice dlq show order-1042 --full | less
      sluice dlq show order-1042 --json | jq '.message.job.lineage.attempts[].verdict'

    \b
    Exit status: 0 done; 1 no such letter, or several; 3 no broker.
    """
    for line in show_letter(config, letter_id, full=full, as_json=as_json):
        click.echo(line)


def show_letter(
    config: Config, letter_id: str, *, full: bool = False, as_json: bool = False
) -> Iterator[str]:
    """What `show` prints, line by line. Raises NoSuchLetter; errors as `each_letter`."""
    letter, copies = _the_one(config, letter_id)
    if as_json:
        given = {**whole(letter), "copies": copies, "advice": letter.advice}
        data = msgspec.json.encode(given)
        yield escaped(msgspec.json.format(data, indent=2)).decode()
        return
    yield from story(
        letter,
        now=utc_now(),
        width=terminal_width(),
        colour=colour_wanted(),
        copies=copies,
        text_limit=sys.maxsize if full else TEXT_SHOWN,
    )


@command.command(name="export", cls=ByTopic)
@option_flags(*_BROKER)
@filter_options()
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write there, all or nothing; otherwise to standard output.",
)
@click.option("--raw", is_flag=True, help="The letters whole, not the texts in them.")
@click.option(
    "--channel",
    type=click.Choice(("content", "reasoning")),
    default="content",
    show_default=True,
    help="The texts, or what the model thought before them.",
)
@click.option("--force", is_flag=True, help="Replace FILE: labels of yours in it are gone then.")
def export(
    config: Config,
    wanted: Filter,
    out: Path | None,
    raw: bool,
    channel: Channel,
    force: bool,
) -> None:
    """Write the rejected texts as JSON Lines, labelled "bad" for `sluice evaluate` and `calibrate`.

    A line is {"id": "<job>:<attempt>", "text", "label", "class": what was found, "profile",
    "prompt", "onset", ...}. What you find to be good after all, label "good". With --raw a line is
    a letter, with everything in it. What an agent job said was let through by the gates: it is in
    its raw letter alone.

    \b
    Examples:
      sluice dlq export -o dead.jsonl && sluice evaluate dead.jsonl --show
      sluice dlq export --channel reasoning --reason reasoning_runaway -o traces.jsonl
      sluice dlq export --raw --reason malformed_json | jq .message.detail
    """
    if out is not None and out.is_file() and out.stat().st_size and not force:
        raise click.UsageError(f"{out} is there already: --force replaces it")
    now, letters, lines, agents, hidden = utc_now(), 0, 0, 0, 0
    told: set[str] = set()
    with opened(out) as file:

        def visit(letter: Letter) -> None:
            nonlocal letters, lines, agents, hidden
            if not wanted.fits(letter, now) or (not raw and letter.head.key in told):
                return
            letters += 1
            agents += letter.agent_job is not None
            hidden += bool(letter.hidden)
            for line in [whole(letter)] if raw else labelled(letter, channel):
                file.write(escaped(msgspec.json.encode(line)) + b"\n")
                lines += 1
                told.add(letter.head.key)  # a copy has the same texts

        asyncio.run(each_letter(config, visit))
    of_agents = f", {agents} of them agent jobs, which --raw has" if agents and not raw else ""
    no_texts = letters and not lines and not of_agents
    hint = ": there is no refused text in them; --raw has them whole" if no_texts else ""
    click.echo(f"{lines} lines, of {letters} dead letters{of_agents}{hint}", err=True)
    if hidden:
        console.warning(
            f"{hidden} of them have their texts redacted or encrypted; --key FILE opens those that "
            "are encrypted for it"
        )


@command.command(name="replay", cls=ByTopic)
@option_flags(
    *_BROKER,
    "engine",
    "model",
    "dtype",
    "max_model_len",
    "kv_cache_gib",
    "gpu_memory_utilization",
    "enforce_eager",
    "engine_args",
    "gates_file",
    "policy_file",
)
@click.argument("letter_id", metavar="ID")
@click.option("--attempt", type=click.IntRange(min=1), help="This attempt alone.")
@click.option("--json", "as_json", is_flag=True, help="Each attempt as a line of JSON.")
def replay(config: Config, letter_id: str, attempt: int | None, as_json: bool) -> None:
    """Run the attempts of a dead job again, here, on the same seeds, and print where they differ.

    The letter stays where it is, and nothing is published. The engine's settings must be those of
    the worker; another machine, or another build of the engine, may round another way.

    \b
    Examples:
      sluice dlq replay 01975c3e-6f --model Qwen/Qwen3-0.6B
      sluice dlq replay order-1042 --attempt 2 --enforce-eager

    \b
    Exit status: 0 all the same; 1 something differs; 3 no broker, no engine.
    """
    letter, _ = _the_one(config, letter_id)
    # The engine's side, which the other commands do without.
    from .cmd_worker import with_model  # noqa: PLC0415
    from .dlq_replay import Replayed, attempts_of, lines, replay_all  # noqa: PLC0415
    from .hush import hushed  # noqa: PLC0415

    attempts = attempts_of(letter, attempt)
    ready = with_model(config)

    def shown(replayed: Replayed) -> None:
        if as_json:
            click.echo(escaped(msgspec.json.encode(replayed)))
            return
        for line in lines(replayed):
            click.echo(line)

    with hushed() as terminal:
        done = asyncio.run(
            replay_all(ready, attempts, lambda text: click.echo(text, file=terminal), shown)
        )
    if not all(each.same for each in done):
        click.get_current_context().exit(console.FAILED)


def _the_one(config: Config, letter_id: str) -> tuple[Letter, int]:
    """The letter with this id, of copies the best by its rank, and how many there are. Raises
    NoSuchLetter."""
    wanted = Wanted([letter_id])
    # Those with the whole id of a letter, of a job, and with a part of one: never one for another.
    meant: tuple[dict[str, Letter], ...] = ({}, {}, {})
    copies: Counter[str] = Counter()

    def visit(letter: Letter) -> None:
        head = letter.head
        if not wanted.feed(head):
            return
        shelf = meant[0 if head.id == letter_id else 1 if head.job_id == letter_id else 2]
        known = shelf.get(head.key)
        if known is None and len(shelf) >= _MOST_MEANT:
            return
        copies[head.key] += 1
        if known is None or letter.rank > known.rank:
            shelf[head.key] = letter

    asyncio.run(each_letter(config, visit))
    # Raises where it means several; where it means one, no shelf was too short for that.
    (key,) = wanted.meant()
    return next(shelf[key] for shelf in meant if key in shelf), copies[key]


command.add_command(keygen)
command.add_command(requeue)
command.add_command(purge)
