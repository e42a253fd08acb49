"""A private node at rest."""

from pathlib import Path

import pytest
from sluicegate.ops.broker_node import BrokerNode


def test_the_systems_configuration_is_out_of_reach(tmp_path: Path) -> None:
    node = BrokerNode(tmp_path, "sluice-1@localhost", 1, 2, 3, 4)
    env = node.environment(
        {"RABBITMQ_NODENAME": "rabbit", "ERL_FLAGS": "-x", "HOME": "/root", "PATH": "/bin"}
    )
    assert env["PATH"] == "/bin"
    assert "ERL_FLAGS" not in env
    assert env["RABBITMQ_NODENAME"] == "sluice-1@localhost"
    files = [value for name, value in env.items() if name.endswith(("_FILE", "_FILES", "_BASE"))]
    assert len(files) >= 7
    assert all(value.startswith(str(tmp_path)) for value in [*files, env["HOME"]])


def test_a_plugin_name_cant_smuggle_anything_in() -> None:
    with pytest.raises(ValueError, match="not the name of a RabbitMQ plugin"):
        BrokerNode.prepare(plugins=["rabbitmq_management]. halt()."])
