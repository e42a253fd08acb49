"""The makers of the heavy set: every good text keeps its rules, every bad one has its fault."""

import json
import random
import re
import struct
import zipfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import click.testing
import msgspec
import pytest
from sluicegate.guards.profiles import profile_names
from sluicegate.ops.evaluation import parse
from sluicegate.ops.labelled import __main__ as program
from sluicegate.ops.labelled.heavy_bad import CLASSES, bad_lines
from sluicegate.ops.labelled.heavy_good import good_lines
from sluicegate.ops.labelled.heavy_json import broken, misfit, order, schema
from sluicegate.ops.labelled.heavy_line import HeavyLine, Pair, Rot
from sluicegate.ops.labelled.heavy_material import Answer, Material, answer, material, related
from sluicegate.ops.labelled.heavy_prompts import SUBJECTS, Task, tasks
from sluicegate.ops.labelled.line import Line, rng
from sluicegate.ops.labelled.made import made_texts
from sluicegate.ops.labelled.made_data import sentence
from sluicegate.ops.labelled.sources import Source
from sluicegate.schemas import Rules

LANGUAGES = {
    "de": "Die Pumpe im Keller wurde gestern von zwei Leuten aus der Stadt geprüft. ",
    "fr": "La pompe de la cave a été vérifiée hier par deux personnes de la ville. ",
    "fi": "Kellarin pumpun tarkasti eilen kaksi kaupungista tullutta henkilöä taas. ",
    "ru": "Насос в подвале вчера проверили два человека, приехавшие из города. ",
}
ROT = "pomp the of of nearly weighting an bright under Lima whose the the gasketing"


def answers(draw: random.Random) -> list[Answer]:
    """Some of every kind, each about something else."""
    kinds = ("explain", "list", "letter", "story", "advice", "code", "json", "summary")
    return [
        Answer(
            kind=kinds[number % len(kinds)],
            profile="chat",
            subject=subject,
            prompt=f"Say something about {subject}.",
            text=" ".join(f"{sentence(draw)}." for _ in range(draw.randint(4, 12))),
        )
        for number, subject in enumerate(SUBJECTS[:60])
    ]


def pair(text: str, ids: list[int], finish_reason: str = "stop", kind: str = "explain") -> Pair:
    task = Task(kind=kind, profile="chat", subject="tea", prompt="Explain tea.", greedy=False)
    data = {"text": text, "ids": ids, "finish_reason": finish_reason}
    return msgspec.convert({"task": msgspec.to_builtins(task)} | data, Pair)


def made_of() -> Material:
    """Material as rich as the real one, without the model."""
    draw = random.Random(5)
    line = Line(id="x", text="", label="good", kind="x", profile="chat", source="made")
    languages = {
        code: [msgspec.structs.replace(line, id=f"{code}{n}", text=text * n) for n in range(5, 9)]
        for code, text in LANGUAGES.items()
    }
    languages["en"] = [
        msgspec.structs.replace(
            line, id=f"en{n}", text=" ".join(f"{sentence(draw)}." for _ in range(12))
        )
        for n in range(9)
    ]
    documents = [
        msgspec.structs.replace(
            line, id=f"c{n}", kind="code:python", text=f"def f{n}(a):\n    return a + {n}\n"
        )
        for n in range(40)
    ]
    documents += [
        msgspec.structs.replace(one, kind=f"language:{code}")
        for code, some in languages.items()
        for one in some
    ]
    return Material(
        answers=answers(draw),
        documents=documents + made_texts(lambda part: rng(1, part), 0.1),
        languages=languages,
        cut=[pair("Tea is a drink that is made of lea", [1] * 40, "length")],
        loops=[pair("Tea is good. " * 40, [1, 2, 3, 4] * 40, "length")],
        rot=[ROT],
        words=[" pump", " ornate", "ing", " lest", " violet", " sum"],
    )


@pytest.fixture(scope="module")
def material_() -> Material:
    return made_of()


@pytest.fixture(scope="module")
def bad(material_: Material) -> dict[str, list[HeavyLine]]:
    """The bad lines, by class."""
    by_class: dict[str, list[HeavyLine]] = {}
    for line in bad_lines(material_, lambda part: rng(3, part), 0.3):
        by_class.setdefault(line.kind, []).append(line)
    return by_class


