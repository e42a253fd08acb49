"""Each kind of bad input: what is said about it, and where."""

import json
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from sluicegate.producer.errors import ResultTimeout, TopologyMissing
from sluicegate.schemas import (
    CancelJob,
    ChatMessage,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Reason,
    Sampling,
    StructuredOutput,
    decode,
    encode,
    peek,
)
from sluicegate.schemas.limits import MAX_JOB_BYTES

GOOD: dict[str, Any] = {
    "type": "generation_job",
    "schema_version": 1,
    "id": "job-1",
    "prompt": "Why is the sky blue?",
    "reply_to": "backend",
}


def body(**changes: Any) -> bytes:
    """The good job with changes; None takes a field away."""
    merged = {**GOOD, **changes}
    return json.dumps({key: value for key, value in merged.items() if value is not None}).encode()


def sampling(**fields: Any) -> bytes:
    return body(sampling=fields)


def raw(fragment: str) -> bytes:
    """The good job with something at its end that Python's json would not write."""
    return json.dumps(GOOD)[:-1].encode() + b", " + fragment.encode() + b"}"


CASES: dict[str, tuple[bytes, Reason, str, str]] = {
    # name: body, reason, field, a part of what is said
    "empty": (b"", Reason.MALFORMED_JSON, "$", "truncated"),
    "not JSON": (b"\x80\x04K\x01.", Reason.MALFORMED_JSON, "$", "malformed"),
    "cut off": (body()[:-1], Reason.MALFORMED_JSON, "$", "truncated"),
    "two values": (body() + b"{}", Reason.MALFORMED_JSON, "$", "trailing"),
    "not UTF-8": (
        raw('"x": 1').replace(b"blue", b"\xff"),
        Reason.MALFORMED_JSON,
        "$.prompt",
        "UTF-8",
    ),
    "an array": (b"[]", Reason.WRONG_TYPE, "$", "array"),
    "null": (b"null", Reason.WRONG_TYPE, "$", "null"),
    "wrong type": (body(prompt=5), Reason.WRONG_TYPE, "$.prompt", "int"),
    "wrong type inside": (sampling(top_k="5"), Reason.WRONG_TYPE, "$.sampling.top_k", "str"),
    "none of a list": (
        body(lane="urgent"),
        Reason.INVALID_FIELD,
        "$.lane",
        "'urgent' is none of batch, interactive",
    ),
    "none of a list inside": (
        body(prompt=None, messages=[{"role": "human", "content": "x"}]),
        Reason.INVALID_FIELD,
        "$.messages[0].role",
        "'human' is none of assistant, system, user",
    ),
    "none of a list, and no number": (
        body(reasoning={"effort": "huge"}),
        Reason.INVALID_FIELD,
        "$.reasoning.effort",
        "'huge' is none of high, low, max, medium",
    ),
    "a number as id": (body(id=5), Reason.WRONG_TYPE, "$.id", "int"),
    "no type": (body(type=None), Reason.MISSING_FIELD, "$.type", "generation_job"),
    "unknown tag": (body(type="generate"), Reason.UNKNOWN_TYPE, "$.type", "'generate'"),
    "another message": (body(type="cancel_job"), Reason.UNKNOWN_TYPE, "$.type", "generation_job"),
    "no version": (body(schema_version=None), Reason.MISSING_FIELD, "$.schema_version", ""),
    "future version": (
        # The rest may look like anything in a later version.
        body(schema_version=2, prompt={"parts": []}),
        Reason.FUTURE_VERSION,
        "$.schema_version",
        "newer than 1",
    ),
    "version 0": (body(schema_version=0), Reason.INVALID_FIELD, "$.schema_version", "less than 1"),
    "too large": (
        body(metadata={"x": "y" * MAX_JOB_BYTES}),
        Reason.TOO_LARGE,
        "$",
        "1,048,576",
    ),
    "no id": (body(id=None), Reason.MISSING_FIELD, "$.id", "required"),
    "no prompt": (body(prompt=None), Reason.MISSING_FIELD, "$.prompt", "exactly one"),
    "two prompts": (
        body(messages=[{"role": "user", "content": "x"}]),
        Reason.INVALID_FIELD,
        "$.prompt",
        "exactly one",
    ),
    "missing field inside": (
        body(prompt=None, messages=[{"role": "user"}]),
        Reason.MISSING_FIELD,
        "$.messages[0].content",
        "required",
    ),
    "unknown role": (
        body(prompt=None, messages=[{"role": "tool", "content": "x"}]),
        Reason.INVALID_FIELD,
        "$.messages[0].role",
        "'tool'",
    ),
    "empty prompt": (body(prompt=""), Reason.EMPTY_PROMPT, "$.prompt", ""),
    "blank prompt": (body(prompt=" \n\u3000"), Reason.EMPTY_PROMPT, "$.prompt", ""),
    "no messages": (body(prompt=None, messages=[]), Reason.EMPTY_PROMPT, "$.prompt", ""),
    "blank messages": (
        body(prompt=None, messages=[{"role": "user", "content": "\t"}]),
        Reason.EMPTY_PROMPT,
        "$.prompt",
        "",
    ),
    "no tokens": (body(prompt=None, prompt_token_ids=[]), Reason.EMPTY_PROMPT, "$.prompt", ""),
    "negative token": (
        body(prompt=None, prompt_token_ids=[1, -1]),
        Reason.INVALID_FIELD,
        "$.prompt_token_ids[1]",
        ">= 0",
    ),
    "max_tokens 0": (sampling(max_tokens=0), Reason.INVALID_FIELD, "$.sampling.max_tokens", ">= 1"),
    "more min than max": (
        sampling(max_tokens=5, min_tokens=6),
        Reason.INVALID_FIELD,
        "$.sampling.min_tokens",
        "max_tokens 5",
    ),
    "NaN": (
        raw('"sampling": {"temperature": NaN}'),
        Reason.INVALID_FIELD,
        "$.sampling.temperature",
        "finite",
    ),
    "infinity": (
        raw('"sampling": {"logit_bias": {"5": -Infinity}}'),
        Reason.INVALID_FIELD,
        "$.sampling.logit_bias.5",
        "finite",
    ),
    "too big for a float": (
        raw('"sampling": {"top_p": 1e999}'),
        Reason.INVALID_FIELD,
        "$.sampling.top_p",
        "range",
    ),
    "NaN in metadata": (
        raw('"metadata": {"a": [1, NaN]}'),
        Reason.INVALID_FIELD,
        "$.metadata.a[1]",
        "finite",
    ),
    "an integer without end": (
        raw(f'"metadata": {{"a": {"9" * 5000}}}'),
        Reason.INVALID_FIELD,
        "$.metadata[...]",
        "range",
    ),
    "stop strings by the thousand": (
        sampling(stop=["x"] * 1000),
        Reason.INVALID_FIELD,
        "$.sampling.stop",
        "<= 16",
    ),
    "empty stop string": (sampling(stop=["a", ""]), Reason.INVALID_FIELD, "$.sampling.stop[1]", ""),
    "half a surrogate pair": (
        raw('"profile": "\\ud83d"'),
        Reason.INVALID_FIELD,
        "$.profile",
        "surrogate",
    ),
    "half a surrogate pair in a key": (
        raw('"metadata": {"\\ud83d": 1}'),
        Reason.INVALID_FIELD,
        "$.metadata",
        "surrogate",
    ),
    "NUL in the prompt": (body(prompt="a\x00b"), Reason.INVALID_FIELD, "$.prompt", "U+0000"),
    "NUL in a message": (
        body(prompt=None, messages=[{"role": "user", "content": "a\x00"}]),
        Reason.INVALID_FIELD,
        "$.messages[0].content",
        "U+0000",
    ),
    "NUL in a stop string": (sampling(stop=["\x00"]), Reason.INVALID_FIELD, "$.sampling.stop", ""),
    "too deep to read": (
        raw(f'"metadata": {"[" * 50_000}'),
        Reason.TOO_DEEP,
        "$",
        "deeply",
    ),
    "no date": (body(deadline="tomorrow"), Reason.INVALID_FIELD, "$.deadline", "datetime"),
    "no time zone": (
        body(deadline="2030-01-01T00:00:00"),
        Reason.INVALID_FIELD,
        "$.deadline",
        "timezone",
    ),
    "an id with a dot": (body(id="a.b"), Reason.INVALID_FIELD, "$.id", "regex"),
    "an id with a line feed at its end": (body(id="a\n"), Reason.INVALID_FIELD, "$.id", "regex"),
    "a reply key with a wildcard": (body(reply_to="#"), Reason.INVALID_FIELD, "$.reply_to", ""),
    "an attempt too many": (
        body(attempt=4, max_attempts=3),
        Reason.INVALID_FIELD,
        "$.attempt",
        "max_attempts 3",
    ),
    "two kinds of structure": (
        sampling(structured_output={"regex": "a", "grammar": "b"}),
        Reason.INVALID_FIELD,
        "$.sampling.structured_output",
        "exactly one",
    ),
    "a bias for no token": (
        sampling(logit_bias={"the": 1}),
        Reason.WRONG_TYPE,
        "$.sampling.logit_bias",
        "int",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_named(case: str) -> None:
    bad, reason, field, part = CASES[case]
    with pytest.raises(InvalidMessage) as caught:
        decode(bad, GenerationJob)
    assert (caught.value.reason, caught.value.field) == (reason, field)
    assert part in caught.value.detail


def test_the_good_job_is_good() -> None:
    """Without this the cases above might fail for another reason than theirs."""
    job = decode(body(), GenerationJob)
    assert (job.id, job.prompt, job.reply_to) == ("job-1", "Why is the sky blue?", "backend")


def test_an_escaped_pair_is_one_character() -> None:
    assert decode(raw('"x": 1').replace(b"blue", b"\\ud83d\\ude00"), GenerationJob).prompt == (
        "Why is the sky \U0001f600?"
    )


def test_huge_quotes_are_cut_short() -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode(body(type="x" * 500_000), GenerationJob)
    assert len(str(caught.value)) < 800


def test_terminal_escapes_are_not_passed_on() -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode(raw('"\\u001b[31mred": NaN'), GenerationJob)
    assert caught.value.field == "$.?[31mred"


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (body(prompt=5), ("job-1", "backend")),
        (body(type="job_event", job_id="job-2", id=None), ("job-2", "backend")),
        (body(id="a.b"), (None, "backend")),
        (body(id=["job-1"], reply_to=7), (None, None)),
        (b"not json", (None, None)),
        (b"[]", (None, None)),
        (raw('"x": "\\ud800"'), ("job-1", "backend")),
        (b"[" * 100_000, (None, None)),
    ],
)
def test_peek_finds_what_is_sane(broken: bytes, found: tuple[str | None, str | None]) -> None:
    assert peek(broken) == found


