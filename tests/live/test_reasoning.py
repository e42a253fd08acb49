"""The guard over reasoning on the real engine, with a model that is made to reason."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest
import pytest_asyncio
from sluicegate.ops.faults import AFTER, BEFORE, Fault, order
from sluicegate.schemas import Flaw, Reasoning, StructuredOutput
from sluicegate.worker.config import Config
from sluicegate.worker.engine import Segment
from sluicegate.worker.model_tokenizer import load_tokenizer

from .reasoners import WRAP_UP, Forced, View, Watched
from .reasoning_bench import ANSWER, END, PROMPT, SPECIAL, START, Bench

# vLLM and what it imports warn of many things that are not ours to mend.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

# Nothing in it comes twice.
THOUGHT: Final = (
    "The user asks about a country in Europe. Its seat of government lies on the Seine. "
    "I should mention the tower, too."
)
UNIT: Final = " Hmm, let me think about that once more."
SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}},
    "required": ["city"],
    "additionalProperties": False,
}


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
    job = await bench.job(max_tokens=64, reasoning=Reasoning(effort=40))
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
        ("max", {}, 30),
    ],
    ids=["by its name", "by the profile", "by what is left for the answer"],
)
async def test_the_cap_of_an_effort(
    bench: Bench, asked: Any, gates: dict[str, Any], cap: int
) -> None:
    job = await bench.job(max_tokens=40, reasoning=Reasoning(effort=asked), gates=gates)
    run = await bench.run(job)
    assert (run.thought.cap, run.thought.tokens) == (cap, cap)
    assert run.report.usage.completion_tokens <= 40


async def test_a_cap_within_a_character(bench: Bench) -> None:
    """No half of one stays."""
    faces = "🙂🙃😀🦜🧵🪢🧩🪡"

    async def one(cap: int) -> None:
        job = await bench.job(reasoning=Reasoning(effort=cap))
        run = await bench.run(job, bench.ids(faces), bench.answer)
        assert cap - 3 < run.thought.tokens <= cap
        assert run.reasoning
        assert faces.startswith(run.reasoning)
        assert run.kept() == f"{run.reasoning}\n\n{WRAP_UP}\n{END}\n\n"

    async with asyncio.TaskGroup() as group:
        for cap in range(9, 13):
            group.create_task(one(cap))


async def test_a_cap_near_the_end_of_the_context(bench: Bench) -> None:
    """Room is left for the answer, whatever `max_tokens` says."""
    asked = await bench.job(())
    assert asked.prompt_token_ids is not None
    filler = bench.ids(" word" * 900)[: 930 - len(asked.prompt_token_ids)]
    job = await bench.job((*filler, *bench.ids(f"\n{START}\n")), max_tokens=400)
    run = await bench.run(job, bench.ids(THOUGHT))
    assert 40 < run.thought.cap < 94
    assert run.thought.tokens == run.thought.cap
    assert run.thought.cuts == 1


async def test_a_forced_loop_is_cut_at_its_onset(bench: Bench) -> None:
    """The first turns may stay: they may be a thought, and one that is said again."""

    async def one(kind: Fault, seed: int, at: int) -> None:
        ordered = order(kind, bench.vocabulary, at=at, seed=seed)
        job = await bench.job(max_tokens=320)
        bench.forced.place(job.id, ordered)
        run = await bench.run(job, (), bench.answer)
        thought, period = run.thought, len(ordered.ids)
        assert thought.flaw is not None
        assert thought.flaw.is_of_reasoning
        assert thought.ended == "cut"
        assert at <= thought.tokens <= at + 3 * period
        kept = run.kept().partition(f"\n\n{WRAP_UP}\n{END}")[0]
        assert kept.count(ordered.text) <= 2
        assert run.reasoning is not None
        assert run.reasoning.startswith(kept)
        assert thought.dropped_tokens <= 256
        assert run.answer == ANSWER

    async with asyncio.TaskGroup() as group:
        for kind, seed, at in (
            (Fault.LOOP, 0, 8),
            (Fault.LOOP, 1, 33),
            (Fault.REASONING_LOOP, 0, 0),
            (Fault.REASONING_LOOP, 1, 24),
        ):
            group.create_task(one(kind, seed, at))


@pytest.mark.parametrize("thought", [THOUGHT, ""], ids=["a thought", "nothing"])
async def test_the_end_of_the_text_inside_the_block(bench: Bench, thought: str) -> None:
    job = await bench.job()
    run = await bench.run(job, (*bench.ids(thought), bench.end_of_text), bench.answer)
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
            group.create_task(one(tag, chunk=(1, 2, 3, 5, 64)[number % 5]))


async def test_the_answer_begins_in_the_token_that_ends_the_tag(bench: Bench) -> None:
    (token,) = bench.ids('>"')
    job = await bench.job()
    said = (*bench.ids(THOUGHT, END[:-1]), token, *bench.ids('Paris" it is.'), bench.end_of_text)
    run = await bench.run(job, said)
    assert (run.reasoning, run.answer) == (THOUGHT, '"Paris" it is.')


@pytest.mark.parametrize(("lead", "chunk"), [("", 4), ("\n", 1), (" \n\n", 3)])
async def test_a_model_that_opens_its_block_itself(bench: Bench, lead: str, chunk: int) -> None:
    job = await bench.job(())
    said = (*bench.ids(f"{lead}{START}\n{THOUGHT}\n{END}\n\n"), *bench.answer)
    run = await bench.run(job, said, chunk=chunk)
    assert (run.reasoning, run.answer) == (f"\n{THOUGHT}\n", ANSWER)
    assert run.thought.ended == "closed"


async def test_a_block_that_the_model_opens_and_does_not_close(bench: Bench) -> None:
    job = await bench.job((), reasoning=Reasoning(effort=20))
    run = await bench.run(job, bench.ids(f"{START}{THOUGHT}"), bench.answer)
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
        assert (run.reasoning, run.thought.ended) == (None, "not_opened")
        assert run.kept(0) == f"{opening}\n{END}\n\n"


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("opens", ["the prompt", "the model"])
async def test_tags_that_are_special_tokens(bench: Bench, opens: str, kind: str) -> None:
    tags = bench.special_tags(kind)
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


@pytest.mark.parametrize("kind", SPECIAL)
async def test_special_tags_at_the_cap_and_again(bench: Bench, kind: str) -> None:
    tags = bench.special_tags(kind)
    job = await bench.job(tags.start_ids, reasoning=Reasoning(effort=20))
    again = (*tags.start_ids, *bench.ids(THOUGHT))
    run = await bench.run(job, bench.ids(THOUGHT), again, bench.answer, tags=tags)
    assert flaws(run) == [Flaw.REASONING_CAP, Flaw.REASONING_AGAIN]
    assert run.thought.tokens == 20
    assert run.trips[1].channel == "content"
    answers = run.view.segments[1]
    behind = answers.prompt_token_ids[len(answers.prompt_token_ids) - answers.carried + 20 :]
    assert tags.end_ids in [behind[at : at + len(tags.end_ids)] for at in range(len(behind))], (
        "closed by the tokens themselves"
    )
    if len(tags.start_ids) == 1:
        # The test forces it past this.
        assert answers.sampling.logit_bias[tags.start_ids[0]] == -100
    assert run.answer == ANSWER


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


@pytest.mark.parametrize("again", [f"{START}\n{THOUGHT}", f"\n{START}"])
async def test_thinking_that_starts_again_after_the_cut_is_refused(
    bench: Bench, again: str
) -> None:
    job = await bench.job(reasoning=Reasoning(effort=20))
    run = await bench.run(job, bench.ids(THOUGHT), bench.ids(again), bench.answer)
    assert flaws(run) == [Flaw.REASONING_CAP, Flaw.REASONING_AGAIN]
    assert run.answer == ANSWER
    # At once: the tag is all there was of it.
    assert len(run.view.tokens[1]) <= len(bench.ids(again.partition(THOUGHT)[0]))
    assert run.thought.cuts == 1


async def test_a_second_block_in_the_answer_is_refused(bench: Bench) -> None:
    """Also where the model had closed the first one itself."""
    said = bench.ids(f"{THOUGHT}{END}\n\nParis.\n{START}\nOr Rome?")
    run = await bench.run(await bench.job(), said, bench.answer)
    assert flaws(run) == [Flaw.REASONING_AGAIN]
    assert (run.reasoning, run.answer) == (THOUGHT, f"Paris.\n{ANSWER}")
    assert run.thought.ended == "closed"


@pytest.mark.parametrize("cut", [False, True])
async def test_a_second_end_tag_is_no_answer(bench: Bench, cut: bool) -> None:
    job = await bench.job(reasoning=Reasoning(effort=20) if cut else Reasoning())
    more = (*bench.ids(f"So it is Paris.\n{END}\n\n"), *bench.answer)
    first = bench.ids(THOUGHT) if cut else (*bench.ids(f"{THOUGHT}{END}\n\n"), *more)
    run = await bench.run(job, *([first, more] if cut else [first]))
    assert flaws(run)[-1] is Flaw.REASONING_END_AGAIN
    assert run.answer == ANSWER
    assert run.reasoning
    assert run.reasoning.startswith(THOUGHT[:40])


async def test_observe_and_off_let_it_be(bench: Bench) -> None:
    thought = THOUGHT + UNIT * 24

    async def one(mode: Any, seen: set[Flaw]) -> None:
        job = await bench.job(max_tokens=400, reasoning=Reasoning(mode=mode))
        run = await bench.run(job, (*bench.ids(f"{thought}{END}\n\n"), *bench.answer))
        assert (run.reasoning, run.answer) == (thought, ANSWER)
        assert run.thought.ended == "closed"
        assert len(run.record.segments) == 1
        assert run.report.usage.wasted_tokens == 0
        assert set(flaws(run)) >= seen
        assert len(flaws(run)) == len(set(flaws(run)))
        assert bool(run.trips) == run.thought.tripped == bool(seen)
        assert {trip.action for trip in run.trips} <= {"note"}
        assert {trip.channel for trip in run.trips} <= {"reasoning"}

    async with asyncio.TaskGroup() as group:
        group.create_task(one("observe", {Flaw.REASONING_LOOP}))
        group.create_task(one("off", set()))


@pytest.mark.parametrize(
    ("kind", "flaw"),
    [(Fault.NAN, Flaw.NON_FINITE_LOGITS), (Fault.MOJIBAKE, Flaw.MOJIBAKE)],
)
async def test_other_faults_in_the_reasoning_and_in_the_answer_behind_a_cut(
    bench: Bench, kind: Fault, flaw: Flaw
) -> None:
    cap, more = 24, 24
    closing = len(bench.engine.encode(f"\n\n{WRAP_UP}\n{END}\n\n"))

    async def one(at: int, story: list[tuple[Flaw, str, str]]) -> None:
        ordered = order(kind, bench.vocabulary, at=at, seed=2)
        # Neither the reasoning nor the answer ends before the fault.
        job = await bench.job(min_tokens=cap + more, max_tokens=60, reasoning=Reasoning(effort=cap))
        bench.forced.place(job.id, ordered)
        run = await bench.run(job)
        assert [(trip.flaw, trip.channel, trip.action) for trip in run.trips] == story
        assert (run.thought.flaw, run.thought.tokens) == (Flaw.REASONING_CAP, cap)
        assert (run.thought.ended, run.thought.cuts) == ("cut", 1)
        behind = run.record.segments[1 + run.trips[0].segment + (story[0][0] is not flaw)]
        assert behind.fresh_cache == (kind is Fault.NAN)
        assert "Ã" not in f"{run.reasoning}{run.answer}"

    cut = (Flaw.REASONING_CAP, "reasoning", "cut")
    async with asyncio.TaskGroup() as group:
        group.create_task(one(12, [(flaw, "reasoning", "rollback"), cut]))
        group.create_task(one(cap + closing + 12, [cut, (flaw, "content", "rollback")]))


@pytest.mark.parametrize("start", [f"{START}\n", ()], ids=["reasoning", "none"])
async def test_where_nothing_is_found_nothing_changes(bench: Bench, start: Any) -> None:
    """Token by token the text of the plain engine: the model thinks in its own words, is made to
    end it, and answers in its own words."""
    end = bench.ids(f"\n{END}\n\n") if start else ()

    async def one(prompt: str) -> None:
        job = await bench.job(start, prompt=prompt, max_tokens=36, reasoning=Reasoning(mode="cut"))
        plain = View(bench.engine)
        asked = Segment(
            request_id=f"raw-{job.id}:1:n:0",
            prompt_token_ids=job.prompt_token_ids or (),
            sampling=job.sampling,
            seed=0,
        )
        bench.forced.say(f"raw-{job.id}", end, at=14)
        async for _ in plain.stream(asked):
            pass
        run = await bench.run(job, end, at=14)
        assert not run.trips
        assert len(run.record.segments) == 1
        assert run.view.tokens == plain.tokens
        whole = plain.text_of([token for token in plain.tokens[0] if token != bench.end_of_text])
        if start:
            assert run.reasoning
            reasoning, _, rest = whole.partition(END)
            assert (run.reasoning, run.answer) == (reasoning, rest.lstrip("\n"))
        else:
            assert (run.reasoning, run.answer) == (None, whole)

    for prompt in (PROMPT, "用中文写一句话介绍北京。"):
        # One at a time: in a batch, sums are made in another order.
        await one(prompt)
