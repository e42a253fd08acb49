"""What holds for every decision, against an adversary who trips wherever it likes."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from sluicegate.rollback import Budgets, GiveUp, Note, Rollback, decide
from sluicegate.schemas import Flaw

from .attempts import Attempt, finding

MAX_TOKENS = 400
# How often reasoning is closed at most, whatever the budgets.
CLOSES = 3
# Good text may look like these; they never end an attempt.
SOFT = (Flaw.INCOHERENT, Flaw.LOW_NOVELTY, Flaw.SCRIPT_BREAK, Flaw.SCRIPT_SWITCH, Flaw.GIBBERISH)


class Move(Struct, frozen=True):
    """One trip of the adversary's: what, after how many more tokens, how far back it began, and how
    far behind the tokens the stream is afterwards (None: nothing more was sent)."""

    flaw: Flaw
    grow: int
    length: int
    unsent: int | None


moves = st.lists(
    st.builds(
        Move,
        st.sampled_from(list(Flaw)),
        st.integers(5, 60),
        st.integers(0, 200),
        st.none() | st.integers(0, 60),
    ),
    min_size=1,
    max_size=12,
)
# Half characters: at most three tokens in a row, as a character has at most four bytes.
halves = st.sets(st.integers(0, 99)).map(lambda places: {n for n in places if n % 4})
budgets = st.builds(
    Budgets, max_rollbacks=st.integers(0, 12), max_wasted_tokens=st.integers(0, 1500)
)


@settings(max_examples=300, deadline=None)
@given(moves, halves, budgets, st.integers(1, 10), st.booleans(), st.booleans())
def test_an_adversary(
    plan: list[Move],
    half: set[int],
    budget: Budgets,
    interval: int,
    greedy: bool,
    constrained: bool,
) -> None:
    attempt = Attempt(
        budgets=budget,
        interval=interval,
        greedy=greedy,
        constrained=constrained,
        whole=lambda tokens: tokens % 100 not in half,
    )
    went_back = closed = 0
    turns = 0
    while attempt.tokens < MAX_TOKENS:
        move = plan[turns % len(plan)]
        turns += 1
        attempt.grow(attempt.tokens + move.grow)
        before = attempt.situation()
        onset = max(attempt.tokens - move.length, 0)
        found = finding(move.flaw, onset, attempt.tokens)
        first = decide(found, before, attempt.table)
        action = attempt.trip(move.flaw, onset, at=attempt.tokens)
        # The same question gets the same answer.
        assert first == action
        if isinstance(action, GiveUp):
            assert str(move.flaw) in action.detail
            break
        if isinstance(action, Rollback) and action.changes.close:
            closed += 1
            assert 0 <= action.keep <= before.tokens
            assert attempt.checkpoints.cut(action.keep) == action.keep
            # The client has seen more of it than is kept: that does not bind the answer.
            attempt.floor = min(attempt.floor, action.keep)
        elif isinstance(action, Rollback):
            went_back += 1
            check_rollback(action, before.floor, before.tokens, attempt)
            # What is spent is spent: a budget is at most passed by its last rollback.
            assert before.rollbacks < budget.max_rollbacks
            assert before.wasted < budget.max_wasted_tokens
        if move.unsent is not None:
            attempt.floor = max(
                attempt.floor, attempt.checkpoints.cut(attempt.tokens - move.unsent)
            )
    # Each rollback throws MAX_TOKENS away at most, and every turn adds five at least.
    assert went_back <= budget.max_rollbacks
    assert closed <= CLOSES
    assert turns <= (MAX_TOKENS // 5) * (budget.max_rollbacks + CLOSES + 1)


def check_rollback(action: Rollback, floor: int, tokens: int, attempt: Attempt) -> None:
    assert floor <= action.keep <= tokens
    assert attempt.checkpoints.cut(action.keep) == action.keep
    changes = action.changes
    if attempt.constrained:
        assert action.keep == 0
        assert not changes.ban
        assert not changes.guide
    if attempt.greedy:
        # Else the same prefix would give the same text.
        assert (
            action.fresh_cache
            or changes.ban
            or changes.guide
            or changes.temperature_at_least
            or changes.repetition_penalty_by
        )


@settings(deadline=None)
@given(moves, budgets)
def test_one_who_never_lets_text_pass_is_given_up(plan: list[Move], budget: Budgets) -> None:
    """Every kind of finding but the soft ones, over and over, before the text can end."""
    hard = [move for move in plan if move.flaw not in SOFT]
    if not hard:
        return
    attempt = Attempt(budgets=budget)
    for turn in range(3 * (budget.max_rollbacks + CLOSES + 1)):
        move = hard[turn % len(hard)]
        # Three in a row, as level 4 needs them.
        for _ in range(3):
            attempt.grow(attempt.tokens + 8)
            onset = max(attempt.tokens - move.length, 0)
            if isinstance(attempt.trip(move.flaw, onset, at=attempt.tokens), GiveUp):
                return
    raise AssertionError(attempt.trips)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(list(Flaw)),
    st.lists(st.integers(-8, 8), min_size=1, max_size=12),
    st.integers(0, 100),
    st.integers(1, 10),
    st.booleans(),
)
def test_a_place_is_never_answered_more_weakly(
    flaw: Flaw, jitter: list[int], length: int, interval: int, greedy: bool
) -> None:
    attempt = Attempt(
        budgets=Budgets(max_rollbacks=1000, max_wasted_tokens=1_000_000),
        interval=interval,
        greedy=greedy,
        findings=1,
    )
    answers: list[Rollback] = []
    last: list[GiveUp | Note] = []
    for turn in range(20):
        onset = 150 + jitter[turn % len(jitter)]
        action = attempt.trip(flaw, onset, at=onset + 1 + length)
        if isinstance(action, Rollback):
            # Once at its end, a ladder stays there.
            assert last == []
            answers.append(action)
        else:
            last.append(action)
            attempt.checkpoints.truncate(answers[-1].keep if answers else 0)
    rungs = [action.rung for action in answers]
    keeps = [action.keep for action in answers]
    assert last
    assert rungs == sorted(rungs)
    assert keeps == sorted(keeps, reverse=True)
    assert all(rungs.count(rung) <= 2 for rung in rungs)