class TestThePublisherIsToldBeforeTheBroker:
    """What a consumer would refuse can't be built or encoded."""

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
    def test_numbers_without_a_word_in_json(self, number: float) -> None:
        with pytest.raises(InvalidMessage, match="finite"):
            Sampling(temperature=number)
        with pytest.raises(InvalidMessage, match=r"logit_bias\[7\]"):
            Sampling(logit_bias={7: number})
        with pytest.raises(InvalidMessage, match=r"metadata.a\[0\]"):
            GenerationJob(prompt="x", metadata={"a": [number]})

    def test_half_a_surrogate_pair(self) -> None:
        for build in (
            lambda: GenerationJob(prompt="\ud83d"),
            lambda: ChatMessage(role="user", content="\ude00"),
            lambda: Sampling(stop=("\ud83d",)),
            lambda: Sampling(bad_words=("\ud83d",)),
            lambda: StructuredOutput(regex="\ud83d"),
            lambda: GenerationJob(prompt="x", metadata={"a": "\ud83d"}),
            lambda: GenerationJob(prompt="x", metadata={"\ud83d": 1}),
        ):
            with pytest.raises(InvalidMessage, match="surrogate"):
                build()
        with pytest.raises(InvalidMessage, match=r"\$\.profile.*surrogate"):
            encode(GenerationJob(prompt="x", profile="\ud83d"))

    @pytest.mark.parametrize("value", [b"bytes", object(), {1, 2}, 1j])
    def test_what_is_not_json(self, value: object) -> None:
        with pytest.raises(InvalidMessage) as caught:
            GenerationJob(prompt="x", metadata={"a": value})
        assert caught.value.reason is Reason.WRONG_TYPE
        assert caught.value.field == "metadata.a"

    def test_keys_that_are_no_text(self) -> None:
        with pytest.raises(InvalidMessage, match="key must be a string"):
            GenerationJob(prompt="x", metadata={"a": {1: 2}})

    def test_a_structure_that_contains_itself(self) -> None:
        loop: dict[str, Any] = {}
        loop["self"] = loop
        with pytest.raises(InvalidMessage) as caught:
            GenerationJob(prompt="x", metadata=loop)
        assert caught.value.reason is Reason.TOO_DEEP

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"prompt": 5}, "prompt"),
            ({"prompt": b"bytes"}, "prompt"),
            ({"messages": [{"role": "user", "content": "x"}]}, "messages[0]"),
            ({"prompt": "x", "metadata": ["x"]}, "metadata"),
        ],
    )
    def test_wrong_types(self, fields: dict[str, Any], field: str) -> None:
        with pytest.raises(InvalidMessage) as caught:
            GenerationJob(**fields)
        assert (caught.value.reason, caught.value.field) == (Reason.WRONG_TYPE, field)

    def test_wrong_types_of_sampling(self) -> None:
        with pytest.raises(InvalidMessage, match="temperature: must be a number, not str"):
            Sampling(temperature="hot")  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidMessage, match="stop: must be text, not int"):
            Sampling(stop=(5,))  # pyright: ignore[reportArgumentType]

    def test_what_only_encoding_sees(self) -> None:
        with pytest.raises(InvalidMessage, match=r"\$\.sampling\.max_tokens"):
            encode(GenerationJob(prompt="x", sampling=Sampling(max_tokens=0)))
        with pytest.raises(InvalidMessage, match=r"\$\.id"):
            encode(GenerationJob(prompt="x", id="a b"))

    def test_unknown_fields_cannot_be_created(self) -> None:
        with pytest.raises(TypeError, match="promt"):
            GenerationJob(promt="x")  # pyright: ignore[reportCallIssue]


