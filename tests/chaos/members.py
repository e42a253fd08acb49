"""The processes of a run: services, each behind a proxy of its own, and the backend."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
from sluicegate.ops.service_process import ServiceProcess

from .backend import Order

ROOT: Final = Path(__file__).resolve().parents[2]
END_LIMIT_S: Final = 30.0

Kind = Literal["worker", "checker", "agent"]


class ScriptedService(ServiceProcess):
    """A service of `tests.chaos.service`."""

    def __init__(self, folder: Path, settings: Mapping[str, object], kind: Kind) -> None:
        super().__init__(folder, {**settings, "chaos_folder": folder})
        self._kind = kind

    @property
    def arguments(self) -> list[str]:
        """Of the checkout, wherever we are."""
        return [*from_checkout("tests.chaos.service"), self._kind]


class BackendProcess:
    """The backend. `start` begins it anew, on the same journal."""

    def __init__(self, order: Order, log_file: Path) -> None:
        self._order = order
        self._log_file = log_file
        self._allowed = 0
        self._process: asyncio.subprocess.Process | None = None

    def __repr__(self) -> str:
        return f"<BackendProcess, up to job {self._allowed}>"

    @property
    def pid(self) -> int:
        """Of the child."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it; return at once."""
        with self._log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *from_checkout("tests.chaos.backend"),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await self._say(msgspec.json.encode(self._order))
        await self.allow(self._allowed)

    async def allow(self, number: int) -> None:
        """Let it publish the jobs up to this number."""
        self._allowed = number
        await self._say(str(number).encode())

    async def kill(self) -> None:
        """As a crash."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> None:
        """It ends when its input does; harmless when it was not started."""
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            async with asyncio.timeout(END_LIMIT_S):
                await process.wait()
        except BaseException:
            await self.kill()
            raise

    async def _say(self, line: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # Where it was killed a moment ago, the next one is told.
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(line + b"\n")
            await self._process.stdin.drain()


def from_checkout(module: str) -> list[str]:
    """Arguments of an interpreter that run a module of the tests, whatever folder it runs in."""
    run = f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); runpy.run_module({module!r}, "
    return ["-P", "-c", f"{run}run_name='__main__', alter_sys=True)"]
