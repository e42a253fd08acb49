"""The severity table: what each kind of finding is answered by."""

import pytest
from sluicegate.rollback import (
    Action,
    Budgets,
    Changes,
    GiveUp,
    Note,
    Rollback,
    default_table,
    elsewhere,
    read_table,
    standing_bans,
)
from sluicegate.schemas import Flaw

from .attempts import Attempt, finding


def back(action: Action) -> Rollback:
    assert isinstance(action, Rollback), action
    return action


def given_up(action: Action) -> GiveUp:
    assert isinstance(action, GiveUp), action
    return action


def rollbacks(actions: list[Action]) -> list[Rollback]:
    return [action for action in actions if isinstance(action, Rollback)]


# Level 1


def test_low_confidence_cools_at_the_step_twice_then_goes_deeper() -> None:
    *went, end = Attempt().trips_until_given_up(Flaw.LOW_CONFIDENCE, 43, at=46)
    first, second, *deeper = rollbacks(went)
    assert (first.keep, second.keep) == (43, 43)
    assert first.changes.temperature_times < 1
    assert second.changes.greedy
    assert second.changes.ban
    assert all(action.changes.tokens for action in rollbacks(went))
    keeps = [action.keep for action in deeper]
    assert keeps == [42, 40, 30]
    assert "low_confidence at token 43: 5 rollbacks there did not help" in given_up(end).detail
    assert not given_up(end).engine_fault


def test_a_greedy_job_does_not_repeat_itself() -> None:
    """Less heat is nothing to it: the token is banned, or where there is none yet, more goes."""
    assert back(Attempt(greedy=True).trip(Flaw.LOW_CONFIDENCE, 43, at=46)).changes.ban
    at_the_end = back(Attempt(greedy=True).trip(Flaw.LOW_CONFIDENCE, 43, at=43))
    assert at_the_end.keep == 42
    assert at_the_end.changes.ban
    # Nothing is left to change where a client has seen all there is.
    seen = Attempt(greedy=True)
    seen.grow(43)
    seen.floor = 43
    assert "nothing could be changed" in given_up(seen.trip(Flaw.LOW_CONFIDENCE, 43, at=43)).detail


@pytest.mark.parametrize("flaw", [Flaw.NON_FINITE_LOGITS, Flaw.UNIFORM_LOGITS])
def test_a_numeric_fault_starts_afresh_once(flaw: Flaw) -> None:
    attempt = Attempt()
    first = back(attempt.trip(flaw, 400, at=400))
    assert (first.keep, first.fresh_cache, first.changes) == (0, True, Changes())
    # Anywhere, and either kind.
    second = given_up(attempt.trip(Flaw.NON_FINITE_LOGITS, 900, at=900))
    assert second.engine_fault
    assert "1 rollback in this attempt" in second.detail
    assert "another worker" in second.detail


def test_a_numeric_fault_of_a_stream_keeps_what_was_seen() -> None:
    attempt = Attempt()
    attempt.grow(100)
    attempt.floor = 60
    action = back(attempt.trip(Flaw.NON_FINITE_LOGITS, 100, at=100))
    assert (action.keep, action.fresh_cache) == (60, True)


# Level 2


def test_a_denied_token_is_dropped_and_banned() -> None:
    *went, end = Attempt().trips_until_given_up(Flaw.DENIED_TOKEN, 50)
    actions = rollbacks(went)
    assert [action.keep for action in actions] == [50, 50, 48, 45, 0]
    assert actions[0].changes == Changes(ban=True)
    assert actions[-1].fresh_cache
    assert given_up(end).engine_fault


def test_silent_tokens_go_as_a_whole() -> None:
    action = back(Attempt().trip(Flaw.SILENT_TOKENS, 50, at=58))
    assert action.keep == 50
    assert action.changes.ban


# Level 3


@pytest.mark.parametrize(
    "flaw",
    [Flaw.CONTROL_CHARACTER, Flaw.REPLACEMENT_CHARACTER, Flaw.MOJIBAKE, Flaw.DENIED_CHARACTER],
)
def test_characters_go_with_one_or_two_tokens_more(flaw: Flaw) -> None:
    *went, _ = Attempt().trips_until_given_up(flaw, 50, at=55)
    actions = rollbacks(went)
    assert [action.keep for action in actions] == [49, 48, 48, 45, 35]
    assert all(action.changes.repetition_penalty_by > 0 for action in actions)
    assert all(action.changes.tokens for action in actions)


