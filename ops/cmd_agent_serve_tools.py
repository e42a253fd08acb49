"""`sluice agent serve-tools`: the service that runs tools for agents elsewhere."""

import click
from msgspec import structs

from ..worker.config import Config
from .service_command import on_port, serve
from .settings import ByTopic, option_flags

# Other services on the same host have those before it.
PORT = 9467

_SETTINGS = (
    "amqp_url",
    "namespace",
    "connect_timeout_s",
    "publish_timeout_s",
    "heartbeat_s",
    "consumer_timeout_s",
    "worker_id",
    "drain_grace_s",
    "agent_slots",
    "agent_tools",
    "metrics_host",
    "metrics_port",
    "log_format",
    "log_level",
)


@click.command(name="serve-tools", cls=ByTopic)
@option_flags(*_SETTINGS)
def command(config: Config) -> None:
    """Run tools for agents elsewhere, over the broker; until SIGTERM or Ctrl-C.

    It serves the installed tools and those of --agent-tools. Where the agents run, the file that
    `sluice agent tools --json` writes here is named with --agent-tools-file. Start as many as there
    is work: they share the tools' queues. Its status port is 9467 where none is set.

    \b
    Examples:
      sluice agent serve-tools --agent-tools my_tools
      sluice agent serve-tools --agent-tools sluicegate.worker.tools.examples --agent-slots 4
    """
    # The service pulls in the broker's client and more, which `--help` doesn't need.
    from ..worker.tools.server import run_tool_server  # noqa: PLC0415

    config = on_port(config, PORT)
    # What is served elsewhere is not served here.
    config = structs.replace(config, agent_tools_file="")
    serve(run_tool_server, config)
