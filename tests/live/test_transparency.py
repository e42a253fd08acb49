"""The transparency law: a rollback that changes nothing changes nothing.

On the real engine, greedy, in float32: the text with a forced rollback is byte for byte that of an
uninterrupted run, whatever of the sampling reaches over the seam.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import msgspec
import pytest
import pytest_asyncio
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.gate import Step
from sluicegate.guards.pipeline import Pipeline
from sluicegate.rollback import Changes, Rollback, Situation
from sluicegate.schemas import GenerationJob, Sampling, TripRecord
from sluicegate.worker import decisions
from sluicegate.worker.config import Config
from sluicegate.worker.drafts import MakeGates
from sluicegate.worker.endings import Answered, Report
from sluicegate.worker.engine import Engine
from sluicegate.worker.engines import make_engine
from sluicegate.worker.session import GenerationSession, own_gates

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

TOKENS = 32
PROMPTS = (
    "Why is the sky blue?",
    "用中文写一句话介绍北京。",
)
SAMPLINGS: dict[str, Sampling] = {
    "plain": Sampling(),
    "presence and frequency": Sampling(frequency_penalty=0.7, presence_penalty=0.5),
    "repetition": Sampling(repetition_penalty=1.2),
    "all penalties": Sampling(presence_penalty=0.3, frequency_penalty=0.4, repetition_penalty=1.1),
    "negative": Sampling(frequency_penalty=-0.2, presence_penalty=-0.3, repetition_penalty=1.05),
    "bias": Sampling(logit_bias={260: -5.0, 314: 2.0}, frequency_penalty=0.3),
}


class TripAt:
    """Trips once, at a token, and wants the `back` last ones gone."""

    name = "forced"

    def __init__(self, position: int, back: int) -> None:
        self._position = position
        self._back = back
        self._tripped = False

    def feed(self, step: Step) -> Finding | None:
        if self._tripped or step.position < self._position:
            return None
        self._tripped = True
        return Finding(
            gate=self.name,
            level=Level.TEXT,
            flaw=Flaw.WORD_RUN,
            tokens=(max(0, step.position + 1 - self._back), step.position + 1),
            chars=(step.offset, step.offset),
            score=1,
            threshold=1,
        )

    def truncate(self, n_tokens: int) -> None:
        """It has no state to go back."""


@pytest.fixture(autouse=True)
def nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy of going back to the onset and trying the same again, which ours never does."""

    def decide(finding: Finding, situation: Situation, _table: object) -> Rollback:
        return Rollback(keep=situation.checkpoints.cut(finding.tokens[0]), changes=Changes())

    monkeypatch.setattr(decisions, "decide", decide)


@pytest_asyncio.fixture(scope="module")
async def exact(model: str) -> AsyncGenerator[Engine]:
    config = Config(
        model=model,
        dtype="float32",
        max_model_len=1024,
        enforce_eager=True,
        lanes="interactive=8",
    )
    engine = await make_engine(config)
    await engine.open()
    yield engine
    await engine.close()


async def run(
    engine: Engine,
    prompt: str,
    sampling: Sampling,
    make: MakeGates = own_gates,
) -> Report:
    attempt = GenerationSession(
        GenerationJob(prompt=prompt, sampling=sampling, profile="off"),
        engine,
        worker="w",
        nonce="n",
        gates=make,
    )
    ending = await attempt.run()
    assert isinstance(ending, Answered), ending
    return attempt.report(ending, None)


def trip_at(*places: int, back: int) -> MakeGates:
    def make(*_: object) -> Pipeline:
        return Pipeline([TripAt(place, back) for place in places])

    return make


def greedy(sampling: Sampling, **more: object) -> Sampling:
    return msgspec.structs.replace(sampling, temperature=0, **{"max_tokens": TOKENS, **more})


async def assert_transparent(
    engine: Engine, prompt: str, sampling: Sampling, places: Sequence[int], back: int = 2
) -> list[Report]:
    """The uninterrupted run, and those with a rollback at one place each that happened."""
    whole = await run(engine, prompt, sampling)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(run(engine, prompt, sampling, trip_at(place, back=back)))
            for place in places
        ]
    reports = [report for task in tasks if (report := task.result()).record.trips]
    assert reports
    for report in reports:
        assert len(report.record.segments) == 2
        assert report.text == whole.text
        assert report.usage.completion_tokens == whole.usage.completion_tokens
        last, uninterrupted = report.record.segments[-1], whole.record.segments[-1]
        assert last.finish_reason == uninterrupted.finish_reason
    return [whole, *reports]


