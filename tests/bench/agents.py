"""What watchdog and breaker cost in a round, beside the cheapest round there is.

`python -m tests.bench.agents --help` from the root of the checkout. A job of many rounds runs over
a real broker, on an engine that takes no time (and with --engine on the real one, asked for a few
tokens). Then its rounds, as they were recorded, are measured and decided on once more, by
themselves: `round_sample`, `watch`, `assess`, `decide` and `reminder`, with windows as full as they
were. The cost is O(window) a round, whatever the length of the job.
"""

import asyncio
import itertools
import os
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec
from msgspec import Struct
from sluicegate.guards.breaker import decide, reminder
from sluicegate.guards.watchdog import assess, watch
from sluicegate.guards.watchdog_samples import round_sample
from sluicegate.guards.watchdog_thresholds import Watchdog, watchdog
from sluicegate.ops.embedded_model import offline_environment, resolve_model
from sluicegate.ops.private_broker import broker_or_private
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.producer import Producer, declare
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import (
    AgentJob,
    Budget,
    Decision,
    Monitoring,
    Names,
    Sampling,
    ToolSpec,
    topology,
)
from sluicegate.schemas.agents import Closed, JournalEntry, Round
from sluicegate.worker.agent.journal import Journal
from sluicegate.worker.agent.service import Orchestrator
from sluicegate.worker.config import Config
from sluicegate.worker.engine import Segment
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker
from sluicegate.worker.tools.registry import Registry
from sluicegate.worker.tools.tool import tool

from .report import Spread

_NAMESPACE = "bench.agents"
_PROSE = (
    "The last file is read, and what it says about the order of the steps goes into my notes. I "
    "will read the next one now, and compare what it says with what I know of the others by then. "
)


class AgentReport(Struct, frozen=True, kw_only=True):
    """Seconds of one round, and of watchdog and breaker in it; `share` is the one of the other."""

    engine: str
    rounds: int
    round_s: Spread
    watched_s: Spread

    @property
    def share(self) -> float:
        """Of medians."""
        return self.watched_s.median / self.round_s.median


@tool(idempotent=True)
async def read(name: str) -> str:
    """Read a file."""
    return f"{name}: " + "a line of it. " * 20


def play(_segment: Segment, prompt: str) -> str:
    """A model that reads file after file."""
    number = (re.findall(r"Round (\d+) of at most", prompt) or ["0"])[-1]
    return f'Thought: {_PROSE * 3}\nAction: read\nAction Input: {{"name": "file-{number}.txt"}}'


@click.command(context_settings={"show_default": True})
@click.option("--rounds", "count", type=click.IntRange(min=3, max=500), default=60)
@click.option("--engine", is_flag=True, help="Rounds of the real engine, too, with --model.")
@click.option("--model", help="Folder or hub name; without it SLUICE_MODEL, else the embedded one.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON on standard output.")
def main(count: int, engine: bool, model: str | None, as_json: bool) -> None:
    """Measure watchdog and breaker against the cheapest round."""
    if not model and not os.environ.get("SLUICE_MODEL"):
        os.environ.update(offline_environment())
    found = resolve_model(model) if engine else None
    reports = asyncio.run(_measure(count, found))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(reports)).decode())
        return
    click.echo("| engine | rounds | one round, ms | watchdog and breaker, ms | share |")
    click.echo("|---|---|---|---|---|")
    for each in reports:
        click.echo(
            f"| {each.engine} | {each.rounds} | {_ms(each.round_s)} | {_ms(each.watched_s)} "
            f"| {each.share:.2%} |"
        )


def _ms(spread: Spread) -> str:
    return f"{1000 * spread.median:.2f} ({1000 * spread.min:.2f}-{1000 * spread.max:.2f})"


async def _measure(count: int, model: str | None) -> list[AgentReport]:
    async with broker_or_private(os.environ.get("SLUICE_AMQP_URL")) as url:
        connection = await connect(url, timeout_s=20, name="bench")
        await declare.apply(connection, topology(_NAMESPACE))
        await close(connection)
        config = Config(
            amqp_url=url,
            namespace=_NAMESPACE,
            engine="scripted",
            metrics_port=0,
            max_model_len=100_000,
            agent_fold_after=20,
        )
        reports = [await _scripted(config, count)]
        if model is not None:
            real = msgspec.structs.replace(
                config, engine="vllm", model=model, max_model_len=2048, agent_fold_after=10
            )
            reports.append(await _real(real, min(count, 12)))
        return reports


