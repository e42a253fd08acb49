"""`sluice submit` and `sluice watch` as a user runs them: a subprocess, a real broker."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from sluicegate.producer.connection import close, connect
from sluicegate.producer.declare import one_channel
from sluicegate.schemas import (
    Accepted,
    AgentRecord,
    ApprovalWanted,
    AttemptRecord,
    Completed,
    Decision,
    Delta,
    Finished,
    Flaw,
    GenerationJob,
    GenerationResult,
    Lineage,
    Names,
    Partial,
    Reason,
    Reasoned,
    Reasoning,
    ReasoningRecord,
    Rejected,
    RoundEnded,
    Stop,
)

from ..producer.fake_worker import FakeWorker, answer, working
from ..producer.waiting import until

pytestmark = pytest.mark.broker

PROGRAM = Path(sys.executable).parent / "sluice"
FINISHED = Finished(outcome=Completed())


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Cli:
    """Runs `sluice` against one namespace."""

    def __init__(self, url: str, namespace: str, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        self._env = {**kept, "SLUICE_AMQP_URL": url, "SLUICE_NAMESPACE": namespace}
        self._folder = folder

    async def start(
        self, *arguments: str, file_limit_bytes: int | None = None
    ) -> asyncio.subprocess.Process:
        limit = [] if file_limit_bytes is None else ["prlimit", f"--fsize={file_limit_bytes}"]
        return await asyncio.create_subprocess_exec(
            *limit,
            PROGRAM,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
            cwd=self._folder,
        )

    async def run(
        self, *arguments: str, stdin: str | bytes = "", file_limit_bytes: int | None = None
    ) -> Done:
        process = await self.start(*arguments, file_limit_bytes=file_limit_bytes)
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        async with asyncio.timeout(60):
            out, err = await process.communicate(data)
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())


async def ended(process: asyncio.subprocess.Process) -> Done:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


@pytest.fixture
def cli(broker_url: str, namespace: str, tmp_path: Path) -> Cli:
    return Cli(broker_url, namespace, tmp_path)


@pytest_asyncio.fixture
async def worker(broker_url: str, namespace: str) -> AsyncGenerator[FakeWorker]:
    async with working(broker_url, namespace) as fake:
        yield fake


CUT = ReasoningRecord(
    mode="cut",
    effort="low",
    cap=1024,
    tripped=True,
    flaw=Flaw.REASONING_LOOP,
    gate="reasoning_loop",
    tokens=24,
    dropped_tokens=119,
    cuts=1,
    ended="cut",
)
CUT_SAID = (
    "24 tokens, 119 thrown away in 1 cut, closed by the guard; reasoning_loop found by "
    "reasoning_loop"
)


def reasoned(job: GenerationJob) -> GenerationResult:
    told = answer(job)
    attempt = AttemptRecord(attempt=1, worker="fake", started_at=told.finished_at, reasoning=CUT)
    lineage = Lineage(attempts=(attempt,))
    return msgspec.structs.replace(told, reasoning="Let me see.", lineage=lineage)


def refuse(job: GenerationJob) -> GenerationResult:
    detail = "it has 9,000 tokens, the limit is 8,192"
    outcome = Rejected(reason=Reason.PROMPT_TOO_LONG, detail=detail, field="prompt")
    return GenerationResult(
        job_id=job.id, attempt=1, outcome=outcome, finished_at=answer(job).finished_at
    )


SHORT = Partial(reason=Reason.BUDGET_SPENT, detail="no tokens are left")
NOON = datetime(2031, 5, 1, 12, 0, tzinfo=UTC)


def partly(job: GenerationJob) -> GenerationResult:
    """As of an agent job that was ended."""
    record = AgentRecord(
        rounds=12,
        tool_calls=1,
        warnings=2,
        stopped=Stop(reason=Reason.BUDGET_SPENT),
        written_by="template",
        done=("round 1: search gave 17",),
        not_done=(
            *(f"round {n}: send_mail \x1b[31m was not run" for n in range(1, 3)),
            *(f"round {n}: letter {n} was not written" for n in range(3, 9)),
        ),
    )
    return msgspec.structs.replace(answer(job), outcome=SHORT, agent=record)


def refuse_some(job: GenerationJob) -> GenerationResult:
    return refuse(job) if job.prompt == "number 3" else answer(job)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def write_jobs(path: Path, count: int) -> None:
    path.write_text("".join(f'{{"prompt": "number {n}"}}\n' for n in range(count)))


class TestPrompt:
    async def test_waiting_prints_the_text(self, cli: Cli, worker: FakeWorker) -> None:
        done = await cli.run(
            "submit", "--prompt", "Why?", "--wait", "--temperature", "0", "--max-tokens", "9",
            "--stop", "a", "--stop", "b", "--seed", "4", "--lane", "batch", "--id", "mine",
        )  # fmt: skip
        assert done == Done(0, "You said: Why?\n", "")
        (job,) = worker.seen
        assert (job.id, job.lane, job.stream) == ("mine", "batch", False)
        sampling = job.sampling
        assert (sampling.temperature, sampling.max_tokens, sampling.seed) == (0.0, 9, 4)
        assert sampling.stop == ("a", "b")

    @pytest.mark.usefixtures("worker")
    async def test_json_is_the_whole_result_alone(self, cli: Cli) -> None:
        done = await cli.run("submit", "--prompt", "-", "--wait", "--json", stdin="Größe?")
        assert (done.code, done.err) == (0, "")
        result = json.loads(done.out)
        assert result["text"] == "You said: Größe?"
        assert result["outcome"] == {"kind": "completed"}

    async def test_what_was_not_completed_is_exit_1_with_the_reason(
        self, cli: Cli, worker: FakeWorker
    ) -> None:
        worker.answer = refuse
        done = await cli.run("submit", "--prompt", "x", "--wait", "--id", "long")
        assert (done.code, done.out) == (1, "")
        assert done.err == (
            "Error: job long was rejected (prompt_too_long, field prompt): "
            "it has 9,000 tokens, the limit is 8,192\n"
        )

    async def test_without_waiting_the_id_is_printed_and_the_result_stays(
        self, cli: Cli, worker: FakeWorker, broker_url: str, namespace: str
    ) -> None:
        done = await cli.run("submit", "--prompt", "x")
        assert (done.code, done.err) == (0, "")
        await asyncio.wait_for(worker.answered.acquire(), 10)
        (job,) = worker.seen
        assert done.out == f"{job.id}\n"
        assert job.reply_to == "default"
        assert job.enqueued_at is not None
        connection = await connect(broker_url, timeout_s=10, name="test")
        async with one_channel(connection, 10) as channel:
            queue = Names(namespace).results_queue("default")
            assert (await channel.queue_declare(queue, passive=True)).message_count == 1
        await close(connection)
        done = await cli.run("submit", "--prompt", "x", "--json", "--reply", "nobody", "--id", "j")
        assert json.loads(done.out) == {"job_id": "j", "reply_to": "nobody"}
        # Nobody's queue: the fake worker can't publish its result, and that is its affair.

    async def test_streaming_prints_the_text_as_it_comes(
        self, cli: Cli, worker: FakeWorker
    ) -> None:
        worker.going.clear()
        process = await cli.start("submit", "--prompt", "x", "--stream")
        await asyncio.wait_for(worker.arrived.acquire(), 20)
        (job,) = worker.seen
        assert job.stream
        await worker.tell(job, Accepted(), 0)
        await worker.tell(job, Delta(offset=0, text="You "), 1)
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readexactly(4), 10) == b"You "
        await worker.tell(job, Delta(offset=4, text="said:"), 2)
        assert await asyncio.wait_for(process.stdout.readexactly(5), 10) == b"said:"
        # The last delta is lost; the result makes up for it.
        worker.going.set()
        await asyncio.wait_for(worker.answered.acquire(), 10)
        await worker.tell(job, FINISHED, 3)
        assert await ended(process) == Done(0, " x\n", "")

    async def test_standard_output_has_the_answer_alone(self, cli: Cli, worker: FakeWorker) -> None:
        worker.answer = reasoned
        worker.going.clear()
        process = await cli.start("submit", "--prompt", "x", "--stream", "--effort", "low")
        await asyncio.wait_for(worker.arrived.acquire(), 20)
        (job,) = worker.seen
        assert job.reasoning == Reasoning(effort="low")
        await worker.tell(job, Accepted(), 0)
        await worker.tell(job, Delta(offset=0, text="Let me ", channel="reasoning"), 1)
        await worker.tell(job, Delta(offset=7, text="see.", channel="reasoning"), 2)
        # Its offsets are its own.
        await worker.tell(job, Delta(offset=0, text="You said"), 3)
        await worker.tell(job, Delta(offset=8, text=": x"), 4)
        await worker.tell(job, Reasoned(record=CUT), 5)
        worker.going.set()
        await asyncio.wait_for(worker.answered.acquire(), 10)
        await worker.tell(job, FINISHED, 6)
        assert await ended(process) == Done(
            0,
            "You said: x\n",
            f"[reasoning]\nLet me see.\n[answer]\n[reasoning: {CUT_SAID}]\n",
        )

    async def test_waiting_says_how_much_was_thought(self, cli: Cli, worker: FakeWorker) -> None:
        worker.answer = reasoned
        done = await cli.run(
            "submit", "--prompt", "x", "--wait", "--effort", "200", "--reasoning", "observe"
        )
        assert done == Done(0, "You said: x\n", f"[reasoning: {CUT_SAID}]\n")
        (job,) = worker.seen
        assert job.reasoning == Reasoning(mode="observe", effort=200)
        done = await cli.run("submit", "--prompt", "x", "--wait", "--json")
        assert (done.code, done.err) == (0, "")
        whole = json.loads(done.out)
        assert whole["reasoning"] == "Let me see."
        assert whole["lineage"]["attempts"][0]["reasoning"]["dropped_tokens"] == 119

    async def test_streaming_as_json_ends_with_the_result(
        self, cli: Cli, worker: FakeWorker
    ) -> None:
        worker.going.clear()
        process = await cli.start("submit", "--prompt", "x", "--stream", "--json")
        await asyncio.wait_for(worker.arrived.acquire(), 20)
        (job,) = worker.seen
        await worker.tell(job, Accepted(), 0)
        worker.going.set()
        await worker.tell(job, FINISHED, 1)
        done = await ended(process)
        *events, result = [json.loads(line) for line in done.out.splitlines()]
        assert [event["event"]["kind"] for event in events] == ["accepted", "finished"]
        assert result["text"] == "You said: x"

    async def test_waiting_has_an_end(self, cli: Cli) -> None:
        done = await cli.run("submit", "--prompt", "x", "--wait", "--timeout", "0.3", "--id", "j")
        assert done.code == 1
        assert done.out == ""
        assert "Error: no result of job j within 0.3 s" in done.err

    async def test_ctrl_c_is_exit_130(self, cli: Cli, worker: FakeWorker) -> None:
        worker.going.clear()
        process = await cli.start("submit", "--prompt", "x", "--wait", "--id", "j")
        await asyncio.wait_for(worker.arrived.acquire(), 20)
        process.send_signal(signal.SIGINT)
        done = await ended(process)
        assert (done.code, done.out) == (130, "")
        assert done.err.splitlines() == ["Job j was called off.", "Interrupted."]

    async def test_who_waits_hears_that_no_worker_is_there(self, cli: Cli, namespace: str) -> None:
        done = await cli.run("submit", "--prompt", "x", "--wait", "--timeout", "7")
        assert done.code == 1
        queue = f"{namespace}.jobs.interactive"
        assert (
            f"no result after 5 s: 1 job waits in {queue}, and no worker takes from it. "
            "`sluice worker` starts one"
        ) in done.err.splitlines()

    async def test_who_waits_hears_that_workers_are_busy(
        self, cli: Cli, worker: FakeWorker, namespace: str
    ) -> None:
        worker.going.clear()
        done = await cli.run("submit", "--prompt", "x", "--stream", "--timeout", "7")
        assert done.code == 1
        queue = f"{namespace}.jobs.interactive"
        assert (
            f"no result after 5 s: 0 jobs wait in {queue}, and 1 worker takes from it"
        ) in done.err.splitlines()

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ([], "either --prompt TEXT or --file FILE"),
            (["--prompt", "x", "--file", "y"], "either --prompt TEXT or --file FILE"),
            (["--prompt", "x", "--out", "y"], "--out makes no sense with --prompt"),
            (["--file", "x", "--stream"], "--stream makes no sense with --file"),
            (["--file", "x", "--id", "y"], "--id makes no sense with --file"),
            (["--prompt", ""], "prompt: there is nothing to answer"),
            (["--prompt", "x", "--temperature", "9"], "temperature"),
            (["--prompt", "x", "--id", "no.dots"], "$.id"),
            (["--prompt", "x", "--profile", "No Such"], "$.profile"),
            (["--file", "no-such-file"], "no-such-file: No such file"),
            (["--prompt", "x", "--timeout", "0"], "--timeout"),
            (["--prompt", "x", "--effort", "huge"], "'huge' is none of low, medium, high, max"),
            (["--prompt", "x", "--effort", "-1"], "'-1' is none of low, medium, high, max"),
            (["--prompt", "x", "--reasoning", "on"], "'on' is not one of"),
            (["--prompt", "x", "--timeout", "nan"], "--timeout': nan is no duration"),
            (["--prompt", "x", "--out", ""], "--out makes no sense with --prompt"),
            (["--file", "-", "--out", ""], "--out '' is no name of a file"),
            (["--file", "-", "--out", "results/"], "--out 'results/' is no name of a file"),
            (["--file", "-", "--out", "."], ". is a folder"),
            (["--file", "-", "--out", ".."], ".. is a folder"),
            (["--file", "-", "--out", "../.."], "../.. is a folder"),
        ],
    )
    async def test_bad_usage_is_exit_2(self, cli: Cli, arguments: list[str], said: str) -> None:
        done = await cli.run("submit", *arguments)
        assert (done.code, done.out) == (2, "")
        assert said in done.err
        assert "Traceback" not in done.err
        assert "unexpected" not in done.err

    async def test_bytes_that_are_no_text_are_refused(self, cli: Cli) -> None:
        done = await cli.run("submit", "--prompt", "-", stdin=b"\xff\xfe")
        assert done.code == 2
        assert "not UTF-8" in done.err

    @pytest.mark.parametrize(
        "arguments", [["--prompt", "x"], ["--prompt", "x", "--wait"], ["--file", "-"]]
    )
    async def test_no_broker_is_exit_3(self, cli: Cli, arguments: list[str]) -> None:
        url = "amqp://guest:s3cret@127.0.0.1:1/"
        done = await cli.run("submit", "--amqp-url", url, *arguments, stdin='{"prompt": "x"}')
        assert (done.code, done.out) == (3, "")
        assert done.err.startswith("Error: can't reach amqp://guest:***@127.0.0.1:1/")
        assert "s3cret" not in done.err


class TestFile:
    async def test_results_come_in_the_order_of_the_jobs(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        write_jobs(tmp_path / "jobs.jsonl", 120)
        command = ("submit", "--file", "jobs.jsonl", "--out", "results.jsonl")
        done = await cli.run(*command, "--max-tokens", "9")
        assert (done.code, done.out) == (0, "")
        assert "results.jsonl: 120 results" in done.err
        results = lines_of(tmp_path / "results.jsonl")
        assert [each["text"] for each in results] == [f"You said: number {n}" for n in range(120)]
        assert {job.lane for job in worker.seen} == {"batch"}
        assert {job.sampling.max_tokens for job in worker.seen} == {9}
        assert names_in(tmp_path) == {"jobs.jsonl", "results.jsonl"}
        before = (tmp_path / "results.jsonl").read_bytes()
        done = await cli.run(*command, "--max-tokens", "9")
        assert done.code == 0
        assert "120 of 120 results are there already" in done.err
        assert (tmp_path / "results.jsonl").read_bytes() == before
        assert len(worker.seen) == 120

    async def test_flags_of_reasoning_hold_for_lines_that_say_nothing(
        self, cli: Cli, worker: FakeWorker
    ) -> None:
        lines = '{"prompt": "a"}\n{"prompt": "b", "reasoning": {"effort": "max"}}\n'
        done = await cli.run("submit", "--file", "-", "--effort", "low", stdin=lines)
        assert done.code == 0
        asked = {job.prompt: job.reasoning for job in worker.seen}
        assert asked == {"a": Reasoning(effort="low"), "b": Reasoning(effort="max")}

    @pytest.mark.usefixtures("worker")
    async def test_to_standard_output_from_standard_input(self, cli: Cli) -> None:
        jobs = "".join(f'{{"prompt": "number {n}"}}\n' for n in range(40))
        done = await cli.run("submit", "--file", "-", "--in-flight", "5", stdin=jobs)
        assert done.code == 0
        texts = [json.loads(line)["text"] for line in done.out.splitlines()]
        assert texts == [f"You said: number {n}" for n in range(40)]

    async def test_one_that_was_not_completed_is_exit_1(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        worker.answer = refuse_some
        write_jobs(tmp_path / "jobs.jsonl", 5)
        for out in ([], ["--out", "results.jsonl"]):
            done = await cli.run("submit", "--file", "jobs.jsonl", *out)
            assert done.code == 1
            assert "Error: not every job was completed: 1 rejected" in done.err
        results = lines_of(tmp_path / "results.jsonl")
        assert results[3]["outcome"]["reason"] == "prompt_too_long"
        assert len(results) == 5

    async def test_one_bad_line_and_nothing_is_published(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        jobs = '{"prompt": "a"}\n{"prompt": ""}\n{"promt": "b"}\n'
        done = await cli.run("submit", "--file", "-", "--out", "results.jsonl", stdin=jobs)
        assert (done.code, done.out) == (2, "")
        assert done.err.splitlines() == [
            "Error: line 2: $.prompt: there is nothing to answer",
            "Error: line 3: $.promt: is no field of a job; did you mean prompt?",
            "Error: 2 lines can't be taken, so nothing was published",
        ]
        assert worker.seen == []
        assert names_in(tmp_path) == set()

    async def test_one_line_is_singular(self, cli: Cli) -> None:
        done = await cli.run("submit", "--file", "-", stdin=b'{"prompt": "\xff"}')
        assert done.code == 2
        assert done.err.splitlines() == [
            "Error: line 1: $.prompt: is not UTF-8 at character 0",
            "Error: 1 line can't be taken, so nothing was published",
        ]

    async def test_what_is_no_regular_file_is_refused(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "link").symlink_to("pipe")
        for name in ("pipe", "link"):
            done = await cli.run("submit", "--file", "-", "--out", name, stdin='{"prompt": "x"}')
            assert done == Done(
                2,
                "",
                f"Error: {name} is a named pipe, and results go to a regular file. "
                "Choose another --out\n",
            )
        assert names_in(tmp_path) == {"pipe", "link"}
        assert (tmp_path / "pipe").is_fifo()
        assert worker.seen == []

    async def test_no_room_is_told_with_the_file_and_the_run_goes_on_later(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        write_jobs(tmp_path / "jobs.jsonl", 7)
        command = ("submit", "--file", "jobs.jsonl", "--out", "results.jsonl", "--in-flight", "1")
        done = await cli.run(*command, file_limit_bytes=1024)
        assert done.code == 1
        assert "of 7 results are safe in results.jsonl.part. Run the same command" in done.err
        assert "Error: can't write results.jsonl.part: File too large. Results that" in done.err
        assert "unexpected" not in done.err
        done = await cli.run(*command)
        assert done.code == 0
        assert "of 7 results are there already" in done.err
        assert len(lines_of(tmp_path / "results.jsonl")) == 7
        assert len(worker.seen) <= 7 + 1

    async def test_interrupted_before_the_first_result_nothing_is_generated_again(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        worker.going.clear()
        write_jobs(tmp_path / "jobs.jsonl", 7)
        command = ("submit", "--file", "jobs.jsonl", "--out", "results.jsonl")
        process = await cli.start(*command)
        for _ in range(7):
            await asyncio.wait_for(worker.arrived.acquire(), 20)
        process.send_signal(signal.SIGINT)
        done = await ended(process)
        assert done.code == 130
        assert done.err == (
            "Interrupted. Jobs were published, and no result has come yet. Run the same command "
            "again to wait for them: results.jsonl.part knows where they come.\n"
        )
        worker.going.set()
        for _ in range(7):
            await asyncio.wait_for(worker.answered.acquire(), 20)
        done = await cli.run(*command)
        assert done.code == 0
        assert len(lines_of(tmp_path / "results.jsonl")) == 7
        assert len(worker.seen) == 7
        assert names_in(tmp_path) == {"jobs.jsonl", "results.jsonl"}

    async def test_where_nothing_was_published_nothing_is_left(
        self, cli: Cli, tmp_path: Path
    ) -> None:
        write_jobs(tmp_path / "jobs.jsonl", 7)
        url = "amqp://127.0.0.1:1/"
        done = await cli.run(
            "submit", "--amqp-url", url, "--file", "jobs.jsonl", "--out", "results.jsonl"
        )
        assert done.code == 3
        assert done.err.startswith("Nothing was published.\nError: can't reach ")
        assert names_in(tmp_path) == {"jobs.jsonl"}

    async def test_an_empty_file_is_done_at_once(self, cli: Cli, tmp_path: Path) -> None:
        done = await cli.run("submit", "--file", "-", "--out", "results.jsonl", stdin="\n\n")
        assert done.code == 0
        assert (tmp_path / "results.jsonl").read_bytes() == b""

    async def test_somebody_elses_file_is_left_alone(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "novel.txt").write_text("Once upon a time\n")
        done = await cli.run("submit", "--file", "-", "--out", "novel.txt", stdin='{"prompt": "x"}')
        assert done.code == 2
        assert "is no file of results" in done.err
        assert (tmp_path / "novel.txt").read_text() == "Once upon a time\n"

    async def test_killed_midway_and_started_again(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        write_jobs(tmp_path / "jobs.jsonl", 60)
        with (tmp_path / "jobs.jsonl").open("a") as jobs:
            jobs.write('{"prompt": "number 0"}\n' * 3)  # the same again: jobs of their own
        command = ("submit", "--file", "jobs.jsonl", "--out", "results.jsonl", "--in-flight", "7")
        part = tmp_path / "results.jsonl.part"
        answered: set[str] = set()
        stops = [20, 40]

        def stopping(job: GenerationJob) -> GenerationResult:
            answered.add(job.id)
            if stops and len(answered) >= stops[0]:
                stops.pop(0)
                worker.going.clear()
            return answer(job)

        worker.answer = stopping
        for _ in range(2):
            process = await cli.start(*command)
            await until(lambda: not worker.going.is_set(), 30)
            assert part.exists()
            process.send_signal(signal.SIGKILL)
            await ended(process)
            # The worker goes on: results come while nobody is there to take them.
            worker.going.set()
        with part.open("ab") as torn:
            torn.write(b'{"type":"generation_result","schema_ver')
        done = await cli.run(*command)
        assert done.code == 0, done.err
        assert "results are there already" in done.err
        results = lines_of(tmp_path / "results.jsonl")
        prompts = [*range(60), 0, 0, 0]
        assert [each["text"] for each in results] == [f"You said: number {n}" for n in prompts]
        assert len({each["job_id"] for each in results}) == 63
        assert not part.exists()
        # At most what was in flight at each of the two deaths was done twice.
        assert len(worker.seen) <= 63 + 2 * 7

    async def test_ctrl_c_says_how_to_go_on(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        write_jobs(tmp_path / "jobs.jsonl", 30)
        command = ("submit", "--file", "jobs.jsonl", "--out", "results.jsonl", "--in-flight", "4")

        def stop_at_ten(job: GenerationJob) -> GenerationResult:
            if len(worker.seen) >= 10:
                worker.going.clear()
            return answer(job)

        worker.answer = stop_at_ten
        process = await cli.start(*command)
        await until(lambda: not worker.going.is_set(), 30)
        process.send_signal(signal.SIGINT)
        done = await ended(process)
        assert done.code == 130
        assert "Interrupted." in done.err
        assert (
            "of 30 results are safe in results.jsonl.part. Run the same command again" in done.err
        )
        worker.answer = answer
        worker.going.set()
        done = await cli.run(*command)
        assert done.code == 0
        assert len(lines_of(tmp_path / "results.jsonl")) == 30

    async def test_two_at_once_on_the_same_results_is_an_error(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        worker.going.clear()
        write_jobs(tmp_path / "jobs.jsonl", 3)
        command = ("submit", "--file", "jobs.jsonl", "--out", "results.jsonl")
        first = await cli.start(*command)
        await asyncio.wait_for(worker.arrived.acquire(), 20)
        second = await cli.run(*command)
        assert second.code == 3
        assert "another process is writing results.jsonl.part" in second.err
        worker.going.set()
        assert (await ended(first)).code == 0

    async def test_a_result_that_cant_be_read_is_not_forgotten(
        self, cli: Cli, worker: FakeWorker, tmp_path: Path
    ) -> None:
        worker.going.clear()
        write_jobs(tmp_path / "jobs.jsonl", 3)
        for out in (["--out", "results.jsonl"], []):
            process = await cli.start("submit", "--file", "jobs.jsonl", *out)
            for _ in range(3):
                await asyncio.wait_for(worker.arrived.acquire(), 20)
            torn = worker.seen[-2]
            await worker.publish_raw(b"nonsense", torn.reply_to, torn.id)
            for job in worker.seen[-3:]:
                if job is not torn:
                    await worker.publish(answer(job), job.reply_to)
            done = await ended(process)
            assert done.code == 1, done.err
            assert f"the result of job {torn.id} can't be read" in done.err
            assert "1 with a result that can't be read" in done.err
            assert len(done.out.splitlines()) == (0 if out else 2)
        assert len(lines_of(tmp_path / "results.jsonl.part")) == 1 + 2
        assert not (tmp_path / "results.jsonl").exists()

    async def test_silence_for_too_long_is_an_error(self, cli: Cli, tmp_path: Path) -> None:
        write_jobs(tmp_path / "jobs.jsonl", 3)
        done = await cli.run(
            "submit", "--file", "jobs.jsonl", "--out", "results.jsonl", "--timeout", "0.5"
        )
        assert done.code == 1
        assert "Error: no result came for 0.5 s. Look whether a worker runs" in done.err
        assert "Jobs were published, and no result has come yet" in done.err
        assert names_in(tmp_path) == {"jobs.jsonl", "results.jsonl.part"}


class TestWatch:
    async def follow(
        self, cli: Cli, worker: FakeWorker, *flags: str
    ) -> tuple[asyncio.subprocess.Process, GenerationJob]:
        worker.going.clear()
        await cli.run("submit", "--prompt", "x", "--id", "watched")
        await asyncio.wait_for(worker.arrived.acquire(), 20)
        (job,) = worker.seen
        process = await cli.start("watch", "watched", *flags)
        stdout = process.stdout
        assert stdout is not None

        async def heard() -> bool:
            # It watches from the moment its queue stands; only its first line tells when.
            await worker.tell(job, Accepted(), 0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    return bool(await stdout.read(1))
            return False

        await until(heard, 20)
        return process, job

    async def test_a_job_is_followed_to_its_end(self, cli: Cli, worker: FakeWorker) -> None:
        process, job = await self.follow(cli, worker)
        await worker.tell(job, Delta(offset=0, text="Once"), 1)
        await worker.tell(job, Delta(offset=10, text=" upon"), 2)
        await worker.tell(job, FINISHED, 3)
        done = await ended(process)
        assert done.code == 0
        assert "accepted by fake, attempt 1\n" in done.out
        assert "Once[...] upon\n" in done.out
        assert done.out.endswith("finished: completed\n")
        worker.going.set()

    async def test_reasoning_is_told_from_the_answer(self, cli: Cli, worker: FakeWorker) -> None:
        process, job = await self.follow(cli, worker)
        await worker.tell(job, Delta(offset=0, text="Let me", channel="reasoning"), 1)
        await worker.tell(job, Delta(offset=9, text="see.", channel="reasoning"), 2)
        await worker.tell(job, Delta(offset=0, text="It is so."), 3)
        await worker.tell(job, Reasoned(record=CUT), 4)
        await worker.tell(job, FINISHED, 5)
        done = await ended(process)
        assert done.code == 0
        # Of a line only its time is not known.
        lines = [line[10:] if line[2:3] == ":" else line for line in done.out.splitlines()]
        assert lines[-6:] == [
            "reasoning:",
            "Let me[...]see.",
            "answer:",
            "It is so.",
            f"reasoning: {CUT_SAID}; mode cut, effort low, cap 1024 tokens",
            "finished: completed",
        ]
        worker.going.set()

    async def test_an_agent_job_round_by_round(self, cli: Cli, worker: FakeWorker) -> None:
        process, job = await self.follow(cli, worker)
        decision = Decision(state="warning", warnings=1, degree="warn", because="it \x1b[2Jrepeats")
        calls = ("search: ok", "read\x1b]0;x\x07: timeout")
        ended_ = RoundEnded(round=3, calls=calls, tokens=431, score=4, decision=decision)
        wanted = ApprovalWanted(round=4, calls=("send_mail",), expires_at=NOON)
        await worker.tell(job, ended_, 1)
        await worker.tell(job, wanted, 2)
        await worker.tell(job, Finished(outcome=SHORT), 3)
        done = await ended(process)
        # What is not completed is not well, however much of it is done.
        assert done.code == 1
        assert "\x1b" not in done.out
        assert "round 3: search: ok; read" in done.out
        assert "(431 tokens, score 4, warning, warn: it " in done.out
        assert "round 4 waits for a person until 2031-05-0" in done.out
        assert "send_mail. See `sluice agent approvals`\n" in done.out
        assert done.out.endswith("finished: partial (budget_spent): no tokens are left\n")
        worker.going.set()

    async def test_json_and_what_was_not_completed(self, cli: Cli, worker: FakeWorker) -> None:
        process, job = await self.follow(cli, worker, "--json")
        await worker.tell(job, Finished(outcome=refuse(job).outcome), 1)
        done = await ended(process)
        assert done.code == 1
        last = json.loads(done.out.splitlines()[-1])
        assert last["event"]["outcome"]["reason"] == "prompt_too_long"
        worker.going.set()

    async def test_the_time_is_up(self, cli: Cli) -> None:
        done = await cli.run("watch", "nobody", "--timeout", "0.5")
        assert (done.code, done.out) == (1, "")
        assert "Error: job nobody did not finish within 0.5 s" in done.err

    @pytest.mark.parametrize(
        "arguments", [("watch", "a", "--timeout", "nan"), ("results", "--idle", "nan")]
    )
    async def test_nan_is_no_duration(self, cli: Cli, arguments: tuple[str, ...]) -> None:
        done = await cli.run(*arguments)
        assert done.code == 2
        assert "nan is no duration" in done.err

    @pytest.mark.parametrize("job", ["#", "a.b", "*", ""])
    async def test_what_is_no_job_id_is_refused(self, cli: Cli, job: str) -> None:
        done = await cli.run("watch", job)
        assert done.code == 2
        assert "is no job id" in done.err

    async def test_no_broker_is_exit_3(self, cli: Cli) -> None:
        done = await cli.run("watch", "a", "--amqp-url", "amqp://127.0.0.1:1/")
        assert done.code == 3


class TestResults:
    """What was published without waiting can be fetched later."""

    async def test_what_waits_is_printed_and_taken(self, cli: Cli, worker: FakeWorker) -> None:
        for number in range(3):
            sent = await cli.run("submit", "--prompt", f"number {number}", "--id", f"job-{number}")
            assert sent.code == 0
        for _ in range(3):
            await asyncio.wait_for(worker.answered.acquire(), 20)
        taken = await cli.run("results", "--json")
        assert taken.code == 0
        results = [json.loads(line) for line in taken.out.splitlines()]
        assert sorted(result["job_id"] for result in results) == ["job-0", "job-1", "job-2"]
        again = await cli.run("results", "--idle", "0.5")
        assert (again.code, again.out) == (0, "")

    async def test_for_eyes(self, cli: Cli, worker: FakeWorker) -> None:
        await cli.run("submit", "--prompt", "hello", "--id", "job-1")
        await asyncio.wait_for(worker.answered.acquire(), 20)
        taken = await cli.run("results")
        assert taken.out.startswith("job-1: completed\n")
        assert "hello" in taken.out

    async def test_how_much_was_thought(self, cli: Cli, worker: FakeWorker) -> None:
        worker.answer = reasoned
        await cli.run("submit", "--prompt", "hello", "--id", "job-1")
        await asyncio.wait_for(worker.answered.acquire(), 20)
        taken = await cli.run("results")
        assert taken.out == f"job-1: completed (reasoning: {CUT_SAID})\nYou said: hello\n\n"

    async def test_how_an_agent_job_came_to_its_text(self, cli: Cli, worker: FakeWorker) -> None:
        worker.answer = partly
        await cli.run("submit", "--prompt", "hello", "--id", "job-1")
        await asyncio.wait_for(worker.answered.acquire(), 20)
        taken = await cli.run("results")
        first, title, *listed = taken.out.splitlines()
        assert first == (
            "job-1: partial (budget_spent): no tokens are left (agent: 12 rounds, 1 call, "
            "2 warnings, its text was put together from the record)"
        )
        # Two that are alike are one; seven are left of eight.
        assert title == "not done (2 more before these):"
        assert listed[0].startswith("  - round 4: letter 4")
        assert listed[4].startswith("  - round 8: ")
        assert listed[5] == "You said: hello"
        assert "\x1b" not in taken.out

    async def test_a_partial_answer_is_not_completed(self, cli: Cli, worker: FakeWorker) -> None:
        worker.answer = partly
        done = await cli.run("submit", "--prompt", "hello", "--wait", "--json")
        assert done.code == 1
        result = json.loads(done.out.splitlines()[-1])
        assert (result["outcome"]["kind"], result["agent"]["rounds"]) == ("partial", 12)
        assert "partial (budget_spent): no tokens are left" in done.err
