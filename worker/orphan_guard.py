"""Loaded by vLLM in its own processes: the engine must not outlive a worker that was killed.

vLLM's engine process does not notice when its parent gets SIGKILL. It would go on holding the GPU's
memory, and the worker that a supervisor starts next would find none. As a plug-in of vLLM this runs
in every process of every program in the environment that uses vLLM, so it does nothing unless a
worker of ours has left its process id in the environment.
"""

import os
import select
import threading
from typing import Final

WORKER_PID: Final = "_SLUICE_WORKER_PID"
_ORPHANED: Final = 1


def guard() -> None:
    """End this process when the worker that started it is gone. Returns at once."""
    worker = os.environ.get(WORKER_PID, "")
    if worker.isdecimal() and int(worker) != os.getpid():
        name = "orphan guard"
        threading.Thread(
            target=_outlive_no_more, args=(int(worker),), name=name, daemon=True
        ).start()


def _outlive_no_more(worker: int) -> None:
    try:
        handle = os.pidfd_open(worker)
    except ProcessLookupError:
        os._exit(_ORPHANED)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll()
    os._exit(_ORPHANED)
