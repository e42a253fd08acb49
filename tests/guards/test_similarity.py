"""The likeness of two texts, in any script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.similarity import jaccard, terms


@given(one=st.text(), other=st.text())
def test_the_laws(one: str, other: str) -> None:
    likeness = jaccard(one, other)
    assert 0 <= likeness <= 1
    assert likeness == jaccard(other, one)
    assert jaccard(one, one) == (1.0 if terms(one) else 0.0)
    assert (likeness == 1) == (bool(terms(one)) and terms(one) == terms(other))


@given(words=st.lists(st.sampled_from(["harbor", "fee", "crane", "dock"]), min_size=1))
def test_stop_words_case_and_order_are_nothing(words: list[str]) -> None:
    text = f"The {' and '.join(words)} of it"
    assert jaccard(text, " ".join(reversed(words)).upper()) == 1


@pytest.mark.parametrize(
    ("one", "other", "likeness"),
    [
        ("the red crane", "a red buoy", 1 / 3),
        ("", "", 0.0),
        ("the of and", "the of and", 0.0),
        ("Caf\u00e9 Riga", "Cafe\u0301 Riga", 1.0),
        ("Straße nach Riga", "STRASSE RIGA", 1.0),
        ("порт Рига и порт", "Рига порт", 1.0),
        ("row 5", "row 6", 1 / 3),
    ],
)
def test_spaced_scripts(one: str, other: str, likeness: float) -> None:
    assert jaccard(one, other) == pytest.approx(likeness)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        (
            "现在我来阅读关于关税的文件,并记录其中的时间表",
            "现在我来阅读关于合同的文件,并记录其中的时间表",
            "汉堡港口今年的集装箱费用是多少",
        ),
        (
            "次に関税に関するファイルを読み、日程を書き留めます",
            "次に契約に関するファイルを読み、日程を書き留めます",
            "横浜港の入港料はいくらですか",
        ),
        (
            "ฉันจะอ่านเอกสารเกี่ยวกับภาษีและจดบันทึกกำหนดการ",
            "ฉันจะอ่านเอกสารเกี่ยวกับสัญญาและจดบันทึกกำหนดการ",
            "ค่าธรรมเนียมท่าเรือกรุงเทพราคาเท่าไร",
        ),
    ],
)
def test_unspaced_scripts(text: str, near: str, far: str) -> None:
    assert 0.5 < jaccard(text, near) < 1
    assert jaccard(text, far) < 0.2


def test_the_commonest_healthy_pattern_is_alike_and_so_needs_more_than_this() -> None:
    one = (
        "I have finished the previous summary and saved it; next I will write the summary of the "
        "section on tariffs in the same format, with a title, dates, sums, and sources."
    )
    assert jaccard(one, one.replace("tariffs", "pilots")) > 0.85
