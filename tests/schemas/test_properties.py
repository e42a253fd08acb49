"""Laws of the codec, over generated messages and over bodies made to hurt."""

import json
from collections.abc import Iterator
from typing import Any, cast, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from sluicegate.schemas import (
    Accepted,
    AttemptRecord,
    CancelJob,
    Cancelled,
    Candidate,
    ChatMessage,
    CheckRecord,
    Completed,
    DeadLetter,
    Delta,
    Evidence,
    Expired,
    Failed,
    FaultRecord,
    Finished,
    FinishReason,
    Flaw,
    GenerationJob,
    GenerationResult,
    Interrupted,
    InvalidMessage,
    JobEvent,
    Judged,
    Lane,
    Lineage,
    Message,
    Mutation,
    Origin,
    Partial,
    Reason,
    Rejected,
    Retrying,
    Rules,
    Sampling,
    SegmentRecord,
    ServiceEvent,
    StructuredOutput,
    Timings,
    Usage,
    Verdict,
    decode,
    encode,
    peek,
)
from sluicegate.schemas.codec import MESSAGE_TYPES, limit_of, tag_of
from sluicegate.schemas.json_schema import message_schemas
from sluicegate.schemas.limits import MAX_NESTING

from . import agent_messages
from .values import (
    counts,
    ids,
    json_values,
    keys,
    maybe,
    moments,
    objects,
    seconds,
    short,
    spoken,
    text,
)


def assert_refused_or_sound(body: bytes, kind: type[Message]) -> None:
    """Refused with a field and a reason, or let in as something that can be passed on."""
    try:
        survivor = decode(body, kind)
    except InvalidMessage as error:
        refusal = error
    else:
        assert decode(encode(survivor), kind) == survivor
        return
    assert refusal.field.startswith("$")
    assert refusal.detail


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value, at any depth, as a container and a key or index."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(cast("dict[Any, Any]", value).items())
    elif isinstance(value, list):
        inner = list(enumerate(cast("list[Any]", value)))
    for key, item in inner:
        yield value, key
        yield from places(item)


structured = st.one_of(
    st.builds(StructuredOutput, json_schema=objects),
    st.builds(StructuredOutput, regex=short),
    st.builds(StructuredOutput, choice=st.lists(short, min_size=1, max_size=3).map(tuple)),
    st.builds(StructuredOutput, grammar=short),
    st.builds(StructuredOutput, structural_tag=objects),
)


@st.composite
def samplings(draw: st.DrawFn) -> Sampling:
    max_tokens = draw(st.integers(1, 131_072))
    return Sampling(
        temperature=draw(st.floats(0, 2)),
        top_p=draw(st.floats(0, 1, exclude_min=True)),
        top_k=draw(st.integers(0, 1_000_000)),
        min_p=draw(st.floats(0, 1)),
        seed=draw(maybe(st.integers(0, 2**63 - 1))),
        max_tokens=max_tokens,
        min_tokens=draw(st.integers(0, max_tokens)),
        stop=tuple(draw(st.lists(short, max_size=4))),
        presence_penalty=draw(st.floats(-2, 2)),
        frequency_penalty=draw(st.floats(-2, 2)),
        repetition_penalty=draw(st.floats(0, 2, exclude_min=True)),
        bad_words=tuple(draw(st.lists(short, max_size=4))),
        logit_bias=draw(
            st.dictionaries(st.integers(0, 2**31 - 1), st.floats(-100, 100), max_size=4)
        ),
        structured_output=draw(maybe(structured)),
    )


