"""`sluice checker`: what it starts with."""

from typing import Any

import pytest
from click.testing import CliRunner
from sluicegate.ops import cmd_checker
from sluicegate.ops.cli import main
from sluicegate.worker import checker
from sluicegate.worker.config import Config


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that a checker was to run with."""
    seen: list[Config] = []

    def run(config: Config) -> int:
        seen.append(config)
        return 0

    monkeypatch.setattr(checker, "run_checker", run)
    monkeypatch.setattr(cmd_checker, "with_scoring_model", _same)
    return seen


def _same(config: Config) -> Config:
    return config


@pytest.mark.parametrize(
    ("arguments", "environment", "port"),
    [
        ((), {}, 9465),
        (("--metrics-port", "9464"), {}, 9464),
        ((), {"SLUICE_METRICS_PORT": "7000"}, 7000),
    ],
)
def test_a_worker_can_run_beside_it(
    arguments: tuple[str, ...], environment: dict[str, Any], port: int, started: list[Config]
) -> None:
    result = CliRunner().invoke(main, ["checker", *arguments], env=environment)
    assert result.exit_code == 0, result.output
    assert [config.metrics_port for config in started] == [port]
