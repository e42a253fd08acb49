"""The whole way of a job on one machine: a broker, a worker, a checker, a handful of real jobs.

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
from functools import partial
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
    Rules,
    Sampling,
    StructuredOutput,
    topology,
)
from ..worker.config import Config
from .private_broker import broker_or_private
from .service_process import ServiceProcess

Say = Callable[[str], None]
Show = Callable[["DemoJob", GenerationResult], None]
Bury = Callable[[Config, str], None]

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
    """A job with the words to show for it. `doomed`: no text of any model will do, and it shows
    what becomes of such a job."""

    title: str
    job: GenerationJob
    doomed: bool = False

    def is_as_wanted(self, result: GenerationResult) -> bool:
        """Whether it came to what it was to show."""
        return result.ok != self.doomed


def demo_jobs() -> list[DemoJob]:
    """Questions, a summary, a list, Chinese, code, JSON by a grammar; and two whose texts are
    checked: one is rejected and saved by a retry, one can't be saved."""

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
    # Asked in words the model talks around it. The second attempt is held to the schema.
    saved = ask(
        "rejected, then saved",
        "Tell me about one city and its country, in JSON with the keys city and country.",
        structs.replace(_CALM, max_tokens=64),
        checks="block",
        rules=Rules(json_schema=schema),
    )
    # A number that nobody told it.
    doomed = GenerationJob(
        prompt="What is the number of my order?",
        sampling=structs.replace(_CALM, max_tokens=48),
        checks="block",
        rules=Rules(must_match=(r"\bORD-\d{6}\b",)),
        max_attempts=2,
    )
    # Left alone it goes on to a hundred.
    five = structs.replace(_CALM, stop=("\n6.",))
    return [
        ask("question", "Name the capital of France."),
        ask("question", "Why is the sky blue? Answer in two sentences."),
        DemoJob("conversation", GenerationJob(messages=conversation, sampling=_CALM, stream=True)),
        ask("summary", f"Summarize in one sentence: {_ARTICLE}", profile="summary"),
        ask("list", "List five fruits, one per line.", five, lane="batch"),
        ask("Chinese", "用中文写一句话介绍北京。"),
        ask("code", "Write a Python function that reverses a string.", profile="code"),
        ask("JSON", "Name a city and its country as JSON.", as_json, profile="data", lane="batch"),
        saved,
        DemoJob("rejected for good", doomed, doomed=True),
    ]


async def run_demo(
    config: Config,
    jobs: Sequence[DemoJob],
    *,
    broker_is_given: bool,
    say: Say,
    show: Show,
    bury: Bury,
) -> int:
    """Run the jobs; return how many came to what they were to show. `say` hears of progress, `show`
    of each result, in the order of the jobs, as soon as it is there. `bury` gets the settings and
    the id of each job that died, while its dead letter still lies in the queue; it may block.

    Raises SluiceError where a part does not come up, ResultTimeout where a job takes too long.
    """
    url = config.amqp_url if broker_is_given else None
    say("starting a private RabbitMQ node" if url is None else "using the broker that is set")
    namespace = f"sluice.demo.{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder:
        async with (
            broker_or_private(url) as broker_url,
            namespace_of_its_own(broker_url, namespace),
        ):
            say("starting a worker and a checker, which load a model each (half a minute or so)")
            settings: dict[str, object] = {"amqp_url": broker_url, "namespace": namespace}
            worker = ServiceProcess(
                Path(folder),
                {
                    **settings,
                    "model": config.model,
                    "engine": config.engine,
                    "max_model_len": config.max_model_len or 2048,
                    # Compiling would take longer than the demo, and needs a compiler.
                    "enforce_eager": True,
                    "lanes": "interactive=8,batch=2",
                },
            )
            checker = ServiceProcess(Path(folder), settings, "checker")
            async with worker, checker:
                began = time.monotonic()
                for service in (worker, checker):
                    await service.ready(_READY_LIMIT_S, partial(_of, say, service))
                say(f"both ready after {time.monotonic() - began:.0f} s")
                results = await _run_jobs(broker_url, namespace, jobs, say, show)
                for demo, result in zip(jobs, results, strict=True):
                    if demo.doomed and not result.ok:
                        there = structs.replace(config, amqp_url=broker_url, namespace=namespace)
                        await asyncio.to_thread(bury, there, result.job_id)
                wanted = sum(map(DemoJob.is_as_wanted, jobs, results))
                completed = sum(result.ok for result in results)
                say(
                    f"{completed} of {len(jobs)} jobs completed, {wanted} as they should; "
                    "stopping worker, checker and broker"
                )
    say("stopped")
    return wanted


def _of(say: Say, service: ServiceProcess, trouble: str) -> None:
    say(f"{service.command}: {trouble}")


async def _run_jobs(
    url: str, namespace: str, jobs: Sequence[DemoJob], say: Say, show: Show
) -> list[GenerationResult]:
    results: list[GenerationResult] = []
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
                results.append(result)
            for task in beside:
                task.cancel()
    return results


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
async def namespace_of_its_own(url: str, namespace: str) -> AsyncGenerator[None]:
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
