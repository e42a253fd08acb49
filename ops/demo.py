"""The whole way of a job on one machine: a broker, a worker, a handful of real jobs.

Everything is private and temporary: the broker, unless one is named, and the namespace on it.
"""

import asyncio
import secrets
import shutil
import tempfile
import textwrap
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from ..producer import Producer
from ..producer.connection import close, connect, open_channel
from ..producer.declare import apply
from ..producer.handle import Handle
from ..schemas import (
    ChatMessage,
    Delta,
    GenerationJob,
    GenerationResult,
    Sampling,
    StructuredOutput,
    topology,
)
from ..worker.config import Config
from .private_broker import broker_or_private
from .worker_process import WorkerProcess

Say = Callable[[str], None]
Show = Callable[["DemoJob", GenerationResult], None]

_READY_LIMIT_S: Final = 600.0
_RESULT_LIMIT_S: Final = 300.0
_TICK_S: Final = 2.0
# A small model rambles at neutral settings. Greedy is calmer, and says the same each time.
_CALM: Final = Sampling(temperature=0, repetition_penalty=1.1, max_tokens=96)

_ARTICLE: Final = (
    "RabbitMQ is a message broker: applications publish messages to exchanges, which route them to "
    "queues, where they wait until a consumer takes them. A consumer acknowledges a message when "
    "its work is done; if the consumer dies first, the broker hands the message to another one."
)


class DemoJob(Struct, frozen=True):
    """A job with the words to show for it."""

    title: str
    job: GenerationJob


def demo_jobs() -> list[DemoJob]:
    """Questions, a summary, a list, Chinese, code, and JSON by a grammar."""

    def ask(title: str, prompt: str, sampling: Sampling = _CALM, **more: object) -> DemoJob:
        job = GenerationJob(prompt=prompt, sampling=sampling, stream=True, **more)  # pyright: ignore[reportArgumentType]
        return DemoJob(title, job)

    conversation = (
        ChatMessage(role="system", content="You answer in one short sentence."),
        ChatMessage(role="user", content="What do bees make?"),
        ChatMessage(role="assistant", content="Bees make honey and wax."),
        ChatMessage(role="user", content="And why do they make the first?"),
    )
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 30},
            "country": {"type": "string", "maxLength": 30},
        },
        "required": ["city", "country"],
        "additionalProperties": False,
    }
    as_json = Sampling(
        temperature=0,
        max_tokens=64,
        structured_output=StructuredOutput(json_schema=schema),
    )
    # Left alone it goes on to a hundred.
    five = structs.replace(_CALM, stop=("\n6.",))
    return [
        ask("question", "What is the capital of France?"),
        ask("question", "Why is the sky blue? Answer in two sentences."),
        DemoJob("conversation", GenerationJob(messages=conversation, sampling=_CALM, stream=True)),
        ask("summary", f"Summarize in one sentence: {_ARTICLE}", profile="summary"),
        ask("list", "List five fruits, one per line.", five, lane="batch"),
        ask("Chinese", "用中文写一句话介绍北京。"),
        ask("code", "Write a Python function that reverses a string.", profile="code"),
        ask("JSON", "Name a city and its country as JSON.", as_json, profile="data", lane="batch"),
    ]


async def run_demo(
    config: Config, jobs: Sequence[DemoJob], *, broker_is_given: bool, say: Say, show: Show
) -> int:
    """Run the jobs; return how many completed. `say` hears of progress, `show` of each result, in
    the order of the jobs, as soon as it is there.

    Raises SluiceError where a part does not come up, ResultTimeout where a job takes too long.
    """
    url = config.amqp_url if broker_is_given else None
    say("starting a private RabbitMQ node" if url is None else "using the broker that is set")
    namespace = f"sluice.demo.{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder:
        async with broker_or_private(url) as broker_url, _namespace(broker_url, namespace):
            say("starting a worker, which loads the model (half a minute on a small machine)")
            settings = {
                "amqp_url": broker_url,
                "namespace": namespace,
                "model": config.model,
                "engine": config.engine,
                "max_model_len": config.max_model_len or 2048,
                # Compiling would take longer than the demo, and needs a compiler on the machine.
                "enforce_eager": True,
                "lanes": "interactive=6,batch=2",
            }
            async with WorkerProcess(Path(folder), settings) as worker:
                began = time.monotonic()
                await worker.ready(_READY_LIMIT_S, lambda trouble: say(f"worker: {trouble}"))
                say(f"worker ready after {time.monotonic() - began:.0f} s")
                done = await _run_jobs(broker_url, namespace, jobs, say, show)
                say(f"{done} of {len(jobs)} jobs completed; stopping the worker and the broker")
    say("stopped")
    return done


async def _run_jobs(url: str, namespace: str, jobs: Sequence[DemoJob], say: Say, show: Show) -> int:
    done = 0
    async with Producer(url, namespace=namespace) as producer:
        handles = await producer.publish_many([demo.job for demo in jobs])
        say(f"published {len(handles)} jobs")
        progress = _Progress(len(handles))
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(progress.follow(handle)) for handle in handles]
            beside.append(group.create_task(progress.tick(say)))
            for demo, handle in zip(jobs, handles, strict=True):
                result = await handle.result(timeout=_RESULT_LIMIT_S)
                show(demo, result)
                done += result.ok
            for task in beside:
                task.cancel()
    return done


class _Progress:
    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._done = 0
        self._characters = 0

    async def follow(self, handle: Handle) -> None:
        async for event in handle.events():
            if isinstance(event.event, Delta):
                self._characters += len(event.event.text)
        self._done += 1

    async def tick(self, say: Say) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            say(f"{self._done} of {self._jobs} done, {self._characters} characters so far")


@asynccontextmanager
async def _namespace(url: str, namespace: str) -> AsyncGenerator[None]:
    """Exchanges and queues for this demo alone, gone afterwards."""
    connection = await connect(url, timeout_s=20, name="sluice demo")
    whole = topology(namespace)
    try:
        await apply(connection, whole)
        try:
            yield
        finally:
            channel = await open_channel(connection, timeout_s=20)
            for queue in whole.queues:
                await channel.queue_delete(queue.name)
            for exchange in whole.exchanges:
                await channel.exchange_delete(exchange.name)
    finally:
        await close(connection)


def text_of(demo: DemoJob, result: GenerationResult, width: int | None = None) -> str:
    """A job and its result, for a terminal."""
    width = width or min(100, shutil.get_terminal_size().columns)
    job = demo.job
    asked = job.messages[-1].content if job.messages else job.prompt or ""
    timings = result.timings
    queued = f"{timings.queued_s:.2f} s" if timings.queued_s is not None else "?"
    facts = (
        f"{result.outcome.__struct_config__.tag}, attempts {len(result.lineage.attempts)}, "
        f"tokens {result.usage.prompt_tokens} in {result.usage.completion_tokens} out, "
        f"queue {queued}, engine {timings.engine_s:.2f} s"
    )
    answer = textwrap.indent(result.text.strip() or getattr(result.outcome, "detail", ""), "  ")
    return "\n".join(
        [
            f"── {demo.title} · {job.lane} ".ljust(width, "─"),
            textwrap.shorten(asked, width, placeholder=" …"),
            "",
            answer,
            "",
            f"  [{facts}]",
        ]
    )
