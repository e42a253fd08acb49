"""Worker and agent service in this process: a model by script, tools by hand, a real broker."""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sluicegate.producer import Producer
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import AgentJob, GenerationResult, JournalEntry, Names
from sluicegate.worker.agent.journal import Journal
from sluicegate.worker.agent.service import Orchestrator
from sluicegate.worker.config import Config
from sluicegate.worker.engine import Segment
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker
from sluicegate.worker.tools.registry import Registry
from sluicegate.worker.tools.tool import Tool

WAIT_S = 30
ENDED = "[This task must be ended now"
SUMMARY = "Sum up what happened so far"
# What is made of the number of the round, counted from 1, and the prompt.
Play = Callable[[int, str], str]


def call(name: str, thought: str = "I need this.", **arguments: Any) -> str:
    """What a model says to call one tool."""
    return calls((name, arguments), thought=thought)


def calls(*wanted: tuple[str, dict[str, Any]], thought: str = "I need these.") -> str:
    """What a model says to call several at once."""
    pairs = [
        f"Action: {name}\nAction Input: {msgspec.json.encode(arguments).decode()}"
        for name, arguments in wanted
    ]
    return "\n".join([f"Thought: {thought}", *pairs])


def answer(text: str) -> str:
    """What a model says when it is done."""
    return f"Thought: I know it now.\nFinal Answer: {text}"


def script(play: Play, *, last: str = "This is what I know.") -> Callable[[Segment, str], str]:
    """A model that says what `play` makes of the round, and `last` when it is ended."""

    def say(_segment: Segment, prompt: str) -> str:
        if ENDED in prompt:
            return last
        if SUMMARY in prompt:
            return "Much was done, and all of it went well."
        return play(round_of(prompt), prompt)

    return say


def round_of(prompt: str) -> int:
    """Which round comes, by what the prompt tells of the one before."""
    told = re.findall(r"Round (\d+) of at most", prompt)
    return int(told[-1]) + 1 if told else 1


@dataclass
class Troupe:
    """Runs agent jobs to their end."""

    url: str
    namespace: str
    config: Config
    _tasks: list[tuple[Any, asyncio.Task[Any]]] = field(default_factory=list)

    @property
    def names(self) -> Names:
        return Names(self.namespace)

    async def worker(self, say: Callable[[Segment, str], str], **settings: Any) -> Worker:
        engine = ScriptedEngine(
            say,
            chunk=settings.pop("chunk", 4096),
            step_s=settings.pop("step_s", 0.0),
            max_model_len=settings.pop("length", 200_000),
        )
        config = msgspec.structs.replace(self.config, worker_id="w1", **settings)
        worker = Worker(config, engine)
        self._tasks.append((worker, asyncio.create_task(worker.run())))
        await self.ready(worker)
        return worker

    async def agents(self, tools: Iterable[Tool], **settings: Any) -> Orchestrator:
        config = msgspec.structs.replace(self.config, **{"worker_id": "a1", **settings})
        service = Orchestrator(config, Registry(tools))
        self._tasks.append((service, asyncio.create_task(service.run())))
        await self.ready(service)
        return service

    async def ready(self, service: Any) -> None:
        task = next(task for each, task in self._tasks if each is service)
        async with asyncio.timeout(WAIT_S):
            while service.not_ready() is not None:
                if task.done():
                    task.result()
                await asyncio.sleep(0.01)

    async def end(self, service: Any) -> None:
        """Stop one service in good order."""
        task = next(task for each, task in self._tasks if each is service)
        service.stop()
        async with asyncio.timeout(WAIT_S):
            await task

    async def stop(self) -> None:
        for service, _ in self._tasks:
            service.stop()
        if self._tasks:
            await asyncio.wait([task for _, task in self._tasks], timeout=WAIT_S)

    async def perform(
        self, job: AgentJob, play: Play, tools: Sequence[Tool], *, last: str = "What I know."
    ) -> GenerationResult:
        """The result of one job."""
        await self.worker(script(play, last=last))
        await self.agents(tools)
        return await self.result(job)

    async def result(self, job: AgentJob, timeout_s: float = WAIT_S) -> GenerationResult:
        async with Producer(self.url, namespace=self.namespace) as producer:
            handle = await producer.publish(job)
            return await handle.result(timeout=timeout_s)

    async def journal(self, job_id: str | None = None) -> list[JournalEntry]:
        """What was written down."""
        connection = await connect(self.url, timeout_s=WAIT_S, name="agent tests")
        try:
            journal = Journal(connection, ConfirmedPublisher(connection), self.names)
            return [line async for line in journal.lines(None, job_id)]
        finally:
            await close(connection)


def job(task: str = "Find it out.", **fields: Any) -> AgentJob:
    """A job that no text gate looks at: what is played here is no prose."""
    return AgentJob(task=task, profile="off", **fields)
