"""Text by the columns that it takes: nothing is wider than it may be, and nothing acts."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops.columns import columns, fit, wrapped

TEXTS = st.text(max_size=200)
WIDTHS = st.integers(min_value=4, max_value=120)


def acts(line: str) -> bool:
    return any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in line)


@given(TEXTS, WIDTHS)
def test_a_line_fits_and_is_harmless(text: str, width: int) -> None:
    line = fit(text, width)
    assert columns(line) <= width
    assert not acts(line)


@given(TEXTS, WIDTHS)
def test_what_fits_already_is_not_cut(text: str, width: int) -> None:
    once = fit(text, width)
    assert fit(once, width) == once


@given(TEXTS, WIDTHS, st.integers(min_value=1, max_value=6))
def test_lines_fit_and_are_no_more_than_wanted(text: str, width: int, most: int) -> None:
    lines = list(wrapped(text, width, most=most))
    assert len(lines) <= most + 1
    assert all(columns(line) <= width for line in lines[:most])
    assert not any(map(acts, lines))


@given(st.lists(st.text("ab世", min_size=1, max_size=30), max_size=20), WIDTHS)
def test_wrapping_loses_no_letter(words: list[str], width: int) -> None:
    lines = list(wrapped(" ".join(words), width, most=1_000))
    assert "".join(lines).replace(" ", "") == "".join(words)


def test_wide_characters_take_two_columns() -> None:
    assert columns("ab") == 2
    assert columns("世界") == 4
    assert columns("e\N{COMBINING ACUTE ACCENT}") == 1
    assert fit("世界世界", 5) == "世界…"


def test_the_last_line_says_how_many_more_there_are() -> None:
    assert list(wrapped("a\nb\nc", 10, most=1)) == ["a", "… 2 more lines"]
    assert list(wrapped("a\nb", 10, most=1)) == ["a", "… 1 more line"]
