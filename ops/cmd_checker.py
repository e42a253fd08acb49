"""`sluice checker`: the service that judges whole texts on the CPU."""

import os

import click
from msgspec import structs

from ..worker.config import Config
from .service_command import on_port, serve
from .settings import ByTopic, option_flags

# A worker on the same host has the port that is the default.
PORT = 9465

_SETTINGS = (
    "amqp_url",
    "namespace",
    "connect_timeout_s",
    "publish_timeout_s",
    "heartbeat_s",
    "worker_id",
    "drain_grace_s",
    "retry_file",
    "scoring_model",
    "embedding_model",
    "checks_file",
    "check_batch",
    "check_wait_s",
    "check_timeout_s",
    "check_threads",
    "metrics_host",
    "metrics_port",
    "log_format",
    "log_level",
)


@click.command(name="checker", cls=ByTopic)
@option_flags(*_SETTINGS)
def command(config: Config) -> None:
    """Judge the texts of jobs that ask for it (`checks`: block or observe); until SIGTERM or
    Ctrl-C.

    Each text is held against the checks of its job's profile and the job's own rules. With "block"
    what passes is published as the job's result, what does not is sent back to be generated anew,
    changed by what was wrong, and when its attempts are used up it goes to the dead letters, with
    all its texts and verdicts. With "observe" the result is out already, and the verdict follows
    as an event.

    No GPU is needed. Start as many as there is work: they share one queue. Its status port is 9465
    where none is set, so that a worker can run beside it.

    \b
    Examples:
      sluice checker                                   the embedded model scores the texts
      sluice checker --scoring-model Qwen/Qwen3-0.6B --check-batch 64
      sluice checker --checks-file thresholds.toml     as `sluice calibrate` writes it
    """
    # The service pulls in the broker's client and more, which `--help` doesn't need.
    from ..worker.checker import run_checker  # noqa: PLC0415

    config = on_port(config, PORT)
    ready = with_scoring_model(config)
    serve(run_checker, ready)


def with_scoring_model(config: Config) -> Config:
    """The configuration with a scoring model in it: the embedded one where none is set.

    Raises ModelUnavailable. With the embedded model alone nothing may look for a model hub.
    """
    from .embedded_model import (  # noqa: PLC0415
        ensure_embedded_model,
        offline_environment,
        resolve_model,
    )

    if config.scoring_model:
        return structs.replace(config, scoring_model=resolve_model(config.scoring_model))
    if not config.embedding_model:
        os.environ.update(offline_environment())
    return structs.replace(config, scoring_model=str(ensure_embedded_model()))
