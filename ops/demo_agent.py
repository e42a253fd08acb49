"""A runaway agent job, stopped by the watchdog; and the same one without it, run until its budget
is spent. Both are real runs on a real broker; the model alone is played by a script."""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct, structs

from ..producer import AgentJob, GenerationResult, Partial, Producer, Reason
from ..worker.agent.service import Orchestrator
from ..worker.config import Config
from ..worker.frame import Service
from ..worker.scripted import ScriptedEngine
from ..worker.service import Worker
from ..worker.tools.registry import Registry
from . import demo_agent_script as script
from .agent_trace_read import Trace, gather
from .agent_trace_source import journal
from .console import CannotStart
from .demo import namespace_of_its_own
from .private_broker import broker_or_private

Say = Callable[[str], None]

# How fast the script speaks: so many bytes in so many seconds.
CHUNK: Final = 4
STEP_S: Final = 0.01
_READY_LIMIT_S: Final = 60.0
_RESULT_LIMIT_S: Final = 600.0
_CONTEXT: Final = 100_000


class Run(Struct, frozen=True, kw_only=True):
    """One run as it was measured. `seconds`: from publishing the job to its result. `tokens` of
    prompts and answers together; one is a byte here."""

    watchdog: bool
    outcome: str
    reason: str
    rounds: int
    tool_calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    text: str

    @property
    def tokens(self) -> int:
        """As they are billed."""
        return self.prompt_tokens + self.completion_tokens

    def in_an_hour(self, number: int) -> int:
        """What so much in this run comes to in an hour at the same pace."""
        return round(number * 3_600 / self.seconds)


class AgentDemo(Struct, frozen=True, kw_only=True):
    """Both runs, and the trace of the first."""

    stopped: Run
    runaway: Run
    trace: Trace
    chunk: int
    step_s: float

    @property
    def ok(self) -> bool:
        """Whether it shows what it should: the watchdog ended the one, its budget the other."""
        return (
            (self.stopped.reason, self.runaway.reason)
            == (Reason.BREAKER_TRIPPED, Reason.BUDGET_SPENT)
            and self.stopped.outcome == self.runaway.outcome == "partial"
            and self.stopped.rounds < self.runaway.rounds
        )


async def run_demo(
    config: Config,
    *,
    broker_is_given: bool,
    say: Say,
    rounds: int = script.ROUNDS,
    step_s: float = STEP_S,
) -> AgentDemo:
    """Run both. `rounds`: the budget of each."""
    # What they log is no part of what is shown.
    logging.getLogger("sluicegate").addHandler(logging.NullHandler())
    if not broker_is_given:
        say("starting a private RabbitMQ node")
    async with broker_or_private(config.amqp_url if broker_is_given else None) as url:
        namespace = f"sluice.demo.{secrets.token_hex(4)}"
        there = structs.replace(
            config,
            amqp_url=url,
            namespace=namespace,
            engine="scripted",
            max_model_len=_CONTEXT,
            metrics_port=0,
        )
        async with namespace_of_its_own(url, namespace), _services(there, step_s):
            say("worker and agent service ready; the model is played by a script")
            async with Producer(url, namespace=namespace) as producer:
                watched = script.job(watchdog=True, rounds=rounds)
                stopped = await _run(producer, watched, watchdog=True)
                say(f"with the watchdog: {stopped.outcome} after {stopped.rounds} rounds")
                say(f"the same without a watchdog, until {rounds} rounds are used up")
                unwatched = script.job(watchdog=False, rounds=rounds)
                runaway = await _run(producer, unwatched, watchdog=False)
            trace = await _trace(there, watched.id)
            say("stopping worker, agent service and broker")
    return AgentDemo(stopped=stopped, runaway=runaway, trace=trace, chunk=CHUNK, step_s=step_s)


async def _run(producer: Producer, job: AgentJob, *, watchdog: bool) -> Run:
    began = time.monotonic()
    handle = await producer.publish(job)
    result = await handle.result(timeout=_RESULT_LIMIT_S)
    return _measured(result, time.monotonic() - began, watchdog=watchdog)


def _measured(result: GenerationResult, seconds: float, *, watchdog: bool) -> Run:
    outcome, record = result.outcome, result.agent
    return Run(
        watchdog=watchdog,
        outcome=str(outcome.__struct_config__.tag),
        reason=outcome.reason if isinstance(outcome, Partial) else "",
        rounds=record.rounds if record is not None else 0,
        tool_calls=record.tool_calls if record is not None else 0,
        prompt_tokens=result.usage.prompt_tokens,
        completion_tokens=result.usage.completion_tokens,
        seconds=seconds,
        text=result.text,
    )


async def _trace(config: Config, job_id: str) -> Trace:
    async with journal(config) as there:
        lines = [line async for line in there.lines(None, job_id)]
    return gather(job_id, lines)[-1]


@asynccontextmanager
async def _services(config: Config, step_s: float) -> AsyncGenerator[None]:
    """A worker and an agent service in this process, ready."""
    engine = ScriptedEngine(script.play, chunk=CHUNK, step_s=step_s, max_model_len=_CONTEXT)
    worker = Worker(structs.replace(config, worker_id="demo-worker"), engine)
    agents = Orchestrator(structs.replace(config, worker_id="demo-agents"), Registry(script.TOOLS))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each.run()) for each in (worker, agents)]
        try:
            for service, task in zip((worker, agents), tasks, strict=True):
                await _ready(service, task)
            yield
        finally:
            # In turn: answers of the model are wanted as long as there are agent jobs.
            for service, task in ((agents, tasks[1]), (worker, tasks[0])):
                service.stop()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([task], timeout=_READY_LIMIT_S)


async def _ready(service: Service, task: "asyncio.Task[object]") -> None:
    try:
        async with asyncio.timeout(_READY_LIMIT_S):
            while (  # noqa: ASYNC110  it has no event of being ready
                trouble := service.not_ready()
            ) is not None and not task.done():
                await asyncio.sleep(0.02)
    except TimeoutError as error:
        raise CannotStart(f"a service of the demo is not ready: {service.not_ready()}") from error
    if task.done():
        await task
        raise CannotStart(f"a service of the demo ended at once: {trouble}")
