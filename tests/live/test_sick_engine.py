"""The engine's process dies in the middle of jobs; its worker starts another and does them all."""

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from sluicegate.worker.config import Config
from sluicegate.worker.engine import EngineDead, EngineOutOfMemory
from sluicegate.worker.processes import Processes, alive, descendants

from .conftest import READY_S, Site
from .test_survival import all_results, are_all_there, first_of, twenty_jobs

# vLLM and what it imports warn of many things that are not ours to mend.
pytestmark = [pytest.mark.broker, pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


def _cores(worker: int) -> Processes:
    """The engine's own processes below a worker's."""
    return frozenset(
        (pid, began)
        for pid, began in descendants(worker)
        if b"EngineCore" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


async def test_the_engine_is_killed_and_its_worker_goes_on(site: Site) -> None:
    jobs = twenty_jobs()
    worker = site.worker.pid
    cores = _cores(worker)
    assert cores
    async with site.producer() as producer:
        handles = await producer.publish_many(jobs)
        await first_of(handles)
        began = time.monotonic()
        for pid, _ in cores:
            os.kill(pid, signal.SIGKILL)
        results = await all_results(handles)
        took_s = time.monotonic() - began
    assert are_all_there(jobs, results)
    assert {result.attempt for result in results} == {1}
    # Whatever ran then has the loss on its account, and nothing else has.
    faults = [fault for result in results for fault in result.lineage.faults]
    assert 0 < len(faults) <= 8
    assert all(fault.lost for fault in faults)
    assert site.worker.pid == worker
    await site.worker.ready(READY_S)
    assert not alive(cores)
    assert len(_cores(worker)) == len(cores)
    print(f"done {took_s:.1f} s after the engine was killed, {len(faults)} jobs began anew")


async def test_an_engine_that_does_not_end_is_killed_with_its_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sluicegate.worker import vllm_engine

    monkeypatch.setattr(vllm_engine, "_CLOSE_TIMEOUT_S", 0.2)
    engine = vllm_engine.VllmEngine(Config(model="none"))
    over = threading.Event()
    before = descendants()
    core = await asyncio.create_subprocess_exec("sleep", "600")
    # What `open` leaves behind, of an engine that hangs.
    hanging = SimpleNamespace(shutdown=over.wait)
    monkeypatch.setattr(engine, "_engine", hanging)
    monkeypatch.setattr(engine, "_processes", descendants() - before)
    async with asyncio.timeout(20):
        await engine.close()
        assert await core.wait() == -signal.SIGKILL
    over.set()


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", EngineOutOfMemory),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", EngineDead),
    ],
)
def test_what_the_engine_died_of_is_read_in_its_log(
    cause: str, kind: type[EngineDead], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluicegate.worker import logs, vllm_engine

    file = tmp_path / "errors.log"
    old = "ValueError: of an engine before\n"
    file.write_text(old + f"Traceback (most recent call last):\n{cause}\n")
    monkeypatch.setenv(logs._ERRORS, str(file))  # pyright: ignore[reportPrivateUsage]
    engine = vllm_engine.VllmEngine(Config(model="none"))
    monkeypatch.setattr(engine, "_errors_before", len(old))
    said = engine._obituary()  # pyright: ignore[reportPrivateUsage]
    assert type(said) is kind
    assert cause in str(said)
    monkeypatch.setattr(engine, "_errors_before", len(file.read_text()))
    assert type(engine._obituary()) is EngineDead  # pyright: ignore[reportPrivateUsage]
