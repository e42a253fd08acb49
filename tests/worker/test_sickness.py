"""The circuit breaker by itself: laws over any history, and the cases that they leave open."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.worker.sickness import ADVICE, Ailment, Outcome, Rules, Sickness
from sluicegate.worker.stall import PREFILL_TOKENS_S, StallWatch

RULES = Rules(numeric_jobs=3, numeric_of=10, window_s=100, restarts=3, restart_window_s=1000)
ailments = st.sampled_from(Ailment)
attempts = st.tuples(
    st.just("attempt"),
    st.sampled_from("abcdef"),
    st.sampled_from(["good", "numeric", "failed"]),
    st.booleans(),
)
troubles = st.tuples(st.just("trouble"), ailments, st.booleans())
steps = st.tuples(st.floats(0, 200), attempts | troubles)
# Whether each restart brings an engine that works.
luck = st.lists(st.booleans(), max_size=40)


def mend(one: Sickness, at: float, works: list[bool]) -> list[float]:
    """Restart until it works or gives up, as the keeper does; when each restart was."""
    times: list[float] = []
    while (pause := one.restart(at, 0.5)) is not None:
        assert not one.takes_work
        assert 0 < pause <= one.rules.longest_pause_s
        times.append(at)
        at += pause
        if works.pop() if works else False:
            one.recover()
            break
        one.fall_ill(at, Ailment.LOAD, "no")
    return times


@given(history=st.lists(steps, max_size=60), works=luck)
def test_any_history_keeps_the_laws(
    history: list[tuple[float, tuple[object, ...]]], works: list[bool]
) -> None:
    one = Sickness(RULES)
    at, restarts = 0.0, list[float]()
    for passed, (what, *said) in history:
        at += passed
        if what == "attempt":
            job, outcome, elsewhere = said
            asks = one.attempt(at, str(job), outcome, elsewhere=bool(elsewhere))  # pyright: ignore[reportArgumentType]
            assert not (asks and not one.takes_work)
        else:
            one.fall_ill(at, Ailment(said[0]), "x", explained=bool(said[1]))
            # Nothing makes it take work but a new engine.
            assert not one.takes_work
        if one.health == "quarantined":
            assert one.diagnosis is not None
            times = mend(one, at, works)
            restarts += times
            at = max(at, (times or [at])[-1])
            # However it went, it is at work again, or at its end.
            assert one.health in ("probation", "gave_up")
        if one.health == "gave_up":
            assert not one.takes_work
    for begin in restarts:
        within = [each for each in restarts if begin <= each < begin + RULES.restart_window_s]
        assert len(within) <= RULES.restarts


@given(st.lists(st.tuples(st.floats(0, 50), st.sampled_from(["numeric", "failed"])), max_size=80))
def test_one_job_alone_never_takes_the_engine_down(
    history: list[tuple[float, Outcome]],
) -> None:
    one, at = Sickness(RULES), 0.0
    for passed, outcome in history:
        at += passed
        one.attempt(at, "the same", outcome)
    assert one.health == "healthy"


def ill_after(outcomes: list[tuple[str, bool]], rules: Rules = RULES, every_s: float = 1.0) -> int:
    """After how many numeric faults it is ill; 0: never."""
    one = Sickness(rules)
    for number, (job, elsewhere) in enumerate(outcomes, 1):
        one.attempt(number * every_s, job, "numeric", elsewhere=elsewhere)
        if not one.takes_work:
            assert one.diagnosis is not None
            assert one.diagnosis.ailment is Ailment.NUMERIC
            return number
    return 0


def test_distinct_jobs_count_and_those_known_elsewhere_count_half() -> None:
    jobs = "abcdefgh"
    assert ill_after([(job, False) for job in jobs]) == 3
    assert ill_after([(job, True) for job in jobs]) == 6
    assert ill_after([("a", False), ("a", False), ("b", False), ("b", False)]) == 0
    assert ill_after([(job, False) for job in jobs], every_s=60) == 0


def test_many_good_attempts_between_make_it_chance() -> None:
    one = Sickness(RULES)
    for number in range(100):
        one.attempt(number, f"good {number}", "numeric" if number % 5 == 0 else "good")
    assert one.takes_work


def test_the_second_of_them_asks_for_the_canary_once() -> None:
    one = Sickness(RULES)
    assert [one.attempt(1, job, "failed") for job in "aabcd"] == [False, False, True, False, False]
    assert one.health == "healthy"
    one.reassure()
    assert one.attempt(2, "e", "failed")


def test_on_probation_less_is_forgiven_and_good_jobs_end_it() -> None:
    one = Sickness(RULES)
    one.fall_ill(0, Ailment.LOST, "x")
    assert one.restart(0, 0) is not None
    one.recover()
    assert one.health == "probation"
    one.attempt(1, "a", "numeric")
    one.attempt(2, "b", "numeric")
    assert one.health == "quarantined"
    assert one.restart(3, 0) is not None
    one.recover()
    for job in "aabc":
        assert one.health == "probation"
        one.attempt(4, job, "good")
    assert one.health == "healthy"


def test_pauses_double_up_to_the_longest_with_the_last_half_by_lot() -> None:
    rules = Rules(restarts=9, first_pause_s=1, longest_pause_s=20)
    for draw in (0.0, 0.999):
        one = Sickness(rules)
        one.fall_ill(0, Ailment.LOST, "x")
        pauses = [one.restart(0, draw) for _ in range(9)]
        whole = [min(20, 2**number) for number in range(9)]
        share = 0.5 + 0.5 * draw
        assert pauses == pytest.approx([each * share for each in whole])
        assert one.restart(0, draw) is None


def test_restarts_are_forgotten_after_the_window() -> None:
    one = Sickness(RULES)
    at = 0.0
    for _ in range(20):
        at += 400
        one.fall_ill(at, Ailment.LOST, "x")
        assert one.restart(at, 0) is not None
        one.recover()


@pytest.mark.parametrize(("explained", "restarts"), [(False, 1), (True, 3)])
def test_memory_that_runs_out_twice_without_a_culprit_is_the_end(
    explained: bool, restarts: int
) -> None:
    one = Sickness(RULES)
    for _ in range(restarts):
        one.fall_ill(0, Ailment.OUT_OF_MEMORY, "x", explained=explained)
        assert one.restart(0, 0) is not None
        one.recover()
    one.fall_ill(0, Ailment.OUT_OF_MEMORY, "x", explained=explained)
    assert one.restart(0, 0) is None
    assert one.health == "gave_up"


def test_without_restarts_it_gives_up_at_once() -> None:
    one = Sickness(Rules(restarts=0))
    one.fall_ill(0, Ailment.LOST, "x")
    assert one.restart(0, 0) is None


def test_the_first_ailment_stands() -> None:
    one = Sickness(RULES)
    one.fall_ill(0, Ailment.STALLED, "first")
    one.fall_ill(0, Ailment.LOST, "because it was closed")
    assert str(one.diagnosis) == "stalled: first"


def test_every_ailment_has_an_advice_and_only_doubt_taints() -> None:
    assert set(ADVICE) == set(Ailment)
    assert {each for each in Ailment if each.taints} == {Ailment.NUMERIC, Ailment.CANARY}
    assert not any(each.taints and each.strikes for each in Ailment)


class TestStall:
    def test_silence_counts_from_the_last_piece_of_any_request(self) -> None:
        watch = StallWatch(10, 1)
        watch.begin("a", 0)
        watch.begin("b", 0)
        for second in range(9):
            assert not watch.look(second)
        watch.beat("b")
        assert [watch.look(second) for second in range(9, 20)] == [False] * 10 + [True]

    def test_idle_is_never_stalled_and_what_comes_then_begins_anew(self) -> None:
        watch = StallWatch(10, 1)
        assert not any(watch.look(second) for second in range(100))
        watch.begin("a", 0)
        assert not watch.look(100)
        watch.end("a")
        assert not any(watch.look(second) for second in range(100, 200))

    def test_a_prompt_has_time_to_be_read_once(self) -> None:
        watch = StallWatch(10, 1)
        watch.begin("a", int(5 * PREFILL_TOKENS_S))
        assert watch.allowed_s() == 15
        watch.beat("a")
        assert watch.allowed_s() == 10
        watch.begin("long", 10**9)
        assert watch.allowed_s() == 50

    def test_time_that_nobody_watched_does_not_count(self) -> None:
        watch = StallWatch(10, 1)
        watch.begin("a", 0)
        watch.look(0)
        assert not watch.look(10_000)
        assert watch.quiet_s == 2
        assert not watch.look(5)

    def test_zero_is_never(self) -> None:
        watch = StallWatch(0, 1)
        watch.begin("a", 0)
        assert not any(watch.look(second) for second in range(1000))

    @given(st.lists(st.tuples(st.sampled_from(["begin", "beat", "end", "look"]), st.floats(0, 5))))
    def test_it_is_stalled_only_after_the_limit(self, history: list[tuple[str, float]]) -> None:
        watch, at, since = StallWatch(10, 1), 0.0, math.inf
        for what, passed in history:
            at += passed
            match what:
                case "begin":
                    since = at if watch.is_idle else since
                    watch.begin("a", 0)
                case "beat":
                    since = at
                    watch.beat("a")
                case "end":
                    watch.end("a")
                case _:
                    assert not watch.look(at) or at - since > 10 - 5
