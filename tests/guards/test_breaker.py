"""The breaker: three degrees, recovery, and an end that is final."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.breaker import decide, reminder
from sluicegate.guards.watchdog_thresholds import watchdog
from sluicegate.schemas.agents import Assessment, Decision, Finding

RULES = watchdog()
CLEAN = Assessment(round=1)


def circling(score: int = 3) -> Assessment:
    found = Finding(metric="cycle", value=2, threshold=2, points=score, detail="the same again")
    return Assessment(round=5, score=score, circling=True, findings=(found,))


def size(score: int = 3, over: int = 1) -> Assessment:
    found = Finding(
        metric="rounds", value=25 + over, threshold=25, points=score, detail="many rounds"
    )
    return Assessment(round=25 + over, score=score, findings=(found,))


def after(*assessments: Assessment, start: Decision | None = None) -> Decision:
    decision = start or Decision()
    for assessment in assessments:
        decision = decide(decision, assessment, RULES)
    return decision


assessments = st.one_of(
    st.just(CLEAN),
    st.builds(circling, st.integers(0, 9)),
    st.builds(size, st.integers(0, 9), st.integers(1, 30)),
)


@given(some=st.lists(assessments, max_size=30))
def test_the_laws(some: list[Assessment]) -> None:
    decision = Decision()
    for assessment in some:
        before, decision = decision, decide(decision, assessment, RULES)
        assert 0 <= decision.warnings <= RULES.warnings_max
        assert (decision.state == "tripped") == (decision.degree == "terminate")
        if before.state == "tripped":
            assert decision == before
        elif decision.state == "normal":
            assert (decision.warnings, decision.degree, decision.because) == (0, "none", "")
        # One round changes them by one.
        assert abs(decision.warnings - before.warnings) <= 1
        assert decision.degree == "none" or decision.because
        text = reminder(assessment, decision)
        assert len(text) <= 500
        assert text.isprintable()
        assert text or decision.degree in ("none", "warn")


@given(some=st.lists(st.one_of(st.just(CLEAN), st.builds(size, st.integers(0, 20))), max_size=40))
def test_size_alone_never_ends_a_job(some: list[Assessment]) -> None:
    decision = after(*some)
    assert decision.warnings == 0
    assert decision.degree in ("none", "warn")


@given(some=st.lists(assessments, max_size=20))
def test_clean_rounds_lead_back_to_normal(some: list[Assessment]) -> None:
    decision = after(*some)
    if decision.state != "tripped":
        assert after(*[CLEAN] * max(1, decision.warnings), start=decision) == Decision()


def test_three_degrees() -> None:
    assert after(CLEAN, circling(2)) == Decision()
    first = after(circling())
    assert (first.state, first.warnings, first.degree) == ("warning", 1, "warn")
    second = after(circling(), circling(5))
    assert (second.state, second.warnings, second.degree) == ("warning", 2, "degrade")
    third = after(circling(), circling(), circling())
    assert (third.state, third.warnings, third.degree) == ("tripped", 3, "terminate")
    assert third.because == "the same again"


def test_six_points_trip_at_once() -> None:
    assert after(circling(5)).state == "warning"
    assert after(circling(6)).state == "tripped"
    assert after(Assessment(round=1, score=6, circling=True)).state == "tripped"


def test_a_clean_round_takes_one_warning_back() -> None:
    two = after(circling(), circling())
    one = after(CLEAN, start=two)
    assert (one.state, one.warnings, one.degree, one.because) == ("warning", 1, "none", "")
    assert after(circling(), start=one).degree == "degrade"
    assert after(CLEAN, start=one) == Decision()


def test_tripped_is_final() -> None:
    tripped = after(circling(6))
    assert after(CLEAN, circling(), size(), start=tripped) == tripped


def test_size_is_told_and_adds_to_nothing() -> None:
    told = after(size(7))
    assert (told.state, told.warnings, told.degree) == ("warning", 0, "warn")
    # It takes a warning back as a clean round does.
    assert after(circling(), size()).warnings == 0
    # A late round that repeats something is no worse than an early one.
    late = Assessment(
        round=30, score=8, circling=True, findings=(*size(3).findings, *circling(5).findings)
    )
    assert after(late).warnings == 1
    weak = Assessment(
        round=30, score=5, circling=True, findings=(*size(3).findings, *circling(2).findings)
    )
    assert after(weak, weak, weak).warnings == 0


def test_as_worded_size_ends_a_job() -> None:
    worded = watchdog(as_worded=True)
    assert decide(Decision(), size(6), worded).state == "tripped"
    decision = Decision()
    for _ in range(3):
        decision = decide(decision, size(3), worded)
    assert decision.state == "tripped"


def test_the_numbers_are_thresholds() -> None:
    rules = watchdog(overrides={"warn_score": 2, "trip_score": 4, "warnings_max": 1})
    assert decide(Decision(), circling(1), rules) == Decision()
    assert decide(Decision(), circling(2), rules).state == "tripped"


@pytest.mark.parametrize(
    ("count", "advice"),
    [(1, "another way"), (2, "only tools that you have not used yet"), (3, "ends here")],
)
def test_what_the_model_is_told(count: int, advice: str) -> None:
    text = reminder(circling(), after(*[circling()] * count))
    assert text.startswith("Note: the same again. ")
    assert advice in text
    assert "final answer" in text


def test_nothing_is_told_of_a_clean_round() -> None:
    assert reminder(CLEAN, after(circling(), CLEAN)) == ""


def test_size_is_not_told_in_every_round() -> None:
    told = [over for over in range(1, 30) if reminder(size(3, over), after(size(3, over)))]
    assert told == [1, 11, 21]
    assert "Doing it once more" not in reminder(size(), after(size()))


def test_what_is_told_is_tame() -> None:
    found = Finding(metric="cycle", value=2, threshold=2, points=3, detail="\x1b[31m\u202e" * 100)
    seen = Assessment(round=1, score=3, circling=True, findings=(found,))
    decision = after(seen)
    assert decision.because.isprintable()
    assert len(reminder(seen, decision)) <= 500
