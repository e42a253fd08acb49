"""The JSON Schemas say what the decoder says, as far as JSON Schema can say it."""

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sluicegate.schemas import AgentJob, GenerationJob, InvalidMessage, Sampling, decode, encode
from sluicegate.schemas.codec import MESSAGE_TYPES, tag_of
from sluicegate.schemas.json_schema import message_schemas

JOB: dict[str, Any] = {
    "type": "generation_job",
    "schema_version": 1,
    "id": "job-1",
    "prompt": "Why is the sky blue?",
}

# What both refuse: changes to the good job, None takes a field away.
BAD: dict[str, dict[str, Any]] = {
    "no id": {"id": None},
    "no version": {"schema_version": None},
    "no type": {"type": None},
    "another type": {"type": "job_event"},
    "future version": {"schema_version": 2},
    "version 0": {"schema_version": 0},
    "no prompt": {"prompt": None},
    "two prompts": {"prompt_token_ids": [1]},
    "wrong type": {"prompt": 5},
    "dotted id": {"id": "a.b"},
    "long id": {"id": "a" * 129},
    "unknown lane": {"lane": "slow"},
    "no attempts": {"max_attempts": 0},
    "hot": {"sampling": {"temperature": 2.1}},
    "no top_p": {"sampling": {"top_p": 0}},
    "many stops": {"sampling": {"stop": ["x"] * 17}},
    "empty stop": {"sampling": {"stop": [""]}},
    "strong bias": {"sampling": {"logit_bias": {"1": 101}}},
    "no structure": {"sampling": {"structured_output": {}}},
    "two structures": {"sampling": {"structured_output": {"regex": "a", "grammar": "b"}}},
    "role": {"prompt": None, "messages": [{"role": "tool", "content": "x"}]},
    "no content": {"prompt": None, "messages": [{"role": "user"}]},
    "metadata": {"metadata": []},
    "trace": {"traceparent": "00-1-2-3"},
}


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**JOB, **changes}.items() if value is not None}


def is_valid(message: Any, name: str = "generation_job") -> bool:
    validator: Any = Draft202012Validator(message_schemas()[name])
    return validator.is_valid(message)


def test_there_is_one_for_each_message() -> None:
    assert set(message_schemas()) == {tag_of(kind) for kind in MESSAGE_TYPES}


@pytest.mark.parametrize("name", sorted(message_schemas()))
def test_each_is_a_valid_schema(name: str) -> None:
    Draft202012Validator.check_schema(message_schemas()[name])


@pytest.mark.parametrize("case", BAD)
def test_what_the_decoder_refuses_is_refused(case: str) -> None:
    message = changed(BAD[case])
    assert not is_valid(message)
    with pytest.raises(InvalidMessage):
        decode(json.dumps(message).encode(), GenerationJob)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"prompt": None, "prompt_token_ids": [1, 2]},
        {"prompt": None, "messages": [{"role": "user", "content": "x"}]},
        {"sampling": {"structured_output": {"regex": "[a-z]+"}}},
        {"deadline": "2030-01-01T00:00:00+02:00"},
        {"a_field_of_a_later_version": True},
    ],
)
def test_what_the_decoder_takes_is_taken(changes: dict[str, Any]) -> None:
    message = changed(changes)
    assert is_valid(message)
    decode(json.dumps(message).encode(), GenerationJob)


def test_null_is_as_good_as_left_out() -> None:
    message = {**JOB, "messages": None, "prompt_token_ids": None, "deadline": None}
    assert is_valid(message)
    assert decode(json.dumps(message).encode(), GenerationJob) == decode(
        json.dumps(JOB).encode(), GenerationJob
    )


def test_patterns_are_in_the_dialect_of_json_schema() -> None:
    patterns = re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', json.dumps(message_schemas()))
    assert patterns
    for pattern in patterns:
        assert pattern.startswith("^")
        assert pattern.endswith("$")
        # ECMAScript has no \A and no \Z.
        assert "\\" not in pattern


def test_defaults_are_said() -> None:
    sampling = message_schemas()["generation_job"]["$defs"]["Sampling"]["properties"]
    assert sampling["max_tokens"]["default"] == Sampling().max_tokens
    assert is_valid(json.loads(encode(GenerationJob(prompt="x"))))


AGENT: dict[str, Any] = {"type": "agent_job", "schema_version": 1, "id": "a", "task": "count"}


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"tools": ["query_orders"], "budget": {"tokens": 1, "answer_share": 0.5}}, True),
        ({"of_a_later_version": 1}, True),
        ({"task": None}, False),
        ({"id": "a.b"}, False),
        ({"id": "a" * 101}, False),
        ({"tools": ["a b"]}, False),
        ({"tools": ["a" * 65]}, False),
        ({"budget": {"answer_share": 1}}, False),
        ({"budget": {"wall_s": 0}}, False),
        ({"format": "xml"}, False),
        ({"attempt": 0}, False),
    ],
)
def test_of_an_agent_job_schema_and_decoder_say_the_same(
    changes: dict[str, Any], fits: bool
) -> None:
    message = {key: value for key, value in {**AGENT, **changes}.items() if value is not None}
    assert is_valid(message, "agent_job") is fits
    if fits:
        decode(json.dumps(message).encode(), AgentJob)
        return
    with pytest.raises(InvalidMessage):
        decode(json.dumps(message).encode(), AgentJob)
