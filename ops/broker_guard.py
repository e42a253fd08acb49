"""The process between us and the private broker: when we are gone, so is the broker.

A broker left behind by a killed test run would hold memory, ports and files for ever, and a process
killed with SIGKILL can't clean up after itself. So the broker's two processes are children of this
small one, whose standard input is a pipe that only we hold open. It runs as a program of its own
(standard library alone, in a session of its own) and never inside ours.

What it understands on standard input: `S` ends the node in good order and removes the folder, `P`
ends it in good order and keeps the folder for a later start, `K` kills it and keeps the folder. The
end of the input means that our process died or gave up: everything is killed and removed.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Final

LOOK_EVERY_S: Final = 0.1
REAP_LIMIT_S: Final = 3.0
STOP: Final = b"S"
PAUSE: Final = b"P"
KILL: Final = b"K"

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def _prctl(option: int, value: int) -> None:
    """A Linux-only second line of defence; elsewhere the pipe alone does it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_guard() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _spawn(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        # Safe here: this process has one thread.
        preexec_fn=_die_with_guard,  # noqa: PLW1509
    )


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _terminate(process: "subprocess.Popen[bytes]", grace_s: float) -> bool:
    """End the node in good order; False where our own process gave up meanwhile."""
    process.terminate()
    deadline = time.monotonic() + grace_s
    while process.poll() is None and time.monotonic() < deadline:
        if _word(LOOK_EVERY_S) == b"":
            return False
    return True


def _word(wait_s: float) -> bytes | None:
    """What our process says; empty where it is gone, None where it says nothing."""
    readable, _, _ = select.select([0], [], [], wait_s)
    return os.read(0, 1) if readable else None


def _collect(*own: "subprocess.Popen[bytes]") -> None:
    """Take the exit status of whatever the node left to us, and of our own two."""
    while sys.platform == "linux":
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        owner = next((process for process in own if process.pid == ended.si_pid), None)
        if owner is not None:
            owner.poll()
        else:
            os.waitpid(ended.si_pid, 0)


def _reap() -> None:
    """Wait for the helpers of the node, which end by themselves once it is gone."""
    deadline = time.monotonic() + REAP_LIMIT_S
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.01)


def guard(epmd: list[str], node: list[str], folder: str, grace_s: float) -> int:
    """Run both until told to stop, the node ends, or the process that started us is gone."""
    parent = os.getppid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keep_folder = False
    mapper = _spawn(epmd)
    try:
        server = _spawn(node)
        try:
            while server.poll() is None:
                word = _word(LOOK_EVERY_S)
                # A fork of our process may hold the pipe open after the process itself is gone.
                if word is None and os.getppid() == parent:
                    _collect(mapper, server)
                    continue
                if word in (STOP, PAUSE):
                    keep_folder = _terminate(server, grace_s) and word == PAUSE
                else:
                    keep_folder = word == KILL
                return 0
            keep_folder = True  # ended by itself: its log says why
            return 1
        finally:
            _kill_group(server)
    finally:
        _kill_group(mapper)
        _reap()
        if not keep_folder:
            shutil.rmtree(folder, ignore_errors=True)


def _quit(_signal: int, _frame: object) -> None:
    sys.exit(0)


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _quit)
    task = json.loads(sys.argv[1])
    return guard(task["epmd"], task["node"], task["folder"], task["grace_s"])


if __name__ == "__main__":
    sys.exit(main())
