"""Jobs per second through publish, consume, result, acknowledge: sluicegate beside others.

`python -m tests.bench.queue --help` from the root of the checkout. See docs/benchmarks.md.
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__" and not __package__:
    # Run as a file, this folder is the first that imports are looked for in, and the standard
    # library's `queue` would be us.
    os.chdir(Path(__file__).resolve().parents[2])
    os.execv(  # noqa: S606 - no shell is wanted
        sys.executable, [sys.executable, "-m", "tests.bench.queue", *sys.argv[1:]]
    )

import asyncio
import secrets

import click
import msgspec
from sluicegate.ops.console import CANNOT_START
from sluicegate.ops.private_broker import broker_or_private
from sluicegate.producer.connection import close, connect, server_version
from sluicegate.schemas import SluiceError

from .contender import CONTENDERS, missing
from .race import BenchFailed, race, setups
from .report import Report, machine, render, summary
from .work import PROMPT_BYTES, engine_cpu_ms


class CannotStart(click.ClickException):
    """No broker to measure on."""

    exit_code = CANNOT_START


@click.command(context_settings={"show_default": True})
@click.option("--jobs", type=click.IntRange(min=1), default=500, help="Jobs a turn.")
@click.option("--rounds", type=click.IntRange(min=1), default=20, help="Turns of each contender.")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    default=64,
    help="Publishes in flight, and the worker's prefetch.",
)
@click.option(
    "--contenders",
    default=",".join(CONTENDERS),
    help="Who takes part, in this order.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON on standard output.")
def main(jobs: int, rounds: int, concurrency: int, contenders: str, as_json: bool) -> None:
    """Measure jobs per second through publish, consume, result, acknowledge.

    Uses the broker of SLUICE_AMQP_URL, or starts a private one.
    """
    names = _chosen(contenders)
    try:
        report = asyncio.run(_measure(names, jobs, rounds, concurrency))
    except BenchFailed as error:
        raise click.ClickException(str(error)) from error
    except SluiceError as error:
        raise CannotStart(str(error)) from error
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        click.echo("\n".join(render(report)))


def _chosen(contenders: str) -> list[str]:
    names = list(dict.fromkeys(contenders.split(",")))
    for name in names:
        if name not in CONTENDERS:
            raise click.BadParameter(
                f"{name!r} is none of {', '.join(CONTENDERS)}", param_hint="--contenders"
            )
        if lacking := missing(name):
            raise click.UsageError(
                f"{name} needs {', '.join(lacking)}: pip install 'sluicegate[bench]', "
                "or leave it out with --contenders"
            )
    return names


async def _measure(names: list[str], jobs: int, rounds: int, concurrency: int) -> Report:
    given = os.environ.get("SLUICE_AMQP_URL")
    _say("using the broker of SLUICE_AMQP_URL" if given else "starting a private broker")
    async with broker_or_private(given) as url:
        here = machine(await _broker_version(url), private_broker=not given)
        turns = await race(
            setups(url, names, concurrency, secrets.token_hex(4)),
            jobs=jobs,
            rounds=rounds,
            say=_say,
        )
    return Report(
        jobs=jobs,
        rounds=rounds,
        concurrency=concurrency,
        prompt_bytes=PROMPT_BYTES,
        engine_cpu_ms=await engine_cpu_ms(),
        machine=here,
        lines=summary(turns),
        turns=turns,
    )


async def _broker_version(url: str) -> str:
    connection = await connect(url, timeout_s=10, name="sluice bench")
    try:
        return str(server_version(connection))
    finally:
        await close(connection)


def _say(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
