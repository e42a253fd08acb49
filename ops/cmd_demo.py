"""`sluice demo`: the whole way of a job, once, on this machine; or a fault and how it is mended; or
a runaway agent and how it is stopped."""

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

import click
from click.core import ParameterSource

from ..worker.config import Config
from . import console
from .cmd_worker import with_model
from .plain_text import escaped
from .settings import current_settings, option_flags

# As in `faults.Fault`, whose module `--help` doesn't need.
FAULTS = (
    "nan",
    "uniform",
    "loop",
    "salad",
    "mojibake",
    "special",
    "language",
    "invalid-id",
    "reasoning-loop",
)
_WIDEST = 160


@click.command(name="demo")
@option_flags(
    "amqp_url",
    "model",
    "max_model_len",
    "engine",
    "reasoning_parser",
    "reasoning_start",
    "reasoning_end",
    "reasoning_wrap_up",
)
@click.option(
    "--inject",
    "fault",
    type=click.Choice(FAULTS),
    help="Put this fault into a real engine instead, and show it with and without the gates.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="With --inject: which tokens the fault is made of.",
)
@click.option(
    "--at",
    metavar="TOKEN",
    type=click.IntRange(min=0, max=500),
    default=24,
    show_default=True,
    help="With --inject: after how many tokens of the answer, or its reasoning, it strikes.",
)
@click.option(
    "--agent",
    is_flag=True,
    help="Run an agent job that goes round in circles instead, and show how it is stopped.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the results as JSON lines; with --inject or --agent, one JSON object.",
)
def command(
    config: Config, fault: str | None, seed: int, at: int, agent: bool, as_json: bool
) -> None:
    """Publish a handful of jobs, run them on a real engine, and print what came back.

    Starts a private RabbitMQ node (unless --amqp-url or SLUICE_AMQP_URL names a broker), a worker
    with the embedded model (unless --model or SLUICE_MODEL names another) and a checker, and stops
    all of them. The text of one job is rejected, and another attempt saves it; one can't be saved,
    and its dead letter is shown at the end.

    With --inject no broker is needed: one answer is generated twice on one engine with a fault in
    it, as a user of the plain engine would get it and with gates and rollback. Shown are both
    texts, the fault marked, and what was found when, by which gate, and what was done about it.
    Exit status 0: the fault was found and nothing of it is in the text; 1: it was not.

    With reasoning-loop the model finds itself inside a reasoning block, and the loop strikes there.
    The plain engine goes round until its tokens are used up, and gives no answer; the guard cuts
    the loop and has the model answer from what it thought before. Shown as well: the tokens and
    seconds that this saves. Exit status 0 wants an answer, too. A model without tags of its own
    reasons between <think> and </think>, unless --reasoning-start and --reasoning-end say others.

    With --agent a job with tools finds out what it can, and then makes the same call for ever: the
    watchdog sees it, the breaker warns it, takes tools away, and ends it with its work kept. Then
    the same job runs without a watchdog until its rounds are used up. Its trace is drawn, and what
    both cost. The model is played by a script, so no model is loaded; everything else is real. Exit
    status 0: the one was ended by the breaker, the other by its budget.

    \b
    Faults:
      nan             logits that are not numbers: a broken kernel, a poisoned KV cache
      uniform         the same behind nan_to_num: every token is as likely as any other
      loop            the same phrase round and round
      salad           a distribution that lost its shape: tokens from anywhere
      mojibake        UTF-8 read as cp1252
      special         special tokens, which bring no text
      language        a passage in another script, as from somebody else's answer
      invalid-id      token ids that no answer has, as when a mask fails
      reasoning-loop  the same thought round and round, before any answer

    \b
    Examples:
      sluice demo
      SLUICE_MODEL=Qwen/Qwen3-0.6B sluice demo
      sluice demo --json | jq .timings
      sluice demo --inject nan
      sluice demo --inject loop --seed 3 --at 40
      sluice demo --inject reasoning-loop
      sluice demo --inject language --json | jq '.gated.trips[].flaw'
      sluice demo --agent
    """
    if fault is None and any(map(_is_given, ("seed", "at"))):
        raise click.UsageError("--seed and --at go with --inject")
    if agent and fault is not None:
        raise click.UsageError("--agent and --inject are two demos: choose one")
    if agent:
        ok = _run_agent(config, as_json)
    elif fault is None:
        ok = _run_jobs(with_model(config), as_json)
    else:
        ok = _run_fault(with_model(config), fault, seed=seed, at=at, as_json=as_json)
    if not ok:
        click.get_current_context().exit(console.FAILED)


