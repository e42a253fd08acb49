"""Preemption on the real engine, greedy, in float32: a text that was handed from worker to worker
is byte for byte that of an uninterrupted run, and the tokens saved are counted."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from prometheus_client import REGISTRY
from sluicegate.producer import Producer
from sluicegate.schemas import Accepted, Delta, GenerationJob, Sampling, decode, encode
from sluicegate.schemas import Interrupted as InterruptedEvent
from sluicegate.worker.config import Config
from sluicegate.worker.endings import Answered, Interrupted, Report
from sluicegate.worker.engine import Engine, EngineInfo, Piece, Segment
from sluicegate.worker.engines import make_engine
from sluicegate.worker.service import ExitCode, Worker
from sluicegate.worker.session import GenerationSession

pytestmark = [pytest.mark.engine, pytest.mark.broker, pytest.mark.filterwarnings("ignore")]

TOKENS = 40
PROMPT = "Why is the sky blue? Tell me all about it, and about the sea."
SAMPLINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "penalties, a bias and a minimum": {
        "presence_penalty": 0.3,
        "frequency_penalty": 0.4,
        "repetition_penalty": 1.1,
        "logit_bias": {260: -5.0},
        "min_tokens": 32,
        "stop": ("the",),
    },
}


@pytest_asyncio.fixture(scope="module")
async def exact(model: str) -> AsyncGenerator[Engine]:
    config = Config(
        model=model,
        dtype="float32",
        max_model_len=1024,
        enforce_eager=True,
        lanes="interactive=4",
    )
    engine = await make_engine(config)
    await engine.open()
    yield engine
    await engine.close()


class Lent:
    """An engine that outlives the worker that uses it, and says when so many pieces of a job have
    come; no more come then."""

    def __init__(self, engine: Engine, job: GenerationJob, pieces: int = -1) -> None:
        self._engine = engine
        self._job_id = job.id
        self._left = pieces
        self.there = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def open(self) -> EngineInfo:
        return self._engine.info

    async def close(self) -> None:
        """It is not ours."""

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        async with aclosing(self._engine.stream(segment)) as pieces:
            async for piece in pieces:
                yield piece
                self._left -= segment.request_id.startswith(self._job_id)
                if not self._left:
                    self.there.set()
                    # Until it is taken away.
                    await asyncio.sleep(60)


async def run(engine: Engine, job: GenerationJob, stop_at: int | None = None) -> Report:
    lent = Lent(engine, job, stop_at or -1)
    session = GenerationSession(job, lent, worker="w", nonce="n")  # type: ignore[arg-type]
    running = asyncio.create_task(session.run())
    if stop_at is None:
        ending = await running
        assert isinstance(ending, Answered), ending
        return session.report(ending, None)
    await asyncio.wait_for(lent.there.wait(), 60)
    running.cancel()
    await asyncio.wait([running])
    return session.report(Interrupted("stops"), None)


@pytest.mark.parametrize("name", SAMPLINGS)
async def test_the_text_is_that_of_an_uninterrupted_run(exact: Engine, name: str) -> None:
    sampling = Sampling(temperature=0, max_tokens=TOKENS, **SAMPLINGS[name])
    job = GenerationJob(prompt=PROMPT, sampling=sampling, profile="off")
    whole = await run(exact, job)
    assert len(whole.text) > 60
    handed, spared = job, 0
    for stop_at in (7, 11, 3):
        progress = (await run(exact, handed, stop_at)).progress
        assert progress is not None
        spared = progress.kept
        again = msgspec.structs.replace(handed, progress=progress)
        handed = decode(encode(again), GenerationJob)
    last = await run(exact, handed)
    assert last.text == whole.text
    assert last.ending == whole.ending
    assert last.usage.completion_tokens == whole.usage.completion_tokens
    assert last.usage.wasted_tokens <= 9
    assert last.record.handed_tokens == spared >= 18
    first, *others = last.record.segments
    assert len(others) == 3
    for segment in others:
        # What was written is read, not generated, and the most of it from the prefix cache.
        assert segment.prompt_tokens == first.prompt_tokens + segment.start
        assert segment.cached_tokens >= segment.prompt_tokens // 16 * 16 - 16 > 0


def saved() -> float:
    """Tokens that were not generated again, by the metric."""
    return REGISTRY.get_sample_value("sluice_tokens_total", {"kind": "saved"}) or 0.0


async def test_a_worker_that_is_preempted_leaves_the_rest_to_the_next(
    exact: Engine, broker_url: str, namespace: str
) -> None:
    sampling = Sampling(temperature=0, max_tokens=TOKENS)
    job = GenerationJob(prompt=PROMPT, sampling=sampling, profile="off", stream=True)
    whole = await run(exact, job)
    before = saved()
    config = Config(amqp_url=broker_url, namespace=namespace, lanes="interactive=2", metrics_port=0)
    async with Producer(broker_url, namespace=namespace) as producer:
        lent = Lent(exact, job, 20)
        first = Worker(config, lent)  # type: ignore[arg-type]
        working = asyncio.create_task(first.run())
        handle = await producer.publish(job)
        await asyncio.wait_for(lent.there.wait(), 60)
        first.stop(at_once=True)
        assert await asyncio.wait_for(working, 30) == ExitCode.OK
        second = Worker(config, Lent(exact, job))  # type: ignore[arg-type]
        working = asyncio.create_task(second.run())
        result = await handle.result(timeout=60)
        events = [event async for event in handle.events()]
        second.stop()
        await asyncio.wait_for(working, 30)
    assert result.text == whole.text
    assert result.usage.completion_tokens == whole.usage.completion_tokens
    (record,) = result.lineage.attempts
    (handover,) = result.lineage.handovers
    assert handover.tokens == record.handed_tokens >= 17
    assert saved() - before == handover.tokens
    deltas = [event.event for event in events if isinstance(event.event, Delta)]
    assert "".join(delta.text for delta in deltas) == result.text
    at = 0
    for delta in deltas:
        assert delta.offset == at
        at += len(delta.text)
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    kept = [event.event.kept for event in events if isinstance(event.event, Accepted)]
    assert kept == [0, handover.tokens]
    back = [event.event.kept for event in events if isinstance(event.event, InterruptedEvent)]
    assert back == [handover.tokens]
