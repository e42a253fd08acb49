"""The guard over reasoning on the real engine, with a model that is made to reason."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from itertools import count
from typing import Any, Final

import pytest
import pytest_asyncio
from sluicegate.guards.reasoning.tags import Tags
from sluicegate.ops.faults import AFTER, BEFORE, Fault, Vocabulary, order
from sluicegate.schemas import Flaw, GenerationJob, Reasoning, Sampling, StructuredOutput
from sluicegate.worker.config import Config
from sluicegate.worker.engine import Engine, Segment
from sluicegate.worker.model_tokenizer import ModelTokenizer, load_tokenizer

from .reasoners import WRAP_UP, Forced, View, Watched, watch

# vLLM and what it imports warn of many things that are not ours to mend.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

START, END = "<think>", "</think>"
PROMPT: Final = "What is the capital of France, and what is it known for?"
# Nothing in it comes twice.
THOUGHT: Final = (
    "The user asks about a country in Europe. Its seat of government lies on the Seine. "
    "I should mention the tower, too."
)
ANSWER: Final = "Paris, which is known for its tower."
UNIT: Final = " Hmm, let me think about that once more."
SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}},
    "required": ["city"],
    "additionalProperties": False,
}
SPECIAL: Final = ("<jupyter_start>", "<jupyter_text>")


class Bench:
    """An open engine whose model says what it is told to."""

    def __init__(self, engine: Engine, forced: Forced, tokenizer: ModelTokenizer) -> None:
        self.engine = engine
        self.forced = forced
        self.tokenizer = tokenizer
        self.vocabulary = Vocabulary.of(tokenizer)
        self._numbers = count()
        (self.end_of_text,) = tokenizer.stop_ids

    def ids(self, *parts: str) -> tuple[int, ...]:
        """Each part in tokens of its own; what looks like a special token is ordinary text."""
        return tuple(token for part in parts for token in self.tokenizer.encode(part))

    async def job(
        self, start: Sequence[int] | str = f"{START}\n", *, max_tokens: int = 240, **more: Any
    ) -> GenerationJob:
        """A question, greedy. The prompt ends with `start`, as a template that opens the block
        would end it."""
        prompt = more.pop("prompt", PROMPT)
        asked = await self.engine.prompt_token_ids(GenerationJob(prompt=prompt))
        tail = self.ids(start) if isinstance(start, str) else start
        output = more.pop("output", None)
        return GenerationJob(
            id=f"job-{next(self._numbers)}",
            prompt_token_ids=(*asked, *tail),
            sampling=Sampling(temperature=0, max_tokens=max_tokens, structured_output=output),
            **more,
        )

    async def run(
        self,
        job: GenerationJob,
        *requests: Sequence[int],
        at: int = 0,
        chunk: int = 1,
        **info: Any,
    ) -> Watched:
        """The job's requests begin by saying these."""
        if requests:
            self.forced.say(job.id, *requests, at=at)
        return await watch(View(self.engine, chunk=chunk, **info), job)

    @property
    def answer(self) -> tuple[int, ...]:
        """The whole of it."""
        return (*self.ids(ANSWER), self.end_of_text)

    def special_tags(self) -> Tags:
        """Of tokens that are special to this model."""
        return self.tokenizer.tags(*SPECIAL)


@pytest_asyncio.fixture(scope="module")
async def bench(model: str) -> AsyncGenerator[Bench]:
    # Here, where its warnings are ignored.
    from sluicegate.worker.vllm_engine import VllmEngine

    forced = Forced()
    config = Config(
        model=model,
        # One text is byte for byte the other.
        dtype="float32",
        max_model_len=1024,
        enforce_eager=True,
        lanes="interactive=8",
        reasoning_start=START,
        reasoning_end=END,
    )
    engine = VllmEngine(config, before=BEFORE, after=AFTER, decorate=forced)
    await engine.open()
    yield Bench(engine, forced, load_tokenizer(model))
    await engine.close()


