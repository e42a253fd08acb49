"""Engines one after the other, the canary that tries each, and what is left of those before."""

import asyncio
import gc
import subprocess
import sys
import weakref
from collections.abc import AsyncGenerator

import msgspec
import pytest
from sluicegate.worker.canary import Canary, Heard, judged
from sluicegate.worker.config import Config
from sluicegate.worker.engine import (
    EngineDead,
    EngineError,
    EngineOutOfMemory,
    EngineUnavailable,
    Piece,
    Segment,
)
from sluicegate.worker.engine_keeper import EngineKeeper
from sluicegate.worker.processes import alive, descendants, kill
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.sickness import Ailment
from sluicegate.worker.watched_engine import is_out_of_memory

CONFIG = Config(engine="scripted", engine_restarts=5, canary_prompt="one two three")


def keeper_of(engines: list[ScriptedEngine], **settings: object) -> EngineKeeper:
    async def make() -> ScriptedEngine:
        return engines.pop(0)

    config = msgspec.structs.replace(CONFIG, **settings)
    keeper = EngineKeeper(config, make, lambda: 0)
    keeper.sickness.rules = msgspec.structs.replace(keeper.sickness.rules, first_pause_s=0.001)
    return keeper


async def test_after_five_restarts_nothing_of_the_engines_is_left() -> None:
    engines = [ScriptedEngine() for _ in range(6)]
    seen = [weakref.ref(each) for each in engines]
    keeper = keeper_of(engines)
    await keeper.open()
    tasks = len(asyncio.all_tasks())
    for number in range(5):
        watching = asyncio.create_task(keeper.until_ill())
        await asyncio.sleep(0)
        engine = keeper.engine.current
        assert isinstance(engine, ScriptedEngine)
        engine.die()
        del engine
        keeper.fall_ill(Ailment.LOST, "it died")
        assert (await watching).ailment is Ailment.LOST
        assert await keeper.restart(lambda _: None)
        assert keeper.sickness.restarts == number + 1
    gc.collect()
    assert [each() is not None for each in seen] == [False] * 5 + [True]
    assert len(asyncio.all_tasks()) == tasks
    keeper.fall_ill(Ailment.LOST, "once too often")
    assert not await keeper.restart(lambda _: None)
    await keeper.close()
    gc.collect()
    assert seen[5]() is None


async def test_a_suspicion_has_the_canary_sing_while_jobs_run() -> None:
    answers = iter(["one two three", "\0\0\0"])
    keeper = keeper_of([ScriptedEngine(lambda _segment, _prompt: next(answers))])
    await keeper.open()
    watching = asyncio.create_task(keeper.until_ill())
    keeper._suspicion.set()  # pyright: ignore[reportPrivateUsage]
    async with asyncio.timeout(10):
        assert (await watching).ailment is Ailment.CANARY
    await keeper.close()


async def test_an_idle_engine_is_tried_now_and_then() -> None:
    asked: list[str] = []
    keeper = keeper_of(
        [ScriptedEngine(lambda _segment, prompt: asked.append(prompt) or prompt)],
        canary_every_s=0.02,
    )
    await keeper.open()
    watching = asyncio.create_task(keeper.until_ill())
    async with asyncio.timeout(10):
        while len(asked) < 3:
            await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.wait([watching])
    await keeper.close()
    assert keeper.sickness.takes_work


async def test_cut_off_while_it_restarts_it_can_be_closed() -> None:
    class Loading(ScriptedEngine):
        closed = False

        async def open(self) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
            await asyncio.sleep(600)

        async def close(self) -> None:
            self.closed = True

    loading = Loading()
    keeper = keeper_of([ScriptedEngine(), loading])
    await keeper.open()
    keeper.fall_ill(Ailment.LOST, "it died")
    restarting = asyncio.create_task(keeper.restart(lambda _: None))
    async with asyncio.timeout(10):
        while not isinstance(keeper.engine.current, Loading):
            await asyncio.sleep(0.01)
    restarting.cancel()
    await asyncio.wait([restarting])
    await keeper.close()
    assert loading.closed