finish_reasons = st.sampled_from(get_args(FinishReason))
segments = st.builds(
    SegmentRecord,
    seed=st.integers(0, 2**63 - 1),
    prompt_tokens=counts,
    cached_tokens=counts,
    tokens=counts,
    engine_s=seconds,
    finish_reason=maybe(finish_reasons),
)
flaws = st.sampled_from(Flaw)
usages = st.builds(Usage, prompt_tokens=counts, completion_tokens=counts, wasted_tokens=counts)
evidence = st.builds(Evidence, chars=st.tuples(counts, counts), quote=text)
check_records = st.builds(
    CheckRecord,
    check=short,
    outcome=st.sampled_from(["passed", "rejected", "skipped", "failed"]),
    flaw=maybe(flaws),
    score=maybe(st.floats(-1e9, 1e9)),
    threshold=maybe(st.floats(-1e9, 1e9)),
    detail=text,
    evidence=st.lists(evidence, max_size=2).map(tuple),
    trace=text,
)
verdicts = st.builds(
    Verdict,
    outcome=st.sampled_from(["passed", "rejected", "failed"]),
    checks=st.lists(check_records, max_size=3).map(tuple),
    checker=text,
    model=text,
    at=moments,
    seconds=seconds,
)
attempts = st.builds(
    AttemptRecord,
    attempt=st.integers(1, 10),
    worker=text,
    model=text,
    engine=text,
    started_at=moments,
    ended_at=maybe(moments),
    parameters=objects,
    instruction=text,
    segments=st.lists(segments, max_size=3).map(tuple),
    usage=usages,
    flaw=maybe(flaws),
    found_by=text,
    detail=text,
    verdict=maybe(verdicts),
    text=text,
    text_chars=counts,
)
faults = st.builds(
    FaultRecord, attempt=st.integers(1, 10), worker=text, at=moments, detail=text, wait_s=seconds
)
lineages = st.builds(
    Lineage,
    attempts=st.lists(attempts, max_size=3).map(tuple),
    faults=st.lists(faults, max_size=2).map(tuple),
)
mutations = st.builds(
    Mutation,
    sampling=samplings(),
    instruction=text,
    flaws=st.lists(flaws, max_size=3).map(tuple),
    avoid=st.lists(text, max_size=2).map(tuple),
    passes=st.integers(0, 100),
)
phrases = st.lists(short.filter(str.strip), max_size=2).map(tuple)
rules = st.builds(
    Rules,
    must_include=phrases,
    must_not_include=phrases,
    must_match=phrases,
    must_not_match=phrases,
    min_words=st.integers(0, 9),
    max_words=st.integers(9, 99),
    complete=st.booleans(),
    json=st.booleans(),
    json_schema=maybe(objects),
    language=maybe(st.sampled_from(["en", "de", "yue"])),
    own=st.lists(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", fullmatch=True), max_size=2).map(
        tuple
    ),
)
chats = st.builds(ChatMessage, role=st.sampled_from(["system", "user", "assistant"]), content=text)


@st.composite
def jobs(draw: st.DrawFn) -> GenerationJob:
    source: dict[str, Any] = draw(
        st.one_of(
            st.fixed_dictionaries({"prompt": spoken}),
            st.fixed_dictionaries(
                {
                    "messages": st.tuples(
                        st.builds(ChatMessage, role=st.just("user"), content=spoken), chats
                    )
                }
            ),
            st.fixed_dictionaries(
                {
                    "prompt_token_ids": st.lists(
                        st.integers(0, 2**31 - 1), min_size=1, max_size=9
                    ).map(tuple)
                }
            ),
        )
    )
    max_attempts = draw(st.integers(1, 10))
    first_attempt = draw(st.integers(1, 100))
    return GenerationJob(
        **source,
        id=draw(ids),
        sampling=draw(samplings()),
        profile=draw(st.from_regex(r"[a-z][a-z0-9_-]{0,63}", fullmatch=True)),
        gates=draw(objects),
        exempt=tuple(draw(st.lists(st.tuples(short, short), max_size=2))),
        checks=draw(st.sampled_from(["off", "observe", "block"])),
        rules=draw(rules),
        lane=draw(st.sampled_from(get_args(Lane))),
        max_attempts=max_attempts,
        deadline=draw(maybe(moments)),
        stream=draw(st.booleans()),
        reply_to=draw(ids),
        traceparent=draw(
            maybe(
                st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True)
            )
        ),
        metadata=draw(objects),
        attempt=draw(st.integers(first_attempt, first_attempt + max_attempts - 1)),
        first_attempt=first_attempt,
        mutation=draw(maybe(mutations)),
        enqueued_at=draw(maybe(moments)),
        lineage=draw(lineages),
    )


