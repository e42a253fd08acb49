"""`sluice agent evaluate`: the table, the JSON, files of one's own, and what is refused."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from sluicegate.ops.agent_traces import Trace, TraceCall, TraceRound, write_traces
from sluicegate.ops.cmd_agent_evaluate import command
from sluicegate.schemas.tools import ToolSpec

DATA = Path(__file__).parent.parent / "data"
AGAIN = TraceRound(calls=(TraceCall(tool="read", arguments={"path": "a"}, result="b"),))


def run(*arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(command, list(arguments), input=given)


def loop(name: str = "mine", task_type: str = "default") -> Trace:
    return Trace(
        id=name, kind="mine", task_type=task_type, looping=True, onset=2, rounds=(AGAIN,) * 12
    )


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.jsonl"
    file.write_bytes(write_traces([loop()]))
    return file


def test_the_synthetic_traces_beside_the_baseline() -> None:
    done = run("--as-worded")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert "ours" in lines[0]
    assert "as worded" in lines[0]
    assert lines[1].startswith("healthy, ended")
    assert "0 of 86" in lines[1]
    assert lines[2].startswith("healthy, no tool left")
    assert "0 of 86" in lines[2]
    assert "forty files" in done.output


def test_without_a_file_they_are_those_of_the_repository() -> None:
    ours = json.loads(run("--json").output)
    assert ours == json.loads(run(str(DATA / "agent_traces.jsonl"), "--json").output)
    held_out = json.loads(run("--held-out", "--json").output)
    assert held_out == json.loads(run(str(DATA / "agent_traces_held_out.jsonl"), "--json").output)
    assert list(ours["variants"]) == ["ours"]


def test_a_file_of_ones_own(own: Path) -> None:
    result = json.loads(run(str(own), "--json").output)["variants"]["ours"]
    assert (result["looping"], result["stopped_soon"], result["median_rounds"]) == (1, 1, 3)
    assert json.loads(run("-", "--json", given=own.read_bytes()).output)["traces"] == 1


def test_a_healthy_one_without_a_tool_left_is_a_mistake(tmp_path: Path) -> None:
    """It is degraded in its fourth round, and ends by itself in it."""
    file = tmp_path / "own.jsonl"
    trace = Trace(id="mine", kind="mine", looping=False, rounds=(AGAIN,) * 4)
    spare = msgspec.structs.replace(
        trace, id="spare", tools=(ToolSpec(name="read"), ToolSpec(name="write"))
    )
    file.write_bytes(write_traces([trace, spare]))
    result = json.loads(run(str(file), "--json").output)["variants"]["ours"]
    assert (result["healthy_ended"], result["healthy_tools_spent"]) == (0, 1)
    assert [(each["id"], each["tools_spent"]) for each in result["mistakes"]] == [("mine", 4)]
    assert "ours: healthy, ended  mine, no tool left in 4" in run(str(file), "--show").output


def test_thresholds_of_ones_own(own: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[default]\ncircle_points = 0\nrepeat_points = 0\n")
    done = run(str(own), "--watchdog", str(mine), "--show")
    assert "0 of 1 (0.00%)" in done.output
    assert "ours: missed  mine" in done.output
    shown = run(str(own), "--show").output
    assert "missed" not in shown


def test_a_task_type_of_ones_own(tmp_path: Path) -> None:
    file, mine = tmp_path / "own.jsonl", tmp_path / "mine.toml"
    file.write_bytes(write_traces([loop(task_type="legal")]))
    assert "legal is no task type" in run(str(file)).output
    mine.write_text("[legal]\nwarnings_max = 1\n")
    done = json.loads(run(str(file), "--watchdog", str(mine), "--json").output)
    assert done["variants"]["ours"]["median_rounds"] == 1


def test_what_is_refused(own: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    for text, problem in (("{", "line 1: "), ("", "there is nothing to evaluate")):
        bad.write_text(text)
        done = run(str(bad))
        assert (done.exit_code, problem in done.output) == (2, True)
    bad.write_text("[qa]\nround_max = 1\n")
    done = run(str(own), "--watchdog", str(bad))
    assert done.exit_code == 2
    assert "did you mean rounds_max?" in done.output
    assert run(str(own), "--held-out").exit_code == 2
