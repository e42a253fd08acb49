"""`sluice worker` as an operator sees it: signals, exit codes, logs."""

import asyncio
import json
import signal
from pathlib import Path

import pytest
from sluicegate.ops.service_process import ServiceFailed, ServiceProcess
from sluicegate.producer import Producer
from sluicegate.schemas import GenerationJob

pytestmark = pytest.mark.broker

# The echo comes back a byte at a time, so a job takes as long as its prompt says.
STEP_S = 0.05


def worker(folder: Path, url: str, namespace: str, **settings: object) -> ServiceProcess:
    return ServiceProcess(
        folder,
        {
            "amqp_url": url,
            "namespace": namespace,
            "engine": "scripted",
            "engine_args": json.dumps({"chunk": 1, "step_s": STEP_S}),
            "lanes": "interactive=4",
            **settings,
        },
    )


def jobs(count: int, seconds: float) -> list[GenerationJob]:
    length = int(seconds / STEP_S)
    prompts = [f"{number:02} ".ljust(length, "x") for number in range(count)]
    return [GenerationJob(prompt=prompt, profile="off") for prompt in prompts]


async def test_sigterm_drains_and_exits_0(tmp_path: Path, broker_url: str, namespace: str) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        first = worker(tmp_path, broker_url, namespace)
        await first.start()
        await first.ready(30)
        sent = jobs(8, 1)
        handles = await producer.publish_many(sent)
        await handles[0].result(timeout=30)
        first.signal(signal.SIGTERM)
        assert await first.wait(20) == 0
        async with worker(tmp_path, broker_url, namespace):
            results = [await handle.result(timeout=30) for handle in handles]
    assert [result.text for result in results] == [job.prompt for job in sent]


async def test_a_second_signal_ends_at_once_and_loses_nothing(
    tmp_path: Path, broker_url: str, namespace: str
) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        first = worker(tmp_path, broker_url, namespace, drain_grace_s=300)
        await first.start()
        await first.ready(30)
        (handle,) = await producer.publish_many(jobs(1, 60))
        async for event in handle.events():
            if event.kind == "accepted":
                break
        first.signal(signal.SIGINT)
        await asyncio.sleep(0.5)
        first.signal(signal.SIGINT)
        assert await first.wait(10) == 130
        quick = json.dumps({"chunk": 4096})
        async with worker(tmp_path, broker_url, namespace, engine_args=quick):
            result = await handle.result(timeout=30)
    assert result.ok
    assert result.attempt == 1


async def test_twenty_jobs_and_a_worker_that_is_killed_in_the_middle(
    tmp_path: Path, broker_url: str, namespace: str
) -> None:
    sent = jobs(20, 0.5)
    async with Producer(broker_url, namespace=namespace) as producer:
        first = worker(tmp_path, broker_url, namespace)
        await first.start()
        await first.ready(30)
        handles = await producer.publish_many(sent)
        await handles[0].result(timeout=30)
        first.signal(signal.SIGKILL)
        assert await first.wait(10) == -signal.SIGKILL
        async with worker(tmp_path, broker_url, namespace):
            results = [await handle.result(timeout=60) for handle in handles]
    assert [result.text for result in results] == [job.prompt for job in sent]
    assert {result.attempt for result in results} == {1}


async def test_what_cannot_start_exits_3_and_says_what_to_do(
    tmp_path: Path, broker_url: str, bare_namespace: str
) -> None:
    missing = worker(tmp_path, broker_url, bare_namespace)
    await missing.start()
    with pytest.raises(ServiceFailed, match=r"status 3(.|\n)*sluice topology apply"):
        await missing.ready(30)


async def test_a_setting_that_is_wrong_exits_2(
    tmp_path: Path, broker_url: str, namespace: str
) -> None:
    wrong = worker(tmp_path, broker_url, namespace, lanes="fast=1")
    await wrong.start()
    with pytest.raises(ServiceFailed, match=r"status 2(.|\n)*interactive=8,batch=8"):
        await wrong.ready(30)


async def test_json_logs_name_job_and_attempt_and_no_password(
    tmp_path: Path, broker_url: str, namespace: str
) -> None:
    async with Producer(broker_url, namespace=namespace) as producer:
        async with worker(tmp_path, broker_url, namespace, log_format="json") as process:
            await process.ready(30)
            handle = await producer.publish(GenerationJob(prompt="hello"))
            await handle.result(timeout=30)
        text = process.log_file.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    (done,) = [line for line in lines if line["message"].startswith("completed")]
    assert (done["job_id"], done["attempt"]) == (handle.job_id, 1)
    assert "guest:guest" not in text
    assert any("guest:***@" in line["message"] for line in lines)