@pytest.fixture(scope="module")
def good(material_: Material) -> list[HeavyLine]:
    return good_lines(material_, lambda part: rng(3, part), 0.5)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def fits(order_: dict[str, Any]) -> bool:
    """Whether it is a work order, said apart from the schema."""
    known = {"id", "customer", "city", "state", "weight", "urgent", "parts"}
    parts: list[dict[str, Any]] = order_.get("parts", [])
    return (
        order_.keys() <= known
        and type(order_.get("id")) is int
        and isinstance(order_.get("customer"), str)
        and order_.get("state") in ("open", "waiting", "done")
        and isinstance(order_.get("city", ""), str | None)
        and len(parts) > 0
        and all(
            part.keys() == {"name", "count"} and type(part["count"]) is int and part["count"] > 0
            for part in parts
        )
    )


def keeps(text: str, rules: Rules) -> bool:
    """Whether the text keeps the rules that the set has, as far as no schema is needed."""
    low = text.lower()
    words = len(text.split())
    return (
        all(phrase.lower() in low for phrase in rules.must_include)
        and not any(phrase.lower() in low for phrase in rules.must_not_include)
        and all(re.search(each, text) for each in rules.must_match)
        and not any(re.search(each, text) for each in rules.must_not_match)
        and rules.min_words <= words <= (rules.max_words or words)
        and rules.min_characters <= len(text) <= (rules.max_characters or len(text))
        and (not rules.asks_for_json or is_json(text))
        and (rules.json_schema is None or fits(json.loads(text)))
    )


def test_every_class_is_made_and_no_line_is_twice(
    bad: dict[str, list[HeavyLine]], good: list[HeavyLine]
) -> None:
    assert set(bad) == {kind for kind, _, _ in CLASSES}
    # What there is one of in the material can be made once only.
    assert {kind for kind, some in bad.items() if len(some) == 1} == {"repetition:greedy"}
    lines = [line for some in bad.values() for line in some] + good
    assert len({line.id for line in lines}) == len(lines)
    assert {line.profile for line in lines} <= set(profile_names())
    assert all(line.onset is None or 0 <= line.onset <= len(line.text) for line in lines)
    assert {line.label for line in good} == {"good"}


def test_the_same_seed_gives_the_same_set(material_: Material) -> None:
    def made(seed: int) -> list[HeavyLine]:
        return bad_lines(material_, lambda part: rng(seed, part), 0.05)

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_lines_are_read_by_evaluate_and_again_as_they_were(good: list[HeavyLine]) -> None:
    raw = [msgspec.json.encode(line) for line in good]
    texts, problems = parse(raw)
    assert (len(texts), problems) == (len(good), [])
    assert [msgspec.json.decode(each, type=HeavyLine) for each in raw] == good


def test_good_texts_keep_their_rules_and_close_their_fences(good: list[HeavyLine]) -> None:
    assert all(keeps(line.text, line.rules) for line in good)
    assert all(line.text.count("```") % 2 == 0 for line in good if line.kind != "about-faults")
    kinds = Counter(line.kind for line in good)
    assert {"pair:explain", "rules", "fenced", "json:schema", "data:json", "language:de"} <= set(
        kinds
    )
    assert {line.rules.language for line in good if line.kind == "language:fi"} == {"fi"}


@pytest.mark.parametrize(
    "kind",
    ["invalid-json", "schema", "missing", "forbidden", "pattern", "too-short", "too-long"],
)
def test_what_breaks_a_rule_breaks_it(bad: dict[str, list[HeavyLine]], kind: str) -> None:
    assert not any(keeps(line.text, line.rules) for line in bad[kind])
    if kind == "schema":
        assert all(is_json(line.text) for line in bad[kind])


def test_an_irrelevant_answer_is_that_of_another_prompt(
    bad: dict[str, list[HeavyLine]], material_: Material
) -> None:
    by_prompt = {one.prompt: one for one in material_.answers}
    for line in bad["irrelevant"]:
        asked = by_prompt[line.prompt or ""]
        assert asked.text != line.text
        assert line.text in {one.text for one in material_.answers}
        assert asked.subject.split()[-1] not in line.text


