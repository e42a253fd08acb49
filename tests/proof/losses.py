"""What each contender loses when its worker and the broker are killed, and what it does with jobs
that can't be done: `python -m tests.proof.losses --help`.

The queue code is what is compared, so a stand-in plays the engine. What vLLM's
`repetition_detection` and a judge at the end change is the text; they run in the plain worker, and
lose what it loses.
"""

import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import aio_pika
import click
import msgspec
from aio_pika.abc import AbstractChannel
from msgspec import Struct
from sluicegate.ops.console import print_json
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import declare
from sluicegate.producer.connection import close, connect
from sluicegate.schemas import (
    DeadLetter,
    GenerationJob,
    GenerationResult,
    Names,
    decode,
    encode,
    topology,
)
from sluicegate.schemas.errors import SluiceError

from . import arm_llmq
from .contender import GATED, LLMQ, PLAIN, Came
from .losing_worker import ANSWER, BEGUN, FAILING, NAMESPACE, URL
from .pages import write_between

ROOT: Final = Path(__file__).parents[2]
UNREADABLE: Final = b'{"prompt": "cut off'
_MARK: Final = "losses"
_IMPOSSIBLE: Final = 2  # of each kind
_QUIET_S: Final = 20.0
_LONGEST_S: Final = 240.0
_POLL_S: Final = 1.0


class Counts(Struct, frozen=True, kw_only=True):
    """What became of one contender's jobs. Of the sound ones: `answered` once or more, `twice` more
    than once. Of those that the engine fails under: `told` have a result that says so, `begun` is
    how often they were begun in all, `left` are in the queue of jobs still. `with_reason` and
    `without_reason` are dead letters. `vanished`: of the failing and the unreadable ones, those in
    no result, letter or queue."""

    arm: str
    sound: int
    answered: int
    twice: int
    failing: int
    told: int
    begun: int
    left: int
    unreadable: int
    with_reason: int
    without_reason: int
    vanished: int

    @property
    def lost(self) -> int:
        """Sound jobs that nobody heard of again."""
        return self.sound - self.answered


class Letter(NamedTuple):
    """A dead letter: of a job that the engine fails under, or one that can't be read."""

    failing: bool
    explained: bool


def counted(
    arm: str,
    sound: Sequence[str],
    failing: Sequence[str],
    results: Sequence[tuple[str, bool]],
    letters: Sequence[Letter],
    *,
    begun: int,
    left: int,
) -> Counts:
    """From results (id, and whether there is a text) and dead letters."""
    texts = Counter(job for job, has_text in results if has_text)
    told = len({job for job, has_text in results if not has_text} & set(failing))
    buried = sum(letter.failing for letter in letters)
    explained = sum(letter.explained for letter in letters)
    return Counts(
        arm=arm,
        sound=len(sound),
        answered=sum(texts[job] > 0 for job in sound),
        twice=sum(texts[job] > 1 for job in sound),
        failing=len(failing),
        told=told,
        begun=begun,
        left=left,
        unreadable=_IMPOSSIBLE,
        with_reason=explained,
        without_reason=len(letters) - explained,
        vanished=max(0, len(failing) - max(told, buried) - left)
        + max(0, _IMPOSSIBLE - (len(letters) - buried)),
    )


class Ground:
    """One contender on a broker: its queues, and how a job and a result look there."""

    def __init__(self, arm: str, broker: PrivateBroker, folder: Path) -> None:
        self.arm = arm
        self.broker = broker
        self.names = Names(f"losses.{arm}")
        self.begun = folder / f"{arm}.begun"
        self.log = folder / f"{arm}.log"
        self.begun.touch()
        llmq = arm == LLMQ
        self.jobs = f"{self.names.namespace}.llmq" if llmq else self.names.jobs_queue("interactive")
        self.results = f"{self.jobs}.results" if llmq else self.names.results_queue("default")

    def body(self, job: GenerationJob) -> bytes:
        """The job as this contender's."""
        match self.arm:
            case "llmq":
                return arm_llmq.message(job).model_dump_json().encode()
            case "plain":
                return msgspec.json.encode(job)
            case _:
                return encode(job)

    def result(self, body: bytes) -> tuple[str, bool]:
        """Whose it is, and whether there is a text."""
        match self.arm:
            case "llmq":
                found: dict[str, Any] = msgspec.json.decode(body)
                return found["id"], bool(found["result"])
            case "plain":
                text = msgspec.json.decode(body, type=Came).text or ""
                return text.removeprefix(ANSWER), True
            case _:
                result = decode(body, GenerationResult)
                return result.job_id, result.ok


