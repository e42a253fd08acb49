"""`sluice demo`: the whole way of a job, once, on this machine."""

import asyncio
import time

import click

from ..worker.config import Config
from . import console
from .cmd_worker import with_model
from .settings import current_settings, option_flags


@click.command(name="demo")
@option_flags("amqp_url", "model", "max_model_len", "engine")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON lines.")
def command(config: Config, as_json: bool) -> None:
    """Publish a handful of jobs, run them on a real engine, and print what came back.

    Starts a private RabbitMQ node (unless --amqp-url or SLUICE_AMQP_URL names a broker) and a
    worker with the embedded model (unless --model or SLUICE_MODEL names another), and stops both.

    \b
    Examples:
      sluice demo
      SLUICE_MODEL=Qwen/Qwen3-0.6B sluice demo
      sluice demo --json | jq .timings
    """
    # They pull in the broker's client, which `--help` doesn't need.
    from ..schemas import GenerationResult, encode  # noqa: PLC0415
    from .demo import DemoJob, demo_jobs, run_demo, text_of  # noqa: PLC0415

    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"[{time.monotonic() - began:5.1f} s] {text}", err=True)

    def show(demo: DemoJob, result: GenerationResult) -> None:
        click.echo(encode(result).decode() if as_json else f"\n{text_of(demo, result)}\n")

    given = current_settings().sources["amqp_url"].kind != "default"
    jobs = demo_jobs()
    ready = with_model(config)
    done = asyncio.run(run_demo(ready, jobs, broker_is_given=given, say=say, show=show))
    if done < len(jobs):
        click.get_current_context().exit(console.FAILED)
