"""A second block of reasoning in the answer is found; an answer that talks about tags is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.pipeline import Follower
from sluicegate.guards.reasoning.again import AgainGate

from ..gate_law import assert_law, feed, steps

START, END = "<think>", "</think>"


def by_text(*, cut: bool = False, start: str = START, end: str = END) -> AgainGate:
    return AgainGate(start, end, (), (), by_id=False, cut=cut)


def by_id(start: tuple[int, ...] = (7,), end: tuple[int, ...] = (8,)) -> AgainGate:
    return AgainGate(START, END, start, end, by_id=True, cut=False)


def pieces(text: str, size: int) -> list[tuple[int, str]]:
    return [(1, text[at : at + size]) for at in range(0, len(text), size)]


def found_in(text: str, *, size: int = 3, cut: bool = False) -> list[Finding]:
    return [one for one in feed(by_text(cut=cut), steps(pieces(text, size))) if one]


PART = st.sampled_from(
    ["<", "think>", "</", "th", "ink>", "\n", " ", "`", "```", "~~~", "a", "<think>", "\n</think>"]
)
TOKENS = st.lists(st.tuples(st.integers(5, 9), PART), max_size=40)


@given(first=TOKENS, then=TOKENS, cut=st.booleans(), data=st.data())
def test_the_law_by_text(
    first: list[tuple[int, str]],
    then: list[tuple[int, str]],
    cut: bool,
    data: st.DataObject,
) -> None:
    assert_law(lambda: by_text(cut=cut), first, data.draw(st.integers(0, len(first))), then)


@given(first=TOKENS, then=TOKENS, data=st.data())
def test_the_law_by_id(
    first: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    assert_law(lambda: by_id((7, 8), (8, 7, 9)), first, data.draw(st.integers(0, len(first))), then)


@given(first=TOKENS, data=st.data())
def test_what_is_suspected_is_truncated_too(
    first: list[tuple[int, str]], data: st.DataObject
) -> None:
    keep = data.draw(st.integers(0, len(first)))
    for fresh in (by_text, lambda: by_id((7, 8), (8, 7, 9))):
        gate, whole = fresh(), fresh()
        feed(gate, steps(first))
        gate.truncate(keep)
        feed(whole, steps(first[:keep]))
        assert gate.suspected() == whole.suspected()


@given(
    before=st.sampled_from(["", "An answer.\n", "One.\n\n", "```\ncode\n```\n", "`a` and b\n"]),
    tag=st.sampled_from([START, END]),
    behind=st.sampled_from(["", "\n", " and on", "x"]),
    size=st.integers(1, 12),
)
def test_a_tag_at_the_beginning_of_a_line_is_found_however_it_is_split(
    before: str, tag: str, behind: str, size: int
) -> None:
    [found] = found_in(before + tag + behind, size=size)
    begin = len(before)
    assert found.level is Level.REASONING
    assert found.gate == "reasoning"
    assert found.flaw is (Flaw.REASONING_AGAIN if tag == START else Flaw.REASONING_END_AGAIN)
    assert found.chars == (begin, begin + len(tag))
    assert found.tokens == (begin // size, (begin + len(tag) - 1) // size + 1)
    assert (found.score, found.threshold) == (1, 1)


@given(
    text=st.lists(PART, max_size=60).map("".join), size=st.integers(1, 6), other=st.integers(1, 6)
)
def test_how_the_text_is_split_changes_nothing(text: str, size: int, other: int) -> None:
    assert {one.chars for one in found_in(text, size=1)} >= {
        one.chars for one in found_in(text, size=size)
    }
    assert bool(found_in(text, size=size)) == bool(found_in(text, size=other))


@given(text=st.lists(PART, max_size=60).map("".join), size=st.integers(1, 6))
def test_nothing_of_a_tag_is_let_through_before_it_is_whole(text: str, size: int) -> None:
    """A client is sent what stands before the suspected token. No finding's onset lies before."""
    gate = by_text()
    sent = 0
    for step in steps(pieces(text, size)):
        found = gate.feed(step)
        if found is not None:
            assert found.tokens[0] >= sent
            return
        suspected = gate.suspected()
        sent = step.position + 1 if suspected is None else suspected


@pytest.mark.parametrize(
    "text",
    [
        "The tag <think> opens the block and </think> closes it.",
        "The tag\n`<think>` opens it.",
        "Example:\n\n    <think>\n    short\n    </think>\n\n    final answer\n",
        " <think> with a blank before it",
        "\t</think>",
        "```\n<think>\nshort\n</think>\n```\nDone.",
        "~~~xml\n<think>\nshort\n</think>\n~~~\n",
        "````\n```\n<think>\n```\n</think>\n````\n",
        "1. So:\n   ```\n<think>\n   ```\n",
        "A span `over\n<think>\ntwo` lines.",
        "A span ``with ` in it\n</think>``.",
        "<thinking>\n</thinking>\n<thin\n</thi",
        "> <think>",
        "- </think>",
        "<THINK>\n",
        "```py\nx = '''\n</think>",
    ],
)
def test_an_answer_may_talk_about_tags(text: str) -> None:
    for size in (1, 2, 3, 5, 8, 100):
        assert not found_in(text, size=size)


@pytest.mark.parametrize(
    "text",
    [
        "```\ncode\n```\n<think>\n",
        "~~~\n```\n~~~\n<think>\n",
        "```a``` is a span\n<think>\n",
        "```\ncode\n````\n<think>\n",
        "`a` ``b`` `c\n\n<think>\n",
        "a\r\n<think>\n",
        "\n\n\n<think>",
        "<thin\n<think>\n",
        "~~struck~~\n<think>",
    ],
)
def test_a_fence_or_span_that_is_closed_hides_nothing(text: str) -> None:
    for size in (1, 2, 3, 5, 8, 100):
        [found] = found_in(text, size=size)
        assert text[slice(*found.chars)] == START


