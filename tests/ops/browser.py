"""A real browser on a local file: Chromium without a window, spoken to through its two pipes
(descriptors 3 and 4 of it, one JSON message to each NUL byte)."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

LIMIT_S: Final = 60.0
NEEDED: Final = (
    "the tests of pages need Chromium: `apt-get install chromium`, or `make setup` as root"
)
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--remote-debugging-pipe",
)


def program() -> str:
    """Where it is. Fails, and says what to install, where it is not."""
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    raise AssertionError(NEEDED)


class Browser:
    """One page of it, and everything that went wrong or out on the way."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, from_: int) -> None:
        self._process, self._to, self._from = process, to, from_
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def attach(self) -> None:
        """Take a fresh page and listen to it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        given = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = given["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")

    def open(self, file: Path) -> None:
        """Show a file, and return when it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=file.as_uri())
        deadline = time.monotonic() + LIMIT_S
        while not self.told("Page.loadEventFired"):
            assert time.monotonic() < deadline, "the page did not load"
            self._read(deadline)
        # What a page does after its load, it does in the next turns of its loop.
        self.evaluate("new Promise(done => setTimeout(done, 100))")

    def told(self, method: str) -> list[dict[str, Any]]:
        """The events of a kind since `open`."""
        return [each["params"] for each in self.events if each.get("method") == method]

    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        return [each["request"]["url"] for each in self.told("Network.requestWillBeSent")]

    def complaints(self) -> list[Any]:
        """Errors, warnings, violations of the policy, and whatever a script said."""
        return [
            *self.told("Log.entryAdded"),
            *self.told("Runtime.consoleAPICalled"),
            *self.told("Runtime.exceptionThrown"),
            *self.told("Audits.issueAdded"),
            *self.told("Page.javascriptDialogOpening"),
        ]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression on the page."""
        given = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in given, given
        return given["result"].get("value")

    def size(self, width: int, height: int = 800) -> None:
        """Make the window as wide as this."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefers(self, scheme: str, media: str = "") -> None:
        """`light` or `dark`; `media` "print" is how it would be printed."""
        self.call(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def picture(self) -> bytes:
        """What is in the window, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers."""
        self._number += 1
        message: dict[str, Any] = {
            "id": self._number,
            "method": method,
            "params": parameters,
        }
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _read(self, deadline: float) -> dict[str, Any]:
        """The next message; events are kept."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the browser says nothing (its status: {self._process.poll()})"
            data = os.read(self._from, 1 << 20)
            assert data, f"the browser is gone (its status: {self._process.wait(10)})"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def browser(folder: Path, *flags: str) -> Generator[Browser]:
    """A browser with a profile of its own in `folder`; it is ended with everything it started."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    process = _started(
        [program(), *_FLAGS, f"--user-data-dir={folder}", *flags], theirs_in, theirs_out
    )
    os.close(theirs_in)
    os.close(theirs_out)
    made = Browser(process, ours_out, ours_in)
    try:
        made.attach()
        yield made
    finally:
        os.close(ours_out)  # it ends when nobody speaks to it any more
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours_in)


def _started(command: Sequence[str], reads: int, writes: int) -> subprocess.Popen[bytes]:
    """The command with these as its descriptors 3 and 4. A shell moves them: what a fork of this
    process might run before that is not safe beside threads."""
    script = f'exec 3<&{reads} 4>&{writes} {reads}<&- {writes}>&-; exec "$@"'
    if {reads, writes} & {3, 4}:
        script = f'exec 8<&{reads} 9>&{writes}; exec 3<&8 4>&9 8<&- 9>&-; exec "$@"'
    return subprocess.Popen(
        ["/bin/bash", "-c", script, "bash", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(reads, writes),
        start_new_session=True,
    )
