"""One script all along, and then another in mid-sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw
from sluicegate.guards.switch import SwitchGate, SwitchRules

from .gate_law import assert_law, feed, steps

ENGLISH = (
    "A rainbow is formed when light from the sun meets water droplets in the air, which bend and "
    "reflect it, so that its colours part and are seen as a bow"
)
RUSSIAN = (
    "Радуга появляется, когда свет солнца встречает капли воды в воздухе, которые преломляют и "
    "отражают его, так что цвета расходятся и видны как дуга в небе после дождя"
)


def first(text: str, rules: SwitchRules | None = None) -> Finding | None:
    gate = SwitchGate(rules)
    found = feed(gate, steps([(ord(letter), letter) for letter in text]))
    return next((finding for finding in found if finding), None)


@pytest.mark.parametrize(
    "other",
    [
        " я и он не были в Москве",
        " δε με είδε κανείς",
        " هو لا يعرف من كان في البيت",
        " הוא לא היה שם",
        " यह तो सब ठीक है",
        " 今天天气很好孩子们在河边玩耍老人们喝茶",
        "преломляют и отражают",
    ],
)
def test_another_answer_got_into_this_one(other: str) -> None:
    finding = first(ENGLISH + other)
    assert finding is not None
    assert finding.flaw is Flaw.SCRIPT_SWITCH
    assert finding.chars[0] == len(ENGLISH)
    assert first(ENGLISH) is None


@pytest.mark.parametrize(
    "text",
    [
        f"{ENGLISH} (радуга появляется, когда свет солнца встречает капли).",
        f"{ENGLISH}, in Russian: радуга появляется, когда свет солнца встречает капли.",
        f"{ENGLISH}.\nРадуга появляется, когда свет солнца встречает капли воды.",
        f'{ENGLISH} "радуга появляется, когда свет солнца" is how one says it.',
        f"{ENGLISH} радуга and so on, and then радуга once more, and всё это again",
        f"{ENGLISH} in Tokyo 東京 and Kyoto 京都 and so on",
        f"{ENGLISH} of **радуга появляется, когда** and more",
        f"{RUSSIAN}, например, Single Sign-On или OpenID Connect и так далее",
        "Привет and hello и ещё раз привет and so on и так далее без конца и края всегда",
        ENGLISH + ENGLISH,
        RUSSIAN,
        f"{ENGLISH} of angle α plus β plus γ plus δ",
    ],
)
def test_writers_who_change_the_script_are_left_alone(text: str) -> None:
    assert first(text) is None


def test_latin_names_are_short_and_a_latin_answer_is_not() -> None:
    english = "and then it goes on in English for no reason at all, to the end and far beyond it"
    assert first(f"{RUSSIAN} {english}")


def test_suspected_is_where_the_other_script_began() -> None:
    gate = SwitchGate()
    feed(gate, steps([(ord(letter), letter) for letter in ENGLISH + " я и"]))
    assert gate.suspected() == len(ENGLISH)
    feed(gate, steps([(ord(letter), letter) for letter in "and"]))
    gate.truncate(len(ENGLISH))
    assert gate.suspected() is None


@given(st.data())
def test_the_law(data: st.DataObject) -> None:
    pieces = ["word ", "on", " ", "слово ", "и", "(", "\n", "漢字", "", "ab ", "я "]
    tokens = st.lists(st.sampled_from(pieces).map(lambda piece: (len(piece), piece)), max_size=40)
    first_tokens = data.draw(tokens)
    assert_law(
        lambda: SwitchGate(SwitchRules(letters=4, words=2, run=5, latin_run=6)),
        first_tokens,
        data.draw(st.integers(0, len(first_tokens))),
        data.draw(tokens),
    )
