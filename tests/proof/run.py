"""Runs the parts of the proof on one engine: the headline, and one with many faults."""

import asyncio
import os
import secrets
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct
from sluicegate.ops.embedded_model import offline_environment, resolve_model
from sluicegate.ops.faults import Vocabulary
from sluicegate.ops.private_broker import broker_or_private
from sluicegate.producer import declare
from sluicegate.producer.connection import close, connect
from sluicegate.rollback import attempt_seed
from sluicegate.schemas import GenerationJob, topology
from sluicegate.worker.config import Config
from sluicegate.worker.model_tokenizer import load_tokenizer

from . import arm_llmq
from .arm_plain import plain
from .arms import CHECKS, gated, judged_at_the_end, unjudged, with_repetition_detection
from .contender import GATED, JUDGED, LLMQ, PLAIN, REPETITION, Contender, Place
from .figures import Part, part
from .judge import Judge
from .race import Book, Head, kept, race
from .tap import Tap
from .work import Maker, Say, batches, tasks

_CONTEXT: Final = 1024
# Of a few hundred jobs some have numeric faults: they are put in, and no engine is ill.
_NEVER_SICK: Final = 1_000_000
_WARM_UP: Final = 16


class Plan(Struct, frozen=True, kw_only=True):
    """One part: so many jobs for each contender, `rate` of them with a fault."""

    name: str
    jobs: int
    rate: float
    arms: tuple[str, ...]


class Options(Struct, frozen=True, kw_only=True):
    """What was asked for."""

    plans: tuple[Plan, ...]
    seed: int
    concurrency: int
    batch: int
    minutes: float
    folder: Path
    compiled: bool


def plans(jobs: int, rate: float, side_jobs: int, side_rate: float) -> tuple[Plan, ...]:
    """`jobs` in all for the headline, half of them for each of its two; `side_jobs` for each
    contender of the other part. llmq takes part where it is installed."""
    everyone = [PLAIN, GATED, REPETITION, JUDGED]
    if not arm_llmq.missing():
        everyone.append(LLMQ)
    head = Plan(name="headline", jobs=jobs // 2, rate=rate, arms=(PLAIN, GATED))
    side = Plan(name="side by side", jobs=side_jobs, rate=side_rate, arms=tuple(everyone))
    return tuple(each for each in (head, side) if each.jobs)


def shown(folder: Path) -> list[Part]:
    """The parts that were run before, from their files; the headline first."""
    parts: list[Part] = []
    for path in sorted(folder.glob("*.jsonl")):
        head, turns = kept(path)
        parts.append(
            part(
                head.part,
                turns,
                rate=head.rate,
                seed=head.seed,
                concurrency=head.concurrency,
                planned=head.jobs,
            )
        )
    return parts


async def run(options: Options, say: Say) -> list[Part]:
    """Every part, in turn. What was run before, with the same options, is not run again."""
    model = resolve_model(os.environ.get("SLUICE_MODEL"))
    os.environ.update(offline_environment())
    # The faults speak the older of vLLM's two interfaces.
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    config = Config(
        model=model,
        max_model_len=_CONTEXT,
        # In bfloat16 a text depends, on some CPUs, on what else is in the batch: then no two
        # contenders are given the same one, and a good text of one is a bad one of another.
        dtype="float32",
        lanes=f"interactive={options.concurrency}",
        enforce_eager=not options.compiled,
    )
    loaded = load_tokenizer(model)
    maker = Maker(Vocabulary.of(loaded), min(loaded.stop_ids))
    tap = Tap(config)
    until = time.monotonic() + 60 * options.minutes
    parts: list[Part] = []
    async with broker_or_private(os.environ.get("SLUICE_AMQP_URL")) as url:
        say("starting the engine")
        await tap.engine.open()
        try:
            with tempfile.TemporaryDirectory() as folder:
                judge = Judge(loaded, CHECKS)
                for plan in options.plans:
                    ready = Ready(options, url, Path(folder), tap, maker, judge, until)
                    parts += [await _part(plan, ready, say)]
        finally:
            await tap.engine.close()
    return parts


class Ready(NamedTuple):
    """What every part needs."""

    options: Options
    url: str
    folder: Path
    tap: Tap
    maker: Maker
    judge: Judge
    until: float


async def _part(plan: Plan, ready: Ready, say: Say) -> Part:
    options, tap = ready.options, ready.tap
    head = Head(
        part=plan.name,
        jobs=plan.jobs,
        rate=plan.rate,
        seed=options.seed,
        concurrency=options.concurrency,
        batch=options.batch,
        model=Path(tap.engine.info.model).name,
        arms=plan.arms,
    )
    book = Book(options.folder / f"{plan.name.replace(' ', '-')}.jsonl", head, say)
    work = tasks(plan.jobs, plan.rate, options.seed)
    runs = batches(work, options.batch)
    async with AsyncExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for arm in plan.arms:
            place = await _place(ready.url, options.concurrency, ready.folder)
            contenders[arm] = await _enter(stack, arm, place, tap, ready.judge)
        await _warm(contenders, options, tap, say)
        await race(
            contenders,
            [list(batch) for batch in runs],
            book,
            tap,
            ready.maker,
            prefix=plan.name.split()[0],
            concurrency=options.concurrency,
            until=ready.until,
            say=say,
        )
    return part(
        plan.name,
        book.turns,
        rate=plan.rate,
        seed=options.seed,
        concurrency=options.concurrency,
        planned=plan.jobs,
    )


async def _enter(
    stack: AsyncExitStack, arm: str, place: Place, tap: Tap, judge: Judge
) -> Contender:
    if arm == GATED:
        return await stack.enter_async_context(gated(place, tap, sick_jobs=_NEVER_SICK))
    if arm == LLMQ:

        async def text_of(job: GenerationJob) -> str:
            return (await tap.whole(job, seed=attempt_seed(job.id, job.sampling.seed, 1))).text

        return await stack.enter_async_context(arm_llmq.llmq(place, text_of))
    answerers = {
        PLAIN: unjudged(tap),
        REPETITION: with_repetition_detection(tap),
        JUDGED: judged_at_the_end(tap, judge),
    }
    return await stack.enter_async_context(plain(place, answerers[arm]))


async def _place(url: str, concurrency: int, folder: Path) -> Place:
    """A namespace of its own for each, so that nobody takes another's jobs."""
    namespace = f"proof.{secrets.token_hex(4)}"
    connection = await connect(url, timeout_s=20, name="proof")
    try:
        await declare.apply(connection, topology(namespace))
    finally:
        await close(connection)
    return Place(url=url, namespace=namespace, concurrency=concurrency, folder=folder)


async def _warm(contenders: dict[str, Contender], options: Options, tap: Tap, say: Say) -> None:
    """Everything is loaded, and the prefix cache has seen the prompts' common beginning."""
    say("warming up")
    for arm, contender in contenders.items():
        warm = tasks(_WARM_UP, 0.0, options.seed + 1)
        ids = secrets.token_hex(3)
        name = "".join(filter(str.isalnum, arm))
        await asyncio.gather(
            *(contender(each.job(f"warm-{name}-{ids}-{each.number}")) for each in warm)
        )
    tap.clear()
