"""`sluice evaluate` and `sluice tokens`, on the embedded model's tokenizer."""

import json
from pathlib import Path

import click.testing
import pytest
from sluicegate.guards.denied import Denial
from sluicegate.ops.cli import main
from sluicegate.ops.embedded_model import ensure_embedded_model
from sluicegate.worker.model_tokenizer import ModelTokenizer, load_tokenizer


@pytest.fixture(scope="module")
def loaded() -> ModelTokenizer:
    return load_tokenizer(str(ensure_embedded_model()))


def run(*words: str, given: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, words, input=given)


def line(**fields: object) -> str:
    return json.dumps({"id": "x", "label": "good", "text": "Hello.", **fields}) + "\n"


@pytest.mark.engine
def test_the_stream_gives_the_text_back_in_whole_characters(loaded: ModelTokenizer) -> None:
    text = "Ünïcode 👩‍👩‍👧 你好，สวัสดี\n\tצָהֳרַיִם <|im_end|> [MASK] 🏳️‍🌈."
    steps = list(loaded.steps(loaded.encode(text)))
    assert "".join(step.text for step in steps) == text
    assert not any("\ufffd" in step.text for step in steps)
    offset = 0
    for position, step in enumerate(steps):
        assert (step.position, step.offset) == (position, offset)
        offset += len(step.text)
    # Half a character at the end is never text, nor is an id that nothing decodes.
    cut = loaded.encode("a 😀")[:-1]
    assert "".join(step.text for step in loaded.steps([*cut, -3, 1 << 40])) in ("a", "a ")


@pytest.mark.engine
def test_what_is_denied_of_the_embedded_model(loaded: ModelTokenizer) -> None:
    assert loaded.denied() == {0: Denial.UNKNOWN, 1: Denial.OPENING}
    assert loaded.stop_ids == {2}


@pytest.mark.engine
def test_an_evaluation_from_standard_input() -> None:
    lines = (
        line()
        + "\n"
        + line(label="bad", text="So " + "!" * 400, **{"class": "run"})
        + line(label="bad", text="", token_ids=[28120, 1, 28120], **{"class": "special"})
        + line(text="A" * 400, profile="data")
    )
    ended = run("evaluate", "-", "--json", "--show", given=lines)
    assert ended.exit_code == 0, ended.output
    result = json.loads(ended.stdout)
    assert (result["n_good"], result["n_bad"]) == (2, 2)
    assert (result["recall"], result["false_positive_rate"]) == (1, 0)
    assert result["by_class"]["special"]["found_by"] == {"tokens: denied_token": 1}
    assert result["mistakes"] == []
    assert result["speed"]["tokens"] > 0
    # Where a line names no profile, the flag does.
    ended = run(
        "evaluate", "-", "--profile", "off", "--show", given=line(label="bad", text="\x07" * 9)
    )
    assert ended.exit_code == 0, ended.output
    assert "miss  x  none\n    \\x07" in ended.stdout


@pytest.mark.engine
def test_thresholds_and_profiles_of_ones_own(tmp_path: Path) -> None:
    lines = line(text="So " + "!" * 60, profile="data")
    gates = tmp_path / "mine.toml"
    gates.write_text("[chat]\ncharacter_run = 50\n")

    def alarms(*words: str) -> int:
        ended = run("evaluate", "-", "--json", *words, given=lines)
        assert ended.exit_code == 0, ended.output
        return json.loads(ended.stdout)["false_positives"]

    assert alarms("--gates", str(gates)) == 0
    assert alarms("--ignore-profiles") == 0
    assert alarms("--ignore-profiles", "--gates", str(gates)) == 1
    for text, problem in (("[chat]\nrun = 1\n", "run is no threshold"), ("[", "not TOML")):
        gates.write_text(text)
        ended = run("evaluate", "-", "--gates", str(gates), given=lines)
        assert ended.exit_code == 2
        assert f"{gates}: " in ended.stderr
        assert problem in ended.stderr


@pytest.mark.engine
def test_where_a_fault_is_found_after_its_onset() -> None:
    spoiled = "The bell rang." + "\x07" * 20
    ended = run("evaluate", "-", "--json", given=line(label="bad", text=spoiled, onset=14))
    result = json.loads(ended.stdout)
    assert (result["recall"], result["median_delay_chars"]) == (1, 2)
    table = run("evaluate", "-", given=line(label="bad", text=spoiled, onset=14)).stdout
    assert "2 ch, 2 tok" in table


def test_bad_input_is_told_by_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(line() + "{\n" + line(label="so-so"))
    ended = run("evaluate", str(file))
    assert ended.exit_code == 2
    assert "line 2: " in ended.stderr
    assert "line 3: " in ended.stderr
    file.write_text("\n")
    assert run("evaluate", str(file)).exit_code == 2
    assert run("evaluate", str(tmp_path / "none.jsonl")).exit_code == 2
    assert run("evaluate", str(file), "--profile", "x").exit_code == 2


@pytest.mark.engine
def test_tokens_for_people_and_for_machines() -> None:
    ended = run("tokens")
    assert ended.exit_code == 0, ended.output
    assert "2 of 49152 ids denied; free to end a text: 2" in ended.stdout
    assert "0 <|endoftext|>" in ended.stdout
    result = json.loads(run("tokens", "--json").stdout)
    assert result["denied"][1] == {"id": 1, "token": "<|im_start|>", "reason": "opening"}
    assert result["stop_ids"] == [2]


@pytest.mark.engine
def test_a_model_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for words in (("tokens", str(tmp_path)), ("evaluate", "-", "--tokenizer", str(tmp_path))):
        ended = run(*words, given=line())
        assert ended.exit_code == 3, ended.output
        assert f"no tokenizer for {tmp_path}" in ended.stderr
