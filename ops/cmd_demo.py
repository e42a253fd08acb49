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
    from ..schemas import encode  # noqa: PLC0415
    from .demo import demo_jobs, run_demo, show  # noqa: PLC0415

    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"[{time.monotonic() - began:5.1f} s] {text}", err=True)

    given = current_settings().sources["amqp_url"].kind != "default"
    results = asyncio.run(run_demo(with_model(config), broker_is_given=given, say=say))
    for demo, result in zip(demo_jobs(), results, strict=True):
        click.echo(encode(result).decode() if as_json else f"\n{show(demo, result)}")
    done = sum(result.ok for result in results)
    say(f"{done} of {len(results)} jobs completed")
    if done < len(results):
        click.get_current_context().exit(console.FAILED)
