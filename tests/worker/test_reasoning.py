"""The reasoning of an attempt on the scripted engine: told apart, cut, closed, salvaged."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.schemas import AttemptRecord, Flaw, Reasoning, Sampling
from sluicegate.schemas.sampling import StructuredOutput
from sluicegate.worker.endings import Answered, GaveUp
from sluicegate.worker.engine import Segment

from .reasoning_model import ANSWER, END, START, THOUGHT, UNIT, WRAP_UP, Run, job, said, thinks


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 64, 4096])
async def test_reasoning_is_told_from_the_answer(chunk: int) -> None:
    run = Run(job(), lambda _s, _p: f"\n{THOUGHT}\n{END}\n\n{ANSWER}", chunk=chunk)
    report = await run.go()
    assert run.ending == Answered("stop")
    assert report.text == ANSWER
    assert report.reasoning == f"\n{THOUGHT}\n"
    assert len(run.segments) == 1, "there is no seam"
    assert run.thought.ended == "closed"
    assert not run.thought.tripped
    assert run.thought.tokens == report.usage.reasoning_tokens == len(THOUGHT) + 2
    assert report.usage.completion_tokens == len(THOUGHT) + 2 + len(END) + 2 + len(ANSWER) + 1
    assert run.thought.usage == report.usage


@pytest.mark.parametrize("chunk", [1, 3, 64])
async def test_a_model_that_opens_its_block_itself(chunk: int) -> None:
    run = Run(job("q"), lambda _s, _p: f"\n{START}{THOUGHT}{END}{ANSWER}", chunk=chunk)
    report = await run.go()
    assert (report.reasoning, report.text) == (THOUGHT, ANSWER)
    assert run.thought.ended == "closed"


@pytest.mark.parametrize("answer", [ANSWER, "<thin ice>", "<", "The tag `<think>` opens it."])
async def test_a_block_that_never_opens(answer: str) -> None:
    run = Run(job("q"), lambda _s, _p: answer, chunk=2)
    report = await run.go()
    assert (report.reasoning, report.text) == (None, answer)
    assert run.thought.ended == "not_opened"
    assert report.usage.reasoning_tokens == 0


async def test_an_engine_that_always_thinks() -> None:
    run = Run(job("q"), lambda _s, _p: f"{THOUGHT}{END}{ANSWER}", always_thinks=True)
    report = await run.go()
    assert (report.reasoning, report.text) == (THOUGHT, ANSWER)


@pytest.mark.parametrize("stream", [True, False])
async def test_the_cap_is_exact(stream: bool) -> None:
    run = Run(job(reasoning=Reasoning(effort=40)), thinks(THOUGHT))
    report = await run.go(stream=stream)
    assert report.text == ANSWER
    assert report.reasoning == THOUGHT[:40]
    thought = run.thought
    assert (thought.flaw, thought.cap, thought.tokens) == (Flaw.REASONING_CAP, 40, 40)
    assert (thought.ended, thought.cuts, thought.tripped) == ("cut", 1, True)
    assert run.sent(1) == f"q {START}{THOUGHT[:40]}\n\n{WRAP_UP}\n{END}\n\n"
    assert thought.first_answer_token_s is not None
    assert thought.resumed_prompt_tokens == len(run.segments[1].prompt_token_ids)
    usage = report.usage
    assert usage.reasoning_tokens == 40
    assert usage.answer_tokens == len(ANSWER) + 1
    assert usage.wasted_tokens == thought.dropped_tokens
    assert usage.prompt_tokens == len(f"q {START}"), "counted once"
    (trip,) = run.record.trips
    assert (trip.action, trip.channel, trip.kept) == ("cut", "reasoning", 40)


async def test_a_block_that_closes_at_its_cap_is_not_cut() -> None:
    run = Run(job(reasoning=Reasoning(effort=len(THOUGHT))), lambda _s, _p: f"{THOUGHT}{END}ok")
    report = await run.go()
    assert (report.text, report.reasoning) == ("ok", THOUGHT)
    assert not run.thought.tripped


@pytest.mark.parametrize("stream", [True, False])
async def test_a_loop_is_dropped_and_the_thought_before_it_stays(stream: bool) -> None:
    run = Run(job(), thinks(THOUGHT + UNIT * 40))
    report = await run.go(stream=stream)
    assert report.text == ANSWER
    assert run.thought.ended == "cut"
    assert run.thought.flaw is Flaw.REASONING_LOOP
    kept = run.sent(1).removeprefix(f"q {START}").partition(f"\n\n{WRAP_UP}")[0]
    assert kept.startswith(THOUGHT)
    assert kept.count(UNIT) <= 1
    assert run.thought.tokens == len(kept)
    assert run.thought.dropped_tokens >= 2 * len(UNIT)
    assert report.reasoning is not None
    assert report.reasoning.startswith(THOUGHT)


async def test_no_wrap_up() -> None:
    run = Run(job(reasoning=Reasoning(effort=40, wrap_up="")), thinks(THOUGHT))
    await run.go()
    assert run.sent(1) == f"q {START}{THOUGHT[:40]}\n{END}\n\n"


@pytest.mark.parametrize(("prompt", "before"), [(f"q {START}", ""), ("q", START)])
async def test_no_reasoning_at_all(prompt: str, before: str) -> None:
    run = Run(job(prompt, reasoning=Reasoning(effort=0)), thinks(THOUGHT))
    report = await run.go()
    assert (report.text, report.reasoning) == (ANSWER, None)
    assert run.sent(0) == f"{prompt}{before}\n{END}\n\n"
    assert run.thought.ended == "not_opened"
    assert not run.thought.tripped


async def test_the_end_of_the_text_inside_the_block() -> None:
    run = Run(job(), thinks(THOUGHT))
    report = await run.go()
    assert (report.text, report.reasoning) == (ANSWER, THOUGHT)
    assert run.thought.flaw is Flaw.REASONING_UNCLOSED
    assert run.sent(1) == f"q {START}{THOUGHT}\n{END}\n\n", "a thought that ended needs no wrap-up"


async def test_an_answer_in_the_reasoning_is_salvaged() -> None:
    thought = f"{THOUGHT}\n\n**Final Answer**\n\n{ANSWER}"
    run = Run(job(), thinks(thought, answer="not this"))
    report = await run.go()
    assert (report.text, report.reasoning) == (ANSWER, thought)
    assert run.thought.ended == "salvaged"
    assert len(run.segments) == 1, "nothing is generated again"
    assert report.usage.answer_tokens == 0


@pytest.mark.parametrize(
    ("said_inside", "text"),
    [
        ("Morning! What shall we do first?", "Morning! What shall we do first?"),
        ("00442: Ma\n3", ""),
    ],
)
async def test_a_model_that_skipped_its_thinking_has_answered(said_inside: str, text: str) -> None:
    run = Run(job(), thinks(said_inside, answer=""))
    report = await run.go()
    assert report.text == text
    assert (run.thought.ended == "salvaged") == bool(text)
    assert isinstance(run.ending, Answered) == bool(text)


async def test_structured_output_begins_behind_the_block() -> None:
    asked = StructuredOutput(json_schema={"type": "object"})
    sampling = Sampling(max_tokens=2000, structured_output=asked)
    run = Run(job(sampling=sampling), lambda _s, _p: f"{THOUGHT}{END}" + '{"a": 1}')
    report = await run.go()
    assert (report.text, report.reasoning) == ('{"a": 1}', THOUGHT)
    assert run.segments[0].sampling.structured_output is None
    assert run.segments[1].sampling.structured_output == asked
    assert run.sent(1) == f"q {START}{THOUGHT}{END}"


async def test_structured_output_of_a_model_that_does_not_think() -> None:
    asked = StructuredOutput(json_schema={"type": "object"})
    sampling = Sampling(max_tokens=2000, structured_output=asked)
    run = Run(
        job("q", sampling=sampling),
        lambda s, _p: '{"a": 1}' if s.sampling.structured_output else "Sure, here it is",
    )
    report = await run.go()
    assert (report.text, report.reasoning) == ('{"a": 1}', None)
    assert run.sent(1) == "q"


async def test_structured_output_after_a_cut() -> None:
    asked = StructuredOutput(json_schema={"type": "object"})
    sampling = Sampling(max_tokens=2000, structured_output=asked)
    run = Run(
        job(sampling=sampling, reasoning=Reasoning(effort=30)), thinks(THOUGHT, answer='{"a": 2}')
    )
    report = await run.go()
    assert report.text == '{"a": 2}'
    assert run.segments[1].sampling.structured_output == asked


@pytest.mark.parametrize("again", [f"{START}Hm", f"\n{START}\n", f"{END}{ANSWER}"])
async def test_thinking_that_starts_again_is_refused_at_once(again: str) -> None:
    def script(segment: Segment, prompt: str) -> str:
        so_far = said(segment)
        if END not in so_far:
            return THOUGHT
        banned = segment.gates is not None and bool(segment.gates.bans)
        return so_far + (ANSWER if banned else again)

    run = Run(job(reasoning=Reasoning(effort=40)), script)
    report = await run.go()
    assert report.text.strip() == ANSWER
    assert START not in report.text
    assert END not in report.text
    flaws = [trip.flaw for trip in run.record.trips]
    assert flaws[0] is Flaw.REASONING_CAP
    assert set(flaws[1:]) <= {Flaw.REASONING_AGAIN, Flaw.REASONING_END_AGAIN}
    assert len(flaws) == 2


async def test_the_ladder_keeps_less_and_less_and_then_gives_up() -> None:
    run = Run(
        job(reasoning=Reasoning(effort=40)), lambda s, _p: (END in said(s) and said(s)) or THOUGHT
    )
    report = await run.go()
    assert isinstance(run.ending, GaveUp)
    assert run.ending.flaw is Flaw.REASONING_NO_ANSWER
    assert run.ending.found_by == "reasoning"
    kept = [trip.kept for trip in run.record.trips if trip.action == "cut"]
    assert kept == [40, 20, 0]
    assert run.record.trips[-1].action == "give_up"
    assert run.thought.cuts == 3
    assert run.thought.flaw is Flaw.REASONING_CAP, "the first reason"
    assert report.text == ""
    assert run.thought.text == THOUGHT[:40], "what a client has seen of it"


async def test_reasoning_that_no_rollback_mends_is_closed_before_what_is_wrong() -> None:
    run = Run(job(), thinks(THOUGHT + " \x02\x03\x04 and on"))
    report = await run.go()
    assert report.text == ANSWER
    assert {trip.flaw for trip in run.record.trips} == {
        Flaw.CONTROL_CHARACTER,
        Flaw.REASONING_NO_ANSWER,
    }
    assert report.reasoning is not None
    assert report.reasoning.rstrip() == THOUGHT
    assert "\x02" not in run.sent(-1)


async def test_an_answer_that_no_rollback_mends_is_made_from_less() -> None:
    def script(segment: Segment, prompt: str) -> str:
        so_far = said(segment)
        if END not in so_far:
            return THOUGHT
        astray = THOUGHT[:40] in so_far
        return so_far.partition(ANSWER)[0] + (" again and" * 60 if astray else ANSWER)

    run = Run(job(reasoning=Reasoning(effort=40)), script)
    report = await run.go(stream=False)
    assert report.text == ANSWER
    assert run.thought.cuts == 2


async def test_half_of_the_reasoning_helps() -> None:
    def script(segment: Segment, prompt: str) -> str:
        so_far = said(segment)
        if END not in so_far:
            return THOUGHT
        return so_far + ("" if THOUGHT[:40] in so_far else ANSWER)

    run = Run(job(reasoning=Reasoning(effort=40)), script)
    report = await run.go()
    assert report.text == ANSWER
    assert [trip.kept for trip in run.record.trips if trip.action == "cut"] == [40, 20]
    assert run.thought.cuts == 2


async def test_observe_writes_down_and_lets_be() -> None:
    thought = THOUGHT + UNIT * 30
    run = Run(job(reasoning=Reasoning(mode="observe")), lambda _s, _p: f"{thought}{END}{ANSWER}")
    report = await run.go()
    assert (report.text, report.reasoning) == (ANSWER, thought)
    assert run.thought.tripped
    assert run.thought.flaw is Flaw.REASONING_LOOP
    assert run.thought.ended == "closed"
    assert report.usage.wasted_tokens == 0
    trips = run.record.trips
    assert trips
    assert {trip.action for trip in trips} == {"note"}
    assert len({trip.flaw for trip in trips}) == len(trips)


async def test_off_finds_nothing() -> None:
    thought = THOUGHT + UNIT * 30
    run = Run(job(reasoning=Reasoning(mode="off")), lambda _s, _p: f"{thought}{END}{ANSWER}")
    report = await run.go()
    assert (report.text, report.reasoning) == (ANSWER, thought)
    assert not run.thought.tripped
    assert not run.record.trips


async def test_reasoning_leaves_the_answer_its_share_of_max_tokens() -> None:
    sampling = Sampling(max_tokens=80)
    run = Run(job(sampling=sampling, reasoning=Reasoning(effort="max")), thinks(THOUGHT * 3))
    report = await run.go()
    assert run.thought.cap == 60
    assert report.text == ANSWER[:20]
    assert report.usage.completion_tokens == 80


async def test_a_stop_string_is_the_answers_business() -> None:
    sampling = Sampling(max_tokens=2000, stop=("nine",))
    run = Run(job(sampling=sampling), lambda _s, _p: f"{THOUGHT}{END}{ANSWER}")
    report = await run.go()
    assert (report.reasoning, report.text) == (THOUGHT, "Take the train at ")


async def test_reasoning_that_is_let_be_and_never_ends_fails_for_that() -> None:
    run = Run(
        job(reasoning=Reasoning(mode="off"), sampling=Sampling(max_tokens=50)), thinks(THOUGHT)
    )
    report = await run.go()
    assert isinstance(run.ending, GaveUp)
    assert run.ending.flaw is Flaw.REASONING_UNCLOSED
    assert run.thought.text == THOUGHT[:50]
    assert report.usage.wasted_tokens == 0, "nothing is gone back over"
    assert msgspec.json.decode(msgspec.json.encode(report.record), type=AttemptRecord)


PIECES = st.sampled_from([START, END, "<", "</", "think>", "\n", "a b", "é", "🙂", "`", " "])


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join), st.integers(1, 7), st.booleans())
def test_however_it_comes_it_is_told_apart_alike(said: str, chunk: int, stream: bool) -> None:
    """In whatever pieces the tokens come, the first end tag divides, and nothing is lost."""
    whole = f"x{said}{END}\n{ANSWER}"
    thought, _, answer = whole.partition(END)
    run = Run(job(reasoning=Reasoning(mode="off")), lambda _s, _p: whole, chunk=chunk)
    report = asyncio.run(run.go(stream=stream))
    assert run.ending == Answered("stop")
    assert (report.reasoning, report.text) == (thought, answer.lstrip("\r\n"))
    assert len(run.segments) == 1
    assert run.thought.tokens == len(thought.encode())


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 150), st.integers(1, 9), st.booleans(), st.text("αжあ한é 🙂\n", max_size=40))
def test_a_cap_anywhere_ends_in_an_answer(cap: int, chunk: int, stream: bool, odd: str) -> None:
    """Also in the middle of a character."""
    thought = f"{THOUGHT} 🙂 {odd} 你好 {THOUGHT[::-1]}"
    run = Run(job(reasoning=Reasoning(effort=cap)), thinks(thought), chunk=chunk)
    report = asyncio.run(run.go(stream=stream))
    assert report.text == ANSWER
    assert report.reasoning is None or thought.startswith(report.reasoning)
    assert run.thought.tokens <= cap
    assert run.thought.tokens > cap - 4 or cap < 4
    usage = report.usage
    assert usage.completion_tokens == usage.reasoning_tokens + len(ANSWER) + 1
    assert usage.wasted_tokens == run.thought.dropped_tokens