@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize("prompt", PROMPTS)
async def test_with_every_penalty(exact: Engine, name: str, prompt: str) -> None:
    reports = await assert_transparent(exact, prompt, greedy(SAMPLINGS[name]), (0, 3, 13, 26))
    assert len(reports) > 2


async def test_with_several_rollbacks_in_one_text(exact: Engine) -> None:
    sampling = greedy(SAMPLINGS["all penalties"])
    whole = await run(exact, PROMPTS[0], sampling)
    again = await run(
        exact,
        PROMPTS[0],
        sampling,
        trip_at(4, 9, 20, 27, back=3),
    )
    assert len(again.record.trips) == 4
    assert again.text == whole.text


async def test_a_stop_string_that_straddles_the_seam(exact: Engine) -> None:
    whole = await run(exact, PROMPTS[0], greedy(Sampling()))
    middle = len(whole.text) // 2
    stop = whole.text[middle - 4 : middle + 4]
    reports = await assert_transparent(
        exact, PROMPTS[0], greedy(Sampling(stop=(stop,))), range(TOKENS), back=1
    )
    assert {report.text for report in reports} == {whole.text.split(stop)[0]}
    assert len(reports) > 5


async def test_min_tokens_over_the_seam(exact: Engine) -> None:
    prompt = "Name the capital of France."
    short = await run(exact, prompt, greedy(Sampling()))
    length = short.usage.completion_tokens
    assert length < TOKENS - 8
    sampling = greedy(Sampling(), min_tokens=length + 8)
    whole, *_ = await assert_transparent(
        exact, prompt, sampling, (1, length - 1, length + 2, length + 6)
    )
    assert whole.usage.completion_tokens > length


async def test_min_tokens_holds_back_a_stop_string_over_the_seam(exact: Engine) -> None:
    whole = await run(exact, PROMPTS[0], greedy(Sampling()))
    sampling = greedy(Sampling(stop=(whole.text[6:9],)), min_tokens=20)
    await assert_transparent(exact, PROMPTS[0], sampling, (3, 10, 18, 21))


async def test_max_tokens_over_the_seam(exact: Engine) -> None:
    sampling = greedy(Sampling(), max_tokens=12)
    for report in await assert_transparent(exact, PROMPTS[0], sampling, (0, 6, 11)):
        assert report.usage.completion_tokens == 12


async def test_bad_words_over_the_seam(exact: Engine) -> None:
    """Words of several tokens that the model wants to say: whole, and from within."""
    whole = await run(exact, PROMPTS[0], greedy(Sampling()))
    wanted = " ".join(whole.text.split(" ")[4:8])
    sampling = greedy(Sampling(bad_words=(wanted,)))
    changed, *_ = await assert_transparent(exact, PROMPTS[0], sampling, range(2, 16), back=1)
    assert wanted in whole.text
    assert wanted not in changed.text


async def test_the_prefix_cache_makes_a_resume_cheap(exact: Engine) -> None:
    report = await run(exact, " ".join(PROMPTS[:2]) * 8, greedy(Sampling()), trip_at(20, back=2))
    first, second = report.record.segments
    assert second.prompt_tokens == first.prompt_tokens + 19
    assert second.cached_tokens >= first.prompt_tokens // 32 * 32 > 0


async def test_the_same_job_twice_has_the_same_story(
    exact: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our own policy, sampling: rollbacks change temperature, ban tokens and derive seeds."""
    monkeypatch.undo()
    sampling = Sampling(temperature=0.9, max_tokens=TOKENS, seed=11)

    async def story() -> tuple[str, list[object], tuple[TripRecord, ...]]:
        report = await run(
            exact,
            PROMPTS[1],
            sampling,
            trip_at(6, 9, 12, 25, back=2),
        )
        segments: list[object] = [
            (each.seed, each.start, each.parameters, each.tokens, each.finish_reason)
            for each in report.record.segments
        ]
        return report.text, segments, report.record.trips

    first = await story()
    assert first == await story()
    text, segments, trips = first
    assert len(trips) == 4
    assert len(segments) > 4
    assert any(trip.banned is not None for trip in trips)
    uninterrupted = await run(exact, PROMPTS[1], sampling)
    assert text != uninterrupted.text
