"""docs/protocol.md says what the codec, the limits and the topology say."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from sluicegate.rollback import attempt_seed, default_retry_table
from sluicegate.schemas import (
    CONTENT_TYPE,
    SCHEMA_VERSION,
    AgentContext,
    Candidate,
    DeadLetter,
    Flaw,
    GenerationJob,
    GenerationResult,
    JobEvent,
    Names,
    Reason,
    ToolStatus,
    decode,
    encode,
    limits,
    reply,
    topology,
)
from sluicegate.schemas.agents import effect_id, round_job_id
from sluicegate.schemas.codec import MESSAGE_TYPES, Message, tag_of
from sluicegate.schemas.events import Happening
from sluicegate.schemas.results import Outcome
from sluicegate.schemas.tools import RAN
from sluicegate.schemas.topology import LANES, PRIVATE_REPLY_EXPIRES_MS, RUNGS, tool

from .field_tables import HEAD, rows, structs
from .pages import blocks, headings, prose, read, section, table, tables

TEXT = read("docs/protocol.md")
JSON = [json.loads(block) for block in blocks(TEXT, "json")]
MESSAGES = [each for each in JSON if "type" in each]
KINDS: dict[str, type[Message]] = {tag_of(kind): kind for kind in MESSAGE_TYPES}
FIELD_TABLES = {
    each.heading.strip("`"): each for each in tables(TEXT) if each.head == (*HEAD, "meaning")
}


def test_there_is_an_example_of_every_message() -> None:
    assert {each["type"] for each in MESSAGES} == set(KINDS)


@pytest.mark.parametrize("body", MESSAGES, ids=lambda body: str(body["type"]))
def test_the_bodies_are_what_they_say(body: dict[str, Any]) -> None:
    message = decode(json.dumps(body).encode(), KINDS[body["type"]])
    # It comes out as it went in: no field is unknown, no default spelt out.
    assert _timed(json.loads(encode(message))) == _timed(body)


def _timed(value: Any) -> Any:
    """The value with its times as such: there is more than one way to write one."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _timed(each) for name, each in fields.items()}
    if isinstance(value, list):
        return [_timed(each) for each in cast("list[Any]", value)]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        return datetime.fromisoformat(value)
    return value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        each = cast("dict[str, Any] | list[Any]", value)
        for inner in each.values() if isinstance(each, dict) else each:
            yield from _leaves(inner)
    else:
        yield value


def test_the_times_in_the_bodies_have_an_offset() -> None:
    times = [each for each in _leaves(_timed(MESSAGES)) if isinstance(each, datetime)]
    assert len(times) >= 10
    assert all(time.tzinfo == UTC for time in times)


def test_the_seeds_in_the_bodies_are_those_of_the_jobs() -> None:
    results = [
        body if body["type"] == "generation_result" else body["result"]
        for body in MESSAGES
        if body["type"] in ("generation_result", "candidate")
    ]
    assert len(results) == 2
    for result in results:
        for attempt in result["lineage"]["attempts"]:
            seed = attempt_seed(result["job_id"], None, attempt["attempt"])
            assert attempt["segments"][0]["seed"] == seed


def test_the_candidate_breaks_its_own_rule() -> None:
    """So it shows why there are candidates."""
    (body,) = (body for body in MESSAGES if body["type"] == "candidate")
    candidate = decode(json.dumps(body).encode(), Candidate)
    (wanted,) = candidate.job.rules.must_include
    assert candidate.job.checks == "block"
    assert wanted not in candidate.result.text


@pytest.mark.parametrize("name", structs())
def test_every_field_is_told_as_the_schema_has_it(name: str) -> None:
    wanted = rows(structs()[name])
    if [row[0] for row in wanted] == ["`kind`"]:
        # A kind with nothing in it but its name.
        assert f'{{"kind": {wanted[0][1].replace("`", chr(34))}}}' in prose(TEXT)
        return
    told = FIELD_TABLES[name].rows
    assert [row[:4] for row in told] == wanted
    assert all(row[4] for row in told if row[0] != "`kind`"), "a field without a meaning"


def test_no_table_tells_of_a_struct_that_is_gone() -> None:
    assert set(FIELD_TABLES) <= set(structs())


def test_every_reason_code_is_told() -> None:
    codes = [row[0] for row in table(TEXT, "code").rows]
    assert codes == [f"`{reason}`" for reason in Reason]
    assert all(row[1] and row[2] for row in table(TEXT, "code").rows)


def test_every_flaw_is_told() -> None:
    rows = table(TEXT, "flaw").rows
    assert [row[0] for row in rows] == [f"`{flaw}`" for flaw in Flaw]
    assert all(row[1] and row[2] for row in rows)


def test_every_kind_of_event_is_told() -> None:
    told = {row[0] for row in table(section(TEXT, "Follow events"), "kind").rows}
    assert told == {f"`{kind.__struct_config__.tag}`" for kind in Happening.__args__}


def test_every_way_to_check_is_told() -> None:
    ways = re.findall(r"`(\w+)`", FIELD_TABLES["generation_job"].rows[_row("checks")][1])
    told = [row[0] for row in table(TEXT, "`checks`").rows]
    assert sorted(told) == sorted(f"`{way}`" for way in ways)


