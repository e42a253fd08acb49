"""`sluice worker` up to the point where the service takes over."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from sluicegate.ops import embedded_model
from sluicegate.ops.cli import main
from sluicegate.ops.cmd_worker import with_model
from sluicegate.ops.embedded_model import offline_environment
from sluicegate.worker import service
from sluicegate.worker.config import Config


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for name in list(os.environ):
        if name.startswith("SLUICE_") or name in offline_environment():
            del os.environ[name]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def test_the_scripted_engine_needs_no_model() -> None:
    config = Config(engine="scripted")
    assert with_model(config) is config


def test_a_model_of_ones_own_is_taken_and_may_be_fetched(model: Path) -> None:
    assert with_model(Config(model=str(model))).model == str(model)
    assert "HF_HUB_OFFLINE" not in os.environ


def test_without_a_model_the_embedded_one_is_used_offline(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*_: object) -> Path:
        return model

    monkeypatch.setattr(embedded_model, "ensure_embedded_model", made)
    assert with_model(Config()).model == str(model)
    assert offline_environment().items() <= os.environ.items()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--model", "./nowhere"], 3, "there is no model folder"),
        (["--engine", "scripted", "--amqp-url", "amqp://u:secret@127.0.0.1:1/"], 3, "can't reach"),
        (["--engine", "scripted", "--lanes", "slow=1"], 2, "lanes"),
        (["--lanes", "batch=0"], 2, "lanes"),
        (["--lanes", "batch=" + "9" * 5000], 2, "lanes"),
        (["--engine", "scripted", "--lanes", "batch=60000,interactive=6000"], 2, "at most 65535"),
    ],
)
def test_it_says_why_it_can_not_start(arguments: list[str], code: int, said: str) -> None:
    result = CliRunner().invoke(main, ["worker", "--metrics-port", "0", *arguments])
    assert result.exit_code == code, result.output
    error = next(line for line in result.stderr.splitlines() if line.startswith("Error: "))
    assert said in error
    assert "secret" not in result.output
    assert "Traceback" not in result.output


def test_the_exit_code_is_the_services(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Config] = []

    def run_worker(config: Config) -> int:
        seen.append(config)
        return 4

    monkeypatch.setattr(service, "run_worker", run_worker)
    result = CliRunner().invoke(main, ["worker", "--engine", "scripted", "--worker-id", "w"])
    assert (result.exit_code, seen) == (4, [Config(engine="scripted", worker_id="w")])
