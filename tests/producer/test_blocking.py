"""The client for code without an event loop."""

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sluicegate.producer import (
    BlockingProducer,
    BrokerUnreachable,
    Completed,
    Finished,
    GenerationJob,
    InvalidMessage,
    ProducerClosed,
    PublishManyFailed,
    ResultTimeout,
    Sampling,
)
from sluicegate.producer.loop_thread import LoopThread

from .fake_worker import FakeWorker

pytestmark = pytest.mark.broker


async def test_a_script_in_three_lines(broker_url: str, namespace: str, worker: FakeWorker) -> None:
    def script() -> str:
        with BlockingProducer(broker_url, namespace=namespace) as producer:
            handle = producer.publish(GenerationJob(prompt="Why?"))
            assert handle.job_id in repr(handle)
            text = handle.result(timeout=30).text
            assert handle.done
            assert producer.attach(handle.job_id).result(timeout=0).text == text
            assert handle.cancel() is True
            assert producer.cancel(handle.job_id, reason="done with it") is True
            assert producer.reply_key.startswith("private-")
            return text

    assert await asyncio.to_thread(script) == "You said: Why?"
    assert not [each for each in threading.enumerate() if each.name == "sluicegate producer"]


async def test_four_threads_share_one(broker_url: str, namespace: str, worker: FakeWorker) -> None:
    producer = BlockingProducer(broker_url, namespace=namespace)  # opened by whoever is first

    def one(number: int) -> str:
        return producer.publish(GenerationJob(prompt=f"{number}")).result(timeout=30).text

    def many() -> list[str]:
        with ThreadPoolExecutor(4) as threads:
            return list(threads.map(one, range(40)))

    texts = await asyncio.to_thread(many)
    await asyncio.to_thread(producer.close)
    assert texts == [f"You said: {number}" for number in range(40)]
    await asyncio.to_thread(producer.close)
    with pytest.raises(ProducerClosed):
        await asyncio.to_thread(producer.publish, GenerationJob(prompt="x"))


async def test_events_results_and_careful_receiving(
    broker_url: str, namespace: str, worker: FakeWorker
) -> None:
    worker.going.clear()

    def script() -> None:
        with BlockingProducer(broker_url, "blocking", namespace=namespace) as producer:
            handles = producer.publish_many(
                GenerationJob(prompt="x", id=f"n{number}") for number in range(4)
            )
            kinds = [event.kind for event in handles[0].events()]
            assert kinds == ["finished"]
            with pytest.raises(OSError, match="disk full"), handles[0].receive(timeout=30):
                raise OSError("disk full")
            with handles[0].receive(timeout=30) as result:
                assert result.ok
            abandoned = handles[1].events()
            del abandoned
            handles.clear()
            del handles
            stray: list[str] = []
            for result in producer.results(idle_s=1):
                stray.append(result.job_id)
                if len(stray) == 2:
                    break
            assert len(list(producer.results(idle_s=1))) == 2  # the one left by `break` again
            with pytest.raises(PublishManyFailed):
                producer.publish_many([GenerationJob(prompt="x", sampling=Sampling(temperature=9))])

    running = asyncio.create_task(asyncio.to_thread(script))
    for _ in range(4):
        await asyncio.wait_for(worker.arrived.acquire(), 20)
    first = next(each for each in worker.seen if each.id == "n0")
    await worker.tell(first, Finished(outcome=Completed()), 0)
    worker.going.set()
    await running


async def test_errors_come_through(broker_url: str, namespace: str) -> None:
    def script() -> None:
        with BlockingProducer(broker_url, namespace=namespace) as producer:
            handle = producer.publish(GenerationJob(prompt="x"))
            with pytest.raises(ResultTimeout):
                handle.result(timeout=0.05)
            waiting = ThreadPoolExecutor(1)
            future = waiting.submit(handle.result, 60)
            time.sleep(0.05)
            producer.close()
            with pytest.raises(ProducerClosed):
                future.result(10)
            waiting.shutdown()
            with pytest.raises(ProducerClosed):
                handle.result(timeout=1)
        with pytest.raises(BrokerUnreachable):
            BlockingProducer("amqp://127.0.0.1:1/").__enter__()
        with pytest.raises(InvalidMessage):
            BlockingProducer(broker_url, "no.dots").__enter__()

    await asyncio.to_thread(script)


def test_a_call_from_inside_its_own_loop_is_refused() -> None:
    thread = LoopThread("test")

    async def nothing() -> None: ...

    async def inside() -> None:
        thread.run(nothing())

    with pytest.raises(RuntimeError, match="would wait for ever"):
        thread.run(inside())
    thread.stop()
    thread.stop()
    with pytest.raises(ProducerClosed):
        thread.run(nothing())
    thread.start(nothing())


FORK = """
import os, sys
from sluicegate.producer import BlockingProducer, ForkedProducer, GenerationJob
url, namespace = sys.argv[1:]
producer = BlockingProducer(url, namespace=namespace)
handle = producer.publish(GenerationJob(prompt="x"))
child = os.fork()
if child == 0:
    try:
        producer.publish(GenerationJob(prompt="x"))
    except ForkedProducer as error:
        assert str(os.getppid()) in str(error)
        try:
            handle.result(timeout=1)
        except ForkedProducer:
            producer.close()
            sys.exit(0)
    sys.exit(1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
producer.publish(GenerationJob(prompt="x"))  # the parent's still works
print("closed at the end by itself")
"""


async def test_a_forked_process_is_told(broker_url: str, namespace: str) -> None:
    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", FORK, broker_url, namespace],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = await asyncio.to_thread(run)
    assert done.returncode == 0, done.stderr
    assert "closed at the end" in done.stdout
    assert done.stderr == ""
