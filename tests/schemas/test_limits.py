"""Every limit holds exactly: at the limit it goes through, one more and it is named."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from sluicegate.schemas import (
    DeadLetter,
    GenerationJob,
    GenerationResult,
    InvalidMessage,
    Reason,
    decode,
)
from sluicegate.schemas import limits as at
from sluicegate.schemas.codec import MESSAGE_TYPES, limit_of

Build = Callable[[int], dict[str, Any]]


def job(**fields: Any) -> bytes:
    head = {"type": "generation_job", "schema_version": 1, "id": "a", "prompt": "x"}
    merged = {**head, **fields}
    return msgspec.json.encode({k: v for k, v in merged.items() if v is not None})


def metadata_of(size: int) -> dict[str, str]:
    return {"k": "v" * (size - len('{"k":""}'))}


# What grows, its limit, and the field that is named one further.
LENGTHS: dict[str, tuple[Build, int, str]] = {
    "id": (lambda n: {"id": "a" * n}, at.MAX_ID_CHARS, "$.id"),
    "reply_to": (lambda n: {"reply_to": "a" * n}, at.MAX_ID_CHARS, "$.reply_to"),
    "profile": (lambda n: {"profile": "a" * n}, 64, "$.profile"),
    "prompt": (lambda n: {"prompt": "x" * n}, at.MAX_PROMPT_CHARS, "$.prompt"),
    "prompt_token_ids": (
        lambda n: {"prompt": None, "prompt_token_ids": [1] * n},
        at.MAX_PROMPT_TOKENS,
        "$.prompt_token_ids",
    ),
    "token id": (
        lambda n: {"prompt": None, "prompt_token_ids": [n]},
        at.MAX_TOKEN_ID,
        "$.prompt_token_ids[0]",
    ),
    "messages": (
        lambda n: {"prompt": None, "messages": [{"role": "user", "content": "x"}] * n},
        at.MAX_MESSAGES,
        "$.messages",
    ),
    "content": (
        lambda n: {"prompt": None, "messages": [{"role": "user", "content": "x" * n}]},
        at.MAX_PROMPT_CHARS,
        "$.messages[0].content",
    ),
    "stop": (lambda n: {"sampling": {"stop": ["x"] * n}}, at.MAX_STOP_STRINGS, "$.sampling.stop"),
    "stop string": (
        lambda n: {"sampling": {"stop": ["x" * n]}},
        at.MAX_STOP_CHARS,
        "$.sampling.stop[0]",
    ),
    "bad_words": (
        lambda n: {"sampling": {"bad_words": ["x"] * n}},
        at.MAX_BAD_WORDS,
        "$.sampling.bad_words",
    ),
    "logit_bias": (
        lambda n: {"sampling": {"logit_bias": {str(i): 1 for i in range(n)}}},
        at.MAX_LOGIT_BIAS,
        "$.sampling.logit_bias",
    ),
    "seed": (lambda n: {"sampling": {"seed": n}}, at.MAX_SEED, "$.sampling.seed"),
    "max_tokens": (
        lambda n: {"sampling": {"max_tokens": n}},
        at.MAX_OUTPUT_TOKENS,
        "$.sampling.max_tokens",
    ),
    "top_k": (lambda n: {"sampling": {"top_k": n}}, 1_000_000, "$.sampling.top_k"),
    "temperature": (lambda n: {"sampling": {"temperature": n}}, 2, "$.sampling.temperature"),
    "top_p": (lambda n: {"sampling": {"top_p": n}}, 1, "$.sampling.top_p"),
    "choice": (
        lambda n: {"sampling": {"structured_output": {"choice": ["x"] * n}}},
        at.MAX_CHOICES,
        "$.sampling.structured_output.choice",
    ),
    "regex": (
        lambda n: {"sampling": {"structured_output": {"regex": "x" * n}}},
        4096,
        "$.sampling.structured_output.regex",
    ),
    "json_schema": (
        lambda n: {"sampling": {"structured_output": {"json_schema": metadata_of(n)}}},
        at.MAX_SCHEMA_BYTES,
        "$.sampling.structured_output.json_schema",
    ),
    "structural_tag": (
        lambda n: {"sampling": {"structured_output": {"structural_tag": metadata_of(n)}}},
        at.MAX_SCHEMA_BYTES,
        "$.sampling.structured_output.structural_tag",
    ),
    "exempt": (lambda n: {"exempt": [["<a>", "</a>"]] * n}, at.MAX_SPANS, "$.exempt"),
    "mark": (lambda n: {"exempt": [["<", "x" * n]]}, at.MAX_SPAN_CHARS, "$.exempt[0][1]"),
    "metadata": (
        lambda n: {"metadata": metadata_of(n)},
        at.MAX_METADATA_BYTES,
        "$.metadata",
    ),
    "gates": (lambda n: {"gates": metadata_of(n)}, at.MAX_METADATA_BYTES, "$.gates"),
    "max_attempts": (lambda n: {"max_attempts": n}, at.MAX_ATTEMPTS, "$.max_attempts"),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_the_limit_goes_through_and_one_more_does_not(name: str) -> None:
    build, limit, field = LENGTHS[name]
    decode(job(**build(limit)), GenerationJob)
    with pytest.raises(InvalidMessage) as caught:
        decode(job(**build(limit + 1)), GenerationJob)
    assert caught.value.field == field
    assert caught.value.reason in (Reason.INVALID_FIELD, Reason.TOO_LARGE)
    assert str(limit) in caught.value.detail.replace(",", "")


LOWEST: dict[str, tuple[str, float, float]] = {
    # the lowest that goes through, and the next below
    "temperature": ("$.sampling.temperature", 0, -0.1),
    "top_p": ("$.sampling.top_p", 1e-9, 0),
    "top_k": ("$.sampling.top_k", 0, -1),
    "min_p": ("$.sampling.min_p", 0, -0.1),
    "seed": ("$.sampling.seed", 0, -1),
    "max_tokens": ("$.sampling.max_tokens", 1, 0),
    "min_tokens": ("$.sampling.min_tokens", 0, -1),
    "presence_penalty": ("$.sampling.presence_penalty", -2, -2.1),
    "frequency_penalty": ("$.sampling.frequency_penalty", -2, -2.1),
    "repetition_penalty": ("$.sampling.repetition_penalty", 1e-9, 0),
}


@pytest.mark.parametrize("name", LOWEST)
def test_the_lowest_goes_through_and_less_does_not(name: str) -> None:
    field, lowest, below = LOWEST[name]
    decode(job(sampling={name: lowest}), GenerationJob)
    with pytest.raises(InvalidMessage) as caught:
        decode(job(sampling={name: below}), GenerationJob)
    assert caught.value.field == field


def test_characters_are_counted_not_bytes() -> None:
    decode(job(sampling={"stop": ["语" * at.MAX_STOP_CHARS]}), GenerationJob)


@pytest.mark.parametrize("kind", MESSAGE_TYPES)
def test_a_body_may_be_as_large_as_the_limit(kind: Any) -> None:
    limit = limit_of(kind)
    # Blanks are legal JSON: the body's size alone is under test.
    with pytest.raises(InvalidMessage) as caught:
        decode(b"{}".ljust(limit), kind)
    assert caught.value.reason is Reason.MISSING_FIELD
    with pytest.raises(InvalidMessage) as caught:
        decode(b"{}".ljust(limit + 1), kind)
    assert caught.value.reason is Reason.TOO_LARGE
    assert f"{limit:,}" in caught.value.detail


def test_the_largest_job_fits_into_a_dead_letter_and_a_result() -> None:
    assert limit_of(DeadLetter) > at.MAX_JOB_BYTES * 4 // 3 + at.MAX_JOB_BYTES
    assert limit_of(GenerationResult) > at.MAX_JOB_BYTES
