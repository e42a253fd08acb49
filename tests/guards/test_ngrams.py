"""The model of n-grams: what it reads, what it weighs, and that it survives packing."""

import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.ngrams import ORDER, File, Ngrams, built_in, pack, stand_ins


def test_only_latin_letters_stand_for_themselves() -> None:
    assert stand_ins("Añ 42٣\n(x)") == "Añ 000\n(x)"
    assert stand_ins("жя Ωλ 中あ") == "жж γγ 中中"
    assert stand_ins("\u05d1\u05d2 \u0e02\u0e04") == "\u05d0\u05d0 \u0e01\u0e01"
    assert stand_ins("—“€😀") == "……¤¤"


@settings(deadline=None)
@given(st.text())
def test_nothing_is_lost_or_added(text: str) -> None:
    assert len(stand_ins(text)) == len(text)


@settings(deadline=None)
@given(st.text(alphabet="ab c", max_size=40), st.text(alphabet="ab c", max_size=40))
def test_a_total_is_the_sum_over_its_parts_that_overlap(one: str, other: str) -> None:
    ngrams = Ngrams({"ab c": 3, "a ab": -2, "bbbb": 7})
    joint = one[-(ORDER - 1) :] + other
    assert ngrams.total(one + other) == ngrams.total(one) + ngrams.total(joint) - ngrams.total(
        one[-(ORDER - 1) :]
    )


def test_packed_and_read_again() -> None:
    weights = {"ab c": 3, "a\n\tb": 3, "….  ": -127, "中中ab": 1}
    held = msgspec.msgpack.decode(zlib.decompress(pack(weights)), type=File)
    read = {
        grams[at : at + ORDER]: weight
        for weight, grams in held.weights.items()
        for at in range(0, len(grams), ORDER)
    }
    assert read == weights


@pytest.mark.parametrize(
    ("good", "salad"),
    [
        (
            "The keeper walked up the stairs and looked out over the water, as he did each day.",
            " promoting Leyicidenses(){ HHSwealth unre Avivly<hprom otherworld\tifs Kauvern illing",
        ),
        (
            "for (int i = 0; i < count; i++) {\n    total += values[i];\n}\nreturn total;",
            "ingReturn(voidly ELSEopath Xi};cephal +=Ley routeriferpreted\\n Nic$.getrowing",
        ),
    ],
)
def test_the_built_in_model_tells_text_from_salad(good: str, salad: str) -> None:
    assert built_in().total(stand_ins(good)) < 0 < built_in().total(stand_ins(salad))


def test_it_has_nothing_to_say_about_what_salad_is_not_told_by() -> None:
    for text in (
        "." * 50,
        "│ ─ │",
        "漢字かな交じり文。",
        "-----",
        "0123 4567",
        "a   " * 9 + "AAAA",
    ):
        assert built_in().total(stand_ins(text)) == 0
