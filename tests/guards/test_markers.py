"""Special tokens spelled out side by side, and what only resembles them."""

import random
from typing import Final

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw
from sluicegate.guards.markers import MarkerGate

from .gate_law import assert_law, feed, steps

# The pieces below make no other markers than these.
WHOLE: Final = r"(?:<s>|<pad>|\[MASK\]|<\|x\|>)"
pieces = st.lists(
    st.tuples(st.just(0), st.sampled_from(["<s>", "<pad", ">", "[MASK] ", " ", "a", "<|x|>", ""])),
    max_size=50,
)


def first(text: str, width: int = 3) -> Finding | None:
    cut = [(0, text[start : start + width]) for start in range(0, len(text), width)]
    return next((found for found in feed(MarkerGate(), steps(cut)) if found), None)


@given(before=pieces, then=pieces, data=st.data())
def test_the_law(
    before: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(before)))
    assert_law(lambda: MarkerGate(4), before, cut, then)


@pytest.mark.parametrize("width", [1, 3, 1000])
@pytest.mark.parametrize(
    "markers",
    [
        ["<unused16>", "<mask>", "<unk>", "<bos>", "[multimodal]", "</s>"],
        ["<|reserved_special_token_12|>", "<|im_start|>"],
        ["<｜begin▁of▁sentence｜>"],
        ["[PAD] "],
        ["<end_of_turn>", "<s>"],
    ],
)
def test_a_dozen_in_a_row(markers: list[str], width: int) -> None:
    row = (markers * 12)[:12]
    assert first("Here. " + "".join(row[:11]) + " It goes on.", width) is None
    found = first("Here. " + "".join(row) + " It goes on.", width)
    assert found is not None
    assert found.flaw is Flaw.MARKER_RUN
    assert found.chars[0] == 6
    assert found.tokens[0] == 6 // width


@pytest.mark.parametrize(
    "text",
    [
        "<ul><li><a><b><i><em></em></i></b></a></li></ul>" * 20,
        "<p><s>49.00</s> <b>39.00</b></p>\n" * 20,
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n" * 20,
        "[CLS] my dog is [MASK] [SEP] he likes [PAD] [PAD] [PAD] [SEP]\n" * 20,
        "'[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', " * 20,
        "a[0][1][2][3][4][5][6][7][8][9][0][1][2][3]" * 20,
        "vector<pair<int, int>> a; " * 40,
    ],
)
def test_what_is_no_run(text: str) -> None:
    assert first(text) is None


def row_at_the_end(stream: list[tuple[int, str]]) -> int | None:
    """The position of the first token of two markers and more that the text ends in."""
    text = "".join(piece for _, piece in stream)
    begun = r"<(?:pad?|\|(?:x\|?)?)?|\[(?:M(?:A(?:SK?)?)?)?|<p"
    row = regex.search(rf"{WHOLE}(?: ?{WHOLE})*(?: ?{WHOLE}| ?(?:{begun})) ?$", text)
    if row is None or (row[0].endswith(" ") and regex.search(rf"(?:{begun}) $", row[0])):
        return None
    place = row.start()
    position = 0
    while (place := place - len(stream[position][1])) >= 0:
        position += 1
    return position


@given(before=pieces, then=pieces, data=st.data())
def test_what_is_suspected_is_the_row_that_the_text_ends_in(
    before: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    gate = MarkerGate(4)
    feed(gate, steps(before))
    cut = data.draw(st.integers(0, len(before)))
    gate.truncate(cut)
    kept = before[:cut]
    assert gate.suspected() == row_at_the_end(kept)
    feed(gate, steps(then, steps(kept)))
    assert gate.suspected() == row_at_the_end(kept + then)


@given(stream=pieces, limit=st.integers(1, 5))
def test_it_trips_where_a_marker_makes_the_row_long_enough(
    stream: list[tuple[int, str]], limit: int
) -> None:
    found = next((one for one in feed(MarkerGate(limit), steps(stream)) if one), None)
    text = "".join(piece for _, piece in stream)
    row = regex.search(rf"(?:{WHOLE} ?){{{limit}}}", text)
    assert (found is None) == (row is None)
    if found is not None and row is not None:
        assert found.chars[0] == row.start()
        assert found.chars[1] in (row.end(), len(row[0].rstrip(" ")) + row.start())


@pytest.mark.parametrize("width", [1, 2, 5, 1000])
def test_nothing_of_a_row_is_older_than_what_was_suspected(width: int) -> None:
    """Once two markers are there, the row's beginning is followed until it trips."""
    text = "Here. " + "<|im_end|>" * 20
    cut = [(0, text[start : start + width]) for start in range(0, len(text), width)]
    gate = MarkerGate()
    for step in steps(cut):
        found = gate.feed(step)
        if step.offset + len(step.text) > 6 + len("<|im_end|><"):
            assert gate.suspected() == 6 // width
        if found:
            assert found.tokens[0] == 6 // width
            return
    pytest.fail("not found")


def test_text_in_pieces_of_any_length_is_one_text() -> None:
    rng = random.Random(5)
    for _ in range(200):
        text = "x" + rng.choice(["<unk>", "<unk> "]) * 12 + "y"
        cut: list[tuple[int, str]] = []
        while text:
            width = rng.randint(1, 9)
            cut.append((0, text[:width]))
            text = text[width:]
        found = [one for one in feed(MarkerGate(), steps(cut)) if one]
        assert found
        assert found[0].chars[0] == 1
