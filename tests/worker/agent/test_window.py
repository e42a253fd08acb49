"""The conversation that a model is told: valid, and growing at its end alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas import AgentContext, ParseFailure, ToolStatus
from sluicegate.schemas.agents import LedgerEntry, Memory
from sluicegate.worker.agent.ledger import SHOWN_CHARS
from sluicegate.worker.agent.window import conversation
from sluicegate.worker.dialects.dialect import Came, Said, Told

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


def test_the_order_of_things() -> None:
    failure = ParseFailure(kind="malformed", detail="no brace")
    memory = Memory(summary="There were two files.", through=2)
    turns = conversation(
        context(
            a_round(1),
            a_round(2),
            a_round(3, call(3), call(3, 1, status=ToolStatus.ERROR), reminder="Look elsewhere."),
            a_round(4, failure=failure),
            memory=memory,
        )
    )
    system, task, before, said, came, failed, wrong = turns
    assert system == Told("system", "You must not delete anything.")
    assert isinstance(task, Told)
    assert task.role == "user"
    assert task.text.startswith("Look at the files.\n")
    assert task.text.endswith("50 rounds, 100 tool calls and 200,000 tokens.]")
    assert isinstance(before, Told)
    assert before.role == "user"
    assert "There were two files." in before.text
    assert isinstance(said, Said)
    assert said.text == "I said this in round 3."
    assert isinstance(came, Came)
    assert came.calls == said.calls
    assert [each.id for each in came.calls] == ["call-3-0", "call-3-1"]
    state, reminder = came.reminder.split("\n")
    # What is told in full is less than what was spent: rounds 1 and 2 had a call and 110 tokens.
    assert state == (
        "[Round 3 of at most 50 is over; 4 of 100 tool calls and 330 of 200,000 tokens are used.]"
    )
    assert reminder == "Look elsewhere."
    assert isinstance(failed, Said)
    assert isinstance(wrong, Came)
    assert wrong.failure == failure
    assert "4 of 100 tool calls and 440 of" in wrong.reminder


def test_without_the_system_there_is_no_turn_of_it() -> None:
    assert conversation(context(system=""))[0] == conversation(context())[1]


def test_an_open_call_is_no_history() -> None:
    with pytest.raises(ValueError, match="round 1 of job has a call without a result"):
        conversation(context(a_round(1, call(1), call(1, 1, status=None))))


@given(contexts())
def test_every_history_is_valid(this: AgentContext) -> None:
    turns = conversation(this, TOOLS)
    told = [turn for turn in turns if isinstance(turn, Told)]
    rest = turns[len(told) :]
    # Whatever is told comes first, and of it the system's words, as they are.
    assert [turn.role == "system" for turn in told] == [
        index == 0 and bool(this.job.system.strip()) for index in range(len(told))
    ]
    if this.job.system.strip():
        assert told[0].text == this.job.system
    assert len(rest) == 2 * len(this.execution.rounds)
    for said, came in zip(rest[::2], rest[1::2], strict=True):
        assert isinstance(said, Said)
        assert isinstance(came, Came)
        assert said.calls == came.calls
        assert all(each.result is not None for each in came.calls)


@given(contexts(), st.data())
def test_a_prompt_begins_with_the_one_before(this: AgentContext, data: st.DataObject) -> None:
    dialect = PlainDialect()
    number = this.orchestration.spent.rounds + 1
    after = grown(this, data.draw(rounds_of(number)))
    before = dialect.prompt(conversation(this, TOOLS), TOOLS).text
    text = dialect.prompt(conversation(after, TOOLS), TOOLS).text
    assert before is not None
    assert text is not None
    assert text.startswith(before)
    assert conversation(after, TOOLS)[: len(conversation(this, TOOLS))] == conversation(this, TOOLS)


def ledger(count: int, **fields: object) -> tuple[LedgerEntry, ...]:
    entry = LedgerEntry(round=1, tool="read_file", status=ToolStatus.OK, result="r" * 150)
    return tuple(replace(entry, round=index + 1, **fields) for index in range(count))


def memory_turn(memory: Memory, room_tokens: int | None = None) -> str:
    turn = conversation(context(memory=memory), TOOLS, room_tokens=room_tokens)[-1]
    assert isinstance(turn, Told)
    return turn.text


def test_what_a_model_is_told_of_the_ledger_is_bounded_and_the_rest_counted() -> None:
    old = (*ledger(1, tool="write_file"), *ledger(2, status=ToolStatus.TIMEOUT)[1:])
    memory = Memory(through=300, ledger=(*old, *ledger(300)[2:]), ledger_dropped=7)
    text = memory_turn(memory)
    lines = [line for line in text.splitlines() if line.startswith("- round")]
    assert len(text) < SHOWN_CHARS + 200
    # What changed something and what failed is there, however old, and then the latest.
    assert lines[0].startswith("- round 1: write_file")
    assert lines[1].startswith("- round 2: read_file  -> timeout: ")
    assert lines[2:] == [
        f"- round {number}: read_file  -> ok: {'r' * 150}"
        for number in range(300 - len(lines) + 3, 301)
    ]
    assert text.endswith(f"- and {300 - len(lines) + 7} more that are not listed here")
    assert len(memory_turn(memory, room_tokens=2_000)) < 1_200


def test_calls_and_decisions_read_as_what_they_are() -> None:
    asked = LedgerEntry(
        round=1, tool="read_file", arguments='{"a":1}', status=ToolStatus.ERROR, result="no"
    )
    note = LedgerEntry(round=2, tool="", status=ToolStatus.OK, result="it said: go on")
    assert memory_turn(Memory(through=2, summary="All.", ledger=(asked, note))).splitlines() == [
        "[Rounds 1 to 2, in short]",
        "All.",
        "[The record of these rounds]",
        '- round 1: read_file {"a":1} -> error: no',
        "- round 2: it said: go on",
    ]
