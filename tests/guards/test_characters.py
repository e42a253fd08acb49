"""Characters that no good text has are found; scripts, emoji and symbols are let be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.characters import CharacterGate, CharacterRules
from sluicegate.guards.finding import Finding, Flaw

from .gate_law import assert_law, feed, steps

# Pieces of everything that the gate looks at, whole and halved.
PIECES = [
    "a",
    " ",
    "\n",
    "Ã",
    "©",
    "Ã©",
    "â€",
    "™",
    "Ð",
    "¿Ñ",
    "€",
    "\x07",
    "\ufffd",
    "\ue000",
    "é",
    "",
]
pieces = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(PIECES)), max_size=60)


def first(text: str, rules: CharacterRules | None = None, width: int = 1) -> Finding | None:
    """What a fresh gate finds first in a text that comes in pieces of a width."""
    gate = CharacterGate(rules)
    cut = [(0, text[start : start + width]) for start in range(0, len(text), width)]
    return next((found for found in feed(gate, steps(cut)) if found), None)


def mangled(text: str, page: str = "cp1252") -> str:
    """UTF-8 read as a one-byte code page."""
    return "".join(
        bytes([byte]).decode(page, errors="ignore") or chr(byte) for byte in text.encode()
    )


@given(before=pieces, then=pieces, data=st.data())
def test_the_law(
    before: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(before)))
    assert_law(CharacterGate, before, cut, then)


@pytest.mark.parametrize(
    ("bad", "flaw", "allowed"),
    [
        ("\x07", Flaw.CONTROL_CHARACTER, 1),
        ("\x9b", Flaw.CONTROL_CHARACTER, 1),
        ("\ue123", Flaw.PRIVATE_USE, 2),
        ("\U000f1234", Flaw.PRIVATE_USE, 2),
        ("\u0378", Flaw.UNASSIGNED, 2),
        ("\uffff", Flaw.UNASSIGNED, 2),
        ("\ufffd", Flaw.REPLACEMENT_CHARACTER, 2),
    ],
)
@pytest.mark.parametrize("width", [1, 5, 1000])
def test_the_one_too_many_trips(bad: str, flaw: Flaw, allowed: int, width: int) -> None:
    fine = f"text {bad}" * allowed
    assert first(fine, width=width) is None
    found = first(f"{fine} more {bad} and on", width=width)
    assert found is not None
    assert found.flaw is flaw
    assert found.chars[0] == 5
    assert found.tokens[0] == 5 // width
    # Far apart they are let be.
    assert first(f"{bad}{'long text ' * 30}" * 9, width=width) is None


@pytest.mark.parametrize(
    "text",
    [
        "été à Montréal – l’Âge d’or, São Paulo, NÃO, Ãba",
        "\xabÉtat-major\xbb, \xab\xa0l’été\xa0\xbb, CAFÉ» FÉ… É” " * 5,
        "„Spaß“ „Gruß“ „Fuß“ „Maß“ „heiß“",
        "2 × ½ und 3×², 20 °C, ÅÄÖ – ÑÑ",
        "Рік, Сім’я, Рівне, сієї, Росія, Різдво, СРСР, “Рішення”",
        "Војвода Рајко, Сјеница; Ћирилица",
        "👩‍👩‍👧‍👦 🏳️‍🌈 ❤️ 🇧🇷 🧑🏽‍🚀",
        "\ufeffByte order mark",
        "สวัสดีค่ะ ก็มีวรรณยุกต์ซ้อนกัน",
        "בְּרֵאשִׁית בָּרָא אֱלֹהִים",
        "नमस्ते क्\u200dष العَرَبِيَّة",
        r"\frac{\partial f}{\partial x} \n \x07 \u0000",
        "tab\tline\r\nspace\u3000nbsp\xa0thin\u2009",
        "cafÃ© is what “café” looks like then, and rÃ©sumÃ©",
        "| é | Ã© |\n| ö | Ã¶ |\n| ñ | Ã± |\n| ’ | â€™ |\n| € | â‚¬ |\n| ° | Â° |\n| à | â€“ |",
        "Ærø, Þórr, Ðe, ×, ß, Øst; ‡†•… “a” ‘b’ ™®©",
    ],
)
@pytest.mark.parametrize("width", [1, 3, 1000])
def test_good_text(text: str, width: int) -> None:
    assert first(text, width=width) is None


@pytest.mark.parametrize("width", [1, 3, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "Le café est ouvert jusqu’à 23 h, l’été à Montréal – déjà répété.",
        "Привет, как дела?",
        "Γειά σου κόσμε",
        "你好，世界。今天天气很好。",
        "こんにちは世界",
        "안녕하세요 여러분",
        "مرحبا بالعالم",
        "नमस्ते दुनिया",
        "🎉🎂😀🚀",
        "Chào mọi người, máy chủ này chạy khá ổn định trong tuần qua",
    ],
)
def test_mojibake_is_found_whatever_the_language(text: str, width: int) -> None:
    assert first(text, width=width) is None
    found = first(mangled(text), width=width)
    assert found is not None
    assert found.flaw in (Flaw.MOJIBAKE, Flaw.CONTROL_CHARACTER)


def test_mojibake_of_the_other_code_page() -> None:
    found = first(mangled("Привет, как дела?", "cp1251"))
    assert found is not None
    assert found.flaw is Flaw.MOJIBAKE
    assert found.chars[0] == 0


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x24F), max_size=400))
def test_where_mojibake_is_found_does_not_hang_on_the_pieces(text: str) -> None:
    whole = mangled(f"été déjà répété {text}")
    rules = CharacterRules(controls=0)
    assert (first(whole, rules, 1) is None) == (first(whole, rules, 7) is None)


def test_one_mojibake_word_is_no_loss_of_the_rest() -> None:
    found = first("Bonjour. " + mangled("déjà répété à l’été"))
    assert found is not None
    assert found.chars[0] == len("Bonjour. d")


def test_profiles_allow_and_deny() -> None:
    rules = CharacterRules(allowed="\f", denied="Z\u2603")
    assert first("\f page \f page \f", rules) is None
    for text in ("A to Z", "snow \u2603"):
        found = first(text, rules)
        assert found is not None
        assert found.flaw is Flaw.DENIED_CHARACTER


def test_zero_switches_off() -> None:
    off = CharacterRules(controls=0, private_use=0, unassigned=0, replacements=0, mojibake=0)
    assert first("\x07\ue000\u0378\ufffd" * 50 + mangled("Привет"), off) is None


def test_truncating_takes_the_count_back() -> None:
    gate = CharacterGate()
    assert not any(feed(gate, steps([(0, "\ufffd"), (0, "\ufffd")])))
    gate.truncate(1)
    kept = steps([(0, "\ufffd")])
    assert not any(feed(gate, steps([(0, "\ufffd"), (0, "a")], kept)))


@given(
    before=pieces,
    then=pieces,
    controls=st.integers(0, 5),
    window=st.integers(1, 30),
    data=st.data(),
)
def test_what_is_suspected_is_what_the_next_one_would_count(
    before: list[tuple[int, str]],
    then: list[tuple[int, str]],
    controls: int,
    window: int,
    data: st.DataObject,
) -> None:
    """By its definition, on the text; whatever was there before a cut."""
    gate = CharacterGate(
        CharacterRules(controls=controls, window=window, private_use=0, replacements=0, mojibake=0)
    )
    feed(gate, steps(before))
    cut = data.draw(st.integers(0, len(before)))
    gate.truncate(cut)
    stream = before[:cut] + then
    feed(gate, steps(then, steps(before[:cut])))
    text = "".join(piece for _, piece in stream)
    bells = [
        (step.position, step.offset + index)
        for step in steps(stream)
        for index, one in enumerate(step.text)
        if one == "\a"
    ]
    near = [place for place, offset in bells[-controls:] if len(text) - offset < window]
    assert gate.suspected() == (near[0] if near and controls else None)
