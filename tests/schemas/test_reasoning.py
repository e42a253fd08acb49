"""What a job asks of the reasoning."""

from typing import Any

import pytest
from sluicegate.schemas import (
    GenerationJob,
    InvalidMessage,
    Reason,
    Reasoning,
    decode,
    encode,
)


@pytest.mark.parametrize("effort", ["lo", "", -1, 131_073, 1.5, True])
def test_an_effort_that_is_none_is_refused_with_those_there_are(effort: Any) -> None:
    with pytest.raises(InvalidMessage, match="none of low, medium, high, max") as raised:
        Reasoning(effort=effort)
    assert raised.value.reason is Reason.INVALID_FIELD


@pytest.mark.parametrize("effort", ["low", "medium", "high", "max", 0, 7, 131_072, None])
def test_an_effort_is_a_name_or_a_number(effort: Any) -> None:
    job = GenerationJob(prompt="x", reasoning=Reasoning(effort=effort, wrap_up="So."))
    assert decode(encode(job), GenerationJob) == job


def test_a_job_of_before_asks_for_nothing() -> None:
    body = b'{"type": "generation_job", "schema_version": 1, "id": "old", "prompt": "x"}'
    assert decode(body, GenerationJob).reasoning == Reasoning()
