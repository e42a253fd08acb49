"""Whatever lies in the queue ends in a dead letter that says which field and why; jobs go on."""

import json
from typing import Any

import pytest
from sluicegate.schemas import GenerationJob, Reason, Rejected
from sluicegate.schemas.limits import MAX_JOB_BYTES

from .conftest import Desk, StartWorker

pytestmark = pytest.mark.broker


def body(**fields: Any) -> bytes:
    """A good job with some fields changed; None takes a field away."""
    whole = {
        "type": "generation_job",
        "schema_version": 1,
        "id": "bad-1",
        "prompt": "hello",
        **fields,
    }
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


def sampling(**fields: Any) -> bytes:
    return body(sampling=fields)


BAD: dict[str, tuple[bytes, Reason, str]] = {
    "nothing at all": (b"", Reason.MALFORMED_JSON, "$"),
    "not JSON": (b"hello?", Reason.MALFORMED_JSON, "$"),
    "not UTF-8": (b'{"type": "\xff\xfe"}', Reason.MALFORMED_JSON, "$"),
    "cut off": (body()[:-9], Reason.MALFORMED_JSON, "$"),
    "a list": (b"[1, 2]", Reason.WRONG_TYPE, "$"),
    "wrong type": (body(prompt=5), Reason.WRONG_TYPE, "$.prompt"),
    "wrong type within": (sampling(stop="x"), Reason.WRONG_TYPE, "$.sampling.stop"),
    "unknown tag": (body(type="generate"), Reason.UNKNOWN_TYPE, "$.type"),
    "no tag": (body(type=None), Reason.MISSING_FIELD, "$.type"),
    "future version": (body(schema_version=2), Reason.FUTURE_VERSION, "$.schema_version"),
    "no id": (body(id=None), Reason.MISSING_FIELD, "$.id"),
    "no prompt": (body(prompt=None), Reason.MISSING_FIELD, "$.prompt"),
    "empty prompt": (body(prompt=" \n"), Reason.EMPTY_PROMPT, "$.prompt"),
    "no tokens": (body(prompt=None, prompt_token_ids=[]), Reason.EMPTY_PROMPT, "$.prompt"),
    "id with controls": (body(id="a\u001b[2J"), Reason.INVALID_FIELD, "$.id"),
    "max_tokens 0": (sampling(max_tokens=0), Reason.INVALID_FIELD, "$.sampling.max_tokens"),
    "NaN": (sampling(temperature=float("nan")), Reason.INVALID_FIELD, "$.sampling.temperature"),
    "infinity": (sampling(top_p=float("inf")), Reason.INVALID_FIELD, "$.sampling.top_p"),
    "too hot": (sampling(temperature=99), Reason.INVALID_FIELD, "$.sampling.temperature"),
    "1e999": (
        body(sampling={"temperature": 1}).replace(b": 1}", b": 1e999}"),
        Reason.INVALID_FIELD,
        "$.sampling.temperature",
    ),
    "stop strings by the thousand": (
        sampling(stop=["x"] * 1000),
        Reason.INVALID_FIELD,
        "$.sampling.stop",
    ),
    "NUL": (body(prompt="a\u0000b"), Reason.INVALID_FIELD, "$.prompt"),
    "lone surrogate": (body(prompt="a\ud800b"), Reason.INVALID_FIELD, "$.prompt"),
    "too deep": (
        body(metadata={}).replace(b"{}", b'{"a":' * 50 + b"1" + b"}" * 50),
        Reason.TOO_DEEP,
        "$.metadata",
    ),
    "far too deep": (
        body(unknown="?").replace(b'"?"', b"[" * 200_000 + b"]" * 200_000),
        Reason.TOO_DEEP,
        "$",
    ),
    "another kind of message": (
        b'{"type": "cancel_job", "schema_version": 1, "job_id": "x", "at": "2026-01-01T00:00:00Z"}',
        Reason.UNKNOWN_TYPE,
        "$.type",
    ),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_bad_body_ends_in_the_dead_letters_and_the_next_job_runs(
    what: str, desk: Desk, start_worker: StartWorker
) -> None:
    bad, reason, path = BAD[what]
    start_worker()
    await desk.put(bad)
    letter = await desk.dead()
    assert letter.reason is reason
    assert (letter.field or "").startswith(path)
    assert letter.detail
    assert letter.raw_body == bad
    assert letter.origin.stage == "decode"
    assert letter.origin.queue == desk.names.jobs_queue("interactive")
    job = await desk.publish(GenerationJob(prompt="still there?", reply_to="default"))
    result = await desk.result()
    if result.job_id != job.id:
        # Whoever waits for the bad one is told as well, where its id could be made out.
        assert result.job_id == letter.job_id
        assert isinstance(result.outcome, Rejected)
        assert (result.outcome.reason, result.outcome.field) == (reason, letter.field)
        result = await desk.result()
    assert (result.job_id, result.text) == (job.id, "still there?")
    await desk.until_depth(desk.names.jobs_queue("interactive"), 0)


async def test_a_body_over_the_limit_is_kept_whole(desk: Desk, start_worker: StartWorker) -> None:
    running = start_worker()
    big = body(prompt="x" * MAX_JOB_BYTES)
    await desk.put(big)
    letter = await desk.dead()
    assert letter.reason is Reason.TOO_LARGE
    assert f"{MAX_JOB_BYTES:,}" in letter.detail
    assert letter.raw_body_bytes == len(big)
    # The record first, then the body itself, moved there by the broker.
    assert await desk.take(desk.names.dead) == big
    assert await running.stopped() == 0


async def test_large_headers_that_pass_the_broker_change_nothing(
    desk: Desk, start_worker: StartWorker
) -> None:
    from pamqp.commands import Basic
    from sluicegate.schemas import encode

    start_worker()
    job = GenerationJob(prompt="hello", reply_to="default")
    channel = await desk.channel()
    await channel.basic_publish(
        encode(job),
        exchange=desk.names.jobs,
        routing_key=desk.names.jobs_key("interactive"),
        properties=Basic.Properties(headers={"x-junk": "y" * 100_000, "x-delivery-count": "z"}),
    )
    assert (await desk.result()).job_id == job.id


async def test_what_the_engine_refuses_is_dead_lettered_with_its_job(
    desk: Desk, start_worker: StartWorker
) -> None:
    from sluicegate.worker.scripted import ScriptedEngine

    start_worker(ScriptedEngine(max_model_len=16))
    job = await desk.publish(GenerationJob(prompt="more than sixteen bytes", reply_to="default"))
    letter = await desk.dead()
    result = await desk.result()
    assert letter.reason is Reason.PROMPT_TOO_LONG
    assert letter.job is not None
    assert letter.job.id == job.id
    assert letter.job.prompt == job.prompt
    assert len(letter.job.lineage.attempts) == 1
    assert letter.origin.stage == "admit"
    assert isinstance(result.outcome, Rejected)
    assert result.outcome.field == "$.prompt"


@pytest.mark.parametrize(
    ("name", "value"),
    [("timestamp", 2**62), ("correlation_id", b"\xe9t\xe9"), ("headers", {b"\xe9": 1})],
)
async def test_properties_that_the_client_library_cannot_read_cost_nothing(
    name: str, value: object, desk: Desk, start_worker: StartWorker
) -> None:
    from pamqp import encode as pamqp_encode
    from pamqp.commands import Basic
    from sluicegate.schemas import encode

    def raw_string(data: object) -> bytes:
        text = data if isinstance(data, bytes) else str(data).encode()
        return len(text).to_bytes(1, "big") + text

    def raw_time(data: object) -> bytes:
        return int(str(data)).to_bytes(8, "big")

    def raw_table(_data: object) -> bytes:
        entry = raw_string(b"\xe9") + b"I" + (1).to_bytes(4, "big")
        return len(entry).to_bytes(4, "big") + entry

    running = start_worker()
    await running.ready()
    channel = await desk.channel()
    job = GenerationJob(prompt="hello", reply_to="default")
    properties = Basic.Properties()
    setattr(properties, name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(properties, "validate", lambda: None, raising=False)
        patch.setitem(pamqp_encode.METHODS, "timestamp", raw_time)
        patch.setitem(pamqp_encode.METHODS, "shortstr", raw_string)
        patch.setitem(pamqp_encode.METHODS, "table", raw_table)
        await channel.basic_publish(
            encode(job),
            exchange=desk.names.jobs,
            routing_key=desk.names.jobs_key("interactive"),
            properties=properties,
        )
    assert (await desk.result()).job_id == job.id
    assert running.worker.not_ready() is None


async def test_the_longest_ids_fit_every_routing_key(desk: Desk, start_worker: StartWorker) -> None:
    from sluicegate.schemas.limits import MAX_ID_CHARS

    running = start_worker()
    job = GenerationJob(id="k" * MAX_ID_CHARS, prompt="p", reply_to="r" * MAX_ID_CHARS, stream=True)
    await desk.publish(job)
    letter = await desk.dead()
    assert letter.reason is Reason.RESULT_UNROUTABLE
    assert await running.stopped() == 0


async def test_a_history_out_of_range_is_refused(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    record = {
        "attempt": 1,
        "worker": "w",
        "started_at": "2026-01-01T00:00:00Z",
        "segments": [{"seed": 1, "prompt_tokens": 0}],
    }
    huge = body(lineage={"attempts": [record]}, attempt=2).replace(
        b'"prompt_tokens": 0', b'"prompt_tokens": ' + b"9" * 4300
    )
    await desk.put(huge)
    assert (await desk.dead()).reason in (Reason.INVALID_FIELD, Reason.WRONG_TYPE)