def test_every_tag_is_found_not_the_first_alone() -> None:
    found = found_in("That deserves a look.\n</think>\n\n" * 5)
    assert [one.flaw for one in found] == [Flaw.REASONING_END_AGAIN] * 5


def test_behind_a_cut_a_start_tag_counts_behind_blanks() -> None:
    for before in ("", " ", "\n ", "\n\n\t  "):
        text = before + START + "\nAgain"
        [found] = found_in(text, cut=True)
        assert text[slice(*found.chars)] == START
    assert not found_in(" " + START)
    # Only at the beginning: an answer may show the tags, indented.
    assert not found_in("Answer:\n " + START, cut=True)


def test_tags_of_several_lines_and_with_blanks_around_them() -> None:
    gate = by_text(start="\n### Thinking\n---\n", end="### Answer\n\n")
    tokens = pieces("Well.\n### Thinking\n---\nHm.\n### Answer\n\nYes.", 4)
    found = [one for one in feed(gate, steps(tokens)) if one]
    assert [one.flaw for one in found] == [Flaw.REASONING_AGAIN, Flaw.REASONING_END_AGAIN]


def test_no_tag_is_looked_for_where_there_is_none() -> None:
    assert not any(feed(by_text(start="", end=""), steps(pieces("a\n<think>\n\n", 2))))
    assert not any(feed(by_id((), ()), steps([(7, ""), (8, "")])))


def test_an_id_is_found_anywhere_and_at_once() -> None:
    tokens = [(1, "Yes"), (2, " and"), (7, ""), (3, "no"), (8, END)]
    first, second = (one for one in feed(by_id(), steps(tokens)) if one)
    assert (first.flaw, first.tokens, first.chars) == (Flaw.REASONING_AGAIN, (2, 3), (7, 7))
    assert (second.flaw, second.tokens) == (Flaw.REASONING_END_AGAIN, (4, 5))
    assert second.chars == (9, 9 + len(END))


def test_by_id_the_same_string_as_ordinary_text_is_legal() -> None:
    assert not any(feed(by_id(), steps(pieces("\n<think>\n</think>\n", 2))))


def test_tags_of_several_ids() -> None:
    gate = by_id((20, 21, 22), (20, 23))
    tokens = [(20, "a"), (20, "b"), (21, "c"), (5, "d"), (20, "e"), (21, "f"), (22, "g"), (20, "h")]
    seen: list[int | None] = []
    found: list[Finding] = []
    for step in steps(tokens):
        if one := gate.feed(step):
            found.append(one)
        seen.append(gate.suspected())
    assert seen == [0, 1, 1, None, 4, 4, None, 7]
    assert [one.tokens for one in found] == [(4, 7)]
    assert [one.chars for one in found] == [(4, 7)]


def test_half_a_tag_is_suspected_until_it_is_none() -> None:
    gate = by_text()
    assert isinstance(gate, Follower)
    seen: list[int | None] = []
    for step in steps([(1, "Hi.\n"), (2, "<"), (3, "thi"), (4, "s is"), (5, "\n<"), (6, "/th")]):
        gate.feed(step)
        seen.append(gate.suspected())
    assert seen == [None, 1, 1, None, 4, 4]
    gate.truncate(5)
    assert gate.suspected() == 4
    gate.truncate(1)
    assert gate.suspected() is None
    gate.truncate(0)
    assert gate.suspected() is None


def test_the_text_may_begin_at_another_place_than_0() -> None:
    gate = by_text()
    before = steps([(1, "reasoning")])
    found = [one for one in feed(gate, steps([(2, "<th"), (3, "ink>")], before)) if one]
    assert found[0].tokens == (1, 3)
    assert found[0].chars == (9, 16)


def test_a_long_line_costs_no_memory_for_itself() -> None:
    gate = by_text()
    feed(gate, steps([(1, "word ")] * 2_000))
    assert "2000 tokens" in repr(gate)
    assert gate.suspected() is None


def positions(gate: AgainGate, text: str) -> list[int]:
    found = feed(gate, steps([(1, character) for character in text]))
    return [each.chars[0] for each in found if each is not None]


def test_behind_a_cut_an_end_tag_counts_anywhere_but_in_code() -> None:
    assert positions(by_text(cut=True), "Hm, wait. So 7.</think>\n7") == [15]
    assert positions(by_text(cut=True), "So 7 < 8 </think>") == [9]
    assert not positions(by_text(), "Hm, wait. So 7.</think>\n7")
    for code in ("`</think>`", "a `b </think>` c", "```\nx </think>\n```", "x\n\n    y </think>\n"):
        assert not positions(by_text(cut=True), code)


def test_behind_a_cut_letters_that_spell_the_start_are_no_answer_either() -> None:
    gate = AgainGate(START, END, (7,), (8,), by_id=True, cut=True)
    assert positions(gate, " \n<think>Hm") == [2]
    gate = AgainGate(START, END, (7,), (8,), by_id=True, cut=True)
    assert not positions(gate, "So\n<think> is a tag, and </think> is one")


@given(
    st.text("<>/think`\n a", max_size=60), st.integers(0, 60), st.text("</think> \n", max_size=20)
)
def test_the_law_behind_a_cut(first: str, cut: int, then: str) -> None:
    def spelled(text: str) -> list[tuple[int, str]]:
        return [(1, character) for character in text]

    assert_law(lambda: by_text(cut=True), spelled(first), cut, spelled(then))
    both = lambda: AgainGate(START, END, (7,), (8,), by_id=True, cut=True)  # noqa: E731
    assert_law(both, spelled(first), cut, spelled(then))
