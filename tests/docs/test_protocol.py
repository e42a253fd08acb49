"""docs/protocol.md says what the codec, the limits and the topology say."""

import json
from datetime import UTC
from typing import Any

import pytest
from sluicegate.schemas import (
    CONTENT_TYPE,
    SCHEMA_VERSION,
    CancelJob,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    JobEvent,
    Names,
    Reason,
    decode,
    encode,
    limits,
    reply,
    topology,
)
from sluicegate.schemas.codec import MESSAGE_TYPES, Message, tag_of
from sluicegate.schemas.results import Outcome
from sluicegate.schemas.topology import LANES, PRIVATE_REPLY_EXPIRES_MS, RUNGS

from .field_tables import HEAD, rows, structs
from .pages import blocks, headings, prose, read, section, table, tables

TEXT = read("docs/protocol.md")
JSON = [json.loads(block) for block in blocks(TEXT, "json")]
MESSAGES = [each for each in JSON if "type" in each]
KINDS: dict[str, type[Message]] = {tag_of(kind): kind for kind in MESSAGE_TYPES}
FIELD_TABLES = {
    each.heading.strip("`"): each for each in tables(TEXT) if each.head == (*HEAD, "meaning")
}


def test_there_is_an_example_of_every_message_but_the_smallest() -> None:
    told = {each["type"] for each in MESSAGES}
    assert told == set(KINDS) - {tag_of(CancelJob)}


@pytest.mark.parametrize("body", MESSAGES, ids=lambda body: str(body["type"]))
def test_the_bodies_are_what_they_say(body: dict[str, Any]) -> None:
    message = decode(json.dumps(body).encode(), KINDS[body["type"]])
    # It comes out as it went in: no field is unknown, no default spelt out.
    again = json.loads(encode(message))
    for name in ("deadline", "enqueued_at", "at", "finished_at", "lineage"):
        again.pop(name, None)
        body = {key: value for key, value in body.items() if key != name}
    assert again == body


def test_the_times_in_the_bodies_have_an_offset() -> None:
    times = [
        time
        for body in MESSAGES
        for message in [decode(json.dumps(body).encode(), KINDS[body["type"]])]
        for name in ("deadline", "enqueued_at", "at", "finished_at")
        if (time := getattr(message, name, None)) is not None
    ]
    assert len(times) >= 5
    assert all(time.tzinfo == UTC for time in times)


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


def test_every_outcome_is_told() -> None:
    told = {row[0] for row in table(section(TEXT, "Outcomes"), "kind").rows}
    assert told == {f"`{kind.__struct_config__.tag}`" for kind in Outcome.__args__}


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
    for queue in (names.dead, names.results_queue("default"), names.results_queue("orders")):
        assert f"`{queue}`" in TEXT
    assert RUNGS, "the rungs that the page calls unused are there"


def test_the_arguments_of_a_reply_queue_are_ours() -> None:
    names = Names()
    (told,) = (each for each in JSON if "x-queue-type" in each)
    assert told == reply(names, "orders")[0].arguments
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
