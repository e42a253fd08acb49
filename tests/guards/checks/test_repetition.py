"""Repetition: texts that go round in circles, and those that only look so."""

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.checks import paragraphs, repetition
from sluicegate.guards.checks.prose import lines

from .subjects import bad, flaws, limits, subject

SENTENCE = "The old mill by the river has been turning its heavy wheel for three hundred years. "
NAMES = (
    "market river mill railway bridge harbour school church tower garden village farmer "
    "miller trader sailor teacher winter summer morning evening flour grain timber stone "
    "water engine road wagon horse letter story song bread candle window"
)
WORDS = NAMES.split()
TOWN = (
    "The market square was the heart of the town, and every Thursday the farmers of the "
    "valley came with their carts to sell cheese, wool and apples to whoever had money to "
    "spend."
)
RIVER = (
    "Down at the river the mills ground day and night, for the water never froze, and the millers "
    "were said to be the only people in the county who did not fear the winter."
)
RAIL = (
    "Then the railway came, and with it coal, newspapers and strangers; the mills fell silent one "
    "after the other, and their wheels rotted where they stood, overgrown with nettles."
)


def prose(count: int, seed: int = 1) -> str:
    draw = random.Random(seed)
    made = (" ".join(draw.choices(WORDS, k=12)).capitalize() + "." for _ in range(count))
    return " ".join(made)


def test_a_text_that_says_the_same_over_and_over() -> None:
    text = prose(4) + " " + SENTENCE * 12
    found = {record.check: record for record in bad(subject(text, profile="summary"))}
    record = found["repetition_ngram"]
    assert record.flaw == "repetitive"
    assert record.score is not None
    assert record.score > 0.6
    (place,) = record.evidence
    # From the third time on, to the end.
    start = text.index(SENTENCE) + 2 * len(SENTENCE)
    assert place.chars == (start, len(text.rstrip(". ")))
    assert place.quote.startswith("The old mill by")
    assert flaws(subject(text, profile="summary"), limits(check_repetition=False)) == []


def test_a_loop_that_begins_late_in_a_long_text() -> None:
    text = prose(400) + "\n\n" + SENTENCE * 3_000
    assert len(text) > 250_000
    assert "repetitive" in flaws(subject(text))


def test_a_loop_in_a_script_without_blanks() -> None:
    text = "老磨坊在河边转动着沉重的轮子已经三百年了。" * 40
    assert flaws(subject(text)) == ["repetitive", "repetitive"]


def test_drivel_packs_well() -> None:
    """No eight words are the same, and it still says nothing."""
    draw = random.Random(3)
    text = " ".join(draw.choice(("very", "really")) for _ in range(3_000))
    checks = [record.check for record in bad(subject(text))]
    assert "repetition_compression" in checks


@pytest.mark.parametrize(
    "text",
    [
        prose(60),
        SENTENCE * 2,
        "| name | count |\n|---|---|\n" + "| apples in the basket | 3 |\n" * 100,
        "```python\n" + "assert_equal(first_value, second_value)\n" * 100 + "```",
        "[" + ", ".join(['{"name": "the same as before", "value": null}'] * 100) + "]",
        "2026-01-01 10:00:00 INFO  worker took a job = 17\n" * 100,
        "哈" * 90,
        "ha" * 300,
        "haha " * 60,
        "\n".join(["0 0 0 0 0 0 0 0"] * 100),
        "- yes\n- no\n" * 80,
        "<li class=item>An entry of the list of things</li>\n" * 60,
    ],
)
def test_what_only_looks_so(text: str) -> None:
    assert flaws(subject(text)) == []


def test_a_song_with_a_chorus() -> None:
    chorus = "Oh carry me home to the river,\nWhere the mill wheel turns all day,\nAnd the miller's"
    chorus += " daughter is singing\nThe songs that the waters say."
    verses = [prose(5, seed).replace(". ", ".\n") for seed in range(4)]
    song = "\n\n".join(f"{verse}\n\n{chorus}" for verse in verses)
    for profile in ("chat", "creative"):
        assert flaws(subject(song, profile=profile)) == []


_GIFTS = (
    "a partridge in a pear tree,two turtle doves,three French hens,four calling birds,five gold "
    "rings,six geese a-laying,seven swans a-swimming,eight maids a-milking,nine ladies dancing,ten "
    "lords a-leaping,eleven pipers piping,twelve drummers drumming"
)
GIFTS = _GIFTS.split(",")
_DAYS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
DAYS = _DAYS.split()
LETTER = (
    "Thank you for your order number {}. It left our warehouse this morning and should reach you "
    "within three working days. If you have any questions, please reply to this message."
)
BOTTLES = (
    "{0} bottles of beer on the wall, {0} bottles of beer.",
    "Take one down and pass it around, {1} bottles of beer on the wall.",
)


