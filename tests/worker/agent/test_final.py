"""The end that keeps the work: what is said of it, and that there always is something."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.json import encode as encode_json
from sluicegate.schemas import (
    AgentContext,
    AgentRecord,
    Budget,
    Reason,
    Sampling,
    Stop,
    ToolResult,
    ToolStatus,
    Usage,
)
from sluicegate.schemas.agents import LedgerEntry, Memory, Spent
from sluicegate.schemas.limits import MAX_DETAIL, MAX_LEDGER, MAX_SUMMARY_CHARS
from sluicegate.worker.agent.final import (
    LEAST_ANSWER,
    agent_record,
    close_open_calls,
    done_and_not_done,
    final_prompt,
    final_turns,
    template_answer,
    why,
)
from sluicegate.worker.agent.window import conversation
from sluicegate.worker.dialects.dialect import Told

from .contexts import TOOLS, PlainDialect, a_round, call, context, contexts, replace

STOP = Stop(reason=Reason.BUDGET_SPENT, detail="100 of 100 tool calls are used")
NOT_RUN = "The job was ended before it was run."
stops = st.builds(Stop, reason=st.sampled_from(list(Reason)), detail=st.just("so it is."))


def half_done() -> AgentContext:
    return context(
        a_round(1, call(1, content="ten birds"), call(1, 1, name="write_file", content="")),
        a_round(
            2,
            call(2, status=ToolStatus.TIMEOUT, content="not back within 30 s"),
            call(2, 1, status=ToolStatus.DENIED, content="by Ada"),
            call(2, 2, status=None),
        ),
    )


def test_open_calls_are_answered_and_nothing_else_changes() -> None:
    this = half_done()
    after = close_open_calls(this)
    assert [each.result and each.result.status for each in after.execution.rounds[1].calls] == [
        ToolStatus.TIMEOUT,
        ToolStatus.DENIED,
        ToolStatus.NOT_RUN,
    ]
    closed = after.execution.rounds[1].calls[2]
    assert isinstance(closed.result, ToolResult)
    assert closed.result.content == NOT_RUN
    assert replace(closed, result=None) == this.execution.rounds[1].calls[2]
    assert after.execution.rounds[0] == this.execution.rounds[0]
    assert close_open_calls(after) is after


@given(contexts(is_open=True), stops)
def test_the_final_request_stands_behind_a_valid_conversation(
    this: AgentContext, stop: Stop
) -> None:
    closed = close_open_calls(this)
    turns = final_turns(this, stop)
    assert turns[:-1] == conversation(closed)
    ask = turns[-1]
    assert isinstance(ask, Told)
    assert ask.role == "user"
    assert why(stop) in ask.text
    assert "No tool can be called any more" in ask.text


LATE = "it was not back in time, and what it had done by then is not known (not back within 30 s)"
SO_FAR = [
    f'- round 2: read_file {{"path":"2-0.txt"}}: {LATE}',
    '- round 2: read_file {"path":"2-1.txt"}: it was not allowed by a person (by Ada)',
    f'- round 2: read_file {{"path":"2-2.txt"}}: it was not run ({NOT_RUN})',
]


def test_what_is_asked_at_the_end() -> None:
    ask = final_turns(half_done(), STOP)[-1]
    assert isinstance(ask, Told)
    first, counts, title, *listed, last = ask.text.splitlines()
    assert first == (
        "[This task must be ended now: what this task may use is used up (100 of 100 tool calls "
        "are used). No tool can be called any more.]"
    )
    assert counts == "By the record, 2 calls succeeded and 3 calls did not."
    assert title == "The last that did not:"
    assert listed == SO_FAR
    assert last.startswith("Give the best final answer")


def test_what_is_done_and_what_is_not() -> None:
    ledger = (
        LedgerEntry(
            round=1, tool="read_file", arguments='{"a":1}', status=ToolStatus.OK, result="one"
        ),
        LedgerEntry(round=1, tool="", status=ToolStatus.ERROR, result="could not be read"),
        LedgerEntry(round=2, tool="read_file", status=ToolStatus.UNKNOWN),
    )
    this = context(
        a_round(3, call(3, content="three")),
        memory=Memory(through=2, ledger=ledger, ledger_dropped=4),
    )
    assert done_and_not_done(this) == (
        (
            "4 older entries of the record had no room in it",
            'round 1: read_file {"a":1} gave: one',
            'round 3: read_file {"path":"3-0.txt"} gave: three',
        ),
        ("round 2: read_file : it was begun, and what came of it is not known",),
    )


def test_there_is_a_sentence_for_whatever_can_come_of_a_call() -> None:
    calls = [call(1, index, status=status) for index, status in enumerate(ToolStatus)]
    done, not_done = done_and_not_done(context(a_round(1, *calls)))
    assert (len(done), len(not_done)) == (1, len(ToolStatus) - 1)
    assert len(set(not_done)) == len(not_done)


@settings(max_examples=60)
@given(contexts(is_open=True), stops)
def test_every_call_is_in_the_record_and_every_missing_one_in_the_template(
    this: AgentContext, stop: Stop
) -> None:
    record = agent_record(this, stop, "template")
    memory = this.execution.memory
    statuses = [entry.status for entry in memory.ledger if entry.tool]
    statuses += [
        each.result.status if each.result else ToolStatus.NOT_RUN
        for one in this.execution.rounds
        for each in one.calls
    ]
    good = statuses.count(ToolStatus.OK)
    assert len(record.done) == good + (memory.ledger_dropped > 0)
    assert len(record.not_done) == len(statuses) - good
    assert all(0 < len(each) <= MAX_DETAIL for each in (*record.done, *record.not_done))
    assert all(each.isprintable() for each in (*record.done, *record.not_done))
    text = template_answer(this, stop)
    assert 0 < len(text) <= MAX_SUMMARY_CHARS
    assert why(stop) in text
    tail = text[text.rindex("What is not done:") :]
    lines = tail.splitlines()
    if len(record.not_done) == 0:
        assert lines == ["What is not done: nothing."]
    else:
        assert len(lines) == 1 + len(record.not_done)
        assert all(
            line[2:40] == each[:38] for line, each in zip(lines[1:], record.not_done, strict=True)
        )


def test_the_template() -> None:
    why_ended, task, said, done, not_done = template_answer(half_done(), STOP).split("\n\n")
    assert why_ended == (
        "This task was ended before it was finished: what this task may use is used up (100 of 100 "
        "tool calls are used). This text was put together from the record, and not written by a "
        "model."
    )
    assert task == "The task: Look at the files."
    assert said == "What was said last: I thought this in round 2."
    assert done.splitlines() == [
        "What is done:",
        '- round 1: read_file {"path":"1-0.txt"} gave: ten birds',
        '- round 1: write_file {"path":"1-1.txt"} gave nothing back',
    ]
    assert not_done.splitlines() == ["What is not done:", *SO_FAR]


def test_a_job_that_did_nothing_still_has_an_answer() -> None:
    text = template_answer(context(), STOP)
    assert "What is done: nothing." in text
    assert "What is not done: nothing." in text


def test_more_calls_than_there_is_room_for() -> None:
    rounds = [
        a_round(
            number + 1,
            *(
                call(number + 1, index, status=ToolStatus.ERROR, content="e" * 20_000)
                for index in range(64)
            ),
        )
        for number in range(12)
    ]
    record = agent_record(context(*rounds), STOP, "template")
    assert len(record.not_done) <= MAX_LEDGER
    shown = len(record.not_done) - 1
    assert record.not_done[-1] == f"and {12 * 64 - shown:,} more, before these"
    # The latest are there.
    assert record.not_done[-2].startswith('round 12: read_file {"path":"12-63.txt"}')
    text = template_answer(context(*rounds), STOP)
    assert len(text) <= MAX_SUMMARY_CHARS
    told = [line for line in text.splitlines() if line.startswith("- round")]
    assert text.endswith(f"- and {len(record.not_done) - len(told):,} more")


def test_the_record_of_a_long_job_fits_a_message_beside_the_scene() -> None:
    calls = [
        call(1, index, arguments={"path": "鳥" * 500}, status=status, content="鳥" * 500)
        for index in range(64)
        for status in (ToolStatus.OK, ToolStatus.ERROR)
    ]
    this = context(*(a_round(number + 1, *calls[:64]) for number in range(20)))
    record = agent_record(this, STOP)
    assert len(encode_json(record)) < 500_000
    assert record.done[-1] == f"and {20 * 32 - len(record.done) + 1} more, before these"


def test_the_record() -> None:
    this = half_done()
    this = replace(this, decision=replace(this.decision, warnings=2))
    record = agent_record(this, STOP, "template")
    assert record == AgentRecord(
        rounds=2,
        tool_calls=3,
        warnings=2,
        stopped=STOP,
        written_by="template",
        done=record.done,
        not_done=record.not_done,
    )
    assert agent_record(this, None).written_by == "model"


# --- the final prompt fits ---


def long_job(rounds: int, **job: object) -> AgentContext:
    return context(
        *(a_round(number + 1, said=f"said {number + 1} " + "s" * 900) for number in range(rounds)),
        **job,  # pyright: ignore[reportArgumentType]
    )


def test_a_conversation_that_fits_is_kept() -> None:
    this = long_job(3)
    prompt = PlainDialect().prompt(final_turns(this, STOP, TOOLS), TOOLS)
    assert final_prompt(this, STOP, PlainDialect(), TOOLS, room_tokens=100_000) == (prompt, 64)


def test_the_oldest_rounds_give_way() -> None:
    this = long_job(8)
    found = final_prompt(this, STOP, PlainDialect(), TOOLS, room_tokens=6_000)
    assert found is not None
    prompt, tokens = found
    assert prompt.tokens + tokens <= 6_000
    assert tokens == 64
    text = prompt.text or ""
    assert "SAID said 8 " in text
    assert "SAID said 1 " not in text
    assert '- round 1: read_file {"path":"1-0.txt"} -> ok: some text' in text
    assert "By the record, 8 calls succeeded and 0 calls did not." in text


def test_the_last_round_gives_way_too() -> None:
    this = context(a_round(1, *(call(1, index, content="c" * 900) for index in range(64))))
    found = final_prompt(this, STOP, PlainDialect(), TOOLS, room_tokens=4_000)
    assert found is not None
    assert "SAID" not in (found[0].text or "")
    assert '- round 1: read_file {"path":"1-63.txt"} -> ok: ccc' in (found[0].text or "")


def test_what_is_left_of_the_budget_bounds_it_too() -> None:
    spent = Spent(usage=Usage(prompt_tokens=97_000), rounds=8)
    this = long_job(8, spent=spent, budget=Budget(tokens=100_000))
    found = final_prompt(this, STOP, PlainDialect(), TOOLS, room_tokens=100_000)
    assert found is not None
    assert 97_000 + found[0].tokens + found[1] <= 100_000
    broke = replace(
        this,
        orchestration=replace(
            this.orchestration, spent=replace(spent, usage=Usage(prompt_tokens=99_990))
        ),
    )
    assert final_prompt(broke, STOP, PlainDialect(), TOOLS, room_tokens=100_000) is None


@settings(max_examples=60)
@given(contexts(is_open=True), stops, st.integers(10, 20_000), st.integers(1, 200))
def test_a_final_prompt_fits_or_there_is_none(
    this: AgentContext, stop: Stop, room_tokens: int, max_tokens: int
) -> None:
    this = replace(this, job=replace(this.job, sampling=Sampling(max_tokens=max_tokens)))
    found = final_prompt(this, stop, PlainDialect(), TOOLS, room_tokens=room_tokens)
    if found is None:
        return
    prompt, tokens = found
    assert min(LEAST_ANSWER, max_tokens) <= tokens <= max_tokens
    assert prompt.tokens + tokens <= room_tokens
    spent = this.orchestration.spent.tokens
    assert spent + prompt.tokens + tokens <= this.job.budget.tokens
    assert why(stop) in (prompt.text or "")


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_reads_as_words(reason: Reason) -> None:
    text = why(Stop(reason=reason, detail="because."))
    assert text.endswith("(because)")
    assert "_" not in text
    assert why(Stop(reason=reason)) == text.removesuffix(" (because)")
