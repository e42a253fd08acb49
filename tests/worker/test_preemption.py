"""An attempt that is handed back and gone on with comes to what it would have come to."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from sluicegate.schemas import GenerationJob, InvalidMessage, Progress, Sampling, decode, encode
from sluicegate.schemas.limits import MAX_HANDOVERS, MAX_OUTCOME_BYTES
from sluicegate.schemas.sampling import StructuredOutput
from sluicegate.worker.endings import Answered, EngineLost, Interrupted
from sluicegate.worker.engine import Segment
from sluicegate.worker.gating import Gating
from sluicegate.worker.observing import observe
from sluicegate.worker.publications import Verb
from sluicegate.worker.scripted import ScriptedEngine

from .reasoning_model import END, START, WRAP_UP, WordEngine, carried
from .relay import WHO, Relay, relay, settled
from .test_reasoning_fuzz import some_case

GOOD = "The quick brown fox jumps over the lazy dog, and nobody minds. Süß, 🙂 and so on. " * 3
LENGTH = len(GOOD.encode())
GATING = Gating(wrap_up=WRAP_UP)


def job(**fields: object) -> GenerationJob:
    sampling = Sampling(max_tokens=2000)
    return GenerationJob(**{"id": "j", "prompt": "go", "sampling": sampling, **fields})  # pyright: ignore[reportArgumentType]


def plain(chunk: int = 1) -> ScriptedEngine:
    return ScriptedEngine(lambda _segment, _prompt: GOOD, chunk=chunk)


def faulty(segment: Segment, _prompt: str) -> str:
    """Goes wrong at two places for as long as nothing is changed, and once more a little after."""
    text = GOOD
    for place in (50, 120):
        before = len(text[:place].encode())
        if segment.carried <= before and segment.sampling.temperature == 1:
            return text[:place] + "\x00" + text[place:]
    return text


def same_end(one: Relay, whole: Relay) -> None:
    assert one.ending == whole.ending
    assert one.last.text == whole.last.text
    assert one.last.reasoning == whole.last.reasoning
    assert one.last.stop_string == whole.last.stop_string
    mine, its = one.last.usage, whole.last.usage
    assert mine.completion_tokens == its.completion_tokens
    assert mine.reasoning_tokens == its.reasoning_tokens
    assert mine.prompt_tokens == its.prompt_tokens
    for channel in ("reasoning", "content"):
        assert one.told(channel) == whole.told(channel)
    assert not one.started_over


@given(
    st.lists(st.integers(0, LENGTH), max_size=4),
    st.integers(1, 5),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_text_is_gone_on_with_from_wherever_it_was(
    stops: list[int], chunk: int, slow: bool
) -> None:
    whole = asyncio.run(relay(job(), lambda: plain(chunk)))
    one = asyncio.run(relay(job(), lambda: plain(chunk), stops, slow=slow))
    assert whole.last.text == GOOD
    same_end(one, whole)
    # Nothing is generated twice but what was no whole character.
    assert one.last.usage.wasted_tokens <= 4 * len(stops)
    assert len(one.handed) + one.nacked == len(one.reports) - 1


@given(st.lists(st.integers(0, 300), max_size=4), st.booleans(), st.booleans())
@example([132], False, False)
@settings(max_examples=60, deadline=None)
def test_rollbacks_go_on_where_they_were(stops: list[int], slow: bool, stream: bool) -> None:
    def engine() -> ScriptedEngine:
        return ScriptedEngine(faulty, chunk=1)

    whole = asyncio.run(relay(job(), engine, stream=stream))
    one = asyncio.run(relay(job(), engine, stops, slow=slow, stream=stream))
    same_end(one, whole)
    told = [
        [(t.flaw, t.action, t.tokens, t.kept) for t in each.last.record.trips]
        for each in (one, whole)
    ]
    assert told[0] == told[1]
    assert len(told[0]) > 1


SAMPLINGS = {
    "min_tokens": Sampling(max_tokens=2000, min_tokens=100, stop=("lazy",)),
    "stop string": Sampling(max_tokens=2000, stop=("dog, and nobody",)),
    "max_tokens": Sampling(max_tokens=57),
    "words and penalties": Sampling(
        max_tokens=80, bad_words=("cat",), logit_bias={65: 2.0}, presence_penalty=0.5
    ),
}


@pytest.mark.parametrize("name", SAMPLINGS)
async def test_what_is_asked_reaches_over_the_seam(name: str) -> None:
    asked = job(sampling=SAMPLINGS[name])
    whole = await relay(asked, plain)
    for stop in range(0, 60, 3):
        one = await relay(asked, plain, [stop], slow=stop % 2 == 0)
        same_end(one, whole)
        if one.handed:
            last = one.segments[-1]
            assert last.sampling.max_tokens == asked.sampling.max_tokens - one.handed[-1].kept
            left = asked.sampling.min_tokens - one.handed[-1].kept
            assert last.sampling.min_tokens == max(0, left)
            assert last.carried == one.handed[-1].kept
            kept_as_asked = ("bad_words", "logit_bias", "presence_penalty")
            assert all(
                getattr(last.sampling, each) == getattr(asked.sampling, each)
                for each in kept_as_asked
            )


class Remembering:
    """A model that goes on with a text as it would have gone on, whoever asks: what it has said
    once behind a text under some seed and sampling, it says again."""

    def __init__(self, model: Callable[[Segment], Sequence[int]]) -> None:
        self._model = model
        self._said: dict[object, list[list[int]]] = {}

    def __call__(self, segment: Segment) -> Sequence[int]:
        so_far, sampling = carried(segment), segment.sampling
        asked = msgspec.structs.replace(sampling, max_tokens=1, min_tokens=0)
        said = self._said.setdefault((segment.seed, msgspec.json.encode(asked)), [])
        bans = segment.gates.bans if segment.gates is not None else ()
        banned = [(segment.carried + ban.position, ban.token) for ban in bans]
        for output in said:
            fits = not any(output[place : place + 1] == [token] for place, token in banned)
            if output[: len(so_far)] == so_far and fits:
                return output
        said.append(list(self._model(segment)))
        return said[-1]


def thinker(seed: int) -> tuple[GenerationJob, Callable[[], WordEngine], bool]:
    case = some_case(seed)
    engine = case.engine
    vars(engine)["_chunk"] = 1
    vars(engine)["_ids"] = Remembering(vars(engine)["_ids"])

    def again() -> WordEngine:
        vars(engine)["_open"] = False
        return engine

    return case.job, again, case.stream


@given(st.integers(0, 10**9), st.lists(st.integers(0, 60), min_size=1, max_size=3))
@settings(max_examples=250, deadline=None)
def test_a_model_that_thinks_is_gone_on_with_in_thought_and_answer(
    seed: int, stops: list[int]
) -> None:
    asked, engine, stream = thinker(seed)
    whole, same = (
        asyncio.run(relay(asked, engine, gating=GATING, stream=stream)) for _ in range(2)
    )
    # Where this model does not say the same twice, there is nothing to hold it to.
    assume(same.last.record.trips == whole.last.record.trips)
    one = asyncio.run(relay(asked, engine, stops, gating=GATING, stream=stream))
    same_end(one, whole)
    thought, its = one.last.record.reasoning, whole.last.record.reasoning
    assert thought is not None
    assert its is not None
    told = ("tokens", "dropped_tokens", "cuts", "ended", "flaw", "gate", "cap")
    assert [getattr(thought, each) for each in told] == [getattr(its, each) for each in told]


@given(st.integers(0, 10**9), st.lists(st.integers(0, 40), min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_stopped_in_the_middle_of_a_decision_it_still_comes_to_an_end(
    seed: int, stops: list[int]
) -> None:
    asked, engine, stream = thinker(seed)
    one = asyncio.run(relay(asked, engine, stops, gating=GATING, stream=stream, slow=True))
    for channel in ("reasoning", "content"):
        told = one.told(channel)
        said = one.last.text if channel == "content" else one.last.reasoning or ""
        assert said.startswith(told)
        assert told == said or not stream or not isinstance(one.ending, Answered)
    assert one.last.usage.completion_tokens <= asked.sampling.max_tokens


async def test_before_the_first_token_there_is_nothing_to_hand_on() -> None:
    one = await relay(job(), plain, [0, 0, 0])
    assert (one.nacked, one.handed) == (3, [])
    assert one.last.text == GOOD


async def test_who_adds_nothing_hands_back_the_message_as_it_is() -> None:
    one = await relay(job(), plain, [40, 0, 0])
    assert one.nacked == 2
    assert [each.kept for each in one.handed] == [40]
    assert one.last.text == GOOD


async def test_what_a_grammar_holds_is_begun_again() -> None:
    grammar = StructuredOutput(regex=".*")
    asked = job(sampling=Sampling(max_tokens=2000, structured_output=grammar))
    one = await relay(asked, plain, [30], stream=False)
    assert one.nacked == 1
    assert one.last.text == GOOD


async def test_the_reasoning_before_a_grammar_is_kept() -> None:
    def script(segment: Segment, _prompt: str) -> str:
        thought = "Let me see. Yes.\n" + END
        return thought + ('"an answer"' if segment.sampling.structured_output else "x")

    grammar = StructuredOutput(regex=".*")
    asked = job(prompt="go " + START, sampling=Sampling(max_tokens=2000, structured_output=grammar))

    def engine() -> ScriptedEngine:
        return ScriptedEngine(script, chunk=1, tags=(START, END))

    whole = await relay(asked, engine, stream=False)
    one = await relay(asked, engine, [30], stream=False)
    same_end(one, whole)
    (progress,) = one.handed
    assert progress.kept == len("Let me see. Yes.\n" + END)
    assert one.last.usage.wasted_tokens == progress.spent.dropped > 0


async def test_one_record_tells_it_all() -> None:
    one = await relay(job(), plain, [40, 30])
    record = one.last.record
    assert record.handed_tokens == one.handed[-1].kept == 70
    assert [each.start for each in record.segments] == [0, 40, 70]
    assert sum(each.tokens for each in record.segments) == LENGTH + 1
    assert record.started_at == one.reports[0].record.started_at
    assert one.last.usage.prompt_tokens == 2
    assert one.last.timings.engine_s >= one.handed[-1].spent.engine_s > 0
    assert one.last.timings.first_token_s == one.handed[0].spent.first_token_s
    assert [each.times for each in one.handed] == [1, 2]


async def test_it_may_be_handed_back_so_often_and_no_more() -> None:
    one = await relay(job(), plain, [1] * (MAX_HANDOVERS + 2), stream=False)
    assert len(one.handed) == MAX_HANDOVERS
    assert one.nacked == 2
    assert one.last.text == GOOD


async def test_another_model_or_prompt_starts_over() -> None:
    progress = (await relay(job(), plain, [40])).handed[0]
    others: list[Callable[[], ScriptedEngine]] = [
        lambda: ScriptedEngine(lambda _segment, _prompt: GOOD, model="another"),
        lambda: ScriptedEngine(lambda _segment, _prompt: GOOD, tags=(START, END)),
    ]
    for engine in others:
        one = await relay(job(progress=progress), engine)
        assert len(one.started_over) == 1
        assert one.last.text == GOOD
        assert one.last.record.handed_tokens == 0
        assert one.told("content") == GOOD
    for other in (job(prompt="no", progress=progress), job(progress=progress, attempt=2)):
        one = await relay(other, plain)
        assert len(one.started_over) == 1
        assert one.last.usage.completion_tokens == LENGTH + 1


HOSTILE: list[dict[str, object]] = [
    {"tokens": [300] * 40},
    {"tokens": [255] * 40},
    {"tokens": []},
    {"tokens": [65] * 3000},
    {"base": 3, "tokens": [65] * 2},
    {"base": 40},
    {"inserted": 7},
    {"inserted": -5000},
    {"draft": {"floor": 4000}},
    {"draft": {"guides": [3, 2]}},
    {"draft": {"sent": 900_000_000}},
    {"draft": {"lead": "x" * 50}},
    {"thought": {"ended": "open", "tokens": 9}},
    {"thought": {}},
    {"spent": {"produced": 1, "wasted": 5}},
    {"spent": {"rollbacks": 10**9}},
    {"settled_by": 10**9, "seam": 10**9, "may_open": True, "at_seam": True},
    {"sampling_tokens": 10**9},
    {"digest": "0" * 32},
    {"tried": [{"level": 5, "flaw": "denied_character", "onset": -(10**13), "tokens": 10**9}]},
    {"tried": [{"level": 3, "flaw": "no such", "onset": 0, "tokens": 0}]},
    {"seed": -1},
]


@pytest.mark.parametrize("change", HOSTILE, ids=str)
async def test_hostile_progress_is_refused_or_of_no_use(change: dict[str, object]) -> None:
    progress = (await relay(job(), plain, [40])).handed[0]
    body = msgspec.to_builtins(job(progress=progress))
    for name, value in change.items():
        of_struct = isinstance(value, dict) and isinstance(body["progress"].get(name), dict)
        body["progress"][name] = body["progress"][name] | value if of_struct else value
    asked: GenerationJob | None = None
    refused = ""
    try:
        asked = decode(msgspec.json.encode(body), GenerationJob)
    except InvalidMessage as error:
        refused = error.field
    if asked is None:
        assert refused.startswith("$.progress")
        return
    one = await relay(asked, plain, [20])
    assert one.last.text or one.ending is not None
    assert isinstance(one.ending, Answered) or one.started_over or one.last.text.startswith("The")


VALUES: list[Any] = [
    *(0, 1, -1, 2, 7, 200, 10**9, True, False, None),
    *("", "x", "open", "closed", [], [0], [5, 1], {}),
]


def some_change(rng: random.Random, value: Any) -> Any:
    """Something else in place of one value of a tree, however deep."""
    if isinstance(value, dict) and value:
        fields = cast("dict[str, Any]", value)
        name = rng.choice(list(fields))
        return {**fields, name: some_change(rng, fields[name])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        items = cast("list[Any]", value)
        at = rng.randrange(len(items))
        return [*items[:at], some_change(rng, items[at]), *items[at + 1 :]]
    return rng.choice(VALUES)


@given(st.integers(0, 10**9), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_progress_that_was_tampered_with_never_crashes(seed: int, stop: int) -> None:
    rng = random.Random(seed)
    asked, engine, stream = thinker(seed)
    handed = asyncio.run(relay(asked, engine, [stop], gating=GATING, stream=stream)).handed
    if not handed:
        return
    body = msgspec.to_builtins(msgspec.structs.replace(asked, progress=handed[0]))
    for _ in range(rng.randint(1, 3)):
        body["progress"] = some_change(rng, body["progress"])
    try:
        tampered = decode(msgspec.json.encode(body), GenerationJob)
    except InvalidMessage:
        return
    one = asyncio.run(relay(tampered, engine, gating=GATING, stream=False))
    assert one.ending is not None


async def test_a_long_text_fits_a_message_and_is_gone_on_with() -> None:
    text = "".join(f"{number} is a number, and so on. " for number in range(1200))

    def engine() -> ScriptedEngine:
        return ScriptedEngine(lambda _segment, _prompt: text, chunk=512, max_model_len=100_000)

    asked = job(sampling=Sampling(max_tokens=60_000), profile="off")
    one = await relay(asked, engine, [50])
    assert one.handed[0].kept == 50 * 512
    assert one.last.text == text
    body = encode(msgspec.structs.replace(asked, progress=one.handed[0]))
    assert len(body) < MAX_OUTCOME_BYTES // 10


async def test_other_attempts_go_on_while_one_is_read_again() -> None:
    def engine() -> ScriptedEngine:
        return ScriptedEngine(lambda _segment, _prompt: GOOD * 40, chunk=64, max_model_len=100_000)

    asked = job(sampling=Sampling(max_tokens=60_000), profile="off")
    pieces = len(GOOD.encode()) * 40 // 64
    handed = (await relay(asked, engine, [pieces - 20])).handed[0]
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    one = await relay(msgspec.structs.replace(asked, progress=handed), engine)
    beside.cancel()
    assert one.last.record.handed_tokens == handed.kept
    # Much more often than for the pieces that come behind.
    assert turns > pieces // 2


async def test_only_an_interruption_hands_on() -> None:
    one = await relay(job(), plain, [40])
    report, progress = one.reports[0], one.handed[0]
    asked = job(progress=progress)
    lost = msgspec.structs.replace(report, ending=EngineLost("gone"))
    (copy,) = settled(asked, lost).publications
    assert isinstance(copy.message, GenerationJob)
    assert copy.message.progress is None
    back = settled(asked, report)
    assert back.verb is Verb.ACK
    (copy,) = back.publications
    assert (copy.exchange, copy.routing_key) == (WHO.names.jobs, WHO.names.jobs_key("interactive"))
    assert isinstance(copy.message, GenerationJob)
    assert (copy.message.id, copy.message.attempt) == (asked.id, asked.attempt)
    (handover,) = copy.message.lineage.handovers
    assert (handover.worker, handover.tokens) == ("w", 40)


async def test_where_the_numbers_are_in_doubt_nothing_is_handed_on() -> None:
    one = await relay(job(), plain, [40])
    doubted = Interrupted("NaN", trusted=False)
    report = msgspec.structs.replace(one.reports[0], ending=doubted, progress=None)
    assert settled(job(), report).verb is Verb.NACK


def test_the_tokens_that_are_kept_are_those_of_the_engine() -> None:
    known = {
        "attempt": 1,
        "model": "m",
        "vocabulary_size": 9,
        "digest": "0" * 32,
        "started_at": "2031-05-01T11:58:00Z",
        "at": "2031-05-01T11:58:00Z",
        "seed": 1,
        "tokens": [1] * 10,
        "base": 6,
        "inserted": 3,
        "draft": {"guides": [1]},
    }
    assert msgspec.convert(known, Progress).kept == 6


async def test_no_worker_counts_what_another_has_counted() -> None:
    def counted(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(name, labels) or 0.0

    kinds = ("prompt", "completion", "wasted", "saved")
    before = {kind: counted("sluice_tokens_total", kind=kind) for kind in kinds}
    handed_on = counted("sluice_preempted_total", kept="yes")
    given_back = counted("sluice_preempted_total", kept="no")
    one = await relay(job(), lambda: ScriptedEngine(faulty, chunk=1), [0, 70, 60])
    asked = job()
    for report in one.reports:
        settlement = settled(asked, report)
        observe(report, settlement, asked)
    spent = {kind: counted("sluice_tokens_total", kind=kind) - before[kind] for kind in kinds}
    usage = one.last.usage
    assert spent["completion"] == usage.completion_tokens
    assert spent["wasted"] == usage.wasted_tokens > 0
    assert spent["saved"] == sum(each.kept for each in one.handed)
    assert counted("sluice_preempted_total", kept="yes") - handed_on == len(one.handed) == 2
    assert counted("sluice_preempted_total", kept="no") - given_back == 1
