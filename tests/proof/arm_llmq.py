"""llmq, the nearest existing queue worker on PyPI: its own messages, broker code and worker loop.

Two things stand in. Its `_process_job` asks the engine that all contenders share, in place of an
engine of its own, so that faults and texts are the same. And where the package `semhash` is
missing, which a worker for deduplication imports, an empty module is there for it.
"""

import importlib
import os
import signal
import sys
import types
from asyncio import CancelledError, Future, create_task, get_running_loop, timeout
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from typing import Any, Final

import msgspec
from sluicegate.schemas import GenerationJob

from .contender import RESULT_S, Came, Contender, Place

VERSION: Final = "0.0.9"
NEEDS: Final = ("llmq", "pydantic", "dotenv", "httpx")
HINT: Final = f"pip install --no-deps llmq=={VERSION} (with its dependencies comes another vLLM)"
_STOP_S: Final = 10.0

Texts = Callable[[GenerationJob], Awaitable[str]]


def missing() -> str:
    """Why it can't take part; empty where it can."""
    lacking = [name for name in NEEDS if find_spec(name) is None]
    return f"not installed: {', '.join(lacking)}; {HINT}" if lacking else ""


def worker(queue: str, concurrency: int, url: str, text_of: Texts) -> Any:
    """A worker of llmq's, on its own base class, that asks `text_of` for texts. Its constructor
    takes over two signals; they are given back."""
    os.environ["RABBITMQ_URL"] = url
    # It logs each job on standard output.
    os.environ["LLMQ_LOG_LEVEL"] = "CRITICAL"
    if find_spec("semhash") is None and "semhash" not in sys.modules:
        stand_in = types.ModuleType("semhash")
        vars(stand_in)["SemHash"] = object
        sys.modules["semhash"] = stand_in
    base: Any = importlib.import_module("llmq.workers.base").BaseWorker

    class EngineWorker(base):
        def _generate_worker_id(self) -> str:
            return "proof-llmq"

        async def _initialize_processor(self) -> None:
            """The engine is open."""

        async def _cleanup_processor(self) -> None:
            """It is its owner's."""

        async def _process_job(self, job: Any) -> str:
            return await text_of(msgspec.json.decode(job.model_extra["asked"], type=GenerationJob))

    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        return EngineWorker(queue, concurrency=concurrency)
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


def message(job: GenerationJob) -> Any:
    """The job as llmq's own, with ours inside."""
    return importlib.import_module("llmq.core.models").Job(
        id=job.id,
        messages=[{"role": "user", "content": job.prompt}],
        chat_mode=True,
        asked=msgspec.json.encode(job).decode(),
    )


def broker() -> Any:
    """Its connection, for a backend."""
    return importlib.import_module("llmq.core.broker").BrokerManager()


@asynccontextmanager
async def llmq(place: Place, text_of: Texts) -> AsyncGenerator[Contender]:
    """Its worker and a backend that uses its broker code."""
    queue = f"{place.namespace}.llmq"
    waiting: dict[str, Future[str]] = {}
    runs = worker(queue, place.concurrency, place.url, text_of)
    task = create_task(runs.run())
    backend = broker()
    try:
        await backend.connect()
        await backend.setup_queue_infrastructure(queue)

        async def on_result(delivery: Any) -> None:
            await delivery.ack()
            found = msgspec.json.decode(delivery.body)
            if (future := waiting.pop(found["id"], None)) is not None:
                future.set_result(found["result"])

        await backend.consume_results(queue, on_result)

        async def run(job: GenerationJob) -> Came:
            waiting[job.id] = future = get_running_loop().create_future()
            await backend.publish_job(queue, message(job))
            async with timeout(RESULT_S):
                return Came(text=await future)

        yield run
    finally:
        runs.running = False
        with suppress(TimeoutError, CancelledError):
            async with timeout(_STOP_S):
                await task
        for name in (queue, f"{queue}.results"):
            await backend.channel.queue_delete(name)
        await backend.disconnect()
