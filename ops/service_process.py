"""`sluice worker` or `checker` as a child process: for the demo, and for tests that kill it."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, Self

from ..schemas import SluiceError

STOP_LIMIT_S: Final = 90.0
_POLL_S: Final = 0.25
_SAY_AGAIN_S: Final = 10.0
_TAIL_LINES: Final = 15


class ServiceFailed(SluiceError):
    """The service ended before it was ready, or did not get ready in time; its log says why."""


class ServiceProcess:
    """A service with its log in a file. In `async with` it is stopped at the end, however it ends.

    `settings` are fields of Config by name; they go to the service as environment variables.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object],
        command: Literal["worker", "checker"] = "worker",
    ) -> None:
        self.command = command
        self._port = _free_port()
        self._settings = {"metrics_port": self._port, **settings}
        self.log_file = folder / f"{command}-{self._port}.log"
        self._process: asyncio.subprocess.Process | None = None

    def __repr__(self) -> str:
        pid = self._process.pid if self._process else "not started"
        return f"<ServiceProcess {self.command} {pid}, status on port {self._port}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def arguments(self) -> list[str]:
        """What the interpreter is told to run."""
        # The folder we are in must not shadow what is installed, in vLLM's children either.
        return ["-P", "-m", "sluicegate.ops", *self.command.split()]

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._running().pid

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it; return at once."""
        variables = {f"SLUICE_{name.upper()}": str(value) for name, value in self._settings.items()}
        with self.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self.arguments,
                env=os.environ | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C is for whoever started us; we are told by them.
                start_new_session=True,
            )

    async def ready(self, limit_s: float, progress: Callable[[str], None] | None = None) -> None:
        """Wait until it takes work. `progress` hears what it is busy with, when that
        changes and every ten seconds.

        Raises ServiceFailed with the end of its log.
        """
        process = self._running()
        said: str | None = None
        began = say_again = time.monotonic()
        while (trouble := await self.get("/readyz")) != "ok":
            if process.returncode is not None:
                status = f"ended with status {process.returncode}"
                raise ServiceFailed(f"the {self.command} {status}:\n{self.log_tail()}")
            if time.monotonic() - began > limit_s:
                raise ServiceFailed(
                    f"the {self.command} was not ready after {limit_s:g} s:\n{self.log_tail()}"
                )
            now = time.monotonic()
            if progress is not None and trouble and (trouble != said or now > say_again):
                progress(trouble)
                said, say_again = trouble, now + _SAY_AGAIN_S
            await asyncio.sleep(_POLL_S)

    async def get(self, path: str) -> str:
        """What its status port answers; empty where it doesn't answer."""
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self._port}{path}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the service alone; one that is gone takes no harm."""
        with contextlib.suppress(ProcessLookupError):
            self._running().send_signal(number)

    async def wait(self, limit_s: float = STOP_LIMIT_S) -> int:
        """Its exit status. Raises TimeoutError."""
        async with asyncio.timeout(limit_s):
            return await self._running().wait()

    async def stop(self) -> int | None:
        """SIGTERM, wait for it to drain, SIGKILL if it does not. Its exit status."""
        process = self._process
        if process is None or process.returncode is not None:
            return process.returncode if process else None
        self.signal(signal.SIGTERM)
        try:
            return await self.wait()
        except BaseException:
            self.signal(signal.SIGKILL)
            await process.wait()
            raise

    def log_tail(self) -> str:
        """The end of its log."""
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:])

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise ServiceFailed(f"the {self.command} was not started")
        return self._process


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own loopback URL
            return answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode(errors="replace").strip()
    except OSError:
        return ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