@asynccontextmanager
async def _supervised(ground: Ground) -> AsyncGenerator[list[asyncio.subprocess.Process]]:
    """Its worker, begun again whenever it ends; the list has the one that runs, at its end."""
    environment = {
        **os.environ,
        URL: ground.broker.url,
        NAMESPACE: ground.names.namespace,
        BEGUN: str(ground.begun),
    }
    lived: list[asyncio.subprocess.Process] = []

    async def supervise() -> None:
        while True:
            with ground.log.open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "tests.proof.losing_worker", ground.arm),
                    cwd=ROOT,
                    env=environment,
                    stdout=log,
                    stderr=log,
                )
            lived.append(process)
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            await asyncio.sleep(1.0)

    task = asyncio.create_task(supervise())
    try:
        yield lived
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def ran(arm: str, broker: PrivateBroker, folder: Path, jobs: int) -> Counts:
    """One contender through it all."""
    ground = Ground(arm, broker, folder)
    connection = await connect(broker.url, timeout_s=20, name="losses")
    await declare.apply(connection, topology(ground.names.namespace))
    await close(connection)
    sound = [f"sound-{number}" for number in range(jobs)]
    failing = [f"{FAILING}-{number}" for number in range(_IMPOSSIBLE)]
    async with _supervised(ground) as worker:
        async with _channel(broker) as channel:
            for name in (ground.jobs, ground.results) if arm == LLMQ else ():
                await channel.declare_queue(name, durable=True)
            bodies = [ground.body(GenerationJob(id=job, prompt=job)) for job in sound]
            for at, job in enumerate(failing):
                bodies.insert(jobs // 3 * (at + 1), ground.body(GenerationJob(id=job, prompt=job)))
            for at in range(_IMPOSSIBLE):
                bodies.insert(jobs // 4 * (at + 1), UNREADABLE)
            for body in bodies:
                await _put(channel, ground, body)
        for share, what in ((0.2, "worker"), (0.45, "broker"), (0.7, "worker")):
            await _answered(ground, int(share * jobs))
            if what == "broker":
                await broker.kill()
                await broker.start()
            else:
                worker[-1].kill()
        await _settled(ground)
        begun = ground.begun.read_text(encoding="utf-8").count(FAILING)
    async with _channel(broker) as channel:
        results = [ground.result(body) for body in await _drained(channel, ground.results)]
        dead = await _drained(channel, ground.names.dead)
        left = len(await _drained(channel, ground.jobs))
    letters = [Letter(FAILING.encode() in body, _explains(body)) for body in dead]
    return counted(arm, sound, failing, results, letters, begun=begun, left=left)


@asynccontextmanager
async def _channel(broker: PrivateBroker) -> AsyncGenerator[AbstractChannel]:
    async with await aio_pika.connect(broker.url) as connection:
        yield await connection.channel()


async def _put(channel: AbstractChannel, ground: Ground, body: bytes) -> None:
    message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
    await channel.default_exchange.publish(message, ground.jobs, mandatory=True)


async def _waiting(ground: Ground) -> dict[str, int]:
    """Messages of each queue, those under way among them."""
    said = await ground.broker.control("list_queues", "name", "messages", "--quiet")
    rows = (line.split("\t") for line in said.splitlines() if "\t" in line)
    return {name: int(count) for name, count in rows if count.isdigit()}


async def _answered(ground: Ground, count: int) -> None:
    async with asyncio.timeout(_LONGEST_S):
        while (await _waiting(ground)).get(ground.results, 0) < count:
            await asyncio.sleep(_POLL_S)


async def _settled(ground: Ground) -> None:
    """Until nothing has changed for a while, and only a queue that turns in circles is not empty.
    Retries wait in queues of their own."""
    loop = asyncio.get_running_loop()
    ours, before, since = f"{ground.names.namespace}.", {}, loop.time()
    ends = since + _LONGEST_S
    while loop.time() < ends:
        now = {name: count for name, count in (await _waiting(ground)).items() if ours in name}
        if now != before:
            before, since = now, loop.time()
        retrying = sum(count for name, count in now.items() if ".retry." in name)
        if not retrying and loop.time() - since > _QUIET_S:
            return
        await asyncio.sleep(_POLL_S)


async def _drained(channel: AbstractChannel, queue: str) -> list[bytes]:
    found: list[bytes] = []
    taken = await channel.get_queue(queue, ensure=False)
    while (message := await taken.get(fail=False, timeout=10)) is not None:
        found.append(message.body)
        await message.ack()
    return found


def _explains(body: bytes) -> bool:
    try:
        return bool(decode(body, DeadLetter).reason)
    except SluiceError:
        return False


async def run(jobs: int, arms: Sequence[str]) -> list[Counts]:
    """Each contender in turn, on one broker."""
    found: list[Counts] = []
    with tempfile.TemporaryDirectory() as folder:
        async with PrivateBroker() as broker:
            for arm in arms:
                click.echo(f"{arm} ...", err=True)
                found.append(await ran(arm, broker, Path(folder), jobs))
    return found


def table(rows: Sequence[Counts]) -> list[str]:
    """As Markdown."""
    heads = (
        *("", "sound jobs answered", "lost", "twice", "failing ones begun", "publisher told"),
        *("dead letters, with a reason", "gone without a trace"),
    )
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [
        f"| {row.arm} | {row.answered} of {row.sound} | {row.lost} | {row.twice} "
        f"| {row.begun:,} times{f', {row.left} still in the queue' if row.left else ''} "
        f"| {row.told} of {row.failing} | {row.with_reason + row.without_reason}, "
        f"{row.with_reason} | {row.vanished} of {row.failing + row.unreadable} |"
        for row in rows
    ]
    return lines


@click.command()
@click.option("--jobs", default=60, show_default=True, help="Sound ones, for each contender.")
@click.option("--json", "as_json", is_flag=True, help="The counts as JSON, for programs.")
@click.option("--write-pages", is_flag=True, help="Put the table into docs/proof.md.")
def main(jobs: int, as_json: bool, write_pages: bool) -> None:
    """Publish the same jobs to each contender, two that the engine always fails under and two
    messages that can't be read among them; kill the worker twice and the broker once; and count
    what came of each. Takes some minutes."""
    arms = [PLAIN, GATED]
    if problem := arm_llmq.missing():
        click.echo(f"llmq takes no part: {problem}", err=True)
    else:
        arms.append(LLMQ)
    rows = asyncio.run(run(jobs, arms))
    if as_json:
        print_json(rows)
    else:
        for line in table(rows):
            click.echo(line)
    if write_pages:
        write_between(ROOT / "docs" / "proof.md", _MARK, table(rows))


if __name__ == "__main__":
    main()
