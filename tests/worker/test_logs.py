"""Log lines: job and attempt, no password, nothing that moves a terminal."""

import asyncio
import io
import json
import logging
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from sluicegate.worker import logs

log = logging.getLogger("sluicegate.worker.test")


@pytest.fixture
def stream() -> Generator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.getLogger("sluicegate").level
    yield io.StringIO()
    root.handlers[:], level, ours = before
    root.setLevel(level)
    logging.getLogger("sluicegate").setLevel(ours)


def test_human_lines_name_the_job(stream: io.StringIO) -> None:
    logs.configure("human", "info", stream)
    log.info("before")
    with logs.about("job-1", 2):
        log.info("during %d", 5)
    first, second = stream.getvalue().splitlines()
    assert "job=" not in first
    assert second.endswith("worker.test job=job-1 attempt=2  during 5")


async def test_tasks_inherit_the_job_and_keep_it_to_themselves(stream: io.StringIO) -> None:
    logs.configure("json", "info", stream)

    async def work(job_id: str) -> None:
        with logs.about(job_id, 1):
            await asyncio.sleep(0)
            log.info("working")

    async with asyncio.TaskGroup() as group:
        group.create_task(work("a"))
        group.create_task(work("b"))
    assert [json.loads(line)["job_id"] for line in stream.getvalue().splitlines()] == ["a", "b"]


@pytest.mark.parametrize("form", ["human", "json"])
def test_passwords_and_controls_never_get_through(form: str, stream: io.StringIO) -> None:
    logs.configure("json" if form == "json" else "human", "info", stream)
    error = ValueError("at amqp://user:se%40cret@host/ \x1b[2J")
    log.error("lost amqps://a:p4ss@b:5671/x and \x1b]0;title\x07", exc_info=error)
    text = stream.getvalue()
    assert "amqps://a:***@b:5671/x" in text
    assert "p4ss" not in text
    assert "cret" not in text
    assert "\x1b" not in text
    assert "\\u001b" not in text
    assert "ValueError" in text


def test_the_level_is_that_of_our_own_lines(stream: io.StringIO) -> None:
    logs.configure("human", "error", stream)
    log.warning("not this")
    logging.getLogger("somebody.else").info("nor this")
    logging.getLogger("somebody.else").warning("but this")
    log.error("and this")
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["this", "this"]
    assert "not" not in stream.getvalue()


def test_what_is_set_for_vllm_stands_and_what_we_set_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_LOGGING_CONFIG_PATH", raising=False)
    with logs.for_vllm("json", "info"):
        config = json.loads(Path(os.environ["VLLM_LOGGING_CONFIG_PATH"]).read_text())
        assert config["formatters"]["ours"]["()"] == "sluicegate.worker.logs.engine_formatter"
        assert isinstance(logs.engine_formatter("JsonFormatter"), logs.JsonFormatter)
        Path(config["handlers"]["errors"]["filename"]).write_text("ValueError: no memory\n")
        assert logs.engine_errors() == "ValueError: no memory\n"
    assert "VLLM_LOGGING_CONFIG_PATH" not in os.environ
    assert logs.engine_errors() == ""
    monkeypatch.setenv("VLLM_LOGGING_CONFIG_PATH", "/mine.json")
    with logs.for_vllm("json", "info"):
        assert os.environ["VLLM_LOGGING_CONFIG_PATH"] == "/mine.json"