def _row(field: str) -> int:
    names = [row[0] for row in FIELD_TABLES["generation_job"].rows]
    return names.index(f"`{field}`")


def test_the_numbers_of_retries_are_those_of_the_table() -> None:
    text = " ".join(section(TEXT, "Attempts").split())
    bounds = default_retry_table().limits
    waits = [f"{wait_s} s" if wait_s < 60 else f"{wait_s // 60}" for wait_s in RUNGS.values()]
    assert f"after {waits[0]}, {waits[1]}, {waits[2]} and {waits[3]} minutes" in text
    assert bounds.faults == 5
    assert "The sixth fault under one attempt ends the job" in text
    assert bounds.losses == 2
    assert "so does the third that took the whole engine" in text
    assert bounds.tokens_times == 4.0
    assert "reach four times `max_tokens` times `max_attempts`" in text
    assert f"about {min(RUNGS.values())} seconds later" in text


def test_every_outcome_is_told() -> None:
    told = {row[0] for row in table(section(TEXT, "Outcomes"), "kind").rows}
    assert told == {f"`{kind.__struct_config__.tag}`" for kind in Outcome.__args__}


def test_every_status_of_a_call_is_told() -> None:
    told = {row[0]: row[1] for row in table(TEXT, "status").rows}
    assert list(told) == [f"`{status}`" for status in ToolStatus]
    assert {name for name, done in told.items() if done != "no"} == {f"`{each}`" for each in RAN}


def test_the_agent_in_the_bodies_is_one_and_the_same() -> None:
    bodies = {body["type"]: body for body in MESSAGES}
    context = decode(json.dumps(bodies["agent_context"]).encode(), AgentContext)
    (this,) = context.execution.rounds
    (call,) = this.calls
    assert this.job_id == round_job_id(context.job, this.number)
    assert call.effect_id == effect_id(context.job, this.number, 0)
    assert bodies["tool_request"]["effect_id"] == call.effect_id
    assert bodies["tool_request"]["arguments"] == call.arguments
    assert bodies["tool_request"]["id"] == bodies["tool_reply"]["id"]
    assert bodies["tool_reply"]["effect_id"] == call.effect_id
    assert bodies["journal_entry"]["entry"]["effect_id"] == call.effect_id


def test_every_limit_is_told() -> None:
    wanted = {
        f"`{name}`": f"{value:,}" for name, value in vars(limits).items() if name.startswith("MAX_")
    }
    assert {row[0]: row[1] for row in table(TEXT, "limit").rows} == wanted


def test_every_exchange_is_told_with_its_kind() -> None:
    whole = topology()
    told = {row[0].strip("`"): row[1] for row in table(TEXT, "exchange").rows}
    assert told == {exchange.name: exchange.kind for exchange in whole.exchanges}


def test_the_routing_keys_are_those_of_the_topology() -> None:
    names = Names()
    keys = {row[0].strip("`"): row[3] for row in table(TEXT, "exchange").rows}
    assert keys[names.jobs] == " or ".join(f"`{names.jobs_key(lane)}`" for lane in LANES)
    assert keys[names.events] == f"`{names.event_key('<reply_to>', '<job id>', '<kind>')}`"
    assert f"with the key `{names.checks_key}`" in table(TEXT, "exchange").rows[0][2]
    replies = [names.results_queue(key) for key in ("default", "orders")]
    agents = (names.agents, names.approvals, names.journal, names.tool_queue("NAME"))
    assert f"with the key `{names.new_agents_key}`" in table(TEXT, "exchange").rows[0][2]
    for queue in (names.dead, names.checks, *replies, *agents):
        assert f"`{queue}`" in TEXT


def test_the_arguments_of_a_reply_queue_are_ours() -> None:
    names = Names()
    told, of_a_tool = (each for each in JSON if "x-queue-type" in each)
    assert told == reply(names, "orders")[0].arguments
    assert of_a_tool == tool(names, "any")[0].arguments
    private = reply(names, "x", private=True)[0].arguments
    assert private == {**told, "x-expires": PRIVATE_REPLY_EXPIRES_MS}
    assert f'"x-expires": {PRIVATE_REPLY_EXPIRES_MS}' in TEXT


def test_the_version_and_the_content_type_are_told() -> None:
    assert f"`schema_version` is {SCHEMA_VERSION}." in section(TEXT, "Versions")
    assert f"`{CONTENT_TYPE}`" in table(TEXT, "property").rows[0][1]


def test_the_smallest_body_has_only_what_is_required() -> None:
    smallest = min(MESSAGES, key=len)
    job = decode(json.dumps(smallest).encode(), GenerationJob)
    for name in smallest:
        less = {key: value for key, value in smallest.items() if key != name}
        with pytest.raises(ValueError, match=name):
            decode(json.dumps(less).encode(), GenerationJob)
    assert job.reply_to == "default"


def test_each_kind_of_message_has_a_heading() -> None:
    assert {f"`{tag}`" for tag in KINDS} <= set(headings(TEXT))
    assert {GenerationResult, JobEvent, DeadLetter} <= set(KINDS.values())
