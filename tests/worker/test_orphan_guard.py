"""An engine process must not outlive its worker, and nobody else's process is touched."""

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points

from sluicegate.worker.orphan_guard import WORKER_PID, guard, is_installed

ENGINE = """
import sys, time
from sluicegate.worker.orphan_guard import guard
guard()
print("running", flush=True)
time.sleep(60)
"""
# A worker that starts an engine as vLLM does, tells its pid, and waits to be killed.
WORKER = f"""
import os, subprocess, sys, time
os.environ[{WORKER_PID!r}] = str(os.getpid())
engine = subprocess.Popen([sys.executable, "-c", {ENGINE!r}], stdout=subprocess.PIPE, text=True)
engine.stdout.readline()
print(engine.pid, flush=True)
time.sleep(60)
"""


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_engine_ends_with_a_worker_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        engine = int(worker.stdout.readline())
        time.sleep(1.5)
        assert runs(engine)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        deadline = time.monotonic() + 15
        while runs(engine) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not runs(engine)


def test_a_process_of_somebody_else_is_left_alone() -> None:
    environment = {name: value for name, value in os.environ.items() if name != WORKER_PID}
    with subprocess.Popen(
        [sys.executable, "-c", ENGINE], stdout=subprocess.PIPE, text=True, env=environment
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "running\n"
        assert other.poll() is None
        other.kill()


def test_vllm_finds_it() -> None:
    assert is_installed()
    (found,) = entry_points(group="vllm.general_plugins", name="sluicegate_orphan_guard")
    assert found.load() is guard
