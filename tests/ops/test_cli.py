"""The `sluice` command: quick to answer, clear when something is wrong, exact in its exit codes."""

import importlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from sluicegate.ops import cli, failures
from sluicegate.ops.cli import COMMANDS, main
from sluicegate.ops.cmd_agent import AGENT_COMMANDS
from sluicegate.producer import errors as producer_errors
from sluicegate.producer.versions import WrongBroker
from sluicegate.schemas import InvalidMessage, Reason, SluiceError
from sluicegate.schemas.json_schema import message_schemas
from sluicegate.worker.config import ConfigError

PROGRAM = Path(sys.executable).parent / "sluice"
HEAVY = {"torch", "vllm", "transformers", "numpy"}
ANSWER_S = 0.5


def sluice(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, arguments, env=env)


def environment(**more: str) -> dict[str, str]:
    """This process's environment without our variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    return {**kept, **more}


def modules_after(statement: str, *, said: str = "") -> set[str]:
    """Every module that a fresh Python has loaded after a statement that printed `said`."""
    code = f"{statement}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, env=environment()
    )
    assert said in done.stdout
    return set(json.loads(done.stdout.splitlines()[-1]))


def run_cli(*arguments: str) -> str:
    return (
        "from sluicegate.ops.cli import main\n"
        f"main({list(arguments)!r}, prog_name='sluice', standalone_mode=False)"
    )


class TestAnswersAtOnce:
    @pytest.mark.parametrize(
        ("flag", "said"), [("--help", "Usage: sluice"), ("--version", "sluice ")]
    )
    def test_nothing_but_click_is_imported(self, flag: str, said: str) -> None:
        before = modules_after("import click, importlib.metadata")
        loaded = modules_after(run_cli(flag), said=said) - before
        foreign = {
            name
            for name in loaded
            if name.partition(".")[0] not in {*sys.stdlib_module_names, "click", "sluicegate"}
        }
        assert foreign == set()
        ours = {name for name in loaded if name.startswith("sluicegate.")}
        assert ours == {"sluicegate.ops", "sluicegate.ops.cli", "sluicegate.ops.lazy_group"}

    def test_help_of_a_group_imports_none_of_its_commands(self) -> None:
        loaded = modules_after(run_cli("agent", "--help"), said="Usage: sluice agent")
        assert not {name for name in loaded if name.startswith("sluicegate.ops.cmd_agent_")}

    def test_the_program_answers_in_time(self) -> None:
        def once() -> float:
            began = time.perf_counter()
            subprocess.run([PROGRAM, "--help"], check=True, capture_output=True, env=environment())
            return time.perf_counter() - began

        # The best of some: another process on the machine must not fail the test.
        assert min(once() for _ in range(5)) < ANSWER_S

    @pytest.mark.parametrize("name", COMMANDS)
    def test_help_of_a_command_loads_no_engine(self, name: str) -> None:
        loaded = modules_after(run_cli(name, "--help"), said=f"Usage: sluice {name}")
        assert not loaded & HEAVY

    @pytest.mark.parametrize("name", AGENT_COMMANDS)
    def test_help_of_a_command_of_agents_loads_no_engine(self, name: str) -> None:
        said = f"Usage: sluice agent {name}"
        assert not modules_after(run_cli("agent", name, "--help"), said=said) & HEAVY

    def test_a_backend_that_publishes_loads_no_engine(self) -> None:
        assert not modules_after("import sluicegate.producer") & HEAVY


class TestHelp:
    def test_it_teaches(self) -> None:
        said = sluice("--help").stdout
        for name in COMMANDS:
            assert f"  {name}" in said
        for word in ("Examples:", "SLUICE_AMQP_URL", "SLUICE_MODEL", "Exit status", "0 done"):
            assert word in said

    @pytest.mark.parametrize("name", COMMANDS)
    def test_the_table_tells_the_truth(self, name: str) -> None:
        """The help of a command is written twice, so that the first need not load the second."""
        module = importlib.import_module(f"sluicegate.ops.cmd_{name}")
        assert isinstance(module.command, click.Command)
        assert sluice(name, "--help").exit_code == 0

    def test_the_version_is_that_of_the_distribution(self) -> None:
        assert sluice("--version").stdout == f"sluice {importlib.metadata.version('sluicegate')}\n"

    @pytest.mark.parametrize("name", AGENT_COMMANDS)
    def test_the_table_of_agents_tells_the_truth(self, name: str) -> None:
        said = sluice("agent", "--help").stdout
        assert f"  {name} " in said
        assert sluice("agent", name, "--help").exit_code == 0

    def test_a_wrong_command_of_a_group_suggests_the_nearest(self) -> None:
        result = sluice("agent", "trase")
        assert result.exit_code == 2
        assert "No such command 'trase'. Did you mean 'trace'?" in result.stderr

    @pytest.mark.parametrize(
        ("wrong", "hint"),
        [
            ("wroker", "Did you mean 'worker'?"),
            ("xyz", f"There are: {', '.join(COMMANDS)}."),
        ],
    )
    def test_a_wrong_command_suggests_the_nearest(self, wrong: str, hint: str) -> None:
        result = sluice(wrong)
        assert result.exit_code == 2
        assert f"No such command '{wrong}'. {hint}" in result.stderr

    def test_a_wrong_option_is_named(self) -> None:
        result = sluice("--cofnig", "x", "config", "show")
        assert result.exit_code == 2
        assert "--config" in result.stderr


def failing(monkeypatch: pytest.MonkeyPatch, failure: BaseException) -> None:
    """Let `sluice schema` fail."""

    @click.command()
    def command() -> None:
        raise failure

    module = importlib.import_module("sluicegate.ops.cmd_schema")
    monkeypatch.setattr(module, "command", command)


class TestErrors:
    CASES: tuple[tuple[BaseException, int, str], ...] = (
        (SluiceError("It failed. Do that."), 1, "Error: It failed. Do that.\n"),
        (ConfigError("x"), 2, "Error: x\n"),
        (InvalidMessage(Reason.INVALID_FIELD, "$.x", "bad"), 2, "Error: $.x: bad\n"),
        (producer_errors.BrokerUnreachable("x"), 3, "Error: x\n"),
        (producer_errors.AccessRefused("x"), 3, "Error: x\n"),
        (producer_errors.TopologyMissing(["queue q"]), 3, "Error: missing on the broker: queue q"),
        (producer_errors.TopologyConflict("x"), 1, "Error: x\n"),
        (producer_errors.QueueFull("x"), 1, "Error: x\n"),
        (WrongBroker("x"), 3, "Error: x\n"),
        (
            FileNotFoundError(2, "No such file", "jobs.jsonl"),
            2,
            "Error: jobs.jsonl: No such file\n",
        ),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (
            ValueError("odd"),
            1,
            "Error: unexpected ValueError: odd. Run it again as `sluice --debug",
        ),
        (SluiceError("amqp://u:secret@h/ is gone"), 1, "Error: amqp://u:***@h/ is gone\n"),
    )

    @pytest.mark.parametrize("case", range(len(CASES)))
    def test_one_line_and_the_right_exit_code(
        self, case: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failure, code, said = self.CASES[case]
        failing(monkeypatch, failure)
        result = sluice("schema")
        assert (result.exit_code, result.stdout) == (code, "")
        assert result.stderr.startswith(said)
        assert "Traceback" not in result.stderr

    def test_each_failure_of_a_group_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        inner = ExceptionGroup("inner", [producer_errors.BrokerUnreachable("gone")])
        failing(monkeypatch, ExceptionGroup("tasks", [SluiceError("odd"), inner]))
        result = sluice("schema")
        assert result.exit_code == 3
        assert result.stderr == "Error: odd\nError: gone\n"

    @pytest.mark.parametrize(
        ("arguments", "env"),
        [(["--debug", "schema"], {}), (["schema"], {"SLUICE_DEBUG": "1"})],
    )
    def test_a_traceback_where_it_is_asked_for(
        self, arguments: list[str], env: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing(monkeypatch, ValueError("amqp://u:secret@h/"))
        result = sluice(*arguments, env=env)
        assert result.exit_code == 1
        assert "Traceback" in result.stderr
        assert "secret" not in result.stderr

    def test_exit_codes_of_clicks_own_pass(self, monkeypatch: pytest.MonkeyPatch) -> None:
        failing(monkeypatch, click.exceptions.Exit(7))
        assert sluice("schema").exit_code == 7
        failing(monkeypatch, click.UsageError("odd"))
        assert sluice("schema").exit_code == 2

    def test_no_start_and_bad_input_are_told_apart(self) -> None:
        assert not set(failures.NO_START) & set(failures.BAD_INPUT)
        for kind in (*failures.NO_START, *failures.BAD_INPUT):
            assert issubclass(kind, SluiceError)


class TestAsAProgram:
    def test_a_reader_who_has_had_enough(self) -> None:
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run(
                [PROGRAM, "schema"],
                check=False,
                stdout=write,
                stderr=subprocess.PIPE,
                env=environment(),
            )
        finally:
            os.close(write)
        assert done.returncode == 1
        assert done.stderr == b""

    @pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
    @pytest.mark.parametrize(
        ("arguments", "code"),
        [(["config", "show"], 0), (["nonsense"], 2), (["submit", "--file", "-"], 3)],
    )
    def test_closed_streams(self, closed: str, arguments: list[str], code: int) -> None:
        nowhere = environment(SLUICE_AMQP_URL="amqp://127.0.0.1:1/")
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", PROGRAM, *arguments],
            check=False,
            capture_output=True,
            env=nowhere,
        )
        assert done.returncode == code
        assert b"Traceback" not in done.stderr
        assert b"AttributeError" not in done.stderr

    def test_an_interrupt_before_it_has_begun(self, tmp_path: Path) -> None:
        (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
        done = subprocess.run(
            [sys.executable, "-c", "import sluicegate.ops.cli"],
            check=False,
            capture_output=True,
            env=environment(PYTHONPATH=str(tmp_path)),
        )
        assert (done.returncode, done.stderr) == (130, b"")

    def test_an_interrupt(self, tmp_path: Path) -> None:
        waiting = tmp_path / "waiting"
        os.mkfifo(waiting)
        # Reading the settings waits for ever: nobody writes to the pipe.
        process = subprocess.Popen(
            [PROGRAM, "--config", waiting, "config", "show"],
            stderr=subprocess.PIPE,
            env=environment(),
        )
        try:
            # Opens once the program reads, so that it is there where it should be interrupted.
            with waiting.open("w"):
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=20)
        finally:
            process.kill()
        assert (process.returncode, said) == (130, b"Interrupted.\n")


class TestSchema:
    def test_all_of_them_in_one_object(self) -> None:
        assert json.loads(sluice("schema").stdout) == _plain(message_schemas())

    @pytest.mark.parametrize("name", sorted(message_schemas()))
    def test_one_of_them(self, name: str) -> None:
        assert json.loads(sluice("schema", name, "--json").stdout) == _plain(
            message_schemas()[name]
        )

    def test_none_of_that_name(self) -> None:
        result = sluice("schema", "job")
        assert result.exit_code == 2
        assert "generation_job" in result.stderr


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_the_table_of_commands_is_what_is_there() -> None:
    there = {path.stem.removeprefix("cmd_") for path in Path(cli.__file__).parent.glob("cmd_*.py")}
    of_agents = {f"agent_{name.replace('-', '_')}" for name in AGENT_COMMANDS}
    assert there == {*COMMANDS, *of_agents}