@pytest.mark.parametrize(
    "flaw",
    [Flaw.LOOP, Flaw.CHARACTER_RUN, Flaw.WORD_RUN, Flaw.MARKER_RUN, Flaw.ENGINE_REPETITION],
)
@pytest.mark.parametrize("greedy", [True, False])
def test_a_loop_is_cut_at_its_onset_and_warmed(flaw: Flaw, greedy: bool) -> None:
    attempt = Attempt(greedy=greedy)
    *went, end = attempt.trips_until_given_up(flaw, 100, at=200)
    actions = rollbacks(went)
    assert [action.keep for action in actions] == [100, 95, 80, 60, 60]
    heat = [action.changes.temperature_at_least for action in actions]
    assert heat[0] == 0.7
    assert heat == sorted(heat)
    assert heat[-1] == 1.0
    assert not any(action.changes.greedy for action in actions)
    assert all(action.changes.temperature_times >= 1 for action in actions)
    assert all(32 <= action.changes.tokens <= 128 for action in actions)
    # The penalty late, a guide last.
    penalties = [action.changes.repetition_penalty_by for action in actions]
    assert penalties[:3] == [0, 0, 0]
    assert [action.changes.guide for action in actions] == ["", "", "", "", "\n\n"]
    assert not given_up(end).engine_fault


def test_gibberish_is_cut_at_its_onset_and_cooled_and_then_let_be() -> None:
    attempt = Attempt()
    *went, last, after = [attempt.trip(Flaw.GIBBERISH, 100, at=150) for _ in range(5)]
    actions = rollbacks(went)
    assert [action.keep for action in actions] == [100, 90, 70]
    assert [action.changes.temperature_times for action in actions] == [0.7, 0.5, 0.5]
    assert [action.changes.reseed for action in actions] == [False, True, True]
    assert all(action.changes.top_p_at_most < 1 for action in actions)
    # Good text may be such a list: it never ends an attempt.
    assert last == after == Note(counts=False)


def test_gibberish_is_let_be_where_the_budget_is_spent() -> None:
    attempt = Attempt(budgets=Budgets(max_rollbacks=1, max_wasted_tokens=10_000))
    actions = [attempt.trip(Flaw.GIBBERISH, place, at=place + 50) for place in (100, 400, 700)]
    assert len(rollbacks(actions)) == 1
    assert actions[1:] == [Note(counts=False)] * 2


# Level 4


def test_a_third_finding_in_the_window_takes_a_token_back_and_more_when_it_comes_again() -> None:
    attempt = Attempt()
    assert attempt.trip(Flaw.INCOHERENT, 60, at=100) == Note()
    assert attempt.trip(Flaw.INCOHERENT, 61, at=101) == Note(counts=False)
    assert attempt.trip(Flaw.INCOHERENT, 68, at=108) == Note()
    again = [attempt.trip(Flaw.INCOHERENT, 80, at=120) for _ in range(4)]
    assert [back(action).keep for action in again] == [119, 118, 112, 95]
    assert all(back(action).changes.tokens for action in again)
    # The notes have gone with the text, but not the ladder.
    later = [attempt.trip(Flaw.INCOHERENT, 80, at=at) for at in (112, 120, 128)]
    assert later[:2] == [Note(), Note()]
    assert back(later[2]).keep == 75


def test_findings_far_apart_are_only_noted() -> None:
    attempt = Attempt()
    noted = [attempt.trip(Flaw.INCOHERENT, at - 40, at=at) for at in range(100, 1000, 40)]
    assert noted == [Note()] * len(noted)


def test_a_profile_may_ask_for_more_or_fewer_findings() -> None:
    assert Attempt().trip(Flaw.INCOHERENT, 60, at=100) == Note()
    assert back(Attempt(findings=1).trip(Flaw.INCOHERENT, 60, at=100)).keep == 99
    # No more than that: what is acted on at once has no window.
    assert back(Attempt(findings=3).trip(Flaw.MOJIBAKE, 60, at=62)).keep == 59


