"""The benchmarks of the gates still run, and count right. How fast anything is, no test asks."""

import json
from pathlib import Path

import pytest

from . import gates, naive_gates

pytestmark = pytest.mark.engine


def test_the_cost_of_every_profile_at_every_length(capsys: pytest.CaptureFixture[str]) -> None:
    gates.main(["--rounds", "1", "--tokens", "50", "200", "--json"])
    costs = json.loads(capsys.readouterr().out)
    assert [(cost["profile"], cost["tokens"]) for cost in costs] == [
        (name, length) for name in gates.PROFILES for length in (50, 200)
    ]
    assert all(cost["microseconds"] > 0 for cost in costs)
    assert [cost["ratio"] for cost in costs if cost["tokens"] == 50] == [1, 1, 1]
    gates.main(["--rounds", "1", "--tokens", "50"])
    assert "chat" in capsys.readouterr().out


def test_the_cost_of_the_gates_over_reasoning(capsys: pytest.CaptureFixture[str]) -> None:
    gates.main(["--reasoning", "--rounds", "1", "--tokens", "50", "200", "--json"])
    costs = json.loads(capsys.readouterr().out)
    assert [(cost["profile"], cost["tokens"]) for cost in costs] == [
        (name, length) for name in ("baseline", "reasoning") for length in (50, 200)
    ]
    assert all(cost["microseconds"] > 0 for cost in costs)


def test_the_text_of_the_benchmark_is_as_long_as_asked() -> None:
    assert len(gates.ordinary_text(5000)) == 5000


def test_what_naive_gates_get_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        ("good", "half a character", "Grüße aus 東京 😀"),
        ("good", "other script", "Добрый день"),
        ("good", "said twice", "He had had enough of it."),
        ("good", "fine", "This is an ordinary sentence about nothing at all."),
        ("bad", "frequent word", "no way " + "no " * 30),
        ("bad", "loop of two", "tick tock, tick tock. " * 30),
    ]
    file = tmp_path / "a.jsonl"
    file.write_text(
        "\n".join(
            json.dumps({"id": n, "text": text, "label": label, "class": kind})
            for n, (label, kind, text) in enumerate(lines)
        )
    )
    naive_gates.main([str(file), "--json"])
    result = json.loads(capsys.readouterr().out)
    found = {kind: of["false_positives"] + of["found"] for kind, of in result["by_class"].items()}
    assert found == {
        "half a character": 1,
        "other script": 1,
        "said twice": 1,
        "fine": 0,
        "frequent word": 1,
        "loop of two": 1,
    }
    assert result["by_class"]["other script"]["false_positives_by"] == {
        "naive: replacement_character": 1
    } or result["by_class"]["other script"]["false_positives_by"] == {"naive: denied_character": 1}
    naive_gates.main([str(file)])
    assert "false positive rate" in capsys.readouterr().out


def test_a_file_with_mistakes_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("{")
    with pytest.raises(SystemExit, match="line 1"):
        naive_gates.main([str(file)])
