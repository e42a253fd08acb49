"""What the makers of the heavy set stand on: texts in parts, and stages that are kept."""

from pathlib import Path

import pytest
from msgspec import Struct
from sluicegate.ops.labelled.passages import ended, paragraphs, prose, sentences
from sluicegate.ops.labelled.repeats import distinct
from sluicegate.ops.labelled.stages import kept


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("One. Two is cut of", "One."),
        ('He said "No." And th', 'He said "No."'),
        ("1. First point.\n2. Second point.\n3.", "1. First point.\n2. Second point."),
        ("It costs 3.5 eur", ""),
        ("| a | b |\n| c | d |\n| e", "| a | b |\n| c | d |"),
        ("Code:\n```\nx = 1;\ny =", "Code:\n```\nx = 1;\n```"),
        ("", ""),
    ],
)
def test_a_text_is_cut_where_it_is_whole(text: str, whole: str) -> None:
    assert ended(text) == whole


def test_paragraphs_and_sentences() -> None:
    assert paragraphs("a\nb\n\n \nc\n") == ["a\nb", "c"]
    assert sentences("It is 3.5 m. Is it? “Yes!” He went e.g. home.") == [
        "It is 3.5 m.",
        "Is it?",
        "“Yes!” He went e.g. home.",
    ]


def test_prose_is_neither_list_nor_code() -> None:
    text = "This is a paragraph\nof two lines.\n\n* a list\n\nx = f(1) {2} [3];.\n\nlow start."
    assert prose([text]) == ["This is a paragraph of two lines."]


def test_the_share_of_what_is_said_once() -> None:
    assert distinct(range(20)) == 1.0
    assert distinct([1, 2, 3, 4] * 10) == pytest.approx(4 / 37)
    assert distinct([1, 2]) == 0.0


class Thing(Struct):
    name: str


def test_what_was_made_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "things.json"
    made: list[int] = []

    def make() -> list[Thing]:
        made.append(1)
        return [Thing("a"), Thing("b")]

    assert kept(path, Thing, make) == kept(path, Thing, make) == [Thing("a"), Thing("b")]
    assert made == [1]


def test_what_was_interrupted_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "things.json"

    def broken() -> list[Thing]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept(path, Thing, broken)
    assert list(tmp_path.iterdir()) == []
    assert kept(path, Thing, lambda: [Thing("a")]) == [Thing("a")]
