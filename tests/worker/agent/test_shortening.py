"""Texts cut short: within their bound, the same each time, and so that it shows."""

from hypothesis import given
from hypothesis import strategies as st
from sluicegate.worker.agent.shortening import MARK, one_line, shortened, shorter_round

from .contexts import a_round, any_text, call

texts = st.text(max_size=300)


@given(texts, st.integers(1, 400))
def test_a_text_stays_whole_or_is_marked_and_within_its_bound(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert len(short) <= limit
    assert shortened(short, limit) == short
    if len(text) <= limit:
        assert short == text
    elif limit > len(MARK):
        assert MARK in short
        head, _, tail = short.partition(MARK)
        assert text.startswith(head)
        assert text.endswith(tail)


@given(any_text, st.integers(1, 400))
def test_a_quote_is_one_line_that_shows(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert line.isprintable()


def test_what_is_short_is_the_same_object() -> None:
    this = a_round(1, call(1), call(1, 1, status=None))
    assert shorter_round(this, results=100, said=100, prose=100, arguments=100) is this


def test_arguments_are_cut_once_and_not_quoted_in_a_quote() -> None:
    this = a_round(1, call(1, arguments={"b": 1, "a": "x" * 500}))
    once = shorter_round(this, arguments=200)
    assert once.calls[0].arguments["shortened"].startswith('{"a":"xxx')
    assert once.calls[0].arguments["shortened"].endswith('"b":1}')
    twice = shorter_round(once, arguments=100)
    assert twice.calls[0].arguments["shortened"].startswith('{"a":"xxx')
    assert len(twice.calls[0].arguments["shortened"]) <= 100
