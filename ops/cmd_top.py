"""`sluice top`: queues, services, gates and trouble, live on a terminal."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime

import click
import msgspec

from ..producer.connection import CONNECTION_LOST, close, connect, safe_url
from ..producer.tasks import end, spawn
from ..schemas import Names, SluiceError, topology
from ..worker.config import Config
from . import console, management, top_depths, top_screen
from .plain_text import escaped
from .seconds import SECONDS, Seconds
from .settings import BadSetting, ByTopic, option_flags
from .top_listening import Listener
from .top_model import Model
from .top_picture import Picture, watched
from .top_render import render

_FOOT = "q quits"


@click.command(name="top", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s")
@click.option(
    "--every",
    "every_s",
    type=SECONDS,
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    help="A new picture this often.",
)
@click.option("--once", is_flag=True, help="One picture, as text, and end.")
@click.option(
    "--listen",
    "listen_s",
    type=Seconds(none_too=True, most=3600),
    metavar="SECONDS",
    default=6.0,
    show_default=True,
    help="Before one picture, hear events this long: services speak every 5 s.",
)
@click.option("--json", "as_json", is_flag=True, help="Each picture as a line of JSON.")
@click.option("--no-colour", is_flag=True, help="No colours. [env: NO_COLOR]")
@click.option(
    "--management-url",
    metavar="URL",
    envvar="SLUICE_MANAGEMENT_URL",
    help="RabbitMQ's management API: it tells what is delivered and not settled, and lists reply "
    "queues, too. Without it the services say what they have in flight. "
    "[env: SLUICE_MANAGEMENT_URL]",
)
def command(
    config: Config,
    every_s: float,
    once: bool,
    listen_s: float,
    as_json: bool,
    no_colour: bool,
    management_url: str | None,
) -> None:
    """Show queues, services, gates and trouble, live; `q` or Ctrl-C quits.

    It needs the broker alone and changes nothing on it: it listens to the events, which are best
    effort, and asks how long the queues are. Numbers of jobs are therefore those since it began;
    those of the gates are since the services started. A service that has not been heard of for
    15 s is shown as silent. The reasons of dead letters are those of jobs that ended meanwhile;
    `sluice dlq stats` has all of them.

    Where standard output is no terminal there is one picture, as with --once; a terminal without
    cursor control (TERM=dumb) gets one picture below the other.

    \b
    Examples:
      sluice top
      sluice top --once | mail -s "how it stands" me@example.org
      sluice top --json --every 10 | jq -c '.queues[] | select(.ready > 100)'
      sluice top --json --once | jq -r '.trouble[].text'

    \b
    Columns: IN FLIGHT delivered and not settled (<= where services take from several queues);
    PER MIN how the number of those that wait changed; EMPTY IN if that goes on; BUSY of slots;
    LAG how late the event loop wakes up; (+N) in the last minute;
    wasted: the share of the tokens that were generated and thrown away.

    \b
    Exit status: 0 done; 3 no broker, or no topology on it.
    """
    try:
        api = management.access(config.amqp_url, management_url) if management_url else None
    except ValueError as error:
        raise BadSetting([str(error)]) from None
    plain = no_colour or bool(os.environ.get("NO_COLOR"))
    if as_json:
        show = _stream(_as_json, listen_s if once else every_s, every_s, once=once)
    elif once or not sys.stdout.isatty():
        show = _stream(_as_text, listen_s, every_s, once=True)
    elif not top_screen.is_painted():
        show = _stream(_as_text, min(every_s, listen_s), every_s, once=False)
    else:
        show = _screen(every_s, colour=not plain)
    asyncio.run(_run(config, api, every_s, show))


Show = Callable[[Callable[[], Picture]], Awaitable[None]]


def _stream(say: Callable[[Picture], None], first_s: float, every_s: float, *, once: bool) -> Show:
    """One picture after the other, as text."""

    async def show(look: Callable[[], Picture]) -> None:
        await asyncio.sleep(first_s)
        say(look())
        while not once:
            await asyncio.sleep(every_s)
            say(look())

    return show


def _as_json(picture: Picture) -> None:
    click.echo(escaped(msgspec.json.encode(picture)))


def _as_text(picture: Picture) -> None:
    width, _ = top_screen.size()
    for line in render(picture, width):
        click.echo(line.text)
    click.echo()


def _screen(every_s: float, *, colour: bool) -> Show:
    async def show(look: Callable[[], Picture]) -> None:
        keys = top_screen.Keys()
        # A terminal that is gone ends it, as a signal would.
        with contextlib.suppress(OSError), top_screen.listening(keys), top_screen.painted():
            while not keys.quit.is_set():
                lines = render(look(), *top_screen.size(), foot=_FOOT)
                await asyncio.to_thread(top_screen.paint, lines, colour=colour)
                await keys.wait(every_s)

    return show


async def _run(config: Config, api: management.Access | None, every_s: float, show: Show) -> None:
    names = Names(config.namespace)
    model = Model(names, safe_url(config.amqp_url), time.monotonic())
    async with _heard(config, names, model), _asked(config, api, every_s, model):
        await show(lambda: model.picture(time.monotonic(), datetime.now().astimezone()))


@asynccontextmanager
async def _heard(config: Config, names: Names, model: Model) -> AsyncGenerator[None]:
    """Events go to the model."""
    connection = await connect(
        config.amqp_url, timeout_s=config.connect_timeout_s, name="sluice top: events"
    )
    listener = Listener(
        connection,
        names,
        lambda event: model.service(event, time.monotonic()),
        lambda event: model.job(event, time.monotonic()),
    )
    try:
        await listener.start(lambda error: model.deaf(repr(error)))
        yield
    finally:
        await listener.stop()
        await close(connection)


@asynccontextmanager
async def _asked(
    config: Config, api: management.Access | None, every_s: float, model: Model
) -> AsyncGenerator[None]:
    """The broker is asked for its queues, over a connection of its own: events may be many.

    Raises what stands in the way of the first time.
    """
    queues = [each.name for each in watched(topology(config.namespace))]
    connection = await connect(
        config.amqp_url, timeout_s=config.connect_timeout_s, name="sluice top: queues"
    )

    async def ask() -> None:
        try:
            if api is not None:
                told = await top_depths.by_management(api, config.namespace, queues)
            else:
                told = await top_depths.by_amqp(connection, queues)
        finally:
            # An answer that comes at the moment of a cancellation hides it (`asyncio.wait_for` of
            # Python 3.11), and a lost connection may be made of it.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError
        model.queues(told, time.monotonic())

    async def ask_on() -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await ask()
            except (SluiceError, management.NoManagement, *CONNECTION_LOST) as error:
                model.broker(str(error) or type(error).__name__)

    try:
        try:
            await ask()
        except management.NoManagement as error:
            raise console.CannotStart(f"the management API: {error}") from None
        task = spawn(ask_on(), "questions to the broker", lambda error: model.broker(repr(error)))
        try:
            yield
        finally:
            await end(task)
    finally:
        await close(connection)
