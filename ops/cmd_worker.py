"""`sluice worker`: the service that takes jobs, generates and publishes results."""

import os

import click
from msgspec import structs

from ..worker.config import Config
from .service_command import serve
from .settings import ByTopic, option_flags


@click.command(name="worker", cls=ByTopic)
@option_flags()
def command(config: Config) -> None:
    """Take jobs, generate text, publish results; until SIGTERM or Ctrl-C.

    The first signal stops taking, finishes what can be finished in --drain-grace-s and hands the
    rest back; the second ends at once. No message is lost either way.

    It watches its engine, and tries it with a prompt of its own (--canary-prompt). One that dies,
    hangs, runs out of memory or brings no numbers is replaced, --engine-restarts times in half an
    hour. Exit status: 0 stopped; 2 bad settings; 3 can't start; 4 its engine is lost, and
    --engine-restarts is 0: start it afresh; 5 no engine works: see to it before it is started.

    \b
    Examples:
      sluice worker                                    the embedded model, for trying out
      sluice worker --model Qwen/Qwen3-0.6B --lanes interactive=16,batch=4
      SLUICE_AMQP_URL=amqps://user:password@host/ sluice worker --config sluice.toml

    Set the broker's address by variable or file: a flag shows in the list of processes.
    """
    # The service pulls in the broker's client and more, which `--help` doesn't need.
    from ..worker.service import run_worker  # noqa: PLC0415

    ready = with_model(config)
    serve(run_worker, ready)


def with_model(config: Config) -> Config:
    """The configuration with a model in it: the embedded one, made if need be, where none is set.

    Raises ModelUnavailable. With the embedded model nothing may look for a model hub, so the
    environment says offline.
    """
    if config.engine != "vllm":
        return config
    from .embedded_model import offline_environment, resolve_model  # noqa: PLC0415

    if not config.model:
        os.environ.update(offline_environment())
    return structs.replace(config, model=resolve_model(config.model))
