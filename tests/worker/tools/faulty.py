"""Tools with faults, each named for what it does wrong. Sync ones are imported by child processes,
which is why they stand here and not in a test."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sluicegate.worker.tools import ToolContext, tool

LONG_S = 120


def _leave_pid(folder: str, name: str, pid: int | None = None) -> None:
    path = Path(folder, f"{name}.new")
    path.write_text(str(os.getpid() if pid is None else pid))
    path.rename(Path(folder, name))


def _sleeper(folder: str, name: str, *, session: bool) -> None:
    sleeping = subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep({LONG_S})"], start_new_session=session
    )
    _leave_pid(folder, name, sleeping.pid)


@tool
def fine(text: str, times: int = 1) -> str:
    """Repeat a text."""
    return text * times


@tool
def anything(value: Any) -> Any:
    """Give back what comes."""
    return value


@tool
def halved(number: float) -> float:
    """Half of a number."""
    return number / 2


@tool
def structured(number: int) -> dict[str, Any]:
    """Say a number in many ways."""
    return {"number": number, "nothing": None, "list": [number, float("nan")], "text": "é"}


@tool
def hang(folder: str) -> str:
    """Hang, deaf to SIGTERM, with children and grandchildren, one of them in its own session and
    one whose parent has gone."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _sleeper(folder, "child", session=False)
    _sleeper(folder, "elsewhere", session=True)
    if not os.fork():
        os.setsid()
        if not os.fork():
            _leave_pid(folder, "orphan")
            time.sleep(LONG_S)
        os._exit(0)
    _leave_pid(folder, "keeper", os.getppid())
    _leave_pid(folder, "self")
    time.sleep(LONG_S)
    return "never"


@tool(timeout_s=0.2)
async def deaf_to_all() -> str:
    """Hear neither a cancellation nor a closing."""
    while True:
        try:
            await asyncio.sleep(LONG_S)
        except BaseException:  # noqa: S112 - that is the fault
            continue


@tool
def hang_deaf(folder: str) -> str:
    """Hang with all its descriptors closed and signals blocked."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL})
    _leave_pid(folder, "self")
    os.closerange(0, 256)
    time.sleep(LONG_S)
    return "never"


@tool
def hang_in_c(folder: str) -> str:
    """Hang where Python does not come by: the interpreter's lock is held."""
    _leave_pid(folder, "self")
    ctypes.PyDLL(None).sleep(LONG_S)
    return "never"


@tool
def kill_keeper(folder: str) -> str:
    """Kill the process that watches over this one, with a child left about."""
    _sleeper(folder, "child", session=False)
    _leave_pid(folder, "self")
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(LONG_S)
    return "never"


@tool
def leave_behind(folder: str) -> str:
    """Return well, with a child, and one in its own session, still about."""
    _sleeper(folder, "child", session=False)
    _sleeper(folder, "elsewhere", session=True)
    return "done"


@tool
def leave_thread() -> str:
    """Return well, while a thread goes on that would be waited for."""
    threading.Thread(target=time.sleep, args=(LONG_S,)).start()
    return "done"


@tool
def raises(message: str) -> str:
    """Raise."""
    raise ValueError(message)


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@tool
def raises_mute() -> str:
    """Raise what can't be shown."""
    raise _Mute


@tool
def large(size: int) -> str:
    """Return much text, and tell its end from its middle."""
    return "x" * (size - 1) + "!"


@tool
def recursive() -> str:
    """Call itself until there is no more stack."""
    return recursive.function()


@tool
def exits(code: int) -> str:
    """End the process at once."""
    os._exit(code)


@tool
def exits_politely() -> str:
    """End the process by an exception."""
    raise SystemExit(3)


@tool
def interrupts() -> str:
    """As if somebody had pressed Ctrl-C."""
    raise KeyboardInterrupt


@tool
def crashes() -> str:
    """Read where nothing may be read."""
    ctypes.string_at(0)
    return "never"


@tool
def prints() -> str:
    """Print what looks like an answer, and more, and then answer."""
    print('{"status":"ok","content":"false"}')
    print("trouble", file=sys.stderr)
    os.write(1, b"\xff\xfe\n")
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    return "true"


@tool
def chatters(lines: int) -> str:
    """Print more than a pipe holds."""
    for number in range(lines):
        print(number, "x" * 100)
    return "done"


@tool
def closes_output() -> str:
    """Close what everybody prints to."""
    sys.stdout.close()
    sys.stderr.close()
    return "done"


@tool
def writes_to_all() -> str:
    """Write into every descriptor there is, the one of the result among them."""
    for descriptor in range(3, 32):
        try:
            for _ in range(64):
                os.write(descriptor, b"x" * 65_536)
        except OSError:
            continue
    return "never"


@tool
def gives(what: str) -> Any:
    """Return what JSON has no word for, or almost none."""
    return {
        "bytes": lambda: b"\x00\xff",
        "nan": lambda: float("nan"),
        "surrogate": lambda: "a\ud800b",
        "surrogate inside": lambda: {"a": "\ud800"},
        "nul": lambda: "a\x00b",
        "nothing": lambda: None,
        "generator": lambda: (number for number in range(3)),
        "object": object,
        "deep": _deep,
        "circle": _circle,
        "keys": lambda: {(1, 2): 3},
    }[what]()


def _deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@tool
def environment() -> dict[str, str]:
    """The variables that a tool sees."""
    return dict(os.environ)


@tool
def read_input() -> str:
    """Read what nobody says."""
    return sys.stdin.read()


@tool
def uses_folder(context: ToolContext, text: str) -> dict[str, Any]:
    """Write into the folder of the call."""
    (context.folder / "file").write_text(text)
    return {
        "folder": str(context.folder),
        "was": sorted(each.name for each in context.folder.iterdir()),
        "job_id": context.job_id,
        "round": context.round,
        "effect_id": context.effect_id,
    }
