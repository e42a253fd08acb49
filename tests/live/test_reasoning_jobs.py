"""Reasoning over the whole path: producer, broker, a worker process on the real engine."""

import re
from pathlib import Path
from typing import Final

import pytest
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.producer import Producer
from sluicegate.schemas import (
    Completed,
    Delta,
    Finished,
    Flaw,
    GenerationJob,
    Reasoned,
    Reasoning,
    Sampling,
)

from .conftest import READY_S
from .reasoners import assert_seamless

pytestmark = [pytest.mark.broker, pytest.mark.engine]

WAIT_S: Final = 120
CAP: Final = 24
PROMPT: Final = "What is the capital of France, and what is it known for?"


def metric(exposed: str, name: str) -> float:
    """Its value, by name and labels."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", exposed, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def test_a_cut_from_the_producer_to_the_metrics(
    model: str, broker_url: str, namespace: str, tmp_path: Path
) -> None:
    settings: dict[str, object] = {
        "amqp_url": broker_url,
        "namespace": namespace,
        "model": model,
        "max_model_len": 1024,
        "enforce_eager": True,
        # In bfloat16 what comes from the prefix cache may differ in a last bit, then in a token.
        "dtype": "float32",
        "lanes": "interactive=4",
        # Its tags are ordinary text to this model, which finds itself in the block and stays there.
        "reasoning_parser": "qwen3",
        "reasoning_block": "open",
        "reasoning_wrap_up": "Enough.",
    }
    sampling = Sampling(temperature=0, min_tokens=CAP + 4, max_tokens=CAP + 40)
    job = GenerationJob(
        prompt=PROMPT, stream=True, sampling=sampling, reasoning=Reasoning(effort=CAP)
    )
    quiet = GenerationJob(
        prompt=PROMPT, sampling=sampling, gates={"reasoning_effort": "low", "reasoning_low": CAP}
    )
    async with (
        ServiceProcess(tmp_path, settings) as worker,
        Producer(broker_url, namespace=namespace) as producer,
    ):
        await worker.ready(READY_S)
        handle = await producer.publish(job)
        events = [event.event async for event in handle.events()]
        result = await handle.result(timeout=WAIT_S)
        unseen = await producer.publish(quiet)
        kinds = [event.kind async for event in unseen.events()]
        same = await unseen.result(timeout=WAIT_S)
        exposed = await worker.get("/metrics")
        log = worker.log_file.read_text()

    assert result.outcome == Completed()
    assert result.text.strip()
    deltas = [event for event in events if isinstance(event, Delta)]
    assert_seamless(deltas, result.reasoning, result.text)
    assert {delta.channel for delta in deltas} == {"reasoning", "content"}
    assert events[-1] == Finished(outcome=Completed())

    record = result.reasoning_record
    assert record is not None
    assert [event.record for event in events if isinstance(event, Reasoned)] == [record]
    assert (record.mode, record.effort, record.cap) == ("cut", CAP, CAP)
    assert (record.tripped, record.flaw, record.ended) == (True, Flaw.REASONING_CAP, "cut")
    assert record.tokens == CAP
    assert record.first_answer_token_s
    assert 0 < record.resumed_cached_tokens < record.resumed_prompt_tokens
    (attempt,) = result.lineage.attempts
    assert attempt.reasoning == record
    assert [(trip.channel, trip.action) for trip in attempt.trips] == [("reasoning", "cut")]

    usage = result.usage
    assert usage == record.usage
    assert usage.reasoning_tokens == CAP
    assert 0 < usage.answer_tokens <= 40
    assert usage.prompt_tokens == attempt.segments[0].prompt_tokens, "counted once"
    produced = sum(segment.tokens for segment in attempt.segments)
    assert usage.completion_tokens + usage.wasted_tokens == produced

    # Greedy, and nobody watching.
    assert kinds == ["accepted", "reasoned", "finished"]
    assert (same.reasoning, same.text) == (result.reasoning, result.text)
    assert same.reasoning_record is not None
    assert same.reasoning_record.effort == "low"

    cuts = 'sluice_reasoning_total{ended="cut",flaw="reasoning_cap",mode="cut"}'
    assert metric(exposed, cuts) == 2
    assert metric(exposed, 'sluice_tokens_total{kind="reasoning"}') == 2 * CAP
    assert metric(exposed, "sluice_reasoning_cut_seconds_count") == 2
    trips = 'sluice_gate_trips_total{action="cut",flaw="reasoning_cap",level="6"}'
    assert metric(exposed, trips) == 2
    assert log.count(f"reasoning cut after {CAP} tokens") == 2
