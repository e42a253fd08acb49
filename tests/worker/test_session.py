"""One attempt on the scripted engine: endings, records, released text."""

import asyncio

from sluicegate.rollback import attempt_seed
from sluicegate.schemas import GenerationJob, InvalidMessage, Reason, Sampling
from sluicegate.worker.endings import Answered, EngineLost, Faulted, Refused
from sluicegate.worker.engine import EngineError, Segment
from sluicegate.worker.scripted import ScriptedEngine, echo
from sluicegate.worker.session import GenerationSession


async def opened(engine: ScriptedEngine) -> ScriptedEngine:
    await engine.open()
    return engine


class Ticking:
    """A clock that moves one second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def test_an_answer_with_its_record() -> None:
    seen: list[Segment] = []

    def script(segment: Segment, prompt: str) -> str:
        seen.append(segment)
        return prompt.upper()

    released: list[tuple[int, str]] = []
    job = GenerationJob(id="job-1", prompt="hello, world", sampling=Sampling(seed=5))
    session = GenerationSession(
        job,
        await opened(ScriptedEngine(script)),
        worker="w1",
        nonce="n",
        release=lambda offset, text: released.append((offset, text)),
        clock=Ticking(),
    )
    ending = await session.run()
    report = session.report(ending, queued_s=0.5)

    assert ending == Answered("stop")
    assert report.text == "HELLO, WORLD"
    assert "".join(text for _, text in released) == report.text
    assert all(report.text[offset:].startswith(text) for offset, text in released)
    assert report.usage.prompt_tokens == 12
    assert report.usage.completion_tokens == 13, "with the end of the text"
    assert report.timings.queued_s == 0.5
    assert report.timings.first_token_s is not None
    assert 0 < report.timings.first_token_s < report.timings.engine_s
    (record,) = report.record.segments
    assert record.seed == seen[0].seed == 5
    assert record.tokens == 13
    assert record.finish_reason == "stop"
    assert seen[0].request_id.startswith("job-1:1:n")


async def test_the_seed_comes_from_the_job_and_the_attempt() -> None:
    seeds: list[int] = []

    def script(segment: Segment, prompt: str) -> str:
        seeds.append(segment.seed)
        return prompt

    engine = await opened(ScriptedEngine(script))
    for attempt in (1, 2, 2):
        job = GenerationJob(id="job-1", prompt="x", attempt=attempt)
        await GenerationSession(job, engine, worker="w", nonce="n").run()
    assert seeds == [attempt_seed("job-1", None, attempt) for attempt in (1, 2, 2)]
    assert seeds[0] != seeds[1]
    assert all(0 <= seed < 2**63 for seed in seeds)


async def test_what_the_engine_refuses_is_an_ending() -> None:
    engine = await opened(ScriptedEngine(max_model_len=8))
    session = GenerationSession(
        GenerationJob(prompt="far too long for it"), engine, worker="w", nonce="n"
    )
    ending = await session.run()
    assert isinstance(ending, Refused)
    assert ending.error.reason is Reason.PROMPT_TOO_LONG
    assert session.report(ending, None).usage.prompt_tokens == 19


async def test_faults_and_death_are_told_apart() -> None:
    def script(_segment: Segment, prompt: str) -> str:
        if prompt == "fault":
            raise EngineError("out of memory")
        if prompt == "refuse":
            raise InvalidMessage(Reason.UNSUPPORTED, "$.sampling.logit_bias", "out of vocabulary")
        return prompt

    engine = await opened(ScriptedEngine(script, step_s=0.01))

    async def ending_of(prompt: str) -> object:
        return await GenerationSession(
            GenerationJob(prompt=prompt), engine, worker="w", nonce="n"
        ).run()

    assert await ending_of("fault") == Faulted("out of memory")
    assert isinstance(await ending_of("refuse"), Refused)
    running = asyncio.create_task(ending_of("some words that take a while"))
    while not engine.running:
        await asyncio.sleep(0)
    engine.die()
    assert isinstance(await running, EngineLost)


async def test_a_cancelled_session_still_reports() -> None:
    engine = await opened(ScriptedEngine(echo, chunk=1, step_s=0.005))
    session = GenerationSession(
        GenerationJob(prompt="abcdefghijklmnopqrstuvwxyz"), engine, worker="w", nonce="n"
    )
    running = asyncio.create_task(session.run())
    while len(session.report(Answered("stop"), None).text) < 3:
        await asyncio.sleep(0.005)
    running.cancel()
    await asyncio.wait([running])
    report = session.report(Answered("stop"), None)
    assert report.text == "abcdefghijklmnopqrstuvwxyz"[: len(report.text)]
    assert report.record.segments[0].tokens == report.usage.completion_tokens
    assert report.record.segments[0].finish_reason is None
    assert not engine.running