def flaws(watched: Watched) -> list[Flaw]:
    return [trip.flaw for trip in watched.trips]


@pytest.mark.parametrize("chunk", [1, 7])
async def test_reasoning_without_an_end_is_cut_at_its_cap(bench: Bench, chunk: int) -> None:
    """The model's own words: it never closes the block."""
    job = await bench.job(reasoning=Reasoning(effort=40))
    run = await bench.run(job, chunk=chunk)
    thought, (first, second) = run.thought, run.record.segments
    assert (thought.flaw, thought.cap, thought.tokens) == (Flaw.REASONING_CAP, 40, 40)
    assert (thought.ended, thought.cuts, thought.tripped) == ("cut", 1, True)
    whole = run.view.tokens[0]
    assert run.reasoning == run.view.text_of(whole[:40]), "exactly so many"
    assert thought.dropped_tokens == len(whole) - 40 == run.report.usage.wasted_tokens
    assert run.kept() == f"{run.reasoning}\n\n{WRAP_UP}\n{END}\n\n"
    assert first.start == 0
    assert second.cached_tokens >= (first.prompt_tokens + 40) // 32 * 32
    assert (thought.resumed_prompt_tokens, thought.resumed_cached_tokens) == (
        second.prompt_tokens,
        second.cached_tokens,
    )
    assert thought.first_answer_token_s
    assert run.report.usage.prompt_tokens == first.prompt_tokens


@pytest.mark.parametrize(
    ("asked", "gates", "cap"),
    [
        ("low", {"reasoning_low": 12}, 12),
        (None, {"reasoning_effort": "high", "reasoning_high": 16}, 16),
        ("max", {}, 60),
    ],
    ids=["by its name", "by the profile", "by what is left for the answer"],
)
async def test_the_cap_of_an_effort(
    bench: Bench, asked: Any, gates: dict[str, Any], cap: int
) -> None:
    job = await bench.job(max_tokens=80, reasoning=Reasoning(effort=asked), gates=gates)
    run = await bench.run(job)
    assert (run.thought.cap, run.thought.tokens) == (cap, cap)
    assert run.report.usage.completion_tokens <= 80


async def test_a_forced_loop_is_cut_at_its_onset(bench: Bench) -> None:
    """The first turn may stay: it may be a thought."""

    async def one(kind: Fault, seed: int, at: int) -> None:
        ordered = order(kind, bench.vocabulary, at=at, seed=seed)
        job = await bench.job(max_tokens=480)
        bench.forced.place(job.id, ordered)
        run = await bench.run(job)
        thought, period = run.thought, len(ordered.ids)
        assert thought.flaw is not None
        assert thought.flaw.is_of_reasoning
        assert thought.ended == "cut"
        assert at <= thought.tokens <= at + 2 * period
        kept = run.kept().partition(f"\n\n{WRAP_UP}\n{END}")[0]
        assert kept.count(ordered.text) <= 1
        assert run.reasoning is not None
        assert run.reasoning.startswith(kept)
        # What was found within that many tokens was looked at no longer.
        assert thought.dropped_tokens <= 256
        assert ordered.text not in run.answer

    async with asyncio.TaskGroup() as group:
        for kind, seed, at in (
            (Fault.LOOP, 0, 8),
            (Fault.LOOP, 1, 33),
            (Fault.REASONING_LOOP, 0, 0),
            (Fault.REASONING_LOOP, 1, 24),
            (Fault.REASONING_LOOP, 4, 41),
        ):
            group.create_task(one(kind, seed, at))


@pytest.mark.parametrize("thought", [THOUGHT, ""], ids=["a thought", "nothing"])
async def test_the_end_of_the_text_inside_the_block(bench: Bench, thought: str) -> None:
    job = await bench.job()
    run = await bench.run(job, (*bench.ids(thought), bench.end_of_text))
    assert run.thought.flaw is Flaw.REASONING_UNCLOSED
    assert (run.reasoning or "") == thought
    assert run.kept() == f"{thought}\n{END}\n\n", "a thought that ended needs no wrap-up"


