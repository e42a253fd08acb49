"""`sluice agent run`: the service that takes agent jobs from step to step."""

import click
from msgspec import structs

from ..worker.config import Config
from . import cmd_worker
from .service_command import on_port, serve
from .settings import ByTopic, option_flags

# A worker on the same host has the port that is the default, a checker the next one.
PORT = 9466

_SETTINGS = (
    "amqp_url",
    "namespace",
    "connect_timeout_s",
    "publish_timeout_s",
    "heartbeat_s",
    "consumer_timeout_s",
    "worker_id",
    "drain_grace_s",
    "engine",
    "model",
    "max_model_len",
    "engine_args",
    "agent_slots",
    "agent_tools",
    "agent_tools_file",
    "agent_rules",
    "agent_step_timeout_s",
    "agent_keep_rounds",
    "agent_fold_after",
    "tool_parser",
    "chat_template",
    "watchdog_file",
    "embedding_model",
    "metrics_host",
    "metrics_port",
    "log_format",
    "log_level",
)


@click.command(name="run", cls=ByTopic)
@option_flags(*_SETTINGS)
def command(config: Config) -> None:
    """Take agent jobs from step to step, and call their tools; until SIGTERM or Ctrl-C.

    Each step publishes where the job stands and acknowledges where it stood, in one transaction:
    whoever dies, the broker has the job, and another service goes on. Answers of the model are
    ordinary jobs, so workers must run; they, and this service, must have the same --model. Of it
    only the tokenizer is loaded here, and no GPU is needed.

    Start as many as there is work: they share one queue, and each must have the same tools. The
    first signal finishes the steps under way within --drain-grace-s and hands back the rest; the
    second ends at once. Its status port is 9466 where none is set, so that a worker and a checker
    can run beside it.

    \b
    Examples:
      sluice agent run --agent-tools sluicegate.worker.tools.examples     the embedded model's
      sluice agent run --agent-tools shop.tools --model Qwen/Qwen3-8B --tool-parser hermes
      sluice agent run --watchdog-file watchdog.toml                      thresholds of your own
    """
    # The service pulls in the broker's client and more, which `--help` doesn't need.
    from ..worker.agent.service import run_agents  # noqa: PLC0415

    config = on_port(config, PORT)
    ready = with_tokenizer(config)
    serve(run_agents, ready)


def with_tokenizer(config: Config) -> Config:
    """The configuration with a model in it, as a worker's; where an embedding model is set, it may
    be looked for on a hub. Raises ModelUnavailable."""
    if config.engine != "vllm" or config.model or not config.embedding_model:
        return cmd_worker.with_model(config)
    from .embedded_model import resolve_model  # noqa: PLC0415

    return structs.replace(config, model=resolve_model(None))
