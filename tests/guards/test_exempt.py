"""Spans that the gates on text must not judge."""

from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.exempt import ExemptGate, Scan, SpanReader
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.output import judge_output
from sluicegate.guards.pipeline import Pipeline, streaming_gates
from sluicegate.guards.profiles import profile
from sluicegate.guards.runs import RunGate, RunRules

from .gate_law import assert_law, feed, steps

REACT: Final = [("Input:", "\nThought:"), ("Input:", "\nAction:"), ("<c>", "</c>")]
PIECES: Final = st.sampled_from(
    [
        "<c>",
        "</c>",
        "<",
        "c>",
        "</",
        "Input:",
        "In",
        "put:",
        "\n",
        "Action:",
        "Thought:",
        "a",
        "=",
        "",
    ]
)
TOKENS = st.lists(st.tuples(st.integers(0, 3), PIECES), max_size=24)


class Marker:
    """Finds each token with a "=", and says where it stands in what it was shown."""

    name = "marker"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def feed(self, step: object) -> Finding | None:
        text: str = getattr(step, "text")  # noqa: B009
        position: int = getattr(step, "position")  # noqa: B009
        offset: int = getattr(step, "offset")  # noqa: B009
        assert position == len(self.seen)
        assert offset == len("".join(self.seen))
        self.seen.append(text)
        if "=" not in text:
            return None
        return Finding(
            gate=self.name,
            level=Level.TEXT,
            flaw=Flaw.CHARACTER_RUN,
            tokens=(0, position + 1),
            chars=(0, offset + len(text)),
            score=len(self.seen),
            threshold=1,
        )

    def truncate(self, n_tokens: int) -> None:
        assert 0 <= n_tokens <= len(self.seen)
        del self.seen[n_tokens:]

    def suspected(self) -> int | None:
        return self.seen.index("a") if "a" in self.seen else None


def gate(spans: Sequence[tuple[str, str]] = REACT) -> ExemptGate:
    return ExemptGate(spans, Marker)


def found(*texts: str) -> list[tuple[int, ...] | None]:
    came = feed(gate(), steps([(1, text) for text in texts]))
    return [None if one is None else (*one.tokens, *one.chars) for one in came]


@given(TOKENS, st.data(), TOKENS)
def test_the_law(
    first: list[tuple[int, str]], data: st.DataObject, then: list[tuple[int, str]]
) -> None:
    cut = data.draw(st.integers(0, len(first)))
    assert_law(gate, first, cut, then)

    def runs() -> ExemptGate:
        rules = RunRules(characters=3, fill=3, lines=0, spaces=0, words=0)
        return ExemptGate(REACT, lambda: Pipeline([RunGate(rules)]))

    assert_law(runs, first, cut, then)


@given(TOKENS, st.data())
def test_what_is_followed_is_forgotten_too(
    tokens: list[tuple[int, str]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(tokens)))
    one, other = gate(), gate()
    feed(one, steps(tokens))
    one.truncate(cut)
    feed(other, steps(tokens)[:cut])
    assert one.suspected() == other.suspected()


@given(st.lists(PIECES, max_size=20), st.data())
def test_how_a_text_is_cut_changes_nothing(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    reader = SpanReader(REACT)
    whole = reader.read(Scan(), text)
    scan = Scan()
    while text:
        size = data.draw(st.integers(1, len(text)))
        scan, text = reader.read(scan, text[:size]), text[size:]
    assert scan == whole


@given(st.lists(PIECES, max_size=20).map("".join))
def test_split_and_read_agree(text: str) -> None:
    reader = SpanReader(REACT)
    pieces = reader.split(text)
    scan = reader.read(Scan(), text)
    assert len(pieces) == scan.turns + 1
    assert bool(scan.opener) == (len(pieces) % 2 == 0)
    assert reader.outside(text) == pieces[::2] + [""] * bool(scan.opener)


def test_a_span_is_not_judged_and_the_rest_is() -> None:
    assert found("=", "<c>", "=", "==", "</c>", "=") == [
        (0, 1, 0, 1),
        None,
        None,
        None,
        None,
        (5, 6, 11, 12),
    ]


def test_marks_that_come_in_pieces() -> None:
    assert found("x<", "c", ">=", "<", "/c", ">", "=")[1:] == [
        None,
        None,
        None,
        None,
        None,
        (6, 7, 9, 10),
    ]
    assert found("<", "d", "=")[2] == (0, 3, 0, 3), "it was none"


def test_one_token_may_open_and_close() -> None:
    assert found("<c>=</c>", "=") == [None, (1, 2, 8, 9)]
    assert found("<c></c><c>", "=") == [None, None]


def test_a_span_that_never_closes_goes_to_the_end() -> None:
    assert found("<c>", *["="] * 5) == [None] * 6


def test_any_of_its_marks_closes_a_span() -> None:
    for end in ("\nThought:", "\nAction:"):
        assert found("Input:", "=", end, "=")[3] is not None
    assert found("Input:", "=", "</c>", "=")[3] is None, "that is another's"


def test_of_two_marks_the_first_to_end_counts() -> None:
    reader = SpanReader([("ab", "x"), ("abc", "y"), ("b", "z"), ("cab", "w")])
    assert reader.read(Scan(), "ab").opener == "ab", "two end together: the longer"
    assert reader.read(Scan(), "abc").opener == "ab", "what is longer comes too late"
    assert reader.read(Scan(), "cab").opener == "cab"


def test_what_stands_before_and_behind_is_no_repetition() -> None:
    line = "Action: read\nAction Input:"
    spans = (("Action Input:", "\nThought:"), ("Action Input:", "\nAction:"))
    text = f'{line} {{"path": "a.txt"}}\n' * 40
    chat = profile("chat")

    def trips(exempt: Sequence[tuple[str, str]]) -> list[Finding]:
        gates = streaming_gates(chat, vocabulary_size=300, exempt=exempt)
        tokens = [(ord(char), char) for char in text]
        return [one for one in feed(gates, steps(tokens)) if one is not None]

    assert trips(()), "the gates would stop this"
    assert trips(spans) == []


def test_ids_are_judged_inside_of_a_span() -> None:
    gates = streaming_gates(profile("chat"), vocabulary_size=10, denied={7}, exempt=REACT)
    came = feed(gates, steps([(1, "<c>"), (7, "="), (99, "="), (1, "=")]))
    assert [one and one.level for one in came] == [None, Level.TOKEN, Level.TOKEN, None]


@pytest.mark.parametrize("structured", [False, True])
def test_beside_spans_text_is_judged_held_to_a_grammar_or_not(structured: bool) -> None:
    bad = [(5, "=")] * 400
    opened = [(1, "<c>"), *bad]

    def trips(tokens: list[tuple[int, str]]) -> bool:
        gates = streaming_gates(
            profile("chat"), vocabulary_size=300, structured=structured, exempt=REACT
        )
        return any(feed(gates, steps(tokens)))

    assert trips(bad)
    assert not trips(opened)


@pytest.mark.parametrize("structured", [False, True])
def test_the_whole_output_is_judged_without_its_spans(structured: bool) -> None:
    sentence = "The same thing is said in this sentence again. "
    for text, flaw in (
        (sentence * 30, Flaw.REPETITIVE),
        (f"Input: {sentence * 30}", None),
        (f"Input: {sentence * 30}\nThought: done", None),
    ):
        finding = judge_output(
            profile("chat"),
            text,
            tokens=100,
            pending=0,
            finish_reason="stop",
            structured=structured,
            exempt=REACT,
        )
        assert (finding.flaw if finding else None) is flaw
