"""Special tokens spelled out side by side, and what only resembles them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw
from sluicegate.guards.markers import MarkerGate

from .gate_law import assert_law, feed, steps

pieces = st.lists(
    st.tuples(st.just(0), st.sampled_from(["<s>", "<pad", ">", "[MASK] ", "a", "<|x|>", ""])),
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
