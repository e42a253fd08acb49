"""How texts are cut for the scoring model: every token scored once, every sentence in its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.worker.scoring import Limits, ScoreRequest, ScoringUnavailable, Wants
from sluicegate.worker.scoring_cuts import (
    PASS,
    Cut,
    Prompts,
    batches,
    clean,
    covered,
    cut,
    sentences,
    tokens_of,
    windows,
)

PROMPTS = Prompts((1, 2), (3,), (1, 2, 3))


def by_character(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    return [ord(char) for char in text], [(at, at + 1) for at in range(len(text))]


def limits(**changes: int) -> Limits:
    return Limits(**({"text": 100, "window": 40, "overlap": 10} | changes))


def asked(answer: str, question: str = "", wants: Wants | None = None, **changes: int) -> Cut:
    request = ScoreRequest(question, answer)
    return cut(
        request, wants or Wants(), limits=limits(**changes), prompts=PROMPTS, encode=by_character
    )


@given(st.integers(0, 5_000), st.integers(1, 2_000), st.integers(2, 400), st.integers(0, 200))
def test_each_kept_token_is_scored_once_and_with_what_is_before_it(
    length: int, text: int, window: int, overlap: int
) -> None:
    bounds = Limits(text=text, window=window, overlap=min(overlap, window // 2))
    seen = windows(length, bounds)
    scored = [at for each in seen for at in range(each.first, each.end)]
    head = text * 3 // 4
    kept = range(length) if length <= text else [*range(head), *range(length - text + head, length)]
    assert scored == list(kept)
    for each in seen:
        assert 0 <= each.begin <= each.first < each.end
        assert each.end - each.begin <= window
        if each.first >= bounds.overlap:
            assert each.first - each.begin == bounds.overlap


@given(st.text("ab .!?\n。」😀"))
def test_sentences_together_are_the_text(text: str) -> None:
    found = sentences(text)
    assert "".join(text[begin:end] for begin, end in found) == text
    assert all(begin < end for begin, end in found)


def test_where_sentences_end() -> None:
    text = 'He said "no." She left… at 3.14 p.m.\n- a point\n\n東京です。次の文。'
    assert [text[begin:end].strip() for begin, end in sentences(text)] == [
        'He said "no."',
        "She left…",
        "at 3.14 p.m.",
        "- a point",
        "東京です。",
        "次の文。",
    ]


@given(st.lists(st.integers(1, 9), min_size=1), st.data())
def test_every_token_is_in_one_sentence(lengths: list[int], data: st.DataObject) -> None:
    ends = [sum(lengths[: at + 1]) for at in range(len(lengths))]
    chars = list(zip([0, *ends], ends, strict=False))
    cuts = [*sorted(data.draw(st.sets(st.integers(1, ends[-1])))), ends[-1]]
    spans = [(a, b) for a, b in zip([0, *cuts], cuts, strict=False) if a < b]
    found = tokens_of(spans, chars)
    assert [at for begin, end in found for at in range(begin, end)] == list(range(len(chars)))
    for (begin, end), (first, last) in zip(spans, found, strict=True):
        assert all(begin < chars[at][1] <= end for at in range(first, last))


def test_a_blank_belongs_to_the_word_behind_it() -> None:
    # "Yes. No" as "Yes", ".", " No"
    assert tokens_of([(0, 5), (5, 7)], [(0, 3), (3, 4), (4, 7)]) == [(0, 2), (2, 3)]


@given(st.lists(st.integers(1, 300)), st.integers(1, 1_000))
def test_batches_hold_every_row_once_within_their_bound(lengths: list[int], most: int) -> None:
    groups = batches(lengths, most)
    assert sorted(at for group in groups for at in group) == list(range(len(lengths)))
    for group in groups:
        padded = max(lengths[at] for at in group) * len(group)
        assert padded <= most or len(group) == 1
        assert padded - sum(lengths[at] for at in group) <= PASS


def test_rows_of_one_length_share_a_pass() -> None:
    assert batches([5, 9, 5, 9], 18) == [[1, 3], [0, 2]]


@given(st.text())
def test_cleaning_moves_nothing(text: str) -> None:
    assert clean(text) == text
    assert clean(f"\ud83d{text}\ude00") == f"\ufffd{text}\ufffd"


def test_the_prompt_is_cut_on_the_left_and_the_text_behind_it_on_the_right() -> None:
    found = asked("abcdef", "what", prompt=2, given=3)
    (row,) = found.given
    assert row.ids == (ord("a"), ord("t"), 3, *map(ord, "abc"))
    assert (row.neutral, row.first) == (False, 3)


def test_without_a_prompt_nothing_is_given() -> None:
    assert asked("abcdef").given == ()


def test_sentences_behind_the_first_are_scored_as_far_as_allowed() -> None:
    found = asked("First one. Second one. Third one.", sentences=2, sentence=5)
    assert [chars for chars, _ in found.parts] == [(11, 23), (23, 33)]
    assert [row.ids for row in found.sentences] == [
        tuple(map(ord, "Secon")),
        tuple(map(ord, "Third")),
    ]


def test_what_no_check_wants_is_no_row() -> None:
    text = "First one. Second one. Third one."
    only = asked(text, "what", Wants(perplexity=True, relevance=False, coherence=False))
    assert (len(only.alone), only.given, only.sentences) == (1, (), ())
    only = asked(text, "what", Wants(perplexity=False, relevance=True, coherence=False), given=4)
    assert [len(row.ids) for row in (*only.alone, *only.given)] == [4, 9]
    assert only.chars == ((0, 1), (1, 2), (2, 3), (3, 4))
    none = asked(text, "what", Wants(perplexity=False, relevance=False, coherence=False))
    assert none.rows == ()


def test_sentences_in_the_part_that_is_not_scored_are_none() -> None:
    text = "One two. " * 50
    found = asked(text, text=40)
    assert len(found.chars) == 40
    assert max(end for _, (_, end) in found.parts) <= 30


def test_pieces_of_a_character_count_once() -> None:
    assert covered([(0, 1), (1, 2), (1, 2), (1, 2), (4, 6)]) == 4
    assert covered([]) == 0


def test_limits_fit_the_context() -> None:
    fitted = Limits().fitted(30, 512)
    assert fitted.window + 30 <= 512
    assert fitted.prompt + 30 + fitted.given <= 512
    assert fitted.overlap < fitted.window
    assert Limits().fitted(30, 8192) == Limits()
    with pytest.raises(ScoringUnavailable, match="40 tokens"):
        Limits().fitted(30, 40)
