"""Faults put into the real engine: found by the right gate, at once, and mended."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any, Final

import pytest
import pytest_asyncio
from sluicegate.guards.engine_gates import FLAWS, Signal, sentinel_for, signal_of
from sluicegate.guards.profiles import profile
from sluicegate.ops.faults import (
    AFTER,
    BEFORE,
    IN_REASONING,
    Fault,
    Order,
    Orders,
    Vocabulary,
    order,
)
from sluicegate.ops.inject import Injection, inject, job_for, run_gated, thinking_job
from sluicegate.ops.inject_judge import found_after, is_clean, surviving
from sluicegate.schemas import Flaw
from sluicegate.worker.config import Config
from sluicegate.worker.endings import Answered, GaveUp
from sluicegate.worker.engine import Engine
from sluicegate.worker.gating import Gating
from sluicegate.worker.model_tokenizer import load_tokenizer
from sluicegate.worker.release import Release

# vLLM and what it imports warn of many things that are not ours to mend.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

BY_TEXT: Final = {
    Fault.LOOP: Flaw.LOOP,
    Fault.MOJIBAKE: Flaw.MOJIBAKE,
    Fault.SPECIAL: Flaw.SILENT_TOKENS,
    Fault.LANGUAGE: Flaw.SCRIPT_SWITCH,
}
BY_LOGITS: Final = {
    Fault.NAN: Signal.NON_FINITE,
    Fault.UNIFORM: Signal.UNIFORM,
    Fault.SALAD: Signal.LOW_CONFIDENCE,
}
IN_ANSWER: Final = [kind for kind in Fault if kind not in IN_REASONING]
AT_ONCE: Final = 8
# Of a loop of short units in the reasoning.
IN_TOKENS: Final = 256
_numbers = count()


async def demo(*flags: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "sluicegate.ops", "demo", "--json", *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


async def test_the_demo_shows_it(model: str) -> None:
    """First, so that its engine is alone on the machine."""
    shown = await demo("--inject", "mojibake", "--seed", "1")
    assert (shown["kind"], shown["seed"], shown["clean"]) == ("mojibake", 1, True)
    assert shown["found_after_tokens"] <= AT_ONCE
    assert shown["gated"]["trips"][0]["flaw"] == "mojibake"
    assert shown["gated"]["text"] != shown["raw"]["text"]


async def test_the_demo_shows_reasoning_cut_short(model: str) -> None:
    shown = await demo("--inject", "reasoning-loop")
    raw, gated, record = shown["raw"], shown["gated"], shown["gated"]["reasoning_record"]
    assert (shown["kind"], shown["clean"], gated["outcome"]) == (
        "reasoning-loop",
        True,
        "completed",
    )
    # The plain engine goes round to the end of its tokens.
    assert raw["text"] == ""
    assert len(raw["token_ids"]) == shown["at"] + shown["length"]
    assert gated["text"].strip()
    assert record["flaw"] in ("reasoning_loop", "reasoning_sentences")
    assert (record["ended"], record["cuts"]) == ("cut", 1)
    spent = sum(segment["tokens"] for segment in gated["segments"])
    assert shown["saved"]["tokens"] == len(raw["token_ids"]) - spent > 0
    assert shown["saved"]["token_ratio"] > 1
    assert raw["engine_s"] > 0


class Bench:
    """An open engine that can be told to fail."""

    def __init__(self, engine: Engine, orders: Orders, vocabulary: Vocabulary) -> None:
        self.engine = engine
        self.orders = orders
        self.vocabulary = vocabulary

    def order(self, kind: Fault, at: int = 24, seed: int = 0, *, persistent: bool = False) -> Order:
        return order(kind, self.vocabulary, at=at, seed=seed, persistent=persistent)

    async def inject(self, ordered: Order) -> Injection:
        job = job_for(ordered, f"job-{next(_numbers)}")
        return await inject(self.engine, self.orders, ordered, job, print)


@pytest_asyncio.fixture(scope="module")
async def bench(model: str) -> AsyncGenerator[Bench]:
    # Here, where its warnings are ignored.
    from sluicegate.worker.vllm_engine import VllmEngine

    orders = Orders()
    engine = VllmEngine(
        Config(
            model=model,
            max_model_len=2048,
            enforce_eager=True,
            lanes="interactive=4",
            reasoning_start="<think>",
            reasoning_end="</think>",
        ),
        before=BEFORE,
        after=AFTER,
        decorate=orders,
    )
    await engine.open()
    yield Bench(engine, orders, Vocabulary.of(load_tokenizer(model)))
    await engine.close()


def expected(ordered: Order, sentinels: tuple[int, ...]) -> Flaw:
    """What is to be found. A model with few denied ids has few sentinels: several signals then
    share one, and a denied id that gets past the mask may be one."""
    if ordered.kind in BY_TEXT:
        return BY_TEXT[ordered.kind]
    if ordered.kind in BY_LOGITS:
        said = signal_of(sentinel_for(BY_LOGITS[ordered.kind], sentinels), sentinels)
    else:
        said = signal_of(ordered.ids[0], sentinels)
    return Flaw.DENIED_TOKEN if said is None else FLAWS[said][1]


def limit(ordered: Order) -> int:
    """Within how many tokens it must be found: for a loop, its rule's and one period."""
    if ordered.kind is not Fault.LOOP:
        return AT_ONCE
    chat, period = profile("chat"), len(ordered.ids)
    return max(chat.loop_tokens, chat.loop_copies * period) + period


