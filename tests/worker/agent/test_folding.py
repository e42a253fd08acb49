"""The context window: when rounds go, that nothing is lost with them, and what fits."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.schemas import (
    AgentContext,
    ParseFailure,
    Reason,
    Sampling,
    ToolStatus,
    decode,
    encode,
)
from sluicegate.schemas.agents import LedgerEntry, Memory
from sluicegate.schemas.limits import MAX_LEDGER
from sluicegate.worker.agent.folding import (
    ContextFull,
    Fold,
    folded,
    plan_folding,
    summary_turns,
)
from sluicegate.worker.agent.ledger import NO_NAME, bounded, entries
from sluicegate.worker.agent.shortening import MARK
from sluicegate.worker.agent.window import conversation
from sluicegate.worker.dialects.dialect import Told

from .contexts import (
    TOOLS,
    PlainDialect,
    a_round,
    call,
    context,
    contexts,
    grown,
    replace,
    rounds_of,
)

WIDE = 10_000_000


def plan(
    this: AgentContext, room: int = WIDE, *, keep: int = 5, after: int = 10, reserve: int = 0
) -> Fold | None:
    return plan_folding(
        this,
        PlainDialect(),
        TOOLS,
        room_tokens=room,
        keep=keep,
        fold_after=after,
        reserve_tokens=reserve,
    )


def length(this: AgentContext, room: int) -> int:
    return PlainDialect().prompt(conversation(this, TOOLS, room_tokens=room), TOOLS).tokens


def numbers(this: AgentContext) -> list[int]:
    return [each.number for each in this.execution.rounds]


def of_length(count: int, **fields: object) -> AgentContext:
    return context(*(a_round(number + 1, **fields) for number in range(count)))


def test_few_rounds_that_fit_are_left_alone() -> None:
    assert plan(of_length(10)) is None
    assert plan(context()) is None


def test_one_prompt_is_all_it_costs_where_nothing_is_to_be_done() -> None:
    dialect = PlainDialect()
    plan_folding(of_length(10), dialect, TOOLS, room_tokens=WIDE, keep=5, fold_after=10)
    assert dialect.prompts == 1


def test_too_many_rounds_go_down_to_those_that_are_kept() -> None:
    this = of_length(11)
    fold = plan(this)
    assert fold is not None
    assert fold.why == "11 rounds in full are more than 10"
    after = folded(this, fold, "There were six files, all of them about birds.")
    assert numbers(after) == [7, 8, 9, 10, 11]
    assert after.execution.rounds == this.execution.rounds[6:]
    memory = after.execution.memory
    assert memory.through == 6
    assert memory.summary == "There were six files, all of them about birds."
    assert [(entry.round, entry.tool) for entry in memory.ledger] == [
        (number, name) for number in range(1, 7) for name in ("", "read_file")
    ]
    assert plan(after) is None


def test_a_prompt_that_leaves_no_room_for_the_answer_is_folded_at_that_token() -> None:
    this = of_length(4, said="s" * 1_000)
    # Rounds of about 1,200 tokens, and 64 for the answer.
    exact = length(this, WIDE) + 64
    assert plan(this, exact) is None
    fold = plan(this, exact - 1)
    assert fold is not None
    assert fold.through >= 1
    assert f"a prompt of {exact - 64:,} tokens and an answer of 64" in fold.why
    assert plan(this, exact, reserve=1) is not None
    assert plan(this, exact + 1, reserve=1) is None


def test_the_tools_count() -> None:
    this = of_length(4)
    exact = length(this, WIDE) + 64
    bare = plan_folding(this, PlainDialect(), (), room_tokens=exact - 20, keep=5, fold_after=10)
    assert bare is None
    assert plan(this, exact - 20) is not None


def test_results_that_are_too_long_are_shortened_last_and_so_that_it_shows() -> None:
    this = context(
        a_round(1), a_round(2, call(2, content="a" * 9_000 + "END"), call(2, 1, content="short"))
    )
    fold = plan(this, 5_000)
    assert fold is not None
    assert fold.through == 1
    assert fold.results == 1_000
    after = folded(this, fold, None)
    long, short = (each.result for each in after.execution.rounds[0].calls)
    assert long is not None
    assert len(long.content) <= 1_000
    assert MARK in long.content
    assert long.content.endswith("END")
    assert long.whole_chars == 9_003
    assert short is not None
    assert short.content == "short"
    assert plan(after, 5_000) is None


def test_where_nothing_helps_it_is_said_what_takes_the_room() -> None:
    this = of_length(2, said="s" * 500)
    huge = replace(this, job=replace(this.job, system="s" * 3_000, task="t" * 2_000))
    with pytest.raises(ContextFull) as error:
        plan(huge, 4_000, reserve=100)
    assert error.value.reason is Reason.CONTEXT_FULL
    for part in (
        "4,000 tokens",
        "task 2,006",
        "system 3,008",
        "tools ",
        "rounds ",
        "answer 64",
        "reserve 100",
    ):
        assert part in error.value.detail
    with pytest.raises(ContextFull, match="tools"):
        plan(context(), 100)


def test_an_answer_claims_half_of_the_model_at_most() -> None:
    this = of_length(3)
    greedy = replace(this, job=replace(this.job, sampling=Sampling(max_tokens=100_000)))
    assert plan(greedy, 2 * length(this, WIDE)) is None


def test_sixty_four_long_results_in_a_round_come_to_fit_8k() -> None:
    calls = [call(2, index, content="ж" * 20_000) for index in range(64)]
    this = context(a_round(1), a_round(2, *calls))
    fold = plan(this, 24_000)
    assert fold is not None
    after = folded(this, fold, None)
    assert length(after, 24_000) + 64 <= 24_000
    assert plan(after, 24_000) is None
    assert all(each.result is not None for each in after.execution.rounds[-1].calls)


def settled(this: AgentContext, room: int, summary: str | None, **limits: int) -> AgentContext:
    """Folded until nothing is to be done. That it comes to an end is part of the law."""
    for _ in range(40):
        fold = plan(this, room, **limits)
        if fold is None:
            return this
        this = folded(this, fold, summary)
    raise AssertionError("it goes on folding")


@settings(max_examples=60)
@given(contexts(), st.integers(50, 20_000), st.none() | st.text(max_size=6_000), st.integers(1, 6))
def test_a_plan_that_is_carried_out_fits_or_it_is_said_that_nothing_does(
    this: AgentContext, room: int, summary: str | None, keep: int
) -> None:
    clean = summary.replace("\x00", "") if summary else summary
    try:
        after = settled(this, room, clean, keep=keep)
    except ContextFull:
        return
    assert length(after, room) + min(64, room // 2) <= room
    assert len(after.execution.rounds) <= 10
    # At least the last round is still told.
    assert numbers(after)[-1:] == numbers(this)[-1:]
    assert decode(encode(after), AgentContext) == after


def asked(this: AgentContext) -> int:
    return sum(len(each.calls) for each in this.execution.rounds)


@settings(max_examples=60)
@given(contexts(), st.integers(500, 20_000), st.integers(1, 6))
def test_no_call_is_lost(this: AgentContext, room: int, keep: int) -> None:
    memory = this.execution.memory
    try:
        after = settled(this, room, None, keep=keep)
    except ContextFull:
        return
    now = after.execution.memory
    gone = [each for each in this.execution.rounds if each.number <= now.through]
    made = sum(len(entries(each)) for each in gone)
    before = len(memory.ledger) + memory.ledger_dropped
    assert len(now.ledger) + now.ledger_dropped == before + made
    if now.ledger_dropped == memory.ledger_dropped:
        # None had to go: each call of a round that went has a line of its own, in order.
        wanted = [
            (each.number, " ".join(one.name.split()) or NO_NAME, one.result and one.result.status)
            for each in gone
            for one in each.calls
        ]
        new = now.ledger[len(memory.ledger) :]
        assert [(entry.round, entry.tool, entry.status) for entry in new if entry.tool] == wanted
    assert asked(after) + sum(len(each.calls) for each in gone) == asked(this)


@settings(max_examples=30)
@given(st.data(), st.integers(1, 6), st.integers(0, 6))
def test_folding_is_seldom(data: st.DataObject, keep: int, more: int) -> None:
    this, after = context(), keep + more
    folds: list[int] = []
    for number in range(1, 25):
        this = grown(this, data.draw(rounds_of(number)))
        if (fold := plan(this, keep=keep, after=after)) is not None:
            this = folded(this, fold, None)
            folds.append(number)
            assert len(this.execution.rounds) == keep
    assert all(late - early >= more + 1 for early, late in pairwise(folds))
    assert folds[:1] == [after + 1]


def test_a_forced_fold_leaves_room_for_what_comes() -> None:
    this = of_length(9, said="s" * 1_000)
    room = length(this, WIDE) + 63
    fold = plan(this, room, keep=10)
    assert fold is not None
    # To take one away would do for now.
    assert fold.through == 2
    after = folded(this, fold, None)
    assert plan(grown(after, a_round(10, said="s" * 1_000)), room, keep=10) is None


# --- the ledger ---


def test_decisions_have_their_entries() -> None:
    failure = ParseFailure(kind="malformed", detail="no\nbrace")
    this = a_round(3, failure=failure, prose="I will\tuse plan B.", reminder="You go round.")
    assert entries(this) == (
        LedgerEntry(round=3, tool="", status=ToolStatus.OK, result="it said: I will use plan B."),
        LedgerEntry(
            round=3,
            tool="",
            status=ToolStatus.ERROR,
            result="could not be read (malformed): no brace",
        ),
        LedgerEntry(round=3, tool="", status=ToolStatus.OK, result="it was told: You go round."),
    )


def test_what_goes_first_when_the_ledger_is_full() -> None:
    def entry(number: int, tool: str, status: ToolStatus = ToolStatus.OK) -> LedgerEntry:
        return LedgerEntry(round=number, tool=tool, status=status)

    failed = [entry(1, "read_file", ToolStatus.ERROR), entry(2, "read_file", ToolStatus.DENIED)]
    wrote = [entry(3, "write_file")]
    reads = [entry(number, "read_file") for number in range(4, 8)]
    ledger = (*failed, *wrote, *reads)
    assert bounded(ledger, ["write_file"]) == (ledger, 0)
    kept, gone = bounded(ledger, ["write_file"], max_entries=4)
    assert [each.round for each in kept] == [1, 2, 3, 7]
    assert gone == 3
    kept, gone = bounded(ledger, ["write_file"], max_entries=2)
    assert [each.round for each in kept] == [2, 3]
    assert gone == 5
    assert bounded(ledger, (), max_bytes=0) == ((), 7)


def test_five_hundred_entries_are_all_that_is_kept() -> None:
    calls = [call(number, index) for number in (1,) for index in range(64)]
    this = context(*(a_round(number + 1, *calls) for number in range(20)))
    fold = plan(this)
    assert fold is not None
    memory = folded(this, fold, None).execution.memory
    assert len(memory.ledger) == MAX_LEDGER
    assert memory.ledger_dropped == 15 * 65 - MAX_LEDGER


# --- summaries ---


def test_what_is_asked_for_a_summary() -> None:
    memory = Memory(summary="Before that, a bird.", through=2)
    this = context(*(a_round(number) for number in range(3, 15)), memory=memory)
    fold = plan(this)
    assert fold is not None
    assert fold.excerpt == 2_000
    assert 0 < fold.answer_tokens <= 512
    system, ask = summary_turns(this, fold)
    assert system == Told("system", this.job.system)
    assert isinstance(ask, Told)
    assert ask.role == "user"
    for part in ("Look at the files.", "Before that, a bird.", "Round 3\n", "Round 9\n", "3-0.txt"):
        assert part in ask.text
    assert "Round 10" not in ask.text


@pytest.mark.parametrize(
    "garbage", [None, "", "  \n", "aaaa aaaa aaaa", "!!!!!???!!!!", "\x1b\x1b\x1b", "so so so"]
)
def test_what_is_no_summary_is_replaced(garbage: str | None) -> None:
    this = of_length(11)
    fold = plan(this)
    assert fold is not None
    summary = folded(this, fold, garbage).execution.memory.summary
    assert summary.startswith("Rounds 1 to 6: read_file ok 6.")
    assert "I thought this in round 6." in summary


def test_a_summary_is_tamed_and_bounded() -> None:
    this = of_length(11)
    fold = plan(this)
    assert fold is not None
    summary = folded(
        this, fold, "One\x00 and \x1b[2J two files.\nThen birds"
    ).execution.memory.summary
    assert summary == "One? and ?[2J two files.\nThen birds"
    long = folded(this, fold, "All of the birds. " * 2_000).execution.memory.summary
    assert len(long) <= 4_000
    assert MARK in long


def test_the_summary_before_is_not_forgotten_where_no_model_writes_one() -> None:
    memory = Memory(summary="Before that, a bird.", through=2)
    this = context(*(a_round(number) for number in range(3, 15)), memory=memory)
    fold = plan(this)
    assert fold is not None
    summary = folded(this, fold, None).execution.memory.summary
    assert summary.startswith("Before that, a bird.\nRounds 3 to 9: read_file ok 7.")


def test_what_can_not_be_shown_to_a_model_is_summed_up_without_one() -> None:
    calls = [call(1, index, content="c" * 500) for index in range(64)]
    this = context(a_round(1, *calls), a_round(2))
    fold = plan(this, 4_000)
    assert fold is not None
    assert fold.through == 1
    assert fold.excerpt is None
    assert folded(this, fold, None).execution.memory.summary.startswith("Round")