@pytest.mark.parametrize(("within", "answer"), [(0, Note), (51, Note), (52, Rollback)])
def test_a_profile_may_look_further_back(within: int, answer: type) -> None:
    attempt = Attempt(findings=2)
    attempt.within = within
    attempt.trip(Flaw.INCOHERENT, 60, at=100)
    gap = 51 if within else 64
    assert isinstance(attempt.trip(Flaw.INCOHERENT, 60, at=100 + gap), answer)


def test_the_place_of_a_window_is_its_end() -> None:
    attempt = Attempt(findings=1)
    at = (200, 200, 400)
    assert [back(attempt.trip(Flaw.INCOHERENT, 150, at=end)).rung for end in at] == [0, 1, 0]


def test_soft_signals_never_end_an_attempt() -> None:
    attempt = Attempt(budgets=Budgets(max_rollbacks=100, max_wasted_tokens=10_000))
    actions = [attempt.trip(Flaw.LOW_NOVELTY, 60, at=100 + 8 * step) for step in range(60)]
    assert rollbacks(actions)
    assert actions[-1] == Note(counts=False)
    assert not any(isinstance(action, GiveUp) for action in actions)


# Level 5


@pytest.mark.parametrize(
    ("flaw", "onset", "keep"),
    [
        (Flaw.TOO_SHORT, 0, 95),
        (Flaw.REPETITIVE, 52, 50),
        (Flaw.EMPTY_ANSWER, 0, 0),
        (Flaw.UNFINISHED_CHARACTER, 97, 97),
    ],
)
def test_an_output_gets_one_more_try_with_another_seed(flaw: Flaw, onset: int, keep: int) -> None:
    attempt = Attempt(whole=lambda tokens: tokens not in (98, 99, 100))
    action = back(attempt.trip(flaw, onset, at=100))
    assert action.keep == keep
    assert action.changes.reseed
    assert "in this attempt" in given_up(attempt.trip(flaw, onset, at=70)).detail


def test_after_an_abort_the_text_is_as_good_as_it_was() -> None:
    attempt = Attempt()
    action = back(attempt.trip(Flaw.ENGINE_ABORT, 80, at=80))
    assert (action.keep, action.fresh_cache, action.changes) == (80, True, Changes())
    assert given_up(attempt.trip(Flaw.ENGINE_ABORT, 90, at=90)).engine_fault


# Level 6


@pytest.mark.parametrize("flaw", [Flaw.REASONING_CAP, Flaw.REASONING_LOOP])
def test_reasoning_is_closed_at_its_onset_then_at_half_then_at_its_beginning(flaw: Flaw) -> None:
    # Whatever was spent, and whatever a client has seen.
    attempt = Attempt(budgets=Budgets(max_rollbacks=0, max_wasted_tokens=0))
    attempt.floor = 90
    first = back(attempt.trip(flaw, 80, at=200))
    assert (first.keep, first.changes.close) == (80, True)
    second = back(attempt.trip(Flaw.REASONING_NO_ANSWER, 80, at=80))
    assert (second.keep, second.changes.close, second.changes.reseed) == (40, True, True)
    third = back(attempt.trip(Flaw.REASONING_NO_ANSWER, 40, at=40))
    assert (third.keep, third.changes.close) == (0, True)
    assert "lower the effort" in given_up(attempt.trip(flaw, 0, at=0)).detail


def test_half_of_a_reasoning_ends_with_a_whole_character() -> None:
    attempt = Attempt(whole=lambda tokens: tokens % 3 == 0)
    back(attempt.trip(Flaw.REASONING_LOOP, 99, at=200))
    assert back(attempt.trip(Flaw.REASONING_NO_ANSWER, 99, at=99)).keep == 48


def test_thinking_again_is_banned_where_it_begins() -> None:
    attempt = Attempt()
    actions = [back(attempt.trip(Flaw.REASONING_AGAIN, 20, at=21)) for _ in range(3)]
    assert [action.keep for action in actions] == [20, 20, 18]
    assert all(action.changes.ban and not action.changes.close for action in actions)
    given_up(attempt.trip(Flaw.REASONING_AGAIN, 20, at=21))


