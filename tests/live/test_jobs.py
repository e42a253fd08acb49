"""Jobs of every kind through the real broker and the real engine."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sluicegate.producer import Producer
from sluicegate.schemas import (
    Accepted,
    ChatMessage,
    Completed,
    Delta,
    Expired,
    Finished,
    GenerationJob,
    GenerationResult,
    Reason,
    Rejected,
    Sampling,
    StructuredOutput,
)

from .conftest import Site

pytestmark = [pytest.mark.broker, pytest.mark.engine]

GREEDY = Sampling(temperature=0, max_tokens=32)
WAIT_S = 120


async def run(producer: Producer, job: GenerationJob) -> GenerationResult:
    return await (await producer.publish(job)).result(timeout=WAIT_S)


async def test_a_question_is_answered(site: Site) -> None:
    async with site.producer() as producer:
        metadata = {"order": 4711, "tags": ["a", None, 1.5], "名": "值"}
        result = await run(
            producer,
            GenerationJob(prompt="Name the capital of France.", sampling=GREEDY, metadata=metadata),
        )
    assert result.outcome == Completed()
    assert "Paris" in result.text
    assert result.finish_reason == "stop"
    assert result.metadata == metadata
    assert result.usage.prompt_tokens > 10
    assert 0 < result.usage.completion_tokens < 32
    assert result.timings.queued_s is not None
    assert 0 < (result.timings.first_token_s or 0) <= result.timings.engine_s
    (attempt,) = result.lineage.attempts
    assert attempt.segments[0].finish_reason == "stop"


async def test_prompt_messages_and_tokens_are_three_ways_to_say_the_same(site: Site) -> None:
    from transformers import AutoTokenizer

    question = "Name the capital of France."
    tokenizer = AutoTokenizer.from_pretrained(site.settings["model"])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    tokens: list[int] = tokenizer.apply_chat_template(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
    )
    jobs = [
        GenerationJob(prompt=question, sampling=GREEDY),
        GenerationJob(
            messages=(ChatMessage(role="user", content=question),), sampling=GREEDY, lane="batch"
        ),
        GenerationJob(prompt_token_ids=tuple(tokens), sampling=GREEDY),  # pyright: ignore[reportUnknownArgumentType]
    ]
    async with site.producer() as producer:
        results = [await run(producer, job) for job in jobs]
    assert len({result.text for result in results}) == 1
    assert len({result.usage.prompt_tokens for result in results}) == 1


async def test_the_same_job_gives_the_same_text(site: Site) -> None:
    sampling = Sampling(temperature=1, max_tokens=24)
    async with site.producer() as producer:
        first = await run(producer, GenerationJob(id="same-1", prompt="A poem", sampling=sampling))
        given = first.lineage.attempts[0].segments[0].seed
        again = Sampling(temperature=1, max_tokens=24, seed=given)
        second = await run(producer, GenerationJob(prompt="A poem", sampling=again))
    assert first.text == second.text


async def test_the_stream_adds_up_to_the_text(site: Site) -> None:
    job = GenerationJob(
        prompt="用中文数到十。", stream=True, sampling=Sampling(temperature=0, max_tokens=40)
    )
    async with site.producer() as producer:
        handle = await producer.publish(job)
        events = [event.event async for event in handle.events()]
        result = await handle.result(timeout=WAIT_S)
    assert isinstance(events[0], Accepted)
    assert events[-1] == Finished(outcome=Completed())
    deltas = [event for event in events if isinstance(event, Delta)]
    assert len(deltas) > 1
    assert "".join(delta.text for delta in deltas) == result.text
    assert [delta.offset for delta in deltas] == [
        len("".join(before.text for before in deltas[:index])) for index in range(len(deltas))
    ]


async def test_a_job_that_is_not_streamed_has_no_deltas(site: Site) -> None:
    async with site.producer() as producer:
        handle = await producer.publish(GenerationJob(prompt="Hello", sampling=GREEDY))
        kinds = [event.kind async for event in handle.events()]
    assert kinds == ["accepted", "finished"]


async def test_sampling_is_carried_out(site: Site) -> None:
    async with site.producer() as producer:
        stopped = await run(
            producer,
            GenerationJob(
                prompt="Name the capital of France.",
                sampling=Sampling(temperature=0, stop=("Paris",)),
            ),
        )
        short = await run(
            producer,
            GenerationJob(prompt="Tell a story", sampling=Sampling(max_tokens=3, min_tokens=3)),
        )
        banned = await run(
            producer,
            GenerationJob(
                prompt="Name the capital of France.",
                sampling=Sampling(temperature=0, max_tokens=16, bad_words=("Paris",)),
            ),
        )
        chosen = await run(
            producer,
            GenerationJob(
                prompt="Is the sky blue?",
                sampling=Sampling(structured_output=StructuredOutput(choice=("yes", "no"))),
            ),
        )
    assert "Paris" not in stopped.text
    assert stopped.finish_reason == "stop"
    assert (short.usage.completion_tokens, short.finish_reason) == (3, "length")
    assert "Paris" not in banned.text
    assert chosen.text in ("yes", "no")


async def test_structured_output_is_valid_json(site: Site) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["n"],
        "additionalProperties": False,
    }
    sampling = Sampling(max_tokens=30, structured_output=StructuredOutput(json_schema=schema))
    async with site.producer() as producer:
        result = await run(producer, GenerationJob(prompt="A digit as JSON", sampling=sampling))
    assert 0 <= json.loads(result.text)["n"] <= 9


@pytest.mark.parametrize(
    ("job", "reason", "field"),
    [
        (GenerationJob(prompt="word " * 3000), Reason.PROMPT_TOO_LONG, "$.prompt"),
        (
            GenerationJob(prompt_token_ids=(1, 2_000_000)),
            Reason.UNSUPPORTED,
            "$.prompt_token_ids",
        ),
        (
            GenerationJob(prompt="x", sampling=Sampling(logit_bias={2_000_000: 1.0})),
            Reason.UNSUPPORTED,
            "$.sampling.logit_bias",
        ),
        (
            GenerationJob(
                prompt="x", sampling=Sampling(structured_output=StructuredOutput(regex="((("))
            ),
            Reason.UNSUPPORTED,
            "$.sampling.structured_output",
        ),
        (
            GenerationJob(
                prompt="x",
                sampling=Sampling(
                    structured_output=StructuredOutput(
                        regex="(((((a?){100}){100}){100}){100}){100}"
                    )
                ),
            ),
            Reason.UNSUPPORTED,
            "$.sampling.structured_output",
        ),
    ],
    ids=[
        "prompt too long",
        "token out of vocabulary",
        "bias out of vocabulary",
        "bad grammar",
        "grammar that the engine would never be done with",
    ],
)
async def test_what_the_engine_cannot_do_is_rejected_with_its_field(
    site: Site, job: GenerationJob, reason: Reason, field: str
) -> None:
    async with site.producer() as producer:
        result = await run(producer, job)
        alive = await run(producer, GenerationJob(prompt="Hello", sampling=GREEDY))
    assert isinstance(result.outcome, Rejected)
    assert (result.outcome.reason, result.outcome.field) == (reason, field)
    assert result.text == ""
    assert alive.ok


async def test_a_deadline_in_the_past_and_one_that_passes(site: Site) -> None:
    endless = Sampling(temperature=0, min_tokens=900, max_tokens=900)
    now = datetime.now(UTC)
    async with site.producer() as producer:
        late = await run(producer, GenerationJob(prompt="x", deadline=now - timedelta(seconds=5)))
        slow = await run(
            producer,
            GenerationJob(prompt="x", sampling=endless, deadline=now + timedelta(seconds=2)),
        )
    assert isinstance(late.outcome, Expired)
    assert isinstance(slow.outcome, Expired)
    assert late.usage.completion_tokens == 0
    assert slow.usage.completion_tokens > 0


async def test_the_status_port_shows_our_metrics_beside_those_of_vllm(site: Site) -> None:
    metrics = await site.worker.get("/metrics")
    assert 'sluice_jobs_total{outcome="completed"}' in metrics
    assert "vllm:num_requests_running" in metrics
    assert await site.worker.get("/healthz") == "ok"
    assert await site.worker.get("/readyz") == "ok"
    assert "try /metrics" in await site.worker.get("/elsewhere")
