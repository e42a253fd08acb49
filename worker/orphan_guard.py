"""Loaded by vLLM in its own processes: the engine must not outlive a worker that was killed.

vLLM's engine process does not notice when its parent gets SIGKILL. It would go on holding the GPU's
memory, and the worker that a supervisor starts next would find none. As a plug-in of vLLM this runs
in every process of every program in the environment that uses vLLM, so it does nothing unless a
worker of ours has left its process id in the environment.
"""

import os
import threading
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

WORKER_PID: Final = "_SLUICE_WORKER_PID"
_ORPHANED: Final = 1
_LOOK_EVERY_S: Final = 1.0


def is_installed() -> bool:
    """Whether vLLM will find the guard: a stale or missing package metadata hides it."""
    return any(entry_points(group="vllm.general_plugins", name="sluicegate_orphan_guard"))


def guard() -> None:
    """End this process when the worker that started it is gone. Returns at once."""
    worker = os.environ.get(WORKER_PID, "")
    name = "orphan guard"
    if any(thread.name == name for thread in threading.enumerate()):
        return
    if worker.isdecimal() and int(worker) != os.getpid():
        threading.Thread(
            target=_outlive_no_more, args=(int(worker),), name=name, daemon=True
        ).start()


def _outlive_no_more(worker: int) -> None:
    # A pidfd would save the looking, but descriptors get closed by number in these processes.
    began = start_time(worker)
    while began is not None and start_time(worker) == began:
        time.sleep(_LOOK_EVERY_S)
    os._exit(_ORPHANED)


def start_time(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None if it is gone, or dead and unburied.
    It tells a process from a later one that was given the same id."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
