"""Agent jobs and tools on the wire: their limits, their ids, and values made to hurt."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas import (
    AgentContext,
    AgentJob,
    Budget,
    DeadLetter,
    InvalidMessage,
    JournalEntry,
    Message,
    Names,
    Origin,
    Reason,
    Round,
    Sampling,
    StructuredOutput,
    ToolCall,
    ToolReply,
    ToolRequest,
    ToolResult,
    ToolSpec,
    ToolStatus,
    decode,
    encode,
    peek,
)
from sluicegate.schemas import limits as at
from sluicegate.schemas.agents import Execution, Orchestration, effect_id, round_job_id
from sluicegate.schemas.codec import limit_of, tag_of
from sluicegate.schemas.jobs import JobId
from sluicegate.schemas.tools import EffectId

from .agent_messages import agent_ids, contexts, specs

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TOO = (Reason.INVALID_FIELD, Reason.TOO_LARGE)


def body(kind: type[Message], **fields: Any) -> bytes:
    heads: dict[type[Message], dict[str, Any]] = {
        AgentJob: {"id": "a", "task": "count"},
        ToolRequest: {
            "id": "a",
            "job_id": "j",
            "name": "t",
            "arguments": {},
            "effect_id": "e",
            "expires_at": "2026-05-04T12:00:00Z",
        },
        ToolReply: {"id": "a", "effect_id": "e", "result": {"status": "ok"}},
    }
    return msgspec.json.encode({"type": tag_of(kind), "schema_version": 1, **heads[kind], **fields})


def of_size(size: int) -> dict[str, str]:
    return {"k": "v" * (size - len('{"k":""}'))}


LIMITS: list[tuple[type[Message], str, Any, Any, str]] = [
    # what, its name, the last that goes through, the first that does not, the field that is named
    (AgentJob, "id", "a" * at.MAX_AGENT_ID_CHARS, "a" * (at.MAX_AGENT_ID_CHARS + 1), "$.id"),
    (AgentJob, "id", "a:b-c_1", "a.b", "$.id"),
    (AgentJob, "task", "x" * at.MAX_PROMPT_CHARS, "x" * (at.MAX_PROMPT_CHARS + 1), "$.task"),
    (AgentJob, "task", " x", " \n", "$.task"),
    (AgentJob, "task", "x", "x\x00", "$.task"),
    (AgentJob, "system", "", "\x00", "$.system"),
    (AgentJob, "tools", ["t"] * at.MAX_TOOLS, ["t"] * (at.MAX_TOOLS + 1), "$.tools"),
    (AgentJob, "tools", ["a-b_1"], ["a.b"], "$.tools[0]"),
    (AgentJob, "tools", ["a" * 64], ["a" * 65], "$.tools[0]"),
    (AgentJob, "tools", ["_a"], ["1a"], "$.tools[0]"),
    (AgentJob, "tools", ["a"], ["a\n"], "$.tools[0]"),
    (AgentJob, "task_type", "qa", "Q A", "$.task_type"),
    (AgentJob, "format", "grammar", "json", "$.format"),
    (AgentJob, "budget", {"tokens": 1}, {"tokens": 0}, "$.budget.tokens"),
    (AgentJob, "budget", {"tool_calls": 0}, {"tool_calls": -1}, "$.budget.tool_calls"),
    (AgentJob, "budget", {"rounds": at.MAX_AGENT_ROUNDS}, {"rounds": 10_001}, "$.budget.rounds"),
    (AgentJob, "budget", {"rounds": 1}, {"rounds": 0}, "$.budget.rounds"),
    (AgentJob, "budget", {"wall_s": 0.1}, {"wall_s": 0}, "$.budget.wall_s"),
    (AgentJob, "budget", {"wall_s": 604_800}, {"wall_s": 604_801}, "$.budget.wall_s"),
    (AgentJob, "budget", {"answer_share": 0.99}, {"answer_share": 1}, "$.budget.answer_share"),
    (AgentJob, "watchdog", of_size(at.MAX_METADATA_BYTES), of_size(16_385), "$.watchdog"),
    (AgentJob, "metadata", of_size(at.MAX_METADATA_BYTES), of_size(16_385), "$.metadata"),
    (AgentJob, "gates", of_size(at.MAX_METADATA_BYTES), of_size(16_385), "$.gates"),
    (AgentJob, "attempt", at.MAX_ATTEMPT_NUMBER, at.MAX_ATTEMPT_NUMBER + 1, "$.attempt"),
    (ToolRequest, "id", "a" * at.MAX_ID_CHARS, "a" * (at.MAX_ID_CHARS + 1), "$.id"),
    (ToolRequest, "id", "a", "", "$.id"),
    (ToolRequest, "name", "search", "search web", "$.name"),
    (ToolRequest, "effect_id", "e", "", "$.effect_id"),
    (ToolRequest, "arguments", of_size(at.MAX_ARGUMENTS_BYTES), of_size(65_537), "$.arguments"),
    (ToolReply, "server", "a" * 256, "a" * 257, "$.server"),
    (
        ToolReply,
        "result",
        {"status": "ok", "content": "x" * at.MAX_TOOL_RESULT_CHARS},
        {"status": "ok", "content": "x" * (at.MAX_TOOL_RESULT_CHARS + 1)},
        "$.result.content",
    ),
    (
        ToolReply,
        "result",
        {"status": "error", "content": "\x1b[2J"},  # a terminal's trouble, and not the wire's
        {"status": "error", "content": "\x00"},
        "$.result.content",
    ),
    (ToolReply, "result", {"status": "not_run"}, {"status": "done"}, "$.result.status"),
]


@pytest.mark.parametrize(("kind", "name", "last", "too", "field"), LIMITS)
def test_the_limit_goes_through_and_one_more_does_not(
    kind: type[Message], name: str, last: Any, too: Any, field: str
) -> None:
    decode(body(kind, **{name: last}), kind)
    with pytest.raises(InvalidMessage) as caught:
        decode(body(kind, **{name: too}), kind)
    assert caught.value.field == field
    assert caught.value.reason in (*TOO, Reason.EMPTY_PROMPT, Reason.WRONG_TYPE)


def test_an_agents_answers_have_no_other_grammar() -> None:
    with pytest.raises(InvalidMessage, match="structured_output"):
        AgentJob(task="x", sampling=Sampling(structured_output=StructuredOutput(regex="a")))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused_before_it_is_sent(value: float) -> None:
    with pytest.raises(InvalidMessage):
        encode(AgentJob(task="x", budget=Budget(wall_s=value)))
    with pytest.raises(InvalidMessage):
        ToolCall(id="a", name="t", effect_id="e", arguments={"x": [value]})


def test_half_a_character_that_a_model_said_never_reaches_the_wire() -> None:
    with pytest.raises(InvalidMessage):
        ToolCall(id="a", name="t", effect_id="e", arguments={"x": "\ud800"})
    with pytest.raises(InvalidMessage):
        ToolResult(status=ToolStatus.OK, content="\udfff")
    named = ToolCall(id="a", name="\ud800", effect_id="e")
    with pytest.raises(InvalidMessage):
        encode(context(calls=(named,)))


def context(**fields: Any) -> AgentContext:
    this = Round(number=1, at=NOW, **fields)
    return AgentContext(
        id="a",
        at=NOW,
        job=AgentJob(id="a", task="count"),
        execution=Execution(rounds=(this,)),
        orchestration=Orchestration(started_at=NOW),
    )


def test_a_context_is_of_its_job() -> None:
    with pytest.raises(InvalidMessage, match="is not that of `job`"):
        msgspec.structs.replace(context(), id="b")


@given(agent_ids, st.integers(1, at.MAX_ATTEMPT_NUMBER), st.integers(1, at.MAX_AGENT_ROUNDS))
def test_what_is_named_after_a_job_has_a_name_that_is_one(
    agent_id: str, attempt: int, number: int
) -> None:
    job = AgentJob(id=agent_id, task="x", attempt=attempt)
    for step in ("r", "fold", "final"):
        assert msgspec.convert(round_job_id(job, number, step), JobId)
    assert msgspec.convert(effect_id(job, number, at.MAX_TOOL_CALLS - 1), EffectId)


def test_a_job_that_is_sent_back_has_effects_of_its_own() -> None:
    first = AgentJob(id="a", task="x")
    second = msgspec.structs.replace(first, attempt=2)
    assert effect_id(first, 1, 0) != effect_id(second, 1, 0)
    assert round_job_id(first, 1) != round_job_id(second, 1)


def test_the_largest_context_fits_into_a_dead_letter_and_into_the_journal() -> None:
    around = at.MAX_OUTCOME_BYTES - limit_of(AgentContext)
    assert around >= 800_000  # both lists of the record, the text, and what is said besides
    assert limit_of(DeadLetter) == limit_of(JournalEntry) == at.MAX_OUTCOME_BYTES
    texts = "x" * at.MAX_SUMMARY_CHARS
    large = Execution(rounds=tuple(Round(number=n, at=NOW, said=texts) for n in range(150)))
    scene = msgspec.structs.replace(context(), execution=large)
    assert len(encode(scene)) > limit_of(AgentContext) * 0.9
    letter = DeadLetter(
        reason=Reason.BUDGET_SPENT,
        detail="x" * 500,
        at=NOW,
        origin=Origin(stage="agent", worker="w", queue="q"),
        agent=scene,
    )
    assert decode(encode(letter), DeadLetter).agent == scene


@given(contexts())
def test_what_can_t_be_read_still_says_whose_it_is(scene: AgentContext) -> None:
    damaged = json.loads(encode(scene))
    damaged["revision"] = "not a number"
    with pytest.raises(InvalidMessage):
        decode(json.dumps(damaged).encode(), AgentContext)
    assert peek(json.dumps(damaged).encode()) == (scene.id, damaged["job"].get("reply_to"))


@given(specs)
def test_a_tool_comes_back_as_it_was_written_down(spec: ToolSpec) -> None:
    assert msgspec.json.decode(msgspec.json.encode(spec), type=ToolSpec) == spec


def test_arguments_that_are_no_object_are_no_tools() -> None:
    with pytest.raises(InvalidMessage, match='JSON Schema of an "object"'):
        ToolSpec(name="t", parameters={"type": "array"})


def test_a_name_of_a_tool_is_fit_for_a_routing_key() -> None:
    longest = Names("n" * 100).tool_queue("t" * at.MAX_TOOL_NAME_CHARS)
    assert len(longest) <= 255