@pytest.mark.parametrize("kind", ["rotten:salad", "rotten:noise", "rotten:tokens"])
def test_rot_stands_in_the_middle_of_a_good_text(
    bad: dict[str, list[HeavyLine]], material_: Material, kind: str
) -> None:
    sound = [one.text for one in material_.answers]
    sound += [line.text for line in material_.languages["en"]]
    for line in bad[kind]:
        onset = line.onset or 0
        (whole,) = [one for one in sound if one.startswith(line.text[:onset])]
        assert 0 < onset < len(line.text)
        assert line.text.endswith(whole[-20:])
        assert line.text != whole
        if kind == "rotten:salad":
            assert sorted(line.text.split()) == sorted(whole.split())
        if kind == "rotten:noise":
            assert line.text[onset:].startswith(ROT)


def test_a_language_is_declared_and_another_is_there(bad: dict[str, list[HeavyLine]]) -> None:
    def language(text: str) -> str:
        return next((code for code, each in LANGUAGES.items() if each[:30] in text), "en")

    for line in bad["language"]:
        assert line.rules.language not in (None, language(line.text))
    for line in bad["language:switch"]:
        onset = line.onset or 0
        assert line.rules.language == language(line.text[:onset])
        assert line.rules.language != language(line.text[onset : onset + 150])
        assert "Насос" not in line.text  # another script is seen while it streams


def test_related_languages_are_not_set_against_each_other() -> None:
    assert related("es", "pt")
    assert related("de", "de")
    assert not related("de", "fr")


def test_what_repeats_itself_does(bad: dict[str, list[HeavyLine]]) -> None:
    for line in bad["duplicate-paragraphs"]:
        onset = line.onset or 0
        before, again = line.text[:onset].split(), line.text[onset:].split()
        assert sum(word in before for word in again) > 0.9 * len(again)
    for line in bad["repetition:drift"]:
        tail = Counter(line.text[line.onset :].lower().split())
        assert sum(tail.values()) > 3 * len(tail) / 2


def test_sentences_of_several_answers_take_turns(
    bad: dict[str, list[HeavyLine]], material_: Material
) -> None:
    for line in bad["disjointed"]:
        parts = [part for part in line.text.split(". ") if len(part) > 20]
        of = [{n for n, one in enumerate(material_.answers) if part in one.text} for part in parts]
        assert all(not one & next_ for one, next_ in pairwise(of[:4]))


def test_what_is_open_stays_open(bad: dict[str, list[HeavyLine]]) -> None:
    assert all(line.text.count("```") == 1 for line in bad["unclosed-fence"])
    for line in bad["cut-off"]:
        assert line.finish_reason == "length"
        assert line.text[-1].isalnum() or line.text[-1] in "),'"


def test_json_and_its_faults() -> None:
    draw = random.Random(1)
    assert all(fits(order(draw)) for _ in range(200))
    assert not any(fits(misfit(draw)[0]) for _ in range(200))
    for _ in range(200):
        text, onset = broken(draw)
        assert not is_json(text)
        assert 0 <= onset <= len(text)
    assert schema()["additionalProperties"] is False


def test_tasks_are_many_and_none_is_twice() -> None:
    passages = [f"{'A long passage. ' * 20}{n}" for n in range(90)]
    made = tasks(random.Random(1), 440, passages)
    assert made == tasks(random.Random(1), 440, passages)
    assert len({task.prompt for task in made}) == len(made) == 440
    assert {task.kind for task in made} >= {"explain", "code", "summary", "translate", "json"}
    assert 60 < sum(task.greedy for task in made) < 200
    assert len(tasks(random.Random(1), 30, [])) == 30


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (pair("Tea is a drink. It is made of leaves, they say.", list(range(30))), None),
        (
            pair("Tea is a drink. " * 5 + "It is made of lea", list(range(30)), "length"),
            ("Tea is a drink. " * 5).strip(),
        ),
        (pair("Tea is a drink of some people who like it.\n" * 3, [1, 2] * 60), None),
        (pair("never ends and goes on and on and on", list(range(30)), "length"), None),
        (pair("word. " * 30, list(range(30)), kind="translate"), None),
        (pair('{"a": "b"}\n' * 20, list(range(30)), "length", kind="json"), None),
        (
            pair("So:\n```\nx = 1;\ny = 2;\nz = " + "3 + " * 20, list(range(90)), "length"),
            None,
        ),
    ],
)
def test_an_answer_is_good_as_far_as_it_is_whole(given: Pair, text: str | None) -> None:
    found = answer(given)
    assert (found.text if found else None) == text


