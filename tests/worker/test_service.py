"""Starting, draining, losing the engine or the broker."""

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import Producer
from sluicegate.producer.errors import BrokerUnreachable, TopologyMissing
from sluicegate.schemas import GenerationJob, JobEvent, decode
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.scripted import ScriptedEngine, echo
from sluicegate.worker.service import ExitCode, Worker
from sluicegate.worker.status_server import PortTaken

from ..conftest import apply_namespace
from .conftest import Desk, StartWorker

pytestmark = pytest.mark.broker

Until = Callable[[Callable[[], bool]], Any]
SLOW = "a text that takes a while to come back, letter by letter, from the script" * 3


def job(prompt: str = "hello", **fields: Any) -> GenerationJob:
    return GenerationJob(prompt=prompt, reply_to="default", **fields)


async def test_without_a_broker_it_says_so_within_seconds() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"amqp://user:secret@127.0.0.1:{port}/"
    worker = Worker(Config(amqp_url=url, metrics_port=0), ScriptedEngine())
    with pytest.raises(BrokerUnreachable) as error:
        async with asyncio.timeout(15):
            await worker.run()
    assert "secret" not in str(error.value)


async def test_without_the_topology_it_names_what_is_missing(
    broker_url: str, bare_namespace: str
) -> None:
    config = Config(amqp_url=broker_url, namespace=bare_namespace, metrics_port=0)
    with pytest.raises(TopologyMissing, match="sluice topology apply"):
        await Worker(config, ScriptedEngine()).run()


