"""`sluice agent tools` and `sluice agent serve-tools`: what they print and what they start."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from sluicegate.ops import cmd_agent_serve_tools, cmd_agent_tools
from sluicegate.producer.errors import TopologyMissing
from sluicegate.schemas.tools import ToolSpec
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.tools import server
from sluicegate.worker.tools.registry import Registry

EXAMPLES = ("--agent-tools", "sluicegate.worker.tools.examples")


def test_the_table() -> None:
    result = CliRunner().invoke(cmd_agent_tools.command, EXAMPLES)
    assert result.exit_code == 0, result.output
    first, *rows = result.stdout.splitlines()
    assert first.split() == ["TOOL", "QUOTA", "TIMEOUT", "IS", "WHAT"]
    assert [row.split()[0] for row in rows] == ["calculator", "clock", "note", "lookup"]
    assert "idempotent, polls" in rows[1]
    assert all(len(row) <= 120 for row in rows)


def test_without_any_it_says_how_to_get_some() -> None:
    result = CliRunner().invoke(cmd_agent_tools.command, [])
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "--agent-tools" in result.stderr


def test_what_it_writes_is_read_elsewhere(tmp_path: Path) -> None:
    result = CliRunner().invoke(cmd_agent_tools.command, [*EXAMPLES, "--json"])
    specs = msgspec.json.decode(result.stdout, type=list[ToolSpec])
    assert [each.name for each in specs] == ["calculator", "clock", "note", "lookup"]
    assert all(each.remote for each in specs)
    file = tmp_path / "tools.json"
    file.write_text(result.stdout)
    elsewhere = Registry.load(Config(agent_tools_file=str(file)))
    assert list(elsewhere.specs.values()) == specs
    table = CliRunner().invoke(cmd_agent_tools.command, ["--agent-tools-file", str(file)])
    assert table.stdout.count("remote") == 4


def test_tools_that_can_not_be_loaded() -> None:
    result = CliRunner().invoke(cmd_agent_tools.command, ["--agent-tools", "no_such_tools"])
    assert isinstance(result.exception, ConfigError)
    assert "no_such_tools" in str(result.exception)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that a server was to run with."""
    seen: list[Config] = []

    def run(config: Config) -> int:
        seen.append(config)
        return 0

    monkeypatch.setattr(server, "run_tool_server", run)
    return seen


@pytest.mark.parametrize(
    ("arguments", "environment", "port"),
    [
        ((), {}, 9467),
        (("--metrics-port", "9464"), {}, 9464),
        ((), {"SLUICE_METRICS_PORT": "7000"}, 7000),
    ],
)
def test_a_worker_can_run_beside_it(
    arguments: tuple[str, ...], environment: dict[str, Any], port: int, started: list[Config]
) -> None:
    result = CliRunner().invoke(
        cmd_agent_serve_tools.command, [*EXAMPLES, *arguments], env=environment
    )
    assert result.exit_code == 0, result.output
    assert [each.metrics_port for each in started] == [port]
    assert [each.agent_tools for each in started] == ["sluicegate.worker.tools.examples"]


def test_what_is_served_elsewhere_is_not_served_here(started: list[Config]) -> None:
    """The settings of a host on which agents run too may name such tools."""
    environment = {"SLUICE_AGENT_TOOLS_FILE": "tools.json"}
    result = CliRunner().invoke(cmd_agent_serve_tools.command, EXAMPLES, env=environment)
    assert result.exit_code == 0, result.output
    assert started[0].agent_tools_file == ""


def test_nothing_to_serve() -> None:
    result = CliRunner().invoke(cmd_agent_serve_tools.command, [])
    assert isinstance(result.exception, ConfigError)
    assert "no tools to serve" in str(result.exception)


def test_what_it_lacks_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(config: Config) -> int:
        raise TopologyMissing(["exchange 'x'"])

    monkeypatch.setattr(server, "run_tool_server", run)
    result = CliRunner().invoke(cmd_agent_serve_tools.command, EXAMPLES)
    assert type(result.exception).__name__ == "CannotStart"
