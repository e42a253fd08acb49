"""The time to the first token of an answer whose reasoning was cut, against a normal first token.

`python -m tests.bench.reasoning --help` from the root of the checkout. The cut is that of a session
as the worker runs it: the running request is aborted, what is kept is closed and goes to the engine
as a new request. Normal: one request with a prompt of the same length.
"""

import asyncio
import os
import sys

import click
import msgspec
from sluicegate.ops.embedded_model import offline_environment, resolve_model
from sluicegate.schemas import SluiceError
from sluicegate.worker import logs
from sluicegate.worker.config import Config

from .engine import CannotStart, place
from .engine_report import BenchFailed
from .reasoning_report import CutReport, cut_lines, cut_tables

_CONTEXT = 1024
# The question, the tags, the wrap-up and the answer.
_BESIDES = 160


@click.command(context_settings={"show_default": True})
@click.option("--model", help="Folder or hub name; without it SLUICE_MODEL, else the embedded one.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, help="Turns of each length.")
@click.option("--kept", default="64,256,512", help="Tokens of reasoning that stay, in this order.")
@click.option("--eager", is_flag=True, help="Don't compile the model: starts sooner, runs slower.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON on standard output.")
def main(model: str | None, rounds: int, kept: str, eager: bool, as_json: bool) -> None:
    """Measure the seam: from cutting the reasoning to the first token of the answer."""
    lengths = _lengths(kept)
    if not model and not os.environ.get("SLUICE_MODEL"):
        os.environ.update(offline_environment())
    # Seconds, which `--help` doesn't need.
    from .reasoning_race import END, START

    config = Config(
        model=resolve_model(model),
        max_model_len=_CONTEXT,
        enforce_eager=eager,
        lanes="interactive=1",
        reasoning_start=START,
        reasoning_end=END,
    )
    try:
        # vLLM would log on standard output, where the report goes.
        with logs.for_vllm("human", "warning"):
            report = asyncio.run(_measure(config, lengths, rounds))
    except BenchFailed as error:
        raise click.ClickException(str(error)) from error
    except SluiceError as error:
        raise CannotStart(str(error)) from error
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        click.echo("\n".join(cut_tables(report)))


def _lengths(text: str) -> list[int]:
    parts = text.split(",")
    most = _CONTEXT - _BESIDES
    if not all(part.isdecimal() and 0 < int(part) <= most for part in parts):
        raise click.BadParameter(
            f"{text!r} is no list of numbers up to {most} such as 64,256,512", param_hint="--kept"
        )
    return [int(part) for part in dict.fromkeys(parts)]


async def _measure(config: Config, lengths: list[int], rounds: int) -> CutReport:
    from sluicegate.worker.vllm_engine import VllmEngine

    from .reasoning_race import race

    here = place(config)
    engine = VllmEngine(config)
    _say("starting the engine")
    try:
        await engine.open()
        turns = await race(engine, lengths, rounds=rounds, say=_say)
    finally:
        await engine.close()
    return CutReport(rounds=rounds, place=here, lines=cut_lines(turns), turns=turns)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
