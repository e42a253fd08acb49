"""The dashboard and the rules on a real Prometheus that scrapes real services: every query runs and
has data, and alerts fire when something is wrong."""

import asyncio
import json
import math
import secrets
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml
from sluicegate.ops.broker_node import free_ports
from sluicegate.producer import Producer
from sluicegate.schemas import AgentJob, GenerationJob, Reasoning, Rules, Sampling
from sluicegate.worker.config import Config

from ..conftest import apply_namespace, delete_namespace
from .private_prometheus import PROMETHEUS, WAIT_S, PrivatePrometheus

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "ops/dashboards"
RULES = yaml.safe_load((FOLDER / "rules.yaml").read_text())
DASHBOARD = json.loads((FOLDER / "sluicegate.json").read_text())
KINDS: tuple[str, ...] = ("worker", "checker", "agent")
TEXT = "A text of some length, which is said back word by word, and in which nothing comes twice. "

# Panels that may be empty, for what they show does not happen here.
EMPTY = {"Sick engines": "the scripted engine never gives wrong numbers"}

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(PROMETHEUS is None, reason="the program prometheus is missing"),
]


@dataclass
class Watched:
    """Services, each a process of its own, and the Prometheus that watches them."""

    url: str
    namespace: str
    prometheus: PrivatePrometheus
    processes: dict[str, asyncio.subprocess.Process]
    ports: dict[str, int]

    async def run(self, *jobs: GenerationJob | AgentJob) -> None:
        """Publish them and wait for what becomes of each."""
        async with Producer(self.url, namespace=self.namespace) as producer:
            handles = [await producer.publish(job) for job in jobs]
            await asyncio.gather(*(each.result(timeout=WAIT_S) for each in handles))

    async def until(self, expression: str, holds: Callable[[float], bool]) -> None:
        """Wait for the first value of a query."""
        async with asyncio.timeout(WAIT_S):
            while not (found := await self.prometheus.query(expression)) or not holds(
                float(found[0]["value"][1])
            ):
                await asyncio.sleep(0.2)


@asynccontextmanager
async def running(
    kind: str, config: Config, log_file: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A service with its log in a file."""
    with log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.ops.watched_services",
            kind,
            msgspec.json.encode(config).decode(),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(WAIT_S):
            await process.wait()


def at_once(rules: dict[str, Any]) -> dict[str, Any]:
    """The rules with alerts that wait for nothing."""
    copy = msgspec.json.decode(msgspec.json.encode(rules))
    for group in copy["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
    return copy


@pytest_asyncio.fixture(scope="module")
async def watched(
    broker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Watched]:
    name = f"test.{secrets.token_hex(6)}"
    await apply_namespace(broker_url, name)
    folder = tmp_path_factory.mktemp("prometheus")
    ports = dict(zip(KINDS, free_ports(len(KINDS)), strict=True))
    targets = [f"127.0.0.1:{port}" for port in ports.values()]
    async with AsyncExitStack() as stack:
        processes: dict[str, asyncio.subprocess.Process] = {}
        for kind, port in ports.items():
            config = Config(
                amqp_url=broker_url,
                namespace=name,
                engine="scripted",
                metrics_port=port,
                worker_id=kind,
                agent_tools="sluicegate.worker.tools.examples",
                max_model_len=200_000 if kind == "agent" else 0,
                watch_replies="orders",
            )
            processes[kind] = await stack.enter_async_context(
                running(kind, config, folder / f"{kind}.log")
            )
        prometheus = PrivatePrometheus(folder, targets, at_once(RULES))
        await stack.enter_async_context(prometheus)
        yield Watched(broker_url, name, prometheus, processes, ports)
    await delete_namespace(broker_url, name)


def job(prompt: str, **fields: Any) -> GenerationJob:
    given: dict[str, Any] = {"max_attempts": 1, "sampling": Sampling(max_tokens=4000), **fields}
    return GenerationJob(prompt=prompt, **given)


def concrete(expression: str) -> str:
    """A query of the dashboard, with its variables filled in."""
    filled = (expression.replace("$__rate_interval", "30s").replace("$job", "sluicegate")).replace(
        "$instance", ".*"
    )
    assert "$" not in filled, filled
    return filled


def panels() -> list[tuple[str, str]]:
    return [
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]


async def test_every_query_has_data_and_faults_fire_alerts(watched: Watched) -> None:
    prometheus = watched.prometheus
    await watched.until('sum(sluice_state{state="ready"})', lambda ready: ready == len(KINDS))
    # One job waits on a rung meanwhile. The others come twice: what a counter begins with is no
    # increase.
    async with asyncio.TaskGroup() as group:
        group.create_task(watched.run(job("LOOP again", max_attempts=2)))
        for _ in range(2):
            await watched.run(
                *(job(f"ECHO {number}: {TEXT}", stream=True) for number in range(4)),
                job(f"ECHO {TEXT}", checks="block"),
                job(f"ECHO {TEXT}", checks="observe"),
                job("SLIP please"),
                job("LOOP please"),
                job("THINK please", reasoning=Reasoning(effort="low")),
                job(f"ECHO {TEXT}", checks="block", rules=Rules(must_include=("honey",))),
                AgentJob(task="What is it?", profile="off", tools=("calculator",)),
            )
            await asyncio.sleep(1)
    await prometheus.until_firing("SluiceDeadLetters")
    empty: dict[str, str] = {}
    for title, expression in panels():
        found = await prometheus.query(concrete(expression))
        if not any(not math.isnan(float(each["value"][1])) for each in found):
            empty[title] = expression
    assert empty.keys() <= EMPTY.keys(), empty
    for group in RULES["groups"]:
        for rule in group["rules"]:
            found = await prometheus.query(rule["expr"])
            if "record" in rule:
                assert found, rule["record"]
    healthy = await prometheus.firing()
    assert not healthy & {"SluiceDown", "SluiceNobodyConsumes", "SluiceQuarantined"}
    assert await outstanding(prometheus) == 0

    # The fault: no worker is left, and jobs come.
    watched.processes["worker"].terminate()
    async with asyncio.timeout(WAIT_S):
        await watched.processes["worker"].wait()
    async with Producer(watched.url, namespace=watched.namespace) as producer:
        await producer.publish(job("ECHO nobody hears this"))
        await prometheus.until_firing("SluiceNobodyConsumes")
        await prometheus.until_firing("SluiceDown")
    assert await outstanding(prometheus) == 1


async def outstanding(prometheus: PrivatePrometheus) -> float:
    """What workers are scaled by, asked as KEDA asks."""
    scaled = next(yaml.safe_load_all((ROOT / "ops/deploy/keda.yaml").read_text()))
    (found,) = await prometheus.query(scaled["spec"]["triggers"][0]["metadata"]["query"])
    return float(found["value"][1])
