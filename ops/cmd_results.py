"""`sluice results`: take the results that wait on a durable queue."""

import asyncio

import click

from ..producer import Producer
from ..schemas.codec import encode
from ..worker.config import Config
from ..worker.secrecy import secrecy_of
from . import agent_text
from .plain_text import escaped, one_line
from .reasoning_text import of_result
from .seconds import SECONDS
from .settings import ByTopic, option_flags
from .submit_prompt import printable, why_not


@click.command(name="results", cls=ByTopic)
@option_flags("amqp_url", "namespace", "connect_timeout_s")
@click.option(
    "--reply",
    metavar="KEY",
    default="default",
    show_default=True,
    help="Whose results: the reply key that the jobs were published with.",
)
@click.option(
    "--idle",
    "idle_s",
    type=SECONDS,
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    help="End when none has come for this long.",
)
@click.option("--json", "as_json", is_flag=True, help="Each result as a line of JSON.")
def command(config: Config, reply: str, idle_s: float, as_json: bool) -> None:
    """Print the results that wait on a reply queue, and take them from it.

    A result is taken once it has been printed. Without --reply these are the results of
    `sluice submit --prompt ...` without --wait.

    \b
    Examples:
      sluice results
      sluice results --reply orders --json >> results.jsonl

    \b
    Exit status: 0 done, however many there were; 3 no broker.
    """
    asyncio.run(_take(config, reply, idle_s, as_json=as_json))


async def _take(config: Config, reply: str, idle_s: float, *, as_json: bool) -> None:
    async with Producer(
        config.amqp_url,
        reply,
        namespace=config.namespace,
        connect_timeout_s=config.connect_timeout_s,
        secrecy=secrecy_of(config),
        events=False,
    ) as producer:
        async for result in producer.results(idle_s=idle_s):
            if as_json:
                click.echo(escaped(encode(result)))
                continue
            reasoned = of_result(result)
            record = result.agent
            click.echo(
                f"{result.job_id}: {one_line(why_not(result.outcome) or 'completed', 2_000)}"
                f"{f' (reasoning: {reasoned})' if reasoned else ''}"
                f"{f' (agent: {agent_text.in_a_line(record)})' if record is not None else ''}"
            )
            for line in agent_text.not_done(record) if record is not None else ():
                click.echo(line)
            if result.text:
                click.echo(printable(result.text) + "\n")
