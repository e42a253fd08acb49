"""The programs in the documents run as they are printed, on a real broker and a scripted worker."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from sluicegate.ops.demo import demo_jobs
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.ops.submit_lines import parse_lines
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import GenerationJob, Names, ToolResult, ToolSpec, ToolStatus
from sluicegate.worker.tools.context import ToolContext
from sluicegate.worker.tools.remote import RemoteTools

from .pages import blocks, read, section

pytestmark = pytest.mark.broker

URL = '"amqp://guest:guest@localhost/"'
LIMIT_S = 60.0
QUESTION = "Why is the sky blue?"


async def run(program: str, broker: PrivateBroker) -> str:
    """What a program prints; its broker's address is the only thing that is changed."""
    assert program.count(URL) == 1
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-c",
        program.replace(URL, repr(broker.url)),
        env={name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b""), err.decode()
    return out.decode()


async def test_the_ten_lines_of_the_readme(
    docs_broker: PrivateBroker, scripted_worker: ServiceProcess
) -> None:
    (program,) = blocks(section(read("README.md"), "Ten lines"), "python")
    assert len([line for line in program.splitlines() if line]) == 10
    assert await run(program, docs_broker) == f"{QUESTION}\n"


def test_the_lines_of_jobs_in_the_readme_are_taken() -> None:
    (lines,) = blocks(section(read("README.md"), "Running it"), "jsonl")
    parsed = parse_lines(lines.encode().splitlines(), defaults={"lane": "batch"}, sampling={})
    assert parsed.problems == []
    assert len(parsed.jobs) == 2


def test_the_job_that_is_checked_is_one() -> None:
    (source,) = blocks(section(read("README.md"), "Texts that are checked"), "python")
    names: dict[str, object] = {}
    exec(compile(source, "README.md", "exec"), names)  # noqa: S102  our own page
    job = names["job"]
    assert isinstance(job, GenerationJob)
    assert (job.checks, job.rules.language) == ("block", "en")


def test_the_output_in_the_readme_is_that_of_the_demo() -> None:
    output = blocks(section(read("README.md"), "Two commands"), "console")[0]
    jobs_of_the_demo = demo_jobs()
    jobs = {demo.title: demo.job for demo in jobs_of_the_demo}
    assert jobs_in(output)
    assert f"published {len(jobs_of_the_demo)} jobs" in output
    sound = sum(not demo.doomed for demo in jobs_of_the_demo)
    number = len(jobs_of_the_demo)
    assert f"{sound} of {number} jobs completed, {number} as they should" in output
    assert output.index("$ sluice dlq show") > output.index("stopped")
    for title, lane in jobs_in(output):
        assert jobs[title].lane == lane


def jobs_in(output: str) -> list[tuple[str, str]]:
    return re.findall(r"^── ([\w, ]+) · (\w+) ─", output, re.MULTILINE)


async def test_the_example_without_our_client(
    docs_broker: PrivateBroker, scripted_worker: ServiceProcess
) -> None:
    (program,) = blocks(
        section(read("docs/protocol.md"), "A complete example, in Python"), "python"
    )
    assert "sluicegate" not in program
    assert await run(program, docs_broker) == f"completed {QUESTION}\n"


@asynccontextmanager
async def started(program: str, broker: PrivateBroker) -> AsyncGenerator[None]:
    """A program that runs until it is stopped, once it has said that it is there."""
    assert program.count(URL) == 1
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program.replace(URL, repr(broker.url)),
        env={name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            assert await process.stdout.readline() == b"serving\n"
        yield
        assert process.returncode is None
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_the_server_of_a_tool_without_our_client(docs_broker: PrivateBroker) -> None:
    (program,) = blocks(section(read("docs/protocol.md"), "A server, in Python"), "python")
    assert "sluicegate" not in program
    connection = await connect(docs_broker.url, timeout_s=LIMIT_S, name="tests")
    tools = RemoteTools(connection, Names())
    spec = ToolSpec(name="query_orders", remote=True)
    died: list[BaseException] = []

    async def asked(index: int, **arguments: object) -> ToolResult:
        context = ToolContext(job_id="a", round=1, effect_id=f"a:1:1:{index}")
        return await tools.call(spec, arguments, context)

    try:
        await tools.start(died.append)
        async with started(program, docs_broker):
            first = await asked(0, late=True)
            assert (first.status, first.content) == (ToolStatus.OK, "17")
            # The same call again is the same effect, whatever it asks.
            again = await asked(0, late=False)
            assert (again.status, again.content) == (ToolStatus.OK, "17")
            wrong = await asked(1, late="maybe")
            assert (wrong.status, wrong.content) == (ToolStatus.ERROR, "say late: true or false")
    finally:
        await tools.stop()
        await close(connection)
    assert died == []