def test_a_result_is_no_job_and_a_job_no_result() -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode(body(), GenerationResult)
    assert caught.value.reason is Reason.UNKNOWN_TYPE
    with pytest.raises(InvalidMessage) as caught:
        decode(b'{"type": "cancel_job", "schema_version": 1}', CancelJob)
    assert (caught.value.reason, caught.value.field) == (Reason.MISSING_FIELD, "$.job_id")


def test_a_body_made_to_hurt_costs_little() -> None:
    """Long keys over many nodes, and a fault that makes the decoder look at every one."""
    hurting = raw(f'"{"K" * 100_000}": [{"1," * 39_999}1], "z": NaN')
    tracemalloc.start()
    try:
        with pytest.raises(InvalidMessage) as caught:
            decode(hurting, GenerationJob)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.field == "$.z"
    assert peak < 100_000_000


@pytest.mark.parametrize(
    "error",
    [
        InvalidMessage(Reason.TOO_DEEP, "$.x", "too deep"),
        ResultTimeout("job-1", 2.0),
        TopologyMissing(["exchange 'x'"]),
    ],
)
def test_errors_cross_process_boundaries(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GenerationJob(prompt="x", max_attempts="3"),  # pyright: ignore[reportArgumentType]
        lambda: Sampling(min_tokens=None),  # pyright: ignore[reportArgumentType]
        lambda: Sampling(stop=None),  # pyright: ignore[reportArgumentType]
        lambda: Sampling(logit_bias=None),  # pyright: ignore[reportArgumentType]
        lambda: Sampling(temperature=10**400),
    ],
)
def test_wrong_types_in_python_are_invalid_messages(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidMessage) as caught:
        make()
    assert caught.value.reason in (Reason.WRONG_TYPE, Reason.INVALID_FIELD)
