"""A private node at rest: its folder, name, ports, configuration and logs."""

import os
import random
import re
import secrets
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ..schemas import SluiceError

# Below every usual range of ephemeral ports. A client that keeps reconnecting to a loopback port
# inside that range while the broker is down can end up connected to itself and hold the port.
PORT_RANGE: Final = range(20_000, 32_000)
LOG_TAIL_BYTES: Final = 65_536
PLUGIN_NAME: Final = re.compile(r"rabbitmq_[a-z0-9_]+")


class BrokerFailed(SluiceError):
    """The private broker did not come up; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class BrokerNode:
    """What stays the same when a node is killed and started again."""

    folder: Path
    name: str
    amqp_port: int
    distribution_port: int
    mapper_port: int
    management_port: int

    @classmethod
    def prepare(cls, config: str = "", plugins: Sequence[str] = ()) -> Self:
        """A fresh folder with everything a node needs to start.

        `config` is added to its rabbitmq.conf. Raises `ValueError` for what is no plugin's name.
        """
        for plugin in plugins:
            # The name goes into an Erlang term.
            if not PLUGIN_NAME.fullmatch(plugin):
                raise ValueError(f"{plugin!r} is not the name of a RabbitMQ plugin")
        ports = free_ports(4)
        folder = Path(tempfile.mkdtemp(prefix="sluice-broker-"))
        node = cls(folder, f"sluice-{secrets.token_hex(4)}@localhost", *ports)
        for name in ("conf.d", "data", "log"):
            (folder / name).mkdir()
        cookie = folder / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(20))
        cookie.chmod(0o400)  # Erlang refuses a cookie that others can read
        (folder / "enabled_plugins").write_text(f"[{','.join(plugins)}].\n")
        lines = [f"listeners.tcp.1 = 127.0.0.1:{node.amqp_port}"]
        if "rabbitmq_management" in plugins:
            lines += [
                "management.tcp.ip = 127.0.0.1",
                f"management.tcp.port = {node.management_port}",
            ]
        (folder / "rabbitmq.conf").write_text("\n".join([*lines, config, ""]))
        return node

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.amqp_port}/"

    @property
    def console_log(self) -> Path:
        """What the latest run wrote before its own log was open, and its last words."""
        return self.folder / "console.log"

    @property
    def node_log(self) -> Path:
        return self.folder / "log" / "node.log"

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment to run in: ours, less whatever leads to the system's configuration."""
        env = {
            name: value
            for name, value in inherited.items()
            if not name.startswith(("RABBITMQ_", "ERL_", "NOTIFY_SOCKET"))
        }
        folder = str(self.folder)
        return env | {
            "HOME": folder,  # the cookie
            "ERL_CRASH_DUMP_SECONDS": "0",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self.mapper_port),
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{folder}/advanced.config",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_CONFIG_FILES": f"{folder}/conf.d",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_FEATURE_FLAGS_FILE": f"{folder}/feature_flags",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/config",
            "RABBITMQ_LOGS": str(self.node_log),
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_PLUGINS_EXPAND_DIR": f"{folder}/plugins",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            # Makes the start script become the node rather than wait for it as a shell: one process
            # less, and SIGTERM reaches the node itself.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def log_tail(self, lines: int) -> str:
        return "\n".join(
            line for log in (self.console_log, self.node_log) for line in _read_end(log)[-lines:]
        )

    def failure(self, what: str) -> BrokerFailed:
        """An error with the part of the log that says why."""
        # The reason stands among the first errors; pages of crash reports follow it.
        errors = [line for line in _read_end(self.console_log) if "[error]" in line][:12]
        lines = dict.fromkeys([*errors, *self.log_tail(12).splitlines()])
        return BrokerFailed("\n".join([f"The private broker {what}. From its log:", *lines]))

    def queues_registered(self) -> bool:
        """Whether the node's register of quorum queues on disk names each queue that it has."""
        for register in self.folder.glob("data/*/quorum/*/names.dets"):
            names = register.read_bytes()
            queues = [entry.name for entry in register.parent.iterdir() if entry.is_dir()]
            if any(queue.encode() not in names for queue in queues):
                return False
        return True


def free_ports(count: int) -> list[int]:
    """Distinct ports of `PORT_RANGE` that nobody listens on now."""
    free: list[int] = []
    candidates = list(PORT_RANGE)
    random.SystemRandom().shuffle(candidates)
    for port in candidates:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As the broker does: a port with old connections in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise BrokerFailed(f"no {count} free ports between {PORT_RANGE.start} and {PORT_RANGE.stop}")


def _read_end(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
