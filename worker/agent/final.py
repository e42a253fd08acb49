"""The end that keeps the work: what a job did and did not do, from its record, and the answer that
is asked of its model, or written in its place."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from ...schemas import AgentContext, AgentRecord, Reason, Stop, ToolCall, ToolResult, ToolSpec
from ...schemas import ToolStatus as Status
from ...schemas.agents import LedgerEntry
from ...schemas.limits import MAX_DETAIL, MAX_LEDGER, MAX_SUMMARY_CHARS
from ..dialects.dialect import Dialect, Prompt, Told, Turn
from . import ledger
from .budget import LEAST_ANSWER, calls_left, hard_stop, reserve, room
from .folding import folded, reductions
from .shortening import one_line
from .window import conversation, told_in_full

__all__ = [
    "LEAST_ANSWER",
    "agent_record",
    "calls_left",
    "close_open_calls",
    "done_and_not_done",
    "final_prompt",
    "final_turns",
    "hard_stop",
    "reserve",
    "template_answer",
    "why",
]

# Of `done` and `not_done` together, in bytes of UTF-8: with the whole scene they fit a message.
_RECORD_BYTES: Final = 400_000
# In the request for the final answer, of what is not done.
_TOLD: Final = 20
_TOLD_CHARS: Final = 160
# Of the written answer's sentences, in characters: the longest with which all of them have room.
_TEMPLATE_LENGTHS: Final = (MAX_DETAIL, 240, 120, 80)
_TASK_CHARS: Final = 1_000
_SUMMARY_CHARS: Final = 2_000

_WHY: Final[dict[Reason, str]] = {
    Reason.BREAKER_TRIPPED: "the work went round in circles",
    Reason.BUDGET_SPENT: "what this task may use is used up",
    Reason.TOOLS_SPENT: "there is no tool left that may be called",
    Reason.GENERATION_FAILED: "no usable answer could be generated any more",
    Reason.CONTEXT_FULL: "the history does not fit the model's context any more",
    Reason.DEADLINE_PASSED: "the time for it is over",
    Reason.CANCELLED: "it was cancelled",
    Reason.TOOL_UNAVAILABLE: "it needs a tool that is not there",
}
_NOT_DONE: Final[dict[Status, str]] = {
    Status.ERROR: "it failed",
    Status.TIMEOUT: "it was not back in time, and what it had done by then is not known",
    Status.UNKNOWN: "it was begun, and what came of it is not known",
    Status.UNKNOWN_TOOL: "there is no such tool",
    Status.NOT_ALLOWED: "this tool may not be called",
    Status.INVALID_ARGUMENTS: "its arguments were not valid",
    Status.QUOTA_SPENT: "this tool may not be called any more",
    Status.DENIED: "it was not allowed by a person",
    Status.NOT_RUN: "it was not run",
}

replace = msgspec.structs.replace


def close_open_calls(context: AgentContext) -> AgentContext:
    """Every open call is answered with `not_run`, so that the history is a valid conversation."""
    execution = context.execution
    if not any(call.is_open for this in execution.rounds for call in this.calls):
        return context
    rounds = tuple(
        replace(this, calls=tuple(map(_closed, this.calls))) for this in execution.rounds
    )
    return replace(context, execution=replace(execution, rounds=rounds))


def _closed(call: ToolCall) -> ToolCall:
    if not call.is_open:
        return call
    result = ToolResult(
        status=Status.NOT_RUN,
        content="The job was ended before it was run.",
        fingerprint=Status.NOT_RUN.value,
    )
    return replace(call, result=result)


def final_turns(
    context: AgentContext,
    stop: Stop,
    tools: Sequence[ToolSpec] = (),
    *,
    room_tokens: int | None = None,
) -> tuple[Turn, ...]:
    """The conversation, and behind it why it ends, and that the best answer is asked for."""
    context = close_open_calls(context)
    turns = conversation(context, tools, room_tokens=room_tokens)
    return (*turns, Told("user", _request(context, stop)))


def _request(context: AgentContext, stop: Stop) -> str:
    done, not_done = done_and_not_done(context)
    lines = [
        f"[This task must be ended now: {why(stop)}. No tool can be called any more.]",
        f"By the record, {_number(len(done))} succeeded and {_number(len(not_done))} did not.",
    ]
    if not_done:
        lines.append("The last that did not:")
        lines.extend(f"- {one_line(sentence, _TOLD_CHARS)}" for sentence in not_done[-_TOLD:])
    lines.append(
        "Give the best final answer that you can from what you know by now. Say plainly what is "
        "done and what is not. Do not make up results, and do not call a tool."
    )
    return "\n".join(lines)


def _number(calls: int) -> str:
    return f"{calls:,} call{'' if calls == 1 else 's'}"


def final_prompt(
    context: AgentContext,
    stop: Stop,
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    *,
    room_tokens: int,
    over: bool = False,
) -> tuple[Prompt, int] | None:
    """The prompt for the final answer and the tokens that the answer may have, within the model's
    context of `room_tokens` and what is left of the budget, reserve included. Where the
    conversation is too long the oldest rounds give way to their lines of the ledger. `over`: the
    reserve is there even if what was spent before has eaten into it. None where
    there is no room at all: the answer is to be written without a model.

    `tools` are those of the conversation, so that the prefix cache holds; that none can be called
    is said in the prompt, and enforced by forbidding what a call begins with.
    """
    context = close_open_calls(context)
    last = replace(context, orchestration=replace(context.orchestration, phase="finishing"))
    wanted = max(1, min(context.job.sampling.max_tokens, room_tokens // 4))
    # In the request stands what is on record, however short the rest is told.
    request = Told("user", _request(last, stop))
    best: tuple[Prompt, int] | None = None
    for fold in reductions(last, tools, most=len(told_in_full(last)), least=0):
        turns = conversation(folded(last, fold, None), tools, room_tokens=room_tokens)
        prompt = dialect.prompt((*turns, request), tools)
        tokens = room(last, prompt.tokens, room_tokens=room_tokens, over=over)
        if tokens >= wanted:
            return prompt, tokens
        if tokens >= LEAST_ANSWER and (best is None or tokens > best[1]):
            best = prompt, tokens
    return best


def done_and_not_done(context: AgentContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Every call in a sentence, oldest first: those that succeeded, and those that failed, were
    refused or not run, or of which it is not known. Where there are too many the oldest are left
    out, and the last sentence says how many."""
    memory = context.execution.memory
    entries: list[LedgerEntry] = [*memory.ledger]
    for this in told_in_full(context):
        entries.extend(ledger.entries(this))
    done = [_done(entry) for entry in entries if entry.tool and entry.status is Status.OK]
    not_done = [
        _not_done(entry) for entry in entries if entry.tool and entry.status is not Status.OK
    ]
    if memory.ledger_dropped:
        many = f"{memory.ledger_dropped:,} older entries of the record had no room in it"
        done.insert(0, many)
    return _bounded(done), _bounded(not_done)


