"""A Prometheus of a test's own, on a port of its own, with all of it in a folder."""

import asyncio
import contextlib
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import yaml
from sluicegate.ops.broker_node import free_ports

WAIT_S = 30.0
PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")


class PrivatePrometheus:
    """Scrapes `targets` twice a second as one job, under `rules`, which it evaluates as often. In
    `async with` it is stopped at the end."""

    def __init__(self, folder: Path, targets: list[str], rules: dict[str, Any]) -> None:
        self._folder = folder
        self._targets = targets
        self._rules = rules
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        assert PROMETHEUS is not None
        (self._folder / "rules.yaml").write_text(yaml.safe_dump(self._rules))
        config = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [
                {"job_name": "sluicegate", "static_configs": [{"targets": self._targets}]}
            ],
        }
        (self._folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - it begins at once
                [
                    PROMETHEUS,
                    f"--config.file={self._folder / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        async with asyncio.timeout(WAIT_S):
            while not await self._answers():
                assert self._process.poll() is None, self.log()
                await asyncio.sleep(0.1)
        return self

    async def __aexit__(self, *_: object) -> None:
        process = self._process
        assert process is not None
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, WAIT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def log(self) -> str:
        return (self._folder / "prometheus.log").read_text(errors="replace")[-2000:]

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query, each with `metric` and `value`. An error is an
        AssertionError, with what Prometheus says of it."""
        answer = await asyncio.to_thread(self._get, "query", {"query": expression})
        assert answer["status"] == "success", f"{expression}: {answer.get('error')}"
        assert answer["data"]["resultType"] == "vector", expression
        return answer["data"]["result"]

    async def firing(self) -> set[str]:
        """The names of the alerts that fire now."""
        answer = await asyncio.to_thread(self._get, "alerts", {})
        alerts = answer["data"]["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    async def until_firing(self, name: str) -> None:
        async with asyncio.timeout(WAIT_S):
            while name not in await self.firing():
                await asyncio.sleep(0.2)

    async def _answers(self) -> bool:
        try:
            await asyncio.to_thread(self._open, f"{self.url}/-/ready")
        except OSError:
            return False
        return True

    def _get(self, what: str, parameters: dict[str, str]) -> dict[str, Any]:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            return json.loads(self._open(url))
        except urllib.error.HTTPError as error:
            with error:
                return json.loads(error.read())

    def _open(self, url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own loopback URL
            return answer.read()