def test_trips_that_are_elsewhere_are_near_to_nothing_but_count_for_an_attempt() -> None:
    attempt = Attempt()
    back(attempt.trip(Flaw.LOOP, 100, at=200))
    back(attempt.trip(Flaw.UNIFORM_LOGITS, 100, at=101))
    attempt.trips[:] = elsewhere(attempt.trips)
    assert back(attempt.trip(Flaw.LOOP, 100, at=200)).rung == 0
    assert given_up(attempt.trip(Flaw.UNIFORM_LOGITS, 100, at=101)).engine_fault
    assert not standing_bans(elsewhere(attempt.trips)) or all(
        place < 0 for place, _ in standing_bans(elsewhere(attempt.trips))
    )


# What holds for all


def test_other_places_start_at_the_first_rung() -> None:
    attempt = Attempt()
    first = back(attempt.trip(Flaw.LOOP, 100, at=200))
    far = back(attempt.trip(Flaw.LOOP, 300, at=400))
    near = back(attempt.trip(Flaw.LOOP, 310, at=420))
    other_row = back(attempt.trip(Flaw.MOJIBAKE, 290, at=295))
    assert [action.rung for action in (first, far, near, other_row)] == [0, 0, 1, 0]
    assert near.keep <= far.keep


def test_between_two_places_the_higher_ladder_counts() -> None:
    attempt = Attempt()
    trips = [attempt.trip(Flaw.LOOP, onset, at=200) for onset in (100, 100, 130, 115)]
    assert [back(action).rung for action in trips] == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("budgets", "key"),
    [
        (Budgets(max_rollbacks=2), "max_rollbacks is spent (2 of 2)"),
        (Budgets(max_wasted_tokens=150), "max_wasted_tokens is spent (200 of 150)"),
        (Budgets(max_seconds=5), "max_rollback_seconds is spent (7 of 5)"),
    ],
)
def test_a_spent_budget_ends_it_and_says_which(budgets: Budgets, key: str) -> None:
    attempt = Attempt(budgets=budgets)
    back(attempt.trip(Flaw.LOOP, 100, at=200))
    back(attempt.trip(Flaw.LOOP, 300, at=400))
    attempt.seconds = 7.0
    assert key in given_up(attempt.trip(Flaw.LOOP, 700, at=900)).detail


def test_constrained_output_starts_again_as_a_whole() -> None:
    attempt = Attempt(constrained=True, greedy=True)
    action = back(attempt.trip(Flaw.LOOP, 100, at=200))
    assert action.keep == 0
    # A grammar may force the first tokens: nothing is banned or put in, and heat stays.
    assert action.changes.reseed
    assert action.changes.temperature_at_least == 0.7
    assert (action.changes.ban, action.changes.guide, action.changes.tokens) == (False, "", 0)
    cooled = back(Attempt(constrained=True, greedy=True).trip(Flaw.LOW_CONFIDENCE, 20))
    assert cooled.changes.temperature_at_least == 0.5
    faulty = back(Attempt(constrained=True).trip(Flaw.NON_FINITE_LOGITS, 20))
    assert (faulty.keep, faulty.fresh_cache) == (0, True)


def test_constrained_output_that_a_client_has_seen_is_given_up() -> None:
    attempt = Attempt(constrained=True)
    attempt.grow(50)
    attempt.floor = 10
    assert "can't restart" in given_up(attempt.trip(Flaw.LOOP, 20, at=60)).detail


def test_a_row_without_rungs_gives_up_at_once() -> None:
    table = read_table("[mine]\nflaws = ['mojibake']\ndetail = 'ask the vendor'\n")
    assert given_up(Attempt(table=table).trip(Flaw.MOJIBAKE, 50)) == GiveUp(
        detail="mojibake at token 50: not worth going back; ask the vendor"
    )


@pytest.mark.parametrize("flaw", list(Flaw))
def test_every_flaw_is_answered(flaw: Flaw) -> None:
    attempt = Attempt()
    actions = [attempt.trip(flaw, 100, at=110 + 8 * step) for step in range(3)]
    assert rollbacks(actions)
    assert default_table().row(finding(flaw, 0, 1)).name