async def _scripted(config: Config, count: int) -> AgentReport:
    worker = Worker(
        msgspec.structs.replace(config, worker_id="worker"),
        ScriptedEngine(play, chunk=4096, max_model_len=config.max_model_len),
    )
    working = asyncio.create_task(worker.run())
    try:
        return await _agents(config, "scripted", _job(count, "text", Sampling(max_tokens=4096)))
    finally:
        worker.stop()
        await working


async def _real(config: Config, count: int) -> AgentReport:
    with TemporaryDirectory() as folder:
        settings: dict[str, object] = {
            "amqp_url": config.amqp_url,
            "namespace": config.namespace,
            "model": config.model,
            "max_model_len": config.max_model_len,
            "enforce_eager": True,
        }
        async with ServiceProcess(Path(folder), settings) as worker:
            await worker.ready(600)
            # Few tokens: the cheapest round that an engine can be asked for.
            job = _job(count, "grammar", Sampling(temperature=0, max_tokens=24))
            return await _agents(config, "vllm", job)


def _job(count: int, form: str, sampling: Sampling) -> AgentJob:
    return AgentJob(
        task="Read the files.",
        tools=("read",),
        format=form,  # pyright: ignore[reportArgumentType]
        profile="off",
        sampling=sampling,
        # Nothing is to end it but its rounds.
        watchdog={"warn_score": 100, "trip_score": 100},
        budget=Budget(rounds=count, tool_calls=10_000, tokens=100_000_000),
    )


async def _agents(config: Config, engine: str, job: AgentJob) -> AgentReport:
    service = Orchestrator(config, Registry([read]))
    serving = asyncio.create_task(service.run())
    try:
        while service.not_ready() is not None:
            if serving.done():
                serving.result()
            await asyncio.sleep(0.05)
        async with Producer(config.amqp_url, namespace=config.namespace) as producer:
            await (await producer.publish(job)).result(timeout=600)
        lines = await _lines(config, job.id)
    finally:
        service.stop()
        await serving
    closed = [line for line in lines if isinstance(line.entry, Closed)]
    times = [(b.at - a.at).total_seconds() for a, b in itertools.pairwise(closed)]
    return AgentReport(
        engine=engine,
        rounds=len(closed),
        round_s=Spread.of(times),
        watched_s=Spread.of(_watched(job, closed)),
    )


async def _lines(config: Config, job_id: str) -> list[JournalEntry]:
    connection = await connect(config.amqp_url, timeout_s=20, name="bench")
    try:
        journal = Journal(connection, ConfirmedPublisher(connection), Names(config.namespace))
        return [line async for line in journal.lines(None, job_id)]
    finally:
        await close(connection)


def _watched(job: AgentJob, closed: list[JournalEntry]) -> list[float]:
    """Seconds of watchdog and breaker in each round but the first ones, whose windows are empty."""
    rules = watchdog(job.task_type)
    specs = {read.spec.name: read.spec}
    monitoring, decision = Monitoring(), Decision()
    taken: list[float] = []
    for line in closed:
        assert isinstance(line.entry, Closed)
        began = time.perf_counter()
        monitoring, decision = _one(
            line.entry.round, job.budget, specs, monitoring, decision, rules, line.at
        )
        taken.append(time.perf_counter() - began)
    return taken[len(taken) // 3 :]


def _one(
    this: Round,
    budget: Budget,
    specs: dict[str, ToolSpec],
    monitoring: Monitoring,
    decision: Decision,
    rules: Watchdog,
    now: datetime,
) -> tuple[Monitoring, Decision]:
    monitoring = watch(monitoring, round_sample(this, specs, rules, at=now), rules)
    assessment = assess(monitoring, rules, budget)
    decision = decide(decision, assessment, rules)
    reminder(assessment, decision)
    return monitoring, decision


if __name__ == "__main__":
    sys.exit(main())