async def test_a_taken_port_is_a_clear_error(broker_url: str, namespace: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = Config(amqp_url=broker_url, namespace=namespace, metrics_port=port)
        with pytest.raises(PortTaken, match="metrics_port"):
            await Worker(config, ScriptedEngine()).run()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lanes": "fast=1"}, "interactive"),
        ({"lanes": "interactive=0"}, "interactive"),
        ({"lanes": "interactive=1,interactive=2"}, "each once"),
        ({"lanes": ""}, "interactive"),
        ({"attempt_timeout_s": 900.0}, "consumer_timeout"),
        ({"engine_args": {"max_num_seqs": 15}}, "16 slots"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Worker(Config(**settings))


async def test_status_tells_alive_from_ready(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = ScriptedEngine(echo, chunk=1, step_s=0.02)
    running = start_worker(engine)
    await until(lambda: running.worker.status_port != 0)

    def get(path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{running.worker.status_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    await running.ready()
    assert await asyncio.to_thread(get, "/readyz") == (200, "ok\n")
    await desk.publish(job(SLOW))
    await until(lambda: len(engine.running) == 1)
    running.worker.stop()
    await asyncio.sleep(0.05)
    assert (await asyncio.to_thread(get, "/readyz"))[0] == 503
    assert (await asyncio.to_thread(get, "/healthz"))[0] == 200
    status, metrics = await asyncio.to_thread(get, "/metrics")
    assert status == 200
    assert "sluice_in_flight" in metrics
    assert await running.task == ExitCode.OK


async def test_clients_that_dawdle_hold_up_neither_health_nor_the_end(
    start_worker: StartWorker,
) -> None:
    running = start_worker()
    await running.ready()
    port = running.worker.status_port
    dawdlers = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    try:
        for each in dawdlers:
            each.send(b"GET /")

        def health() -> bytes:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                return answer.read()

        assert await asyncio.to_thread(health) == b"ok\n"
        assert await running.stopped() == ExitCode.OK
    finally:
        for each in dawdlers:
            each.close()


async def test_stopping_while_the_broker_is_away(
    killable_broker: PrivateBroker, bare_namespace: str
) -> None:
    await apply_namespace(killable_broker.url, bare_namespace)

    class Loading(ScriptedEngine):
        async def open(self) -> Any:
            await killable_broker.kill()
            return await super().open()

    config = Config(
        amqp_url=killable_broker.url, namespace=bare_namespace, metrics_port=0, engine="scripted"
    )
    worker = Worker(config, Loading())
    running = asyncio.create_task(worker.run())
    while killable_broker.running:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    worker.stop()
    async with asyncio.timeout(25):
        await asyncio.wait([running])
    await killable_broker.start()
    assert running.result() == ExitCode.OK


async def test_draining_finishes_what_runs(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = ScriptedEngine(echo, chunk=8, step_s=0.02)
    running = start_worker(engine, lanes="interactive=1")
    await desk.publish(job(SLOW))
    await desk.publish(job("waits in the queue"))
    await until(lambda: len(engine.running) == 1)
    assert await running.stopped() == ExitCode.OK
    assert (await desk.result()).text == SLOW
    assert await desk.depth(desk.names.jobs_queue("interactive")) == 1


async def test_draining_hands_back_what_does_not_end_in_the_grace(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = ScriptedEngine(echo, chunk=1, step_s=0.5)
    running = start_worker(engine, drain_grace_s=0.1)
    events = await _events(desk)
    sent = await desk.publish(job(SLOW))
    await until(lambda: len(engine.running) == 1)
    assert await running.stopped() == ExitCode.OK
    assert not engine.running
    body = json.loads(await desk.take(desk.names.jobs_queue("interactive")))
    assert body["id"] == sent.id
    assert body.get("attempt", 1) == 1
    assert await desk.depth(desk.names.results_queue("default")) == 0
    assert [decode(body, JobEvent).kind for body in await events(2)] == ["accepted", "interrupted"]


async def test_the_next_worker_takes_what_was_handed_back(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    slow = ScriptedEngine(echo, chunk=1, step_s=0.5)
    first = start_worker(slow, drain_grace_s=0)
    sent = await desk.publish(job(SLOW))
    await until(lambda: len(slow.running) == 1)
    await first.stopped()
    start_worker(worker_id="w2")
    result = await desk.result()
    assert (result.job_id, result.attempt, result.worker) == (sent.id, 1, "w2")


async def test_a_job_can_be_handed_back_more_often_than_the_delivery_limit(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    sent = await desk.publish(job(SLOW))
    for _ in range(8):
        engine = ScriptedEngine(echo, chunk=1, step_s=0.5)
        running = start_worker(engine, drain_grace_s=0)
        await until(lambda: len(engine.running) == 1)  # noqa: B023
        assert await running.stopped() == ExitCode.OK
    assert await desk.depth(desk.names.dead) == 0
    start_worker()
    result = await desk.result()
    assert (result.job_id, result.attempt, result.ok) == (sent.id, 1, True)


async def test_stopping_while_the_engine_loads(start_worker: StartWorker, until: Until) -> None:
    class Loading(ScriptedEngine):
        closed = False

        async def open(self) -> Any:
            await asyncio.sleep(600)

        async def close(self) -> None:
            self.closed = True

    engine = Loading()
    running = start_worker(engine)
    await until(lambda: running.worker.not_ready() == "loading the engine")
    assert await running.stopped() == ExitCode.OK
    assert engine.closed


async def test_a_dead_engine_hands_everything_back_and_says_so(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = ScriptedEngine(echo, chunk=1, step_s=0.2)
    running = start_worker(engine, lanes="interactive=2")
    for _ in range(3):
        await desk.publish(job(SLOW))
    await until(lambda: len(engine.running) == 2)
    engine.die()
    async with asyncio.timeout(20):
        assert await running.task == ExitCode.ENGINE_LOST
    await desk.until_depth(desk.names.jobs_queue("interactive"), 3)
    assert await desk.depth(desk.names.dead) == 0
    start_worker()
    assert [(await desk.result()).ok for _ in range(3)] == [True, True, True]


async def test_leaving_at_once_loses_nothing(
    desk: Desk, start_worker: StartWorker, until: Until
) -> None:
    engine = ScriptedEngine(echo, chunk=1, step_s=0.2)
    running = start_worker(engine)
    sent = await desk.publish(job(SLOW))
    await until(lambda: len(engine.running) == 1)
    running.task.cancel()
    await asyncio.wait([running.task], timeout=20)
    assert running.task.cancelled()
    assert not engine.running
    assert json.loads(await desk.take(desk.names.jobs_queue("interactive")))["id"] == sent.id


async def test_a_consumer_that_the_broker_cancels_comes_back(
    desk: Desk, start_worker: StartWorker
) -> None:
    from sluicegate.producer import declare
    from sluicegate.schemas import topology

    running = start_worker()
    await running.ready()
    channel = await desk.channel()
    await channel.queue_delete(desk.names.jobs_queue("interactive"))
    async with asyncio.timeout(10):
        while running.worker.not_ready() is None:
            await asyncio.sleep(0.02)
    await declare.apply(desk.connection, topology(desk.names.namespace))
    await running.ready()
    sent = await desk.publish(job("still there?"))
    assert (await desk.result()).job_id == sent.id


async def test_twenty_jobs_and_a_broker_that_is_killed_in_the_middle(
    killable_broker: PrivateBroker, bare_namespace: str
) -> None:
    await apply_namespace(killable_broker.url, bare_namespace)
    config = Config(
        amqp_url=killable_broker.url,
        namespace=bare_namespace,
        metrics_port=0,
        engine="scripted",
        lanes="interactive=4",
    )
    engine = ScriptedEngine(echo, chunk=8, step_s=0.05)
    worker = Worker(config, engine)
    running = asyncio.create_task(worker.run())
    jobs = [GenerationJob(prompt=f"{number}: {SLOW}") for number in range(20)]
    async with Producer(killable_broker.url, namespace=bare_namespace) as producer:
        handles = await producer.publish_many(jobs)
        await handles[0].result(timeout=30)
        await killable_broker.kill()
        await asyncio.sleep(1)
        await killable_broker.start()
        results = [await handle.result(timeout=60) for handle in handles]
    worker.stop()
    assert await running == ExitCode.OK
    assert [result.job_id for result in results] == [each.id for each in jobs]
    assert [result.text for result in results] == [each.prompt for each in jobs]
    assert {result.attempt for result in results} == {1}


async def _events(desk: Desk) -> Callable[[int], Any]:
    """Everything that is said on the events exchange from now on."""
    channel = await desk.channel()
    queue = await channel.queue_declare(exclusive=True)
    assert queue.queue is not None
    await channel.queue_bind(queue.queue, desk.names.events, routing_key="#")

    async def take(count: int) -> list[bytes]:
        bodies: list[bytes] = []
        async with asyncio.timeout(10):
            while len(bodies) < count:
                message = await channel.basic_get(queue.queue or "", no_ack=True)
                if message.header.properties.message_type == "job_event":
                    bodies.append(bytes(message.body))
                elif not message.body:
                    await asyncio.sleep(0.02)
        return bodies

    return take
