"""How cost grows: with jobs, with the length of an output, with what runs at once, with workers.

`python -m tests.proof.growth --out docs/plots` draws a plot of each, and keeps the figures beside
them. The engine is the scripted one, so that what is measured is sluicegate, and no model.
"""

import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from sluicegate.guards.gate import Step
from sluicegate.guards.pipeline import streaming_gates
from sluicegate.guards.profiles import profile
from sluicegate.ops.private_broker import broker_or_private
from sluicegate.ops.service_process import ServiceProcess
from sluicegate.producer import Producer, declare
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import GenerationJob, Sampling, topology
from sluicegate.worker.config import Config
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker

from .plot import Points, plot

Say = Callable[[str], None]
ROOT: Final = Path(__file__).parents[2]
_RESULT_S: Final = 300.0
# Long enough that nothing of it comes twice: what comes round again is a loop to the gates.
_TEXT: Final = "\n".join(
    page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))
)


def lengths(sizes: Sequence[int], say: Say) -> Points:
    """Microseconds that the gates take for a token, by the length of the text; best of three."""
    words = _TEXT.split(" ")
    chosen = profile("chat")
    found: list[tuple[float, float]] = []
    for size in sizes:
        best = float("inf")
        for _ in range(3):
            gates = streaming_gates(chosen, vocabulary_size=len(words), denied=frozenset[int]())
            offset = 0
            began = time.perf_counter()
            for position in range(size):
                text = words[position % len(words)] + " "
                gates.feed(Step(position=position, token_id=0, text=text, offset=offset))
                offset += len(text)
            best = min(best, time.perf_counter() - began)
        found.append((size, best / size * 1e6))
        say(f"{size:>7,} tokens: {found[-1][1]:.2f} us a token")
    return found


async def jobs(url: str, sizes: Sequence[int], say: Say) -> Points:
    """Milliseconds for a job, through broker and worker and back, by how many there are."""
    found: list[tuple[float, float]] = []
    for size in sizes:
        seconds = await _one_worker(url, size, slots=16, step_s=0.0)
        found.append((size, seconds / size * 1e3))
        say(f"{size:>7,} jobs: {found[-1][1]:.2f} ms a job")
    return found


async def at_once(url: str, slots: Sequence[int], say: Say) -> Points:
    """Jobs a second of an engine that takes 20 ms a step and any number of steps at once."""
    found: list[tuple[float, float]] = []
    for each in slots:
        count = 12 * each + 20
        seconds = await _one_worker(url, count, slots=each, step_s=0.02)
        found.append((each, count / seconds))
        say(f"{each:>7} at once: {found[-1][1]:.1f} jobs/s")
    return found


async def workers(url: str, counts: Sequence[int], say: Say) -> Points:
    """Jobs a second of several worker processes with 2 slots each, on such an engine."""
    found: list[tuple[float, float]] = []
    for count in counts:
        namespace = await _namespace(url)
        with tempfile.TemporaryDirectory() as folder:
            running = [
                ServiceProcess(
                    Path(folder),
                    {
                        "amqp_url": url,
                        "namespace": namespace,
                        "engine": "scripted",
                        "lanes": "interactive=2",
                        "canary_prompt": "",
                    },
                )
                for _ in range(count)
            ]
            try:
                for each in running:
                    await each.start()
                for each in running:
                    await each.ready(60)
                size = 600
                found.append((count, size / await _publish(url, namespace, size)))
            finally:
                for each in running:
                    await each.stop()
        say(f"{count:>7} workers: {found[-1][1]:.1f} jobs/s")
    return found


async def _one_worker(url: str, count: int, *, slots: int, step_s: float) -> float:
    namespace = await _namespace(url)
    config = Config(
        amqp_url=url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        lanes=f"interactive={slots}",
        canary_prompt="",
        log_level="warning",
    )
    worker = Worker(config, ScriptedEngine(step_s=step_s))
    task = asyncio.create_task(worker.run())
    try:
        while worker.not_ready() is not None and not task.done():
            await asyncio.sleep(0.02)
        return await _publish(url, namespace, count)
    finally:
        worker.stop()
        await task


async def _publish(url: str, namespace: str, count: int) -> float:
    """Seconds from the first publish to the last result."""
    async with Producer(url, namespace=namespace, events=False) as producer:
        began = time.perf_counter()
        handles = await producer.publish_many(
            GenerationJob(prompt="a few words come back", sampling=Sampling(max_tokens=32))
            for _ in range(count)
        )
        for handle in handles:
            assert (await handle.result(timeout=_RESULT_S)).ok
        return time.perf_counter() - began


async def _namespace(url: str) -> str:
    name = f"growth.{secrets.token_hex(4)}"
    connection = await connect(url, timeout_s=20, name="growth")
    try:
        await declare.apply(connection, topology(name))
    finally:
        await close(connection)
    return name


@click.command()
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=ROOT / "build" / "plots",
    show_default="build/plots",
    help="Where the plots and figures.json go.",
)
@click.option("--most-jobs", default=100_000, show_default=True, help="Ten to ten times fewer.")
def main(folder: Path, most_jobs: int) -> None:
    """Measure how cost grows, and draw it. Minutes: most of them for --most-jobs."""

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(_main(folder, most_jobs, say))


def draw(folder: Path, found: Mapping[str, Points], note: str) -> None:
    """A plot of each, and the figures."""
    jobs, length = found["jobs"], found["length"]
    slots, workers = found["concurrency"], found["workers"]
    back, chat = {"through the queue and back": jobs}, {"chat": length}
    steps, each = {"20 ms a step": slots}, {"2 slots each": workers}
    drawn = {
        "jobs": plot("Time for a job", "jobs", "ms", back, note),
        "length": plot("What the gates take for a token", "tokens of the text", "us", chat, note),
        "concurrency": plot("Jobs a second by slots", "slots", "jobs/s", steps, note),
        "workers": plot("Jobs a second by workers", "workers", "jobs/s", each, note),
    }
    for name, picture in drawn.items():
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")
    (folder / "figures.json").write_bytes(msgspec.json.encode(found))


async def _main(folder: Path, most_jobs: int, say: Say) -> None:
    sizes = [100 * 10**power for power in range(4) if 100 * 10**power <= most_jobs]
    by_length = await asyncio.to_thread(lengths, (100, 300, 1_000, 3_000, 10_000), say)
    async with broker_or_private(os.environ.get("SLUICE_AMQP_URL")) as url:
        by_workers = await workers(url, (1, 2, 3, 4), say)
        by_slots = await at_once(url, (1, 2, 4, 8, 16, 32, 64), say)
        by_jobs = await jobs(url, sizes, say)
    note = f"scripted engine, one run on {os.cpu_count()} cores"
    found = {
        "jobs": by_jobs,
        "length": by_length,
        "concurrency": by_slots,
        "workers": by_workers,
    }
    await asyncio.to_thread(draw, folder, found, note)


if __name__ == "__main__":
    main()
