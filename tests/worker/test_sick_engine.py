"""An engine that falls ill under a worker with a real broker: each fault is made to happen."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from prometheus_client import REGISTRY
from sluicegate.schemas import (
    GenerationJob,
    Pause,
    Reason,
    Resume,
    ServiceEvent,
    Target,
    decode,
    encode,
)
from sluicegate.worker import engine_keeper
from sluicegate.worker.config import Config
from sluicegate.worker.engine import EngineInfo, EngineUnavailable, Piece, Segment
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import ExitCode, Worker

from .conftest import WAIT_S, Desk, Running

pytestmark = pytest.mark.broker
Until = Callable[[Callable[[], bool]], Any]
CANARY = "how is the engine?"
LONG = "a text that takes its time, letter by letter " * 4


class SickEngine(ScriptedEngine):
    """Works, unless it has an ill: nan, garbage (both from the first token on), stall, memory (it
    runs out in a step), load (it can't be loaded), load memory, hang (it does not close), deaf (no
    word of its health). A job that begins with "kill" ends any engine, one that begins with "eat"
    takes all memory."""

    def __init__(self, ills: str = "", step_s: float = 0.005) -> None:
        super().__init__(chunk=8, step_s=step_s)
        self.ills = set(ills.split(","))
        self.asked: list[str] = []
        self.closed = False

    async def open(self) -> EngineInfo:
        """Or not."""
        if "load" in self.ills:
            raise EngineUnavailable("the model's files are gone")
        if "load memory" in self.ills:
            raise MemoryError("CUDA out of memory")
        return await super().open()

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """Pieces, as the ills have them."""
        prompt = bytes(segment.prompt_token_ids).decode(errors="replace")
        self.asked.append(prompt)
        is_canary = prompt == CANARY
        if prompt.startswith("kill"):
            await asyncio.sleep(0.1)
            self.die()
        if prompt.startswith("eat") or ("memory" in self.ills and not is_canary):
            raise MemoryError("no more")
        if "stall" in self.ills and not is_canary:
            self.running.add(segment.request_id)
            await asyncio.sleep(600)
        async for piece in super().stream(segment):
            count = len(piece.token_ids)
            if "nan" in self.ills and not prompt.startswith(("slow", CANARY)):
                yield msgspec.structs.replace(piece, logprobs=(float("nan"),) * count)
            elif "garbage" in self.ills:
                yield Piece(token_ids=(0,) * count, finish_reason=piece.finish_reason)
            else:
                yield piece

    async def health(self) -> None:
        """Or no answer."""
        if "deaf" in self.ills:
            await asyncio.sleep(600)
        await super().health()

    async def close(self) -> None:
        """Or not."""
        self.closed = True
        if "hang" in self.ills:
            await asyncio.sleep(600)
        await super().close()


@dataclass
class Ward(Running):
    """A worker whose engines are ill by a list, the last of which holds for all later ones."""

    made: list[SickEngine] = field(default_factory=list)
    events: list[ServiceEvent] = field(default_factory=list)

    def get(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.worker.status_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def said(self) -> list[str]:
        return [each.what for each in self.events if each.what != "status"]

    def detail(self, what: str) -> str:
        return next(each.detail for each in self.events if each.what == what)

    async def code(self) -> ExitCode:
        async with asyncio.timeout(WAIT_S):
            return await self.task


StartWard = Callable[..., Ward]


@pytest_asyncio.fixture
async def ward(desk: Desk, broker_url: str) -> AsyncGenerator[StartWard]:
    wards: list[Ward] = []
    channel = await desk.channel()
    queue = (await channel.queue_declare(exclusive=True)).queue or ""
    await channel.queue_bind(queue, desk.names.events, routing_key="_services.#")

    async def hear(message: Any) -> None:
        wards[0].events.append(decode(message.body, ServiceEvent))

    def start(*ills: str, step_s: float = 0.005, **settings: Any) -> Ward:
        made: list[SickEngine] = []

        async def make() -> SickEngine:
            made.append(SickEngine(ills[min(len(made), len(ills) - 1)], step_s))
            return made[-1]

        config = msgspec.structs.replace(
            Config(
                amqp_url=broker_url,
                namespace=desk.names.namespace,
                engine="scripted",
                metrics_port=0,
                worker_id="w1",
                publish_timeout_s=5.0,
                canary_prompt=CANARY,
                engine_restarts=3,
                lanes="interactive=8",
            ),
            **settings,
        )
        worker = Worker(config, make)
        quick = msgspec.structs.replace(worker.sickness.rules, first_pause_s=0.02)
        worker.sickness.rules = quick
        one = Ward(worker, asyncio.create_task(worker.run()), made)
        wards.append(one)
        return one

    await channel.basic_consume(queue, hear, no_ack=True)
    yield start
    for one in wards:
        one.worker.stop()
        await asyncio.wait([one.task], timeout=WAIT_S)
    await channel.close()


def job(prompt: str, **fields: Any) -> GenerationJob:
    return GenerationJob(prompt=prompt, reply_to="default", **fields)


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def restarted(one: Ward, until: Until, times: int = 1) -> None:
    await until(lambda: one.said().count("restarted") == times or one.task.done())
    assert not one.task.done()
    await one.ready()


async def test_a_dead_engine_is_replaced_and_its_jobs_come_back(
    desk: Desk, ward: StartWard, until: Until
) -> None:
    before = counted("sluice_quarantines_total", reason="engine_lost")
    one = ward("", "load", "", step_s=0.02)
    await one.ready()
    jobs = [await desk.publish(job(f"{number} {LONG}")) for number in range(4)]
    await until(lambda: len(one.made[0].running) == 4)
    # Between engines it is alive, and not ready.
    one.worker.sickness.rules = msgspec.structs.replace(
        one.worker.sickness.rules, first_pause_s=0.5
    )
    one.made[0].die()
    await until(lambda: one.worker.state == "quarantined")
    status, why = await asyncio.to_thread(one.get, "/readyz")
    assert status == 503
    assert "engine_lost" in why
    assert (await asyncio.to_thread(one.get, "/healthz"))[0] == 200
    await restarted(one, until)
    assert (await asyncio.to_thread(one.get, "/readyz"))[0] == 200
    # They wait for the new one, as the same attempts, with the loss on their account.
    taken = [await desk.take(desk.names.retry_queue("5s")) for _ in jobs]
    back = [decode(body, GenerationJob) for body in taken]
    assert {each.id for each in jobs} == {each.id for each in back}
    assert {each.attempt for each in back} == {1}
    assert [[fault.lost for fault in each.lineage.faults] for each in back] == [[True]] * 4
    await desk.publish(job("at the new one"))
    assert (await desk.result()).text == "at the new one"
    assert one.said() == ["started", "quarantined", "restarted"]
    assert "engine_lost" in one.detail("quarantined")
    assert one.worker.sickness.restarts == 2
    assert [each.closed for each in one.made] == [True, True, False]
    assert counted("sluice_quarantines_total", reason="engine_lost") == before + 1
    assert await one.stopped() == ExitCode.OK


async def test_a_stuck_engine_gives_its_jobs_back_with_a_fault_and_does_not_close(
    desk: Desk, ward: StartWard, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ward("stall,hang", "", engine_stall_s=0.3, lanes="interactive=1,batch=1")
    monkeypatch.setattr(one.worker._keeper, "_close_s", 0.2)  # pyright: ignore[reportPrivateUsage]
    await one.ready()
    await desk.publish(job("begun"))
    await restarted(one, until)
    assert "stalled" in one.detail("quarantined")
    await desk.until_depth(desk.names.retry_queue("5s"), 1)
    await desk.publish(job("at the new one"))
    assert (await desk.result()).text == "at the new one"


async def test_no_word_of_its_health(
    ward: StartWard, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_keeper, "_HEALTH_S", 0.05)
    one = ward("deaf", "")
    await restarted(one, until)
    assert "hung" in one.detail("quarantined")


async def test_numeric_faults_of_several_jobs_and_what_else_ran_begins_anew(
    desk: Desk, ward: StartWard, until: Until
) -> None:
    one = ward("nan", "", step_s=0.03)
    await one.ready()
    slow = await desk.publish(job(f"slow {LONG}"))
    await until(lambda: len(one.made[0].running) == 1)
    for number in range(3):
        await desk.publish(job(f"{number} is spoilt", max_attempts=1))
    await restarted(one, until)
    assert "numeric_faults" in one.detail("quarantined")
    assert {(await desk.dead()).reason for _ in range(3)} == {Reason.GATE_TRIPPED}
    results = [await desk.result() for _ in range(4)]
    (whole,) = [each for each in results if each.ok]
    assert (whole.job_id, whole.attempt, len(whole.lineage.faults)) == (slow.id, 1, 0)
    # Nothing of what the sick engine wrote is in it: the new one was asked for all of it.
    assert slow.prompt in one.made[1].asked


async def test_one_job_that_brings_its_own_fault_takes_no_engine_down(
    desk: Desk, ward: StartWard
) -> None:
    one = ward("nan")
    await one.ready()
    for attempt in range(1, 6):
        await desk.publish(job("the same", id="same", attempt=attempt, max_attempts=attempt))
        await desk.dead()
    assert one.worker.sickness.health == "healthy"
    assert len(one.made) == 1


async def test_the_canary_stops_an_engine_before_it_has_jobs(
    desk: Desk, ward: StartWard, until: Until
) -> None:
    sent = await desk.publish(job("waits for an engine that works"))
    one = ward("garbage", "garbage", "")
    await restarted(one, until)
    result = await desk.result()
    assert (result.job_id, result.ok, result.attempt) == (sent.id, True, 1)
    assert [each.asked for each in one.made[:2]] == [[CANARY]] * 2
    assert "canary" in one.detail("quarantined")


async def test_no_engine_that_passes_is_the_end_with_a_code_of_its_own(
    desk: Desk, ward: StartWard, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.publish(job("is not touched"))
    one = ward("garbage", engine_restarts=2)
    assert await one.code() == ExitCode.QUARANTINED
    assert len(one.made) == 3
    assert all(each.closed for each in one.made)
    assert all(each.asked == [CANARY] for each in one.made)
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 1
    assert "canary_prompt" in caplog.text


async def test_memory_that_runs_out_twice_ends_the_worker_with_the_remedy(
    desk: Desk, ward: StartWard, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    one = ward("memory")
    await one.ready()
    await desk.publish(job("first"))
    await restarted(one, until)
    await desk.publish(job("second"))
    assert await one.code() == ExitCode.QUARANTINED
    assert "lower gpu_memory_utilization" in caplog.text
    assert len(one.made) == 2
    await desk.until_depth(desk.names.retry_queue("5s"), 2)


async def test_no_memory_at_the_first_load_can_t_start(ward: StartWard) -> None:
    one = ward("load memory")
    with pytest.raises(EngineUnavailable, match="kv_cache_gib"):
        await one.code()


@pytest.mark.parametrize("how", ["kill", "eat"])
async def test_a_job_that_ends_engines_is_buried_and_the_others_are_done(
    desk: Desk, ward: StartWard, tmp_path: Path, how: str, until: Until
) -> None:
    rules = tmp_path / "retry.toml"
    rules.write_text("[limits]\nlosses = 1\n")
    one = ward("", retry_file=str(rules), step_s=0.02)
    await one.ready()
    good = [await desk.publish(job(f"{number} {LONG}")) for number in range(4)]
    await until(lambda: len(one.made[0].running) == 4)
    killer = await desk.publish(job(f"{how} it"))
    letter = await desk.dead()
    assert (letter.job_id, letter.reason) == (killer.id, Reason.ENGINE_FAULT)
    assert "2 engines were lost" in letter.detail
    results = {(each := await desk.result()).job_id: each.ok for _ in range(5)}
    assert results == {**{each.id: True for each in good}, killer.id: False}
    await one.ready()
    assert one.worker.sickness.restarts == 2
    assert one.worker.sickness.takes_work


async def test_stopping_before_any_engine_was_well_ends_promptly(
    desk: Desk, ward: StartWard, until: Until
) -> None:
    one = ward("garbage")
    one.worker.sickness.rules = msgspec.structs.replace(
        one.worker.sickness.rules, first_pause_s=60.0
    )
    await desk.publish(job("is not touched"))
    await until(lambda: bool(one.made) and one.made[0].closed)
    assert one.worker.state == "quarantined"
    one.worker.stop()
    async with asyncio.timeout(5):
        assert await one.task == ExitCode.OK
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 1


async def test_stopping_between_engines_ends_promptly(
    ward: StartWard, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_keeper, "_HEALTH_S", 0.05)
    one = ward("", "load")
    await one.ready()
    one.worker.sickness.rules = msgspec.structs.replace(
        one.worker.sickness.rules, first_pause_s=60.0
    )
    one.made[0].die()
    await until(lambda: one.worker.state == "quarantined" and one.made[0].closed)
    one.worker.stop()
    async with asyncio.timeout(5):
        assert await one.task == ExitCode.OK


async def test_a_pause_holds_over_a_quarantine(desk: Desk, ward: StartWard, until: Until) -> None:
    one = ward("", step_s=0.03)
    await one.ready()
    await desk.publish(job(f"runs {LONG}"))
    await until(lambda: len(one.made[0].running) == 1)
    pause = Pause(target=Target("service", "w1"), at=datetime.now(UTC))
    await desk.publisher.publish(
        desk.names.pauses, "", encode(pause), kind="pause", correlation_id=None, timeout_s=WAIT_S
    )
    await until(lambda: one.worker.state == "paused")
    one.made[0].die()
    await until(lambda: "restarted" in one.said())
    await until(lambda: one.worker.state == "paused")
    waits = await desk.publish(job("waits"))
    await desk.until_depth(desk.names.retry_queue("5s"), 1)
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 1
    resume = Resume(target=pause.target, at=datetime.now(UTC))
    await desk.publisher.publish(
        desk.names.pauses, "", encode(resume), kind="resume", correlation_id=None, timeout_s=WAIT_S
    )
    assert (await desk.result()).job_id == waits.id