reasons = st.sampled_from(Reason)
outcomes = st.one_of(
    st.just(Completed()),
    st.builds(Partial, reason=reasons, detail=text),
    st.builds(Rejected, reason=reasons, detail=text, field=maybe(text)),
    st.just(Cancelled()),
    st.builds(Expired, deadline=moments),
    st.builds(Failed, reason=reasons, detail=text),
)
results = st.builds(
    GenerationResult,
    job_id=ids,
    attempt=st.integers(1, 10),
    outcome=outcomes,
    text=text,
    reasoning=maybe(text),
    finish_reason=maybe(finish_reasons),
    usage=usages,
    timings=st.builds(Timings, queued_s=maybe(seconds), engine_s=seconds),
    lineage=lineages,
    agent=maybe(agent_messages.records),
    model=maybe(text),
    worker=maybe(text),
    finished_at=moments,
    metadata=objects,
)
events = st.builds(
    JobEvent,
    job_id=ids,
    attempt=st.integers(1, 10),
    seq=counts,
    at=moments,
    worker=text,
    event=st.one_of(
        st.just(Accepted()),
        st.builds(
            Delta, offset=counts, text=text, channel=st.sampled_from(["content", "reasoning"])
        ),
        st.builds(Interrupted, detail=text),
        st.builds(Retrying, next_attempt=st.integers(1, 10), detail=text, wait_s=seconds),
        st.builds(Judged, verdict=verdicts),
        st.builds(Finished, outcome=outcomes),
        agent_messages.happenings,
    ),
)
dead_letters = st.builds(
    DeadLetter,
    job_id=maybe(ids),
    reason=reasons,
    field=maybe(text),
    detail=text,
    at=moments,
    origin=st.builds(
        Origin,
        stage=st.sampled_from(["decode", "admit", "generate", "check", "agent", "deliver"]),
        worker=text,
        queue=text,
        routing_key=maybe(text),
        redelivered=st.booleans(),
    ),
    job=maybe(jobs()),
    agent=maybe(agent_messages.contexts()),
    raw_body=maybe(st.binary(max_size=100)),
    raw_body_bytes=maybe(counts),
    result=maybe(results),
    flaw=maybe(flaws),
    found_by=text,
    versions=st.dictionaries(keys, text, max_size=2),
)


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    job = draw(jobs())
    lineage = Lineage(attempts=(draw(attempts),))
    result = msgspec.structs.replace(
        draw(results), job_id=job.id, attempt=job.attempt, lineage=lineage
    )
    return Candidate(job=job, result=result, prompt=draw(text))


totals = st.dictionaries(st.text(max_size=64), st.integers(0, 2**53), max_size=8)
service_events = st.builds(
    ServiceEvent,
    service=text,
    kind=st.sampled_from(["worker", "checker", "agent", "tools"]),
    at=moments,
    what=st.sampled_from(["started", "status", "quarantined", "stopped"]),
    state=st.sampled_from(["starting", "ready", "paused", "quarantined", "restarting"]),
    detail=text,
    in_flight=counts,
    queues=st.lists(text, max_size=4).map(tuple),
    jobs=totals,
    trips=totals,
    tokens=totals,
)
cancels = st.builds(CancelJob, job_id=ids, at=moments)
messages = st.one_of(
    jobs(),
    candidates(),
    results,
    events,
    service_events,
    dead_letters,
    cancels,
    agent_messages.messages,
)

VALIDATORS: dict[str, Any] = {
    name: Draft202012Validator(schema) for name, schema in message_schemas().items()
}


@given(messages)
def test_a_message_comes_back_as_it_went(message: Message) -> None:
    assert decode(encode(message), type(message)) == message


@given(messages)
def test_what_is_encoded_fits_its_json_schema(message: Message) -> None:
    faults = VALIDATORS[tag_of(type(message))].iter_errors(json.loads(encode(message)))
    assert [fault.message for fault in faults] == []