async def test_an_answer_that_is_empty_behind_the_block(bench: Bench) -> None:
    job = await bench.job()
    nothing = (*bench.ids(f"{THOUGHT}{END}\n\n"), bench.end_of_text)
    run = await bench.run(job, nothing, (bench.end_of_text,))
    assert Flaw.EMPTY_ANSWER in flaws(run)
    assert run.reasoning == THOUGHT


def end_tags(bench: Bench) -> list[tuple[int, ...]]:
    """All ways to write the end tag in two or more pieces of text, and what goes before and behind
    it in the same token."""
    ways = [[END[:at], END[at:]] for at in range(len(END))]
    ways += [[*END], [f".{END}"], [END, "\n\n"], [f"\n{END}", "\n"], [f"{END[:3]}", f"{END[3:]}\n"]]
    return [bench.ids(*filter(None, way)) for way in ways]


async def test_the_end_tag_over_tokens_and_chunks(bench: Bench) -> None:
    async def one(tag: tuple[int, ...], chunk: int) -> None:
        job = await bench.job()
        text = View(bench.engine).text_of(tag)
        said = (*bench.ids(THOUGHT), *tag, *bench.answer)
        run = await bench.run(job, said, chunk=chunk)
        assert (run.reasoning, run.answer) == (THOUGHT + text.partition(END)[0], ANSWER)
        assert run.thought.ended == "closed"
        assert not run.trips
        assert len(run.record.segments) == 1, "there is no seam"

    async with asyncio.TaskGroup() as group:
        for number, tag in enumerate(end_tags(bench)):
            group.create_task(one(tag, chunk=(1, 2, 5, 64)[number % 4]))
            group.create_task(one(tag, chunk=3))


async def test_the_answer_begins_in_the_token_that_ends_the_tag(bench: Bench) -> None:
    (token,) = bench.ids(">A")
    job = await bench.job()
    said = (*bench.ids(THOUGHT, END[:-1]), token, *bench.ids("msterdam."), bench.end_of_text)
    run = await bench.run(job, said)
    assert (run.reasoning, run.answer) == (THOUGHT, "Amsterdam.")


@pytest.mark.parametrize("lead", ["", "\n", " \n\n"])
@pytest.mark.parametrize("chunk", [1, 4])
async def test_a_model_that_opens_its_block_itself(bench: Bench, lead: str, chunk: int) -> None:
    job = await bench.job(())
    said = (*bench.ids(f"{lead}{START}\n{THOUGHT}\n{END}\n\n"), *bench.answer)
    run = await bench.run(job, said, chunk=chunk)
    assert (run.reasoning, run.answer) == (f"\n{THOUGHT}\n", ANSWER)
    assert run.thought.ended == "closed"


async def test_a_block_that_the_model_opens_and_does_not_close(bench: Bench) -> None:
    job = await bench.job((), reasoning=Reasoning(effort=20))
    run = await bench.run(job, bench.ids(f"{START}{THOUGHT}"))
    assert run.thought.tokens == 20
    assert run.reasoning
    assert THOUGHT.startswith(run.reasoning)
    assert run.kept() == f"{START}{run.reasoning}\n\n{WRAP_UP}\n{END}\n\n"


@pytest.mark.parametrize("answer", [ANSWER, "<thin ice>", f"`{START}` opens it."])
async def test_a_block_that_never_opens(bench: Bench, answer: str) -> None:
    run = await bench.run(await bench.job(()), (*bench.ids(answer), bench.end_of_text))
    assert (run.reasoning, run.answer) == (None, answer)
    assert run.thought.ended == "not_opened"
    assert not run.trips


async def test_a_model_that_always_thinks(bench: Bench) -> None:
    said = (*bench.ids(f"{THOUGHT}{END}\n\n"), *bench.answer)
    run = await bench.run(await bench.job(()), said, always_thinks=True)
    assert (run.reasoning, run.answer) == (THOUGHT, ANSWER)