def _named(entry: LedgerEntry) -> str:
    return f"round {entry.round}: {entry.tool} {entry.arguments}"


def _done(entry: LedgerEntry) -> str:
    came = f" gave: {entry.result}" if entry.result else " gave nothing back"
    return one_line(_named(entry) + came, MAX_DETAIL)


def _not_done(entry: LedgerEntry) -> str:
    came = f" ({entry.result})" if entry.result else ""
    return one_line(f"{_named(entry)}: {_NOT_DONE[entry.status]}{came}", MAX_DETAIL)


def _bounded(sentences: list[str]) -> tuple[str, ...]:
    left = _RECORD_BYTES // 2
    kept: list[str] = []
    for sentence in reversed(sentences):
        left -= len(sentence.encode()) + 3
        if left < 0 or (len(kept) == MAX_LEDGER - 1 and len(sentences) > MAX_LEDGER):
            break
        kept.append(sentence)
    kept.reverse()
    if (more := len(sentences) - len(kept)) > 0:
        kept.append(f"and {more:,} more, before these")
    return tuple(kept)


def why(stop: Stop) -> str:
    """Why a job was ended, in plain words."""
    words = _WHY.get(stop.reason, stop.reason.value.replace("_", " "))
    detail = stop.detail.rstrip(" .")
    return f"{words} ({detail})" if detail else words


def template_answer(context: AgentContext, stop: Stop) -> str:
    """The final answer from the record alone, for when no model can write it: at most
    MAX_SUMMARY_CHARS characters. What is not done comes before long results of what is."""
    done, not_done = done_and_not_done(close_open_calls(context))
    ended = (
        f"This task was ended before it was finished: {why(stop)}. This text was put together from "
        "the record, and not written by a model."
    )
    head = [ended, f"The task: {one_line(context.job.task, _TASK_CHARS)}"]
    if said := _said_last(context):
        head.append(f"What was said last: {one_line(said, _TASK_CHARS)}")
    elif summary := context.execution.memory.summary:
        head.append(f"What was known: {one_line(summary, _SUMMARY_CHARS)}")
    text = "\n\n".join(head)
    room_left = MAX_SUMMARY_CHARS - len(text)
    open_part = _part("What is not done:", not_done, room_left * 2 // 3)
    done_part = _part("What is done:", done, room_left - len(open_part) - 8)
    return f"{text}\n\n{done_part}\n\n{open_part}"


def _said_last(context: AgentContext) -> str:
    rounds = reversed(told_in_full(context))
    return next((this.prose for this in rounds if this.prose.strip()), "")


def _part(title: str, sentences: Sequence[str], room_chars: int) -> str:
    if not sentences:
        return f"{title} nothing."
    for length in _TEMPLATE_LENGTHS:
        text = "\n".join((title, *_listed(sentences, length)))
        if len(text) <= room_chars:
            return text
    kept = list(_listed(sentences, _TEMPLATE_LENGTHS[-1]))
    left = room_chars - len(title) - 40
    size = 0
    for index, line in enumerate(kept):
        size += len(line) + 1
        if size > left:
            return "\n".join((title, *kept[:index], f"- and {len(kept) - index:,} more"))
    return "\n".join((title, *kept))


def _listed(sentences: Sequence[str], length: int) -> Iterator[str]:
    return (f"- {one_line(sentence, length)}" for sentence in sentences)


def agent_record(
    context: AgentContext, stop: Stop | None, written_by: Literal["model", "template"] = "model"
) -> AgentRecord:
    """What a result says of the way there."""
    done, not_done = done_and_not_done(close_open_calls(context))
    spent = context.orchestration.spent
    return AgentRecord(
        rounds=spent.rounds,
        tool_calls=spent.tool_calls,
        warnings=context.decision.warnings,
        stopped=stop,
        written_by=written_by,
        done=done,
        not_done=not_done,
    )