@given(objects)
def test_metadata_comes_back_untouched(metadata: dict[str, Any]) -> None:
    job = GenerationJob(prompt="x", metadata=metadata)
    back = decode(encode(job), GenerationJob).metadata
    assert back == metadata
    # 1, 1.0 and True are equal in Python, and not the same to whoever asked for them back.
    assert repr(back) == repr(metadata)


@given(messages)
def test_unknown_fields_are_tolerated_at_every_level(message: Message) -> None:
    body = json.dumps(with_more(json.loads(encode(message)))).encode()
    if len(body) <= limit_of(type(message)):
        assert decode(body, type(message)) == message


FREE_FORM = {
    "metadata",
    "gates",
    "parameters",
    "versions",
    "json_schema",
    "structural_tag",
    "logit_bias",
    "watchdog",
    "arguments",
    "measured",
    "by_tool",
    "jobs",
    "trips",
    "tokens",
}


def with_more(value: Any, *, free: bool = False) -> Any:
    """The value with an unknown field in each of its structs."""
    if free:
        return value
    if isinstance(value, list):
        return [with_more(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        inner = {key: with_more(item, free=key in FREE_FORM) for key, item in items}
        return {**inner, "of_a_later_version": {"x": [1]}}
    return value


@given(st.binary(max_size=400), st.sampled_from(MESSAGE_TYPES))
def test_arbitrary_bytes_are_refused_with_a_reason(body: bytes, kind: type[Message]) -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode(body, kind)
    assert caught.value.field.startswith("$")
    peek(body)


@given(json_values, st.sampled_from(MESSAGE_TYPES))
def test_arbitrary_json_is_refused_with_a_reason(value: Any, kind: type[Message]) -> None:
    body = msgspec.json.encode(value)
    with pytest.raises(InvalidMessage):
        decode(body, kind)
    peek(body)


@given(messages, st.data())
def test_a_damaged_body_is_refused_or_still_a_message(
    message: Message, data: st.DataObject
) -> None:
    body = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        match data.draw(st.sampled_from(["change", "remove", "insert", "cut"])):
            case "change":
                body[at] = data.draw(st.integers(0, 255))
            case "remove":
                del body[at]
            case "insert":
                body[at:at] = data.draw(st.binary(min_size=1, max_size=6))
            case _:
                del body[at:]
        if not body:
            break
    assert_refused_or_sound(bytes(body), type(message))
    peek(bytes(body))


@given(jobs() | agent_messages.messages, st.data())
def test_a_wrong_value_anywhere_is_refused_or_harmless(
    message: Message, data: st.DataObject
) -> None:
    tree = json.loads(encode(message))
    container, key = data.draw(st.sampled_from(list(places(tree))))
    container[key] = data.draw(json_values)
    assert_refused_or_sound(json.dumps(tree).encode(), type(message))


@given(st.integers(0, 2 * MAX_NESTING))
def test_nesting_is_bounded_and_the_bound_is_taken(levels: int) -> None:
    metadata: Any = 1
    for _ in range(levels):
        metadata = {"a": metadata}
    if levels == 0:
        return
    body = json.dumps(
        {"type": "generation_job", "schema_version": 1, "id": "a", "prompt": "x"}
        | {"metadata": metadata}
    ).encode()
    if levels <= MAX_NESTING:
        assert decode(body, GenerationJob).metadata == metadata
        return
    with pytest.raises(InvalidMessage) as caught:
        decode(body, GenerationJob)
    assert caught.value.reason is Reason.TOO_DEEP
    with pytest.raises(InvalidMessage) as caught:
        GenerationJob(prompt="x", metadata=metadata)
    assert caught.value.reason is Reason.TOO_DEEP


@given(st.text(), st.text())
def test_an_error_can_be_logged_and_sent(field: str, detail: str) -> None:
    error = InvalidMessage(Reason.INVALID_FIELD, field, detail)
    for said in (str(error), error.field, error.detail):
        assert said.encode().decode() == said
        assert "\n" not in said
        assert "\x1b" not in said
        assert len(said) < 800
