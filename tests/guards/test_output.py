"""The whole output: what no success is, and repetition that is none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.output import judge_output, repetition_ratio
from sluicegate.guards.profiles import profile, profile_names
from sluicegate.schemas import FinishReason

LOOPED = "We should first look at the question again, and then we may go on with it. "
OTHER = (
    "The harbour was built in the year after the flood. Its walls are made of granite from the "
    "north. Every spring the boats come back with the tide, and the whole town waits for them. "
    "Nobody remembers who lit the first lamp in the old tower. The keeper's daughter wrote it all "
    "down in a book with a blue cover. It was lost when the archive burned. "
)


def judge(
    text: str,
    *,
    name: str = "chat",
    pending: int = 0,
    finish: FinishReason = "stop",
    structured: bool = False,
    **overrides: float,
) -> Finding | None:
    return judge_output(
        profile(name, overrides),
        text,
        tokens=100,
        pending=pending,
        finish_reason=finish,
        structured=structured,
    )


def flaw(found: Finding | None) -> Flaw | None:
    if found is None:
        return None
    assert (found.gate, found.level) == ("output", Level.OUTPUT)
    return found.flaw


@pytest.mark.parametrize("name", profile_names())
def test_an_engine_that_did_not_finish_is_no_success(name: str) -> None:
    assert flaw(judge("Fine.", name=name, finish="repetition")) is Flaw.ENGINE_REPETITION
    assert flaw(judge("Fine.", name=name, finish="abort")) is Flaw.ENGINE_ABORT
    assert judge("Fine.", name=name, finish="length") is None
    assert judge("Fine.", name=name) is None


@pytest.mark.parametrize("text", ["", " \n\n ", "\t"])
def test_nothing_said(text: str) -> None:
    assert flaw(judge(text)) is Flaw.EMPTY_ANSWER
    assert flaw(judge(text, structured=True)) is Flaw.EMPTY_ANSWER
    assert judge(text, name="off") is None


def test_too_short_is_what_a_job_says_is_too_short() -> None:
    assert judge("4") is None
    found = judge("  four  ", min_length=5)
    assert found is not None
    assert (found.flaw, found.score, found.threshold) == (Flaw.TOO_SHORT, 4, 5)
    assert judge("fives", min_length=5) is None
    assert judge("4", structured=True, min_length=5) is None


def test_half_a_character_at_the_end_of_a_text_that_ended_by_itself() -> None:
    found = judge("Hello ", pending=2)
    assert found is not None
    assert (found.flaw, found.tokens) == (Flaw.UNFINISHED_CHARACTER, (98, 100))
    # Cut off in the middle of it; and more silent tokens than a character has are not one.
    assert judge("Hello ", pending=2, finish="length") is None
    assert judge("Hello ", pending=4) is None


def test_sentences_that_come_round_are_found_where_no_period_is_exact() -> None:
    text = "".join(f"{LOOPED}Step {n} is done now. " for n in range(20))
    found = judge(text)
    assert found is not None
    assert found.flaw is Flaw.REPETITIVE
    assert found.score > 0.8
    assert judge(text, name="code") is None
    assert judge(text, structured=True) is None
    assert judge(text, structured=True, structured_text_gates=1) is not None
    assert judge(text, max_repetition_ratio=0) is None


def test_prose_beside_the_repetition_counts() -> None:
    assert repetition_ratio(OTHER + LOOPED * 3) < 0.3
    assert repetition_ratio(OTHER + LOOPED * 9) > 0.3
    assert repetition_ratio(LOOPED * 4) == 0.0, "too little prose to say"


@pytest.mark.parametrize(
    "text",
    [
        "| The same cell of a table as before | and the next one of it |\n" * 30,
        "```\n" + "print the very same line of code once more to the screen\n" * 30 + "```\n",
        "    self.assertEqual(the_first_value, the_second_value);\n" * 30,
        "".join(f"- Item {n}\n  Yes\n  No\n" for n in range(200)),
        "12.5 13.5 12.5 13.5 12.5 of the usual kind of thing\n" * 30,
        OTHER + "Oh the grand old Duke of York, he had ten thousand men\n" * 2 + OTHER,
    ],
)
def test_what_must_be_alike_is_no_repetition(text: str) -> None:
    assert repetition_ratio(text) == 0.0


def test_languages_without_blanks() -> None:
    once = "我们应该先回头看看这个问题本身再继续往下走。"
    assert repetition_ratio(once * 40) > 0.9


@settings(deadline=None)
@given(st.text(max_size=2000))
def test_a_ratio_is_a_share(text: str) -> None:
    assert 0.0 <= repetition_ratio(text * 3) <= 1.0


# Text in another model's tokens.
SALAD = (
    " tannnev Seasertain Chapel Russertain Norther whisperedEAidxifi watercolor JudgmentDES drug ma"
    "psifi wallets Croatia accompanifi Stain glitter Mariogathere cardiomyfourth Quad TradingBroad"
    "flows newaxisgathere adenaBroad Gigassignment fiber creedgathere matmul"
)


@pytest.mark.parametrize("length", [60, 100, 150, len(SALAD)])
def test_a_text_too_short_for_the_gate_may_be_salad_as_a_whole(length: int) -> None:
    text = SALAD[:length]
    found = judge(text)
    assert found is not None
    assert found.flaw is Flaw.GIBBERISH
    assert found.score >= found.threshold
    assert found.chars == (max(0, length - 150), length)
    assert found.tokens == (100 * found.chars[0] // length, 100)
    assert judge(text, gibberish=0) is None
    assert judge(text, structured=True) is None


def test_the_end_of_a_text_is_judged_for_itself() -> None:
    found = judge(OTHER + SALAD[:150])
    assert found is not None
    assert (found.flaw, found.chars[0]) == (Flaw.GIBBERISH, len(OTHER))
    assert judge(OTHER + SALAD[:150] + "\n" + OTHER) is None


@pytest.mark.parametrize(
    "text", ["", "Leyicidenses(){ HHSwealth", OTHER, OTHER[:60], "x = 1\n" * 30]
)
def test_what_is_no_salad(text: str) -> None:
    assert judge(text, min_length=0) is None


def test_a_short_list_of_words_is_no_salad() -> None:
    text = (
        "gravity machine north sort system female filter attitude volume fold club stay feature "
        "office ecology stable narrow fog cabin tonight exile mystery unable pulse jungle"
    )[:149]
    assert judge(text) is None
    assert flaw(judge(text, broken_words=0)) is Flaw.GIBBERISH