async def test_no_reasoning_at_all(bench: Bench) -> None:
    for start, opening in (((), START), (f"{START}\n", "")):
        job = await bench.job(start, reasoning=Reasoning(effort=0), max_tokens=40)
        run = await bench.run(job)
        assert (run.reasoning, run.thought.ended) == (None, "closed")
        assert run.kept(0) == f"{opening}\n{END}\n\n"


@pytest.mark.parametrize("opens", ["the prompt", "the model"])
async def test_tags_that_are_special_tokens(bench: Bench, opens: str) -> None:
    tags = bench.special_tags()
    assert tags.by_id
    # What is typed like a tag is none.
    thought = f"{THOUGHT} I write {tags.end}, and that is text."
    begin = () if opens == "the prompt" else tags.start_ids
    job = await bench.job(tags.start_ids if opens == "the prompt" else ())
    said = (*begin, *bench.ids(thought), *tags.end_ids, *bench.answer)
    run = await bench.run(job, said, chunk=3, tags=tags)
    assert (run.reasoning, run.answer) == (thought, ANSWER)
    assert run.thought.ended == "closed"
    assert run.thought.tokens == len(bench.ids(thought))
    assert not run.trips


async def test_special_tags_at_the_cap_and_again(bench: Bench) -> None:
    tags = bench.special_tags()
    job = await bench.job(tags.start_ids, reasoning=Reasoning(effort=20))
    again = (*tags.start_ids, *bench.ids(THOUGHT))
    run = await bench.run(job, bench.ids(THOUGHT), again, tags=tags)
    assert flaws(run)[:2] == [Flaw.REASONING_CAP, Flaw.REASONING_AGAIN]
    assert run.thought.tokens == 20
    assert run.trips[1].channel == "content"
    closed = run.view.segments[1].prompt_token_ids
    assert tags.end_ids[0] in closed[-4:], "closed by the token itself"
    # Forced past it here; else the model can't.
    assert run.view.segments[1].sampling.logit_bias[tags.start_ids[0]] == -100
    assert "I should mention" not in run.answer


@pytest.mark.parametrize("cut", [False, True], ids=["behind its end", "behind a cut"])
async def test_a_grammar_begins_behind_the_block(bench: Bench, cut: bool) -> None:
    output = StructuredOutput(json_schema=SCHEMA)
    reasoning = Reasoning(effort=16) if cut else Reasoning()
    job = await bench.job(output=output, reasoning=reasoning)
    said = bench.ids(THOUGHT) if cut else bench.ids(f"{THOUGHT}{END}\n\n")
    run = await bench.run(job, said)
    assert set(json.loads(run.answer)) == {"city"}
    assert run.thought.ended == ("cut" if cut else "closed")
    free, held = run.view.segments
    assert free.sampling.structured_output is None
    assert held.sampling.structured_output == output
    assert run.reasoning
    assert THOUGHT.startswith(run.reasoning)