def _sayer(stream: TextIO | None = None) -> Callable[[str], None]:
    """Progress with the seconds since now, on standard error or where it is told."""
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"[{time.monotonic() - began:5.1f} s] {text}", file=stream, err=True)

    return say


def _is_given(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def _run_jobs(config: Config, as_json: bool) -> bool:
    # They pull in the broker's client, which `--help` doesn't need.
    from ..schemas import GenerationResult, encode  # noqa: PLC0415
    from .demo import DemoJob, demo_jobs, run_demo, text_of  # noqa: PLC0415

    def show(demo: DemoJob, result: GenerationResult) -> None:
        click.echo(escaped(encode(result)) if as_json else f"\n{text_of(demo, result)}\n")

    told: list[str] = []

    def bury(there: Config, job_id: str) -> None:
        told.extend(_letter(there, job_id, as_json=as_json))

    jobs = demo_jobs()
    wanted = asyncio.run(
        run_demo(
            config, jobs, broker_is_given=_broker_is_given(), say=_sayer(), show=show, bury=bury
        )
    )
    for line in told:
        click.echo(line)
    return wanted == len(jobs)


def _letter(config: Config, job_id: str, *, as_json: bool) -> list[str]:
    """What `sluice dlq show` says of a job that died."""
    from .cmd_dlq import show_letter  # noqa: PLC0415

    title = [] if as_json else ["", f"$ sluice dlq show {job_id}"]
    return [*title, *show_letter(config, job_id, as_json=as_json)]


def _run_agent(config: Config, as_json: bool) -> bool:
    # As above.
    from .demo_agent import run_demo  # noqa: PLC0415
    from .demo_agent_view import as_data, lines  # noqa: PLC0415

    demo = asyncio.run(run_demo(config, broker_is_given=_broker_is_given(), say=_sayer()))
    if as_json:
        console.print_json(as_data(demo))
    else:
        width = min(_WIDEST, shutil.get_terminal_size().columns)
        click.echo()
        for line in lines(demo, width=width, colour=sys.stdout.isatty()):
            click.echo(line)
    return demo.ok


def _broker_is_given() -> bool:
    return current_settings().sources["amqp_url"].kind != "default"


def _run_fault(config: Config, fault: str, *, seed: int, at: int, as_json: bool) -> bool:
    if config.engine != "vllm":
        raise click.UsageError("--inject needs the real engine: leave --engine at vllm")
    from .faults import Fault  # noqa: PLC0415  what `--help` doesn't need
    from .hush import hushed  # noqa: PLC0415
    from .inject_view import lines  # noqa: PLC0415

    with hushed() as terminal:
        say = _sayer(terminal)
        say("importing vLLM")
        try:
            from . import inject_run  # noqa: PLC0415  seconds, and not in every environment
        except ImportError as error:
            raise console.CannotStart(
                f"vLLM can't be imported ({error}): pip install 'sluicegate[gpu]' (or [cpu])"
            ) from error
        injection = asyncio.run(inject_run.run(config, Fault(fault), at=at, seed=seed, say=say))
    if as_json:
        console.print_json(injection)
    else:
        width = min(_WIDEST, shutil.get_terminal_size().columns)
        click.echo()
        for line in lines(injection, width=width, colour=sys.stdout.isatty()):
            click.echo(line)
    return injection.ok
