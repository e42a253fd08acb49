"""All gates over reasoning: loops of every kind are cut where they begin, thought is not."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.gate import Gate, Step
from sluicegate.guards.pipeline import Pipeline
from sluicegate.guards.profiles import BadProfile, Profile, profile, profile_names
from sluicegate.guards.reasoning.guard import reasoning_cap, reasoning_gates

from ..gate_law import assert_law, steps
from . import circles, traces

CAP = 60_000
ALONE = {
    "reasoning_paragraph_tokens": Flaw.REASONING_PARAGRAPHS,
    "reasoning_sentence_tokens": Flaw.REASONING_SENTENCES,
    "reasoning_counter_tokens": Flaw.REASONING_SENTENCES,
    "reasoning_ngram_tokens": Flaw.REASONING_NGRAMS,
    "reasoning_opening_tokens": Flaw.REASONING_OPENINGS,
}


def alone(key: str, **more: Any) -> Profile:
    """A profile with one rule over sentences and nothing else."""
    off = dict.fromkeys((*ALONE, "reasoning_loop_copies", "reasoning_long_loop_copies"), 0)
    del off[key]
    return profile("chat", off | {"reasoning_min_novelty": 0.0} | more)


def first_finding(gates: Gate, text: str) -> Finding | None:
    for step in steps(traces.tokens(text)):
        found = gates.feed(step)
        if found is not None:
            return found
    return None


PIECES = st.sampled_from(
    [
        *(
            "Wait",
            ",",
            " let",
            " me",
            " see",
            ".",
            " Yes",
            ".\n\n",
            "\n",
            " 7",
            " 12",
            " 17",
            "7",
            ".5",
        ),
        *("。", "不", "是", "对,", " =", "-", "!", "?", "\n so", "", "a. b", " the", "\n\n"),
        *("หรือ", "नहीं।", " "),
    ]
)


def forgetful(thresholds: Profile) -> Profile:
    """With memories so short that small texts are forgotten, too."""
    return msgspec.structs.replace(
        thresholds,
        reasoning_memory=40,
        reasoning_ngram_window=30,
        reasoning_opening_window=30,
    )


@given(
    first=st.lists(PIECES, max_size=120),
    then=st.lists(PIECES, max_size=120),
    key=st.sampled_from(sorted(ALONE)),
    most=st.integers(1, 8),
    data=st.data(),
)
def test_the_law(
    first: list[str], then: list[str], key: str, most: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(first)))
    thresholds = forgetful(alone(key, **{key: most}))
    coded = [[(len(text), text) for text in part] for part in (first, then)]
    assert_law(lambda: reasoning_gates(thresholds, 10_000), coded[0], cut, coded[1])


@given(
    first=st.lists(st.sampled_from(["ab, ", "1 ", "x", " y", "\n", ", "]), max_size=400),
    then=st.lists(PIECES, max_size=100),
    data=st.data(),
)
def test_the_law_where_no_sentence_ends_for_long(
    first: list[str], then: list[str], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(first)))
    thresholds = forgetful(alone("reasoning_sentence_tokens", reasoning_sentence_tokens=1))
    coded = [[(len(text), text) for text in part] for part in (first, then)]
    assert_law(lambda: reasoning_gates(thresholds, 10_000), coded[0], cut, coded[1])


@given(data=st.data())
def test_the_law_over_many_cuts(data: st.DataObject) -> None:
    thresholds = forgetful(profile("chat", dict.fromkeys(ALONE, 6)))
    gates = reasoning_gates(thresholds, 10_000)
    kept: list[Step] = []
    for _ in range(4):
        more = steps([(len(t), t) for t in data.draw(st.lists(PIECES, max_size=60))], kept)
        for step in more:
            gates.feed(step)
        kept = [*kept, *more]
        kept = kept[: data.draw(st.integers(0, len(kept)))]
        gates.truncate(len(kept))
    fresh = reasoning_gates(thresholds, 10_000)
    for step in kept:
        fresh.feed(step)
    more = steps([(len(t), t) for t in data.draw(st.lists(PIECES, max_size=60))], kept)
    assert [gates.feed(step) for step in more] == [fresh.feed(step) for step in more]


@pytest.mark.parametrize(("name", "text"), [pytest.param(*one, id=one[0]) for one in traces.good()])
@pytest.mark.parametrize("named", ["chat", "code"])
def test_thought_is_let_be(name: str, text: str, named: str) -> None:
    assert first_finding(reasoning_gates(profile(named), CAP), text) is None, name


LOOPS = list(circles.bad())


@pytest.mark.parametrize(
    ("before", "loop"), [pytest.param(b, loop, id=name) for name, b, loop in LOOPS]
)
def test_loops_are_cut_and_what_was_thought_before_stays(before: str, loop: str) -> None:
    found = first_finding(reasoning_gates(profile("chat"), CAP), before + loop)
    assert found is not None
    assert found.level is Level.REASONING
    # A blank may belong to the token behind it.
    assert found.chars[0] >= len(before) - 2
    assert found.chars[0] < found.chars[1] <= len(before + loop)


@pytest.mark.parametrize("language", sorted(circles.UNITS))
def test_a_loop_of_a_short_unit_is_found_within_256_tokens(language: str) -> None:
    for name, before, loop in LOOPS:
        if name == f"exact {language}":
            found = first_finding(reasoning_gates(profile("chat"), CAP), before + loop)
            assert found is not None
            assert found.tokens[1] - len(traces.tokens(before)) <= 256
            unit = len(traces.tokens(circles.UNITS[language]))
            # The first copy stays, and no more than the sentence behind it.
            assert abs(found.tokens[0] - len(traces.tokens(before)) - unit) <= 12


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("reasoning_paragraph_tokens", "paragraphs en"),
        ("reasoning_sentence_tokens", "shuffled en"),
        ("reasoning_sentence_tokens", "shuffled zh"),
        ("reasoning_ngram_tokens", "bare en"),
        ("reasoning_sentence_tokens", "shuffled th"),
        ("reasoning_counter_tokens", "counted en"),
        ("reasoning_counter_tokens", "counted zh"),
        ("reasoning_ngram_tokens", "bare de"),
        ("reasoning_opening_tokens", "paraphrase 0"),
        ("reasoning_opening_tokens", "reopening"),
    ],
)
def test_each_rule_finds_its_loops_alone(key: str, name: str) -> None:
    before, loop = next((b, loop) for called, b, loop in LOOPS if called == name)
    found = first_finding(reasoning_gates(alone(key), CAP), before + loop)
    assert found is not None
    assert found.flaw is ALONE[key]
    assert found.gate == key.replace("_tokens", "s")
    assert found.score >= found.threshold
    assert found.chars[0] >= len(before) - 2
    off = reasoning_gates(alone(key, **{key: 0}), CAP)
    assert first_finding(off, before + loop) is None


def test_truncated_to_the_onset_other_thought_may_follow() -> None:
    before, loop = next((b, loop) for name, b, loop in LOOPS if name == "shuffled en")
    gates = reasoning_gates(profile("chat"), CAP)
    fed = steps(traces.tokens(before + loop))
    found = next(found for step in fed if (found := gates.feed(step)))
    gates.truncate(found.tokens[0])
    kept = fed[: found.tokens[0]]
    more = steps(traces.tokens("\n" + traces.table(60)), kept)
    assert not any(gates.feed(step) for step in more)


def test_what_a_number_tells_apart_is_not_the_same() -> None:
    case = "In case {} the left side is even and the right one is odd, so there is no solution.\n\n"
    counted = "".join(case.format(number * number) for number in range(17, 60))
    assert first_finding(reasoning_gates(profile("chat"), CAP), counted) is None
    same = case.format(17) * 43
    assert first_finding(reasoning_gates(profile("chat"), CAP), same) is not None


def test_the_profile_that_is_off_leaves_the_cap_alone() -> None:
    gates = reasoning_gates(profile("off"), 1_500)
    found = first_finding(gates, circles.UNITS["en"] * 200)
    assert found is not None
    assert (found.flaw, found.tokens) == (Flaw.REASONING_CAP, (1_500, 1_501))


def test_the_certain_ones_come_first() -> None:
    gates = reasoning_gates(profile("chat"), 1_000)
    assert isinstance(gates, Pipeline)
    assert repr(gates) == "<Pipeline reasoning_budget reasoning_loop reasoning_text>"


def test_what_an_effort_stands_for() -> None:
    thresholds = profile("chat", {"reasoning_effort": "high", "reasoning_low": 7})
    assert reasoning_cap(thresholds, None) == thresholds.reasoning_high
    assert reasoning_cap(thresholds, "low") == 7
    assert reasoning_cap(thresholds, "medium") == thresholds.reasoning_medium
    assert reasoning_cap(thresholds, "max") == thresholds.reasoning_max
    assert reasoning_cap(profile("chat", {"reasoning_low": 0}), "low") == 0
    assert (reasoning_cap(thresholds, 0), reasoning_cap(thresholds, 123)) == (0, 123)


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_makes_gates(name: str) -> None:
    assert reasoning_gates(profile(name), 10).feed(Step(1, "a", 0, 0)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reasoning_memory", 255),
        ("reasoning_ngram_window", 0),
        ("reasoning_stale_cost", 0.5),
        ("reasoning_stale_share", 1.0),
        ("reasoning_novelty_window", 1),
        ("reasoning_min_novelty", 1.5),
        ("reasoning_loop_period", 0),
    ],
)
def test_thresholds_that_are_nonsense_are_refused(key: str, value: float) -> None:
    with pytest.raises(BadProfile, match=key):
        profile("chat", {key: value})