@pytest.mark.parametrize("again", [f"{START}\n{THOUGHT}", f"\n{START}", f"{END}\n"])
async def test_thinking_that_starts_again_after_the_cut_is_refused(
    bench: Bench, again: str
) -> None:
    job = await bench.job(reasoning=Reasoning(effort=20))
    run = await bench.run(job, bench.ids(THOUGHT), bench.ids(again))
    first, *others = flaws(run)
    assert first is Flaw.REASONING_CAP
    assert others
    assert set(others) <= {Flaw.REASONING_AGAIN, Flaw.REASONING_END_AGAIN}
    assert START not in run.answer
    assert END not in run.answer
    # At once: the tag is all there was of it.
    assert len(run.view.tokens[1]) <= len(bench.ids(again.partition(THOUGHT)[0]))
    assert run.thought.cuts == 1


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_observe_and_off_let_it_be(bench: Bench, mode: Any) -> None:
    thought = THOUGHT + UNIT * 16
    job = await bench.job(max_tokens=400, reasoning=Reasoning(mode=mode, effort=8))
    run = await bench.run(job, (*bench.ids(f"{thought}{END}\n\n"), *bench.answer))
    assert (run.reasoning, run.answer) == (thought, ANSWER)
    assert run.thought.ended == "closed"
    assert len(run.record.segments) == 1
    assert run.report.usage.wasted_tokens == 0
    seen = [Flaw.REASONING_CAP, Flaw.REASONING_LOOP] if mode == "observe" else []
    assert [flaw for flaw in flaws(run) if flaw in seen] == seen
    assert bool(run.trips) == run.thought.tripped == (mode == "observe")
    assert {trip.action for trip in run.trips} <= {"note"}
    assert {trip.channel for trip in run.trips} <= {"reasoning"}


@pytest.mark.parametrize(
    ("kind", "flaw"),
    [(Fault.NAN, Flaw.NON_FINITE_LOGITS), (Fault.MOJIBAKE, Flaw.MOJIBAKE)],
)
async def test_other_faults_in_the_reasoning_and_in_the_answer_behind_a_cut(
    bench: Bench, kind: Fault, flaw: Flaw
) -> None:
    cap = 64
    closing = len(bench.engine.encode(f"\n\n{WRAP_UP}\n{END}\n\n"))

    async def one(at: int, channel: str) -> None:
        ordered = order(kind, bench.vocabulary, at=at, seed=2)
        job = await bench.job(reasoning=Reasoning(effort=cap))
        bench.forced.place(job.id, ordered)
        run = await bench.run(job)
        struck, *others = [trip for trip in run.trips if trip.flaw is flaw]
        assert not others
        assert (struck.channel, struck.action) == (channel, "rollback")
        assert run.thought.flaw is Flaw.REASONING_CAP
        assert run.thought.tokens == cap
        assert run.thought.cuts == 1
        assert len(run.record.segments) == 3
        if kind is Fault.NAN:
            behind = run.record.segments[1 if channel == "reasoning" else 2]
            assert (behind.fresh_cache, behind.cached_tokens) == (True, 0)
        assert "Ã" not in f"{run.reasoning}{run.answer}"

    async with asyncio.TaskGroup() as group:
        group.create_task(one(20, "reasoning"))
        group.create_task(one(cap + closing + 12, "content"))


@pytest.mark.parametrize("start", [f"{START}\n", ()], ids=["reasoning", "none"])
async def test_where_nothing_is_found_nothing_changes(bench: Bench, start: Any) -> None:
    """Token by token the text of the plain engine: the model thinks in its own words, is made to
    end it, and answers in its own words."""
    end = bench.ids(f"\n{END}\n\n") if start else ()

    async def one(prompt: str) -> None:
        job = await bench.job(start, prompt=prompt, max_tokens=72, reasoning=Reasoning(mode="cut"))
        plain = View(bench.engine)
        asked = Segment(
            request_id=f"raw-{job.id}:1:n:0",
            prompt_token_ids=job.prompt_token_ids or (),
            sampling=job.sampling,
            seed=0,
        )
        bench.forced.say(f"raw-{job.id}", end, at=24)
        async for _ in plain.stream(asked):
            pass
        run = await bench.run(job, end, at=24)
        assert not run.trips
        assert len(run.record.segments) == 1
        assert run.view.tokens == plain.tokens
        whole = plain.text_of([token for token in plain.tokens[0] if token != bench.end_of_text])
        if start:
            assert run.reasoning
            assert whole == f"{run.reasoning}{END}\n\n{run.answer}"
        else:
            assert (run.reasoning, run.answer) == (None, whole)

    for prompt in (PROMPT, "Why is the sky blue?", "用中文写一句话介绍北京。"):
        # One at a time: in a batch, sums are made in another order.
        await one(prompt)