@pytest.mark.parametrize("profile", ["chat", "creative"])
@pytest.mark.parametrize(
    "text",
    [
        "\n".join(["Kyrie eleison, Kyrie eleison, Kyrie eleison."] * 12),
        "\n".join(" ".join(BOTTLES).format(n, n - 1) for n in range(99, 0, -1)),
        "\n\n".join("\n".join(BOTTLES).format(n, n - 1) for n in range(99, 0, -1)),
        "\n\n".join(
            f"On the {day} day of Christmas my true love gave to me "
            + ", ".join(reversed(GIFTS[: number + 1]))
            for number, day in enumerate(DAYS)
        ),
        "\n\n".join(
            f"Dear {name},\n\n{LETTER.format(number)}\n\nKind regards,\nThe Team"
            for number, name in enumerate(("Ann", "Bob", "Cleo", "Dan"))
        ),
    ],
)
def test_what_is_the_same_by_nature(text: str, profile: str) -> None:
    assert flaws(subject(text, profile=profile)) == []


def test_paragraphs_that_come_again() -> None:
    again = TOWN.replace("Thursday", "Friday").replace("apples", "pears")
    text = f"{TOWN}\n\n{RIVER}\n\n{again}\n\n{RAIL}"
    by = limits(duplicate_paragraphs_similarity=0.6, duplicate_paragraphs_max=0.2)
    (record,) = bad(subject(text), by)
    assert (record.check, record.flaw) == ("duplicate_paragraphs", "near_duplicates")
    assert [text[slice(*place.chars)] for place in record.evidence] == [TOWN, again]
    assert record.detail == "1 of 4 paragraphs say again what an earlier one said"
    assert flaws(subject(f"{TOWN}\n\n{RIVER}\n\n{RAIL}")) == []
    # As they stand by default: word for word, half of the text.
    twice = f"{TOWN}\n\n{RIVER}\n\n{TOWN}\n\n{RIVER}"
    assert "near_duplicates" in flaws(subject(twice, profile="summary"))
    assert "near_duplicates" in flaws(subject(twice))
    # Letters by one template are what was asked for.
    assert flaws(subject(text)) == []
    assert "near_duplicates" in flaws(subject("\n\n".join([TOWN] * 9)))


@pytest.mark.parametrize("text", ["", "\n\n", TOWN, "a\n\na", "```\n" + TOWN + "\n\n" + TOWN])
def test_too_few_paragraphs_to_say(text: str) -> None:
    assert paragraphs.measures(subject(text), limits()) == {}


def test_many_paragraphs_take_no_time() -> None:
    """Each shares its words with all others; pairs of them would be millions."""
    text = "\n\n".join(f"{TOWN} {number}" for number in range(2_000))
    score = paragraphs.measures(subject(text), limits())["duplicate_paragraphs"]
    assert score > 0.9


def test_compression_is_fair_to_all_scripts() -> None:
    """The same text, letter by letter in Greek: in UTF-8 it packs better, here it does not."""
    latin = prose(40).lower()
    greek = "".join(chr(ord(c) + 0x350) if c.isalpha() else c for c in latin)
    assert repetition.compression(greek) == pytest.approx(repetition.compression(latin), rel=0.02)
    by_utf8 = [len(t.encode()) / len(zlib.compress(t.encode())) for t in (latin, greek)]
    assert by_utf8[1] > 1.3 * by_utf8[0]


@given(st.text(max_size=400))
def test_lines_of_prose_are_within_the_text_and_in_order(text: str) -> None:
    end = 0
    for line in lines(text):
        assert end <= line.start < line.end <= len(text)
        assert "\n" not in text[line.start : line.end]
        end = line.end


@given(
    st.lists(st.sampled_from([SENTENCE, TOWN, RIVER, RAIL, "\n\n", "`", "哈", " "]), max_size=40)
)
def test_scores_are_shares_and_places_are_in_the_text(parts: list[str]) -> None:
    about = subject("".join(parts))
    scores = repetition.measures(about, limits()) | paragraphs.measures(about, limits())
    assert 0 <= scores.get("repetition_ngram", 0) <= 1
    assert 0 <= scores.get("duplicate_paragraphs", 0) <= 1
    bad(about)
