"""Script breaks: what nobody writes, and the many mixtures that people do write."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.scripts import breaks, script_codes

ENGLISH = "the keeper of the light walked up the narrow stairs and looked out over the grey water"
RUSSIAN = (
    "смотритель маяка поднялся по узкой лестнице и долго смотрел на серую холодную воду залива"
)
CHINESE = "守灯人沿着狭窄的楼梯慢慢走上去然后望着灰色的海水想起了很久以前的那个夜晚"


@pytest.mark.parametrize(
    "text",
    [
        f"{ENGLISH} {RUSSIAN}",
        f"{RUSSIAN} {ENGLISH}",
        f"{ENGLISH} {CHINESE}",
        f"Before it, {ENGLISH} {RUSSIAN}. And so on.",
    ],
)
def test_long_stretches_that_meet_at_a_blank_are_spliced(text: str) -> None:
    (found,) = breaks(text)
    assert found.spliced
    after = text[found.place :]
    assert after.startswith(("the keeper", "смотритель", "守灯人"))


@pytest.mark.parametrize(
    "text",
    [
        ENGLISH,
        RUSSIAN,
        f"{ENGLISH}: {RUSSIAN}",
        f"{ENGLISH} “{RUSSIAN}” {ENGLISH}",
        f"{ENGLISH} ({RUSSIAN})",
        f"{ENGLISH}.\n{RUSSIAN}",
        f"| {ENGLISH} | {RUSSIAN} |",
        f"{RUSSIAN} API {RUSSIAN}",
        "我们用Python写了一个很小的程序，然后在Linux上运行它，最后用Git提交。",
        "Pythonでプログラムを書いて、Linuxで動かします。",
        "API를 사용해서 JSON을 HTTP로 보냅니다.",
        "ใช้Pythonเขียนโปรแกรม",
        "15 kΩ und 3 μm, Σ und Δx, α-Helix",
        "HTML-таблица и SQL-запрос, IP-адрес",
        "ГОСТ 12345, COVID-19, vitamin C и D",
    ],
)
def test_what_people_write(text: str) -> None:
    assert breaks(text) == []


def test_words_glued_together_from_two_alphabets() -> None:
    text = "river of(HTMLтаблиц 4таблицKorua and словаword, ελλάδаб"
    found = breaks(text)
    assert [text[one.place :][:3] for one in found] == ["таб", "Kor", "wor", "аб"]
    assert not any(one.spliced for one in found)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_places_are_in_order_and_in_the_text(text: str) -> None:
    places = [one.place for one in breaks(text)]
    assert places == sorted(set(places))
    assert all(0 < place < len(text) for place in places)


@settings(deadline=None)
@given(st.text(alphabet="ab жы中अ\u094dΩ1.\n", max_size=60), st.integers(0, 60))
def test_codes_of_parts_are_the_parts_of_the_codes(text: str, cut: int) -> None:
    codes = script_codes(text[:cut]) + script_codes(text[cut:])
    assert len(codes) == len(text)
    assert breaks(text, codes) == breaks(text)