def places(kind: Fault) -> list[tuple[int, int]]:
    """Seeds, and where to strike. For a passage in another script the text must have had time to
    show its own."""
    return [(0, 24), (1, 64)] if kind in (Fault.LANGUAGE, Fault.SALAD) else [(0, 40)]


@pytest.mark.parametrize(
    ("kind", "seed", "at"), [(kind, *place) for kind in IN_ANSWER for place in places(kind)]
)
async def test_a_fault_is_found_at_once_by_the_right_gate_and_mended(
    bench: Bench, kind: Fault, seed: int, at: int
) -> None:
    ordered = bench.order(kind, at=at, seed=seed)
    found = await bench.inject(ordered)
    # It is there, for whoever has no gates.
    seen = min(4, ordered.length)
    struck = found.raw.token_ids[ordered.at : ordered.at + seen]
    assert len(struck) == seen
    if ordered.ids:
        assert struck == tuple(ordered.ids[n % len(ordered.ids)] for n in range(seen))
    first = next(trip for trip in found.gated.trips if trip.tokens[1] > ordered.at)
    assert first.flaw == expected(ordered, bench.engine.info.sentinels)
    assert found.found_after_tokens is not None
    assert found.found_after_tokens <= limit(ordered)
    assert found.gated.outcome == "completed"
    assert found.clean
    assert found.ok
    assert found.raw.text != found.gated.text


@pytest.mark.parametrize("kind", IN_ANSWER)
async def test_no_client_ever_sees_a_retracted_character(bench: Bench, kind: Fault) -> None:
    async def watch(at: int) -> None:
        ordered = bench.order(kind, at=at)
        job = job_for(ordered, f"job-{next(_numbers)}")
        bench.orders.place(job.id, ordered)
        seen: list[str] = []

        def release(offset: int, text: str) -> None:
            assert offset == len("".join(seen))
            assert text
            seen.append(text)

        report = await run_gated(bench.engine, job, release)
        assert isinstance(report.ending, Answered), report.ending
        assert "".join(seen) == report.text
        assert len(seen) > 1
        assert found_after(report.record.trips, ordered) is not None
        assert surviving(report, ordered) == 0
        assert is_clean(report, ordered)

    async with asyncio.TaskGroup() as group:
        for at in (64, 71, 100) if kind is Fault.LANGUAGE else (0, 1, 33, 71):
            group.create_task(watch(at))


async def test_a_loop_in_the_reasoning_is_cut_and_answered_without_a_retracted_character(
    bench: Bench,
) -> None:
    async def watch(seed: int, at: int) -> None:
        ordered = bench.order(Fault.REASONING_LOOP, at=at, seed=seed)
        job = await thinking_job(bench.engine, ordered, f"job-{next(_numbers)}")
        bench.orders.place(job.id, ordered)
        seen: dict[str, str] = {"reasoning": "", "content": ""}
        channels: list[str] = []

        def into(channel: str) -> Release:
            def release(offset: int, text: str) -> None:
                assert offset == len(seen[channel])
                assert text
                seen[channel] += text
                channels.append(channel)

            return release

        report = await run_gated(
            bench.engine,
            job,
            into("content"),
            release_reasoning=into("reasoning"),
            gating=Gating(wrap_up="That is enough."),
        )
        assert isinstance(report.ending, Answered), report.ending
        assert report.text.strip()
        assert seen == {"reasoning": report.reasoning, "content": report.text}
        # First the one, then the other.
        assert channels == sorted(channels, reverse=True)
        found = found_after(report.record.trips, ordered)
        assert found is not None
        assert found <= IN_TOKENS
        assert surviving(report, ordered) == 0
        record = report.record.reasoning
        assert record is not None
        assert record.tripped
        assert record.cuts >= 1
        assert "</think>" not in report.text

    async with asyncio.TaskGroup() as group:
        for seed, at in ((0, 0), (1, 17), (2, 40), (3, 71), (4, 130)):
            group.create_task(watch(seed, at))


async def test_without_a_fault_the_gates_change_nothing(bench: Bench) -> None:
    """Also beside a request that fails: it alone is touched."""
    struck = bench.order(Fault.NAN)
    job = job_for(struck, f"job-{next(_numbers)}")
    alone = await run_gated(bench.engine, job)
    sick = job_for(struck, f"job-{next(_numbers)}")
    bench.orders.place(sick.id, struck)
    one, other = await asyncio.gather(run_gated(bench.engine, job), run_gated(bench.engine, sick))
    assert not alone.record.trips
    assert not one.record.trips
    assert len(one.record.segments) == 1
    assert [trip.flaw for trip in other.record.trips] == [Flaw.NON_FINITE_LOGITS]


@pytest.mark.parametrize("kind", [Fault.NAN, Fault.INVALID_ID])
async def test_an_engine_that_goes_on_failing_is_given_up_and_blamed(
    bench: Bench, kind: Fault
) -> None:
    ordered = bench.order(kind, persistent=True)
    job = job_for(ordered, f"job-{next(_numbers)}")
    bench.orders.place(job.id, ordered)
    report = await run_gated(bench.engine, job)
    assert isinstance(report.ending, GaveUp), report.ending
    assert report.ending.engine_fault


async def test_a_rollback_reads_the_prefix_from_the_cache_and_a_numeric_fault_does_not(
    bench: Bench,
) -> None:
    cached: dict[Fault, list[int]] = {}
    for kind in (Fault.MOJIBAKE, Fault.NAN):
        found = await bench.inject(bench.order(kind, at=60))
        cached[kind] = [segment.cached_tokens for segment in found.gated.segments[1:]]
    assert cached[Fault.MOJIBAKE][0] >= 64
    assert cached[Fault.NAN][0] == 0
