"""The makers of the labelled set: the same seed the same texts, and faults where they say."""

import io
import json
import random
import struct
import tarfile
import zipfile
from pathlib import Path

import click.testing
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.profiles import profile_names
from sluicegate.ops.evaluation import parse
from sluicegate.ops.labelled import __main__ as program
from sluicegate.ops.labelled.catalogues import bilingual, language_of, language_texts, read
from sluicegate.ops.labelled.files import KINDS, file_texts, kind_of, pieces
from sluicegate.ops.labelled.line import Line, rng
from sluicegate.ops.labelled.made import made_texts
from sluicegate.ops.labelled.repeats import loop_start
from sluicegate.ops.labelled.sources import NoSource, Source, fetch, members


def catalogue(messages: dict[str, str], order: str = "<") -> bytes:
    """A compiled catalogue, as msgfmt writes it."""
    pairs = sorted((a.encode(), b.encode()) for a, b in messages.items())
    head = 28
    tables = head + 16 * len(pairs)
    index = data = b""
    for column in (0, 1):
        for pair in pairs:
            index += struct.pack(f"{order}II", len(pair[column]), tables + len(data))
            data += pair[column] + b"\0"
    fields = (0x950412DE, 0, len(pairs), head, head + 8 * len(pairs), 0, 0)
    return struct.pack(f"{order}7I", *fields) + index + data


@pytest.mark.parametrize("order", "<>")
def test_a_catalogue_is_read(order: str) -> None:
    content = catalogue(
        {"": "Project-Id: x", "menu\x04Open": "Öffnen", "day\0days": "Tag\0Tage"}, order
    )
    assert read(content) == {"Open": "Öffnen", "day": "Tag"}


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a/locale/pt_BR/LC_MESSAGES/django.mo", "pt_br"),
        ("locale/zh-CN/LC_MESSAGES/x.mo", "zh_cn"),
        ("a/locale/de/LC_MESSAGES/django.po", None),
        ("a/b.mo", None),
    ],
)
def test_catalogues_are_known_by_their_path(name: str, language: str | None) -> None:
    assert language_of(name) == language


def test_untranslated_messages_are_no_text_of_a_language() -> None:
    messages = {
        f"Message number {n} for you": f"Meldung mit der Nummer {n} für Sie" for n in range(60)
    }
    messages |= {
        f"Untranslated message {n} here": f"Untranslated message {n} here" for n in range(60)
    }
    lines = language_texts("de", messages, rng(1, "x"), "s")
    assert lines
    assert {line.kind for line in lines} == {"language:de"}
    assert not any("Untranslated" in line.text for line in lines)


def test_bilingual_texts_need_several_languages() -> None:
    one = {"de": {"Open the file": "Datei öffnen"}}
    assert bilingual(one, rng(1, "x"), 5) == []
    many = {f"l{n}": {f"Open file {m}": f"{n} opens {m}" for m in range(20)} for n in range(15)}
    assert len(bilingual(many, rng(1, "x"), 5)) == 5


def test_made_texts_are_the_same_for_a_seed_and_none_is_twice() -> None:
    lines = made_texts(lambda part: rng(7, part), 0.1)
    assert lines == made_texts(lambda part: rng(7, part), 0.1)
    assert lines != made_texts(lambda part: rng(8, part), 0.1)
    assert len({line.id for line in lines}) == len(lines)
    assert {line.label for line in lines} == {"good"}
    assert {line.profile for line in lines} <= set(profile_names())
    for line in lines:
        if line.kind == "data:json":
            json.loads(line.text)


def test_pieces_of_a_file_are_whole_lines_and_sound() -> None:
    text = "".join(f"line {n} of a file with something in it\n" for n in range(400))
    cut = list(pieces(text.encode(), random.Random(1)))
    assert len(cut) > 3
    assert "\n".join(cut) + "\n" == text
    for broken in (b"\xff" * 500, b"a\0" * 300, "W\x92s\n".encode() * 200):
        assert list(pieces(broken, random.Random(1))) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a/b.rs", "code:rust"),
        ("django-5/docs/intro/x.txt", "prose:documents"),
        ("a/requirements.txt", None),
        ("a/vendor/b.js", None),
        ("a/b.min.js", None),
        ("a/b.so", None),
    ],
)
def test_files_are_known_by_their_name(name: str, kind: str | None) -> None:
    found = kind_of(name)
    assert (found.name if found else None) == kind