async def test_one_that_is_let_go_of_may_say_what_it_likes() -> None:
    keeper = keeper_of([ScriptedEngine(step_s=30), ScriptedEngine()])
    keeper._canary = Canary("")  # pyright: ignore[reportPrivateUsage]
    await keeper.open()
    old = keeper.engine.current
    assert isinstance(old, ScriptedEngine)
    pieces = keeper.engine.stream(await _segment(keeper))
    waiting = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    keeper.fall_ill(Ailment.STALLED, "nothing came")
    assert await keeper.restart(lambda _: None)
    with pytest.raises(EngineDead):
        await waiting
    assert keeper.sickness.takes_work
    await keeper.close()


async def _segment(keeper: EngineKeeper) -> Segment:
    from sluicegate.schemas import GenerationJob, Sampling

    ids = await keeper.engine.prompt_token_ids(GenerationJob(prompt="x"))
    return Segment(request_id="r", prompt_token_ids=ids, sampling=Sampling(), seed=1)


class TestCanary:
    @pytest.mark.parametrize(
        ("text", "answer", "reference", "problem"),
        [
            ("five, six", "", None, None),
            ("five, six", "SIX", "five, seven", None),
            (" \n", "", None, "empty"),
            ("five", "six", None, "'six'"),
            ("cinq, six", "", "five, six", "begin"),
            ("five", "", "five, six, seven", "begin"),
        ],
    )
    def test_the_judgement(
        self, text: str, answer: str, reference: str | None, problem: str | None
    ) -> None:
        said = judged(Heard(text), answer, reference)
        assert (said is None) == (problem is None)
        assert problem is None or problem in (said or "")

    async def test_the_first_good_answer_is_the_measure_where_nothing_else_runs(self) -> None:
        answers = iter(["\0", "five, six", "five, seven", "quite other", "quite other"])
        engine = ScriptedEngine(lambda _segment, _prompt: next(answers))
        await engine.open()
        canary = Canary("count")
        problems = [
            await canary.sing(engine, 5, alone=alone) for alone in (True, True, True, False, True)
        ]
        assert [each is None for each in problems] == [False, True, True, True, False]

    async def test_logits_that_are_no_numbers(self) -> None:
        class Numb(ScriptedEngine):
            async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
                async for piece in super().stream(segment):
                    nan = (float("nan"),) * len(piece.token_ids)
                    yield msgspec.structs.replace(piece, logprobs=nan)

        engine = Numb()
        await engine.open()
        problem = await Canary("count").sing(engine, 5, alone=True)
        assert problem is not None
        assert "non_finite_logits" in problem

    async def test_no_answer_in_time(self) -> None:
        engine = ScriptedEngine(step_s=60)
        await engine.open()
        assert "no answer" in str(await Canary("count").sing(engine, 0.05, alone=True))
        assert not engine.running

    async def test_a_prompt_that_the_engine_refuses_is_not_the_engines_fault(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        engine = ScriptedEngine(max_model_len=2)
        await engine.open()
        assert await Canary("too long").sing(engine, 5, alone=True) is None
        assert "canary_prompt can't be tried" in caplog.text

    async def test_without_a_prompt_all_is_well(self) -> None:
        assert await Canary("").sing(ScriptedEngine(), 5, alone=True) is None


async def test_no_memory_is_told_with_the_remedy_before_the_first_engine() -> None:
    class Large(ScriptedEngine):
        async def open(self) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")

    keeper = keeper_of([Large()])
    with pytest.raises(EngineUnavailable, match="lower gpu_memory_utilization"):
        await keeper.open()
    await keeper.close()


@pytest.mark.parametrize(
    ("error", "is_short"),
    [
        (MemoryError(), True),
        (type("OutOfMemoryError", (RuntimeError,), {})("x"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (OSError("[Errno 12] Cannot allocate memory"), True),
        (EngineOutOfMemory("the engine ran out of memory"), True),
        (EngineError("out of memory, and it lives on"), False),
        (ValueError("a job about being out of memory"), False),
    ],
)
def test_what_is_a_lack_of_memory(error: Exception, is_short: bool) -> None:
    assert is_out_of_memory(error) == is_short


async def test_processes_are_gone_with_those_that_they_started() -> None:
    inner = "import time; time.sleep(600)"
    outer = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {inner!r}])\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    before = descendants()
    with subprocess.Popen(  # noqa: ASYNC220  it is up in no time
        [sys.executable, "-c", outer], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"up\n"
        ours = descendants() - before
        assert len(ours) == 2
        assert alive(ours) == ours
        assert not await kill(ours, 10)
    assert not alive(ours)
