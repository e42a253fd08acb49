"""What of a text is no prose, and parts of it held to schemas."""

from typing import Any

import msgspec
import pytest
from sluicegate.schemas import GenerationJob, InvalidMessage, StructuredOutput, decode, encode
from sluicegate.schemas.limits import MAX_SCHEMA_BYTES, MAX_SPAN_CHARS, MAX_SPANS

TAG: dict[str, Any] = {
    "type": "structural_tag",
    "format": {"type": "any_text", "excludes": ["<c>"]},
}


def test_they_travel() -> None:
    spans = (("Input:", "\nThought:"), ("<c>", "</c>"))
    output = StructuredOutput(structural_tag=TAG)
    job = GenerationJob(prompt="x", exempt=spans)
    job = msgspec.structs.replace(
        job, sampling=msgspec.structs.replace(job.sampling, structured_output=output)
    )
    again = decode(encode(job), GenerationJob)
    assert (again.exempt, again.sampling.structured_output) == (spans, output)
    assert b"exempt" not in encode(GenerationJob(prompt="x"))


@pytest.mark.parametrize(
    "exempt",
    [
        [["", "b"]],
        [["a", ""]],
        [["a"]],
        [["a", "b", "c"]],
        [["a", "b" * (MAX_SPAN_CHARS + 1)]],
        [["a", "\x00"]],
        [["a", str(number)] for number in range(MAX_SPANS + 1)],
    ],
)
def test_spans_that_are_none(exempt: list[list[str]]) -> None:
    body = msgspec.json.decode(encode(GenerationJob(prompt="x"))) | {"exempt": exempt}
    with pytest.raises(InvalidMessage) as refused:
        decode(msgspec.json.encode(body), GenerationJob)
    assert "exempt" in refused.value.field


def test_one_kind_of_structured_output_at_a_time() -> None:
    with pytest.raises(InvalidMessage):
        StructuredOutput(structural_tag=TAG, regex="a")
    with pytest.raises(InvalidMessage):
        StructuredOutput(structural_tag={"x": "a" * MAX_SCHEMA_BYTES})