def test_no_source_crowds_out_the_others() -> None:
    kind = next(one for one in KINDS if one.name == "code:rust")._replace(most=20)
    body = b'fn main() { println!("hello, hello"); }\n' * 40
    files = [("big", f"{n}.rs", body) for n in range(50)] + [("small", "a.rs", body)]
    lines = file_texts(kind, files, random.Random(1))
    assert 0 < len(lines) <= 20
    assert {line.source for line in lines} == {"big", "small"}


def test_an_archive_that_is_there_is_not_fetched(tmp_path: Path) -> None:
    there = tmp_path / "Some_Package-1.0.tar.gz"
    there.write_bytes(b"")
    assert fetch(Source("some-package", "1.0", "MIT", sdist=True), tmp_path) == there


def test_a_source_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(NoSource, match=r"nothing-at-all 0\.0: .*nothing-at-all"):
        fetch(Source("nothing-at-all", "0.0", "MIT"), tmp_path)


def test_members_of_both_kinds_of_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a-1.whl", "w") as wheel:
        wheel.writestr("b.py", "b")
        wheel.writestr("a.py", "a")
        wheel.writestr("a.so", "x")
    with tarfile.open(tmp_path / "a-1.tar.gz", "w:gz") as tar:
        for name in ("b.py", "a.py", "a.so"):
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(name[:1].encode()))
    for archive in ("a-1.whl", "a-1.tar.gz"):
        found = list(members(tmp_path / archive, lambda name: name.endswith(".py")))
        assert found == [("a.py", b"a"), ("b.py", b"b")]


@given(
    st.lists(st.integers(0, 9), max_size=30),
    st.lists(st.integers(10, 99), min_size=1, max_size=20, unique=True),
    st.integers(2, 12),
)
def test_a_loop_is_found_where_it_begins_again(
    before: list[int], unit: list[int], copies: int
) -> None:
    ids = before + unit * copies
    found = loop_start(ids, 40)
    if copies >= 4 and len(unit) * copies >= 40:
        assert found == len(before) + len(unit)
    else:
        assert found is None


@pytest.fixture
def one_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package in it, and no other to be asked for."""
    folder = tmp_path / "out" / "sources"
    folder.mkdir(parents=True)
    words = {
        f"This is message number {n}": f"Dies ist die Meldung Nummer {n}, für Sie übersetzt"
        for n in range(90)
    }
    other = {
        f"This is message number {n}": f"Это сообщение номер {n}, переведённое для вас"
        for n in range(90)
    }
    with zipfile.ZipFile(folder / "made_up-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("a/locale/de/LC_MESSAGES/a.mo", catalogue(words))
        wheel.writestr("a/locale/ru/LC_MESSAGES/a.mo", catalogue(other))
        wheel.writestr("a/b.py", "def function(argument):\n    return argument\n\n\n" * 60)
    monkeypatch.setattr(program, "SOURCES", (Source("made-up", "1.0", "MIT", catalogues=True),))
    return tmp_path / "out"


@pytest.mark.engine
def test_the_set_is_made_and_can_be_evaluated(one_source: Path) -> None:
    def made() -> bytes:
        ended = click.testing.CliRunner().invoke(
            program.command, [str(one_source), "--seed", "3", "--scale", "0.05", "--no-engine"]
        )
        assert ended.exit_code == 0, ended.output
        return (one_source / "labelled.jsonl").read_bytes()

    content = made()
    assert made() == content
    texts, problems = parse(content.splitlines())
    assert problems == []
    assert len({text.id for text in texts}) == len(texts)
    manifest = json.loads((one_source / "manifest.json").read_text())
    assert manifest["sources"] == [{"name": "made-up", "version": "1.0", "licence": "MIT"}]
    assert sum(manifest["good"].values()) + sum(manifest["bad"].values()) == len(texts)
    assert {"language:de", "language:ru", "code:python", "table"} <= set(manifest["good"])
    assert {"splice:script", "mojibake", "loop:made", "wrong-tokenizer"} <= set(manifest["bad"])
    good = [text.text for text in texts if text.label == "good"]
    for text in texts:
        if text.label == "good":
            continue
        # Sound up to its onset, and no longer what it was behind it.
        assert text.onset is not None
        assert 0 < text.onset <= len(text.text)
        head = text.text[: text.onset]
        assert any(head in one for one in good), text.id
        assert text.token_ids or not any(text.text in one for one in good), text.id


def test_a_line_leaves_out_what_it_does_not_have() -> None:
    line = Line(id="a", text="b", label="good", kind="c", profile="chat")
    assert json.loads(msgspec.json.encode(line)) == {
        "id": "a",
        "text": "b",
        "label": "good",
        "class": "c",
        "profile": "chat",
    }