def test_rot_must_surprise() -> None:
    """Where noise did not hurt, the passage is as good as any."""

    class Tokenizer:
        vocabulary_size = 18

        class tokenizer:  # noqa: N801
            @staticmethod
            def decode(ids: list[int]) -> str:
                return f" word{'abc'[ids[0] % 3]}"

    rot = [Rot(text="a", surprise=3.0, usual=4.0), Rot(text=" b ", surprise=5.0, usual=4.0)]
    sorted_out = material([], [], rot, Tokenizer())
    assert (sorted_out.rot, sorted_out.words) == (["b"], [" wordc"])


def catalogue(messages: dict[str, str]) -> bytes:
    """A compiled catalogue, as msgfmt writes it."""
    pairs = sorted((a.encode(), b.encode()) for a, b in messages.items())
    tables = 28 + 16 * len(pairs)
    index = data = b""
    for column in (0, 1):
        for each in pairs:
            index += struct.pack("<II", len(each[column]), tables + len(data))
            data += each[column] + b"\0"
    head = (0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return struct.pack("<7I", *head) + index + data


@pytest.fixture
def one_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package in it, and no other to be asked for."""
    folder = tmp_path / "sources"
    folder.mkdir()
    words = {
        f"This is message number {n}": f"Dies ist die Meldung Nummer {n}, für Sie übersetzt."
        for n in range(90)
    }
    with zipfile.ZipFile(folder / "made_up-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("a/locale/de/LC_MESSAGES/a.mo", catalogue(words))
        wheel.writestr("a/b.py", "def function(argument):\n    return argument\n\n\n" * 60)
    monkeypatch.setattr(program, "SOURCES", (Source("made-up", "1.0", "MIT", catalogues=True),))
    return tmp_path


def run(folder: Path, *options: str) -> list[HeavyLine]:
    ended = click.testing.CliRunner().invoke(
        program.command, [str(folder), "--seed", "3", "--heavy", *options]
    )
    assert ended.exit_code == 0, ended.output
    raw = (folder / "heavy.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=HeavyLine) for line in raw]


@pytest.mark.engine
def test_the_set_is_made_without_the_model_as_far_as_that_goes(one_source: Path) -> None:
    lines = run(one_source, "--no-engine", "--scale", "0.05")
    assert lines == run(one_source, "--no-engine", "--scale", "0.05")
    kinds = Counter(line.kind for line in lines)
    assert {"language:de", "code:python", "invalid-json", "unclosed-fence"} <= set(kinds)
    assert not any(kind.startswith(("pair:", "rotten:noise")) for kind in kinds)
    assert all(line.tokens > 0 for line in lines)
    manifest = json.loads((one_source / "heavy-manifest.json").read_text())
    assert sum(manifest["good"].values()) + sum(manifest["bad"].values()) == len(lines)
    assert not (one_source / "labelled.jsonl").exists()


@pytest.mark.engine
def test_what_the_model_wrote_is_kept_and_used(one_source: Path) -> None:
    ids = list(range(1000, 1060))
    text = " ".join(f"{sentence(random.Random(n))}." for n in range(12))
    kept = [
        pair(text, ids, kind="advice"),
        msgspec.structs.replace(pair(text[::-1], ids), finish_reason="length"),
    ]
    (one_source / "model").mkdir()
    (one_source / "model" / "pairs.json").write_bytes(msgspec.json.encode(kept))
    rot = [Rot(text=ROT, surprise=9.0, usual=4.0)]
    (one_source / "model" / "rot.json").write_bytes(msgspec.json.encode(rot))
    lines = run(one_source, "--scale", "0.02")
    (found,) = [line for line in lines if line.kind == "pair:advice"]
    assert (found.text, found.prompt) == (text, "Explain tea.")
    assert any(ROT in line.text for line in lines if line.kind == "rotten:noise")
