"""`sluice worker`: the service that takes jobs, generates and publishes results."""

import os

import click
from msgspec import structs

from ..worker.config import Config
from .settings import ByTopic, option_flags


@click.command(name="worker", cls=ByTopic)
@option_flags()
def command(config: Config) -> None:
    """Take jobs, generate text, publish results; until SIGTERM or Ctrl-C.

    The first signal stops taking, finishes what can be finished in --drain-grace-s and hands the
    rest back; the second ends at once. No message is lost either way.

    \b
    Examples:
      sluice worker                                    the embedded model, for trying out
      sluice worker --model Qwen/Qwen3-0.6B --lanes interactive=16,batch=4
      SLUICE_AMQP_URL=amqps://user:password@host/ sluice worker --config sluice.toml

    Set the broker's address by variable or file: a flag shows in the list of processes.
    """
    # The service pulls in the broker's client and more, which `--help` doesn't need.
    from ..worker.service import run_worker  # noqa: PLC0415

    click.get_current_context().exit(run_worker(with_model(config)))


def with_model(config: Config) -> Config:
    """The configuration with a model in it: the embedded one, made if need be, where none is set.

    With the embedded model nothing may look for a model hub, so the environment says offline.
    """
    if config.engine != "vllm" or config.model:
        return config
    from .embedded_model import ensure_embedded_model, offline_environment  # noqa: PLC0415

    folder = ensure_embedded_model()
    os.environ.update(offline_environment())
    return structs.replace(config, model=str(folder))
