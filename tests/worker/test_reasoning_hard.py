"""Reasoning at its edges: blanks without end, half tags, wide tokens, grammars, odd orders."""

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest
from sluicegate.guards.engine_gates import Signal, sentinel_for
from sluicegate.rollback import read_table
from sluicegate.schemas import Flaw, GenerationJob, Reason, Reasoning, Sampling
from sluicegate.schemas.sampling import StructuredOutput
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.endings import Answered, GaveUp, Refused
from sluicegate.worker.engine import Segment
from sluicegate.worker.gating import Gating, gating

from .reasoning_model import (
    ANSWER,
    END,
    START,
    THOUGHT,
    WRAP_UP,
    Run,
    WordEngine,
    carried,
    is_banned,
    job,
    said,
    thinks,
)

SENTINELS = (901, 902, 903, 904, 905)
OBJECT = StructuredOutput(json_schema={"type": "object"})
JSON = '{"a": 1}'
# No gate of the reasoning's own finds anything.
NO_LOOPS = dict.fromkeys(
    (
        "reasoning_paragraph_tokens",
        "reasoning_sentence_tokens",
        "reasoning_ngram_tokens",
        "reasoning_opening_tokens",
        "reasoning_loop_copies",
        "reasoning_long_loop_copies",
    ),
    0,
)
GARBAGE = "Ab cdefgh\x02\x03"


def letters(text: str) -> list[int]:
    return list(text.encode())


def structured(prompt: str = "q " + START, **more: object) -> GenerationJob:
    return job(prompt, sampling=Sampling(max_tokens=2000, structured_output=OBJECT), **more)


def is_held(segment: Segment) -> bool:
    """Whether it is held to a grammar."""
    return segment.sampling.structured_output is not None


# The cap.


@pytest.mark.parametrize("filler", ["\n" * 1500, " \n" * 700, "</thi", "<"])
async def test_the_cap_holds_against_blanks_and_half_a_tag(filler: str) -> None:
    run = Run(job(reasoning=Reasoning(effort=40)), thinks(THOUGHT[:40] + filler))
    report = await run.go()
    assert (report.text, report.reasoning) == (ANSWER, THOUGHT[:40])
    assert run.thought.tokens == 40
    assert report.usage.wasted_tokens < 100


async def _calls(blanks: int) -> int:
    """How many calls it takes to read so many line breaks behind the cap."""
    asked = job(
        sampling=Sampling(max_tokens=20_000),
        reasoning=Reasoning(mode="observe", effort=len(THOUGHT)),
    )
    output = THOUGHT + "\n" * blanks + END + ANSWER
    run = Run(asked, lambda _s, _p: output, max_model_len=10**6)
    calls = 0

    def count(_frame: FrameType, event: str, _what: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await run.go()
    finally:
        sys.setprofile(before)
    assert run.thought.tokens == len(THOUGHT) + blanks
    return calls


async def test_blanks_behind_the_cap_cost_each_the_same() -> None:
    assert await _calls(4_000) < 6 * await _calls(1_000)


async def test_a_cap_that_was_seen_in_observe_mode_is_forgotten_with_what_passed_it() -> None:
    def script(segment: Segment, _prompt: str) -> str:
        return f"And more.{END}{ANSWER}" if is_banned(segment) else f"{THOUGHT}\n"

    run = Run(job(reasoning=Reasoning(mode="observe", effort=0)), script)
    await run.go(stream=False)
    assert isinstance(run.ending, Answered | GaveUp)


async def test_observe_mode_streams_on_behind_the_cap() -> None:
    words = THOUGHT.split() * 3
    thought = " ".join(f"Case {at}: {word} and {word[::-1]}." for at, word in enumerate(words))
    run = Run(
        job(reasoning=Reasoning(mode="observe", effort=40)),
        lambda _s, _p: f"{thought}{END}{ANSWER}",
        chunk=1,
    )
    await run.go()
    assert len(thought) > 1000
    assert max(len(text) for kind, _, text in run.released if kind == "reasoning") < 200


async def test_observe_mode_writes_down_what_comes_behind_the_cap_too() -> None:
    thought = THOUGHT + " So it goes round once more, as it did before." * 30
    run = Run(
        job(reasoning=Reasoning(mode="observe", effort=40)),
        lambda _s, _p: f"{thought}{END}{ANSWER}",
    )
    report = await run.go()
    assert (report.reasoning, report.text) == (thought, ANSWER)
    flaws = [trip.flaw for trip in run.record.trips]
    assert flaws[0] is run.thought.flaw is Flaw.REASONING_CAP
    assert Flaw.REASONING_LOOP in flaws
    assert len(set(flaws)) == len(flaws)


async def test_a_profile_takes_a_number_for_the_effort() -> None:
    run = Run(job(gates={"reasoning_effort": 40}), thinks(THOUGHT))
    report = await run.go()
    assert report.text == ANSWER
    assert (run.thought.cap, run.thought.tokens) == (40, 40)


async def test_cuts_do_not_spend_the_rollbacks() -> None:
    def script(segment: Segment, _prompt: str) -> str:
        if END not in (so_far := said(segment)):
            return THOUGHT
        return so_far + (ANSWER if is_banned(segment) else f"{START}Hm")

    run = Run(job(reasoning=Reasoning(effort=40), gates={"max_rollbacks": 1}), script)
    report = await run.go()
    assert report.text == ANSWER
    assert [trip.action for trip in run.record.trips] == ["cut", "rollback"]


# What closes the block, and what comes behind it.


@pytest.mark.parametrize(
    "wrap_up", [f"Enough {END} of that. {START}", f"{START}{END}Enough  of that. "]
)
async def test_a_wrap_up_can_not_open_or_close_a_block(wrap_up: str) -> None:
    run = Run(job(reasoning=Reasoning(effort=40, wrap_up=wrap_up)), thinks(THOUGHT))
    report = await run.go()
    assert (report.text, report.reasoning) == (ANSWER, THOUGHT[:40])
    closing = run.sent(1).removeprefix(f"q {START}{THOUGHT[:40]}")
    assert "Enough  of that." in closing
    assert (closing.count(START), closing.count(END)) == (0, 1)
    assert closing.endswith(f"\n{END}\n\n")


async def test_half_a_thought_is_wrapped_up_also_where_the_whole_ended_by_itself() -> None:
    run = Run(
        job(), lambda s, _p: said(s) if END in said(s) else f"{THOUGHT} So wait", max_model_len=4000
    )
    await run.go()
    halves = [said(s) for s in run.segments if THOUGHT not in said(s) and THOUGHT[:30] in said(s)]
    assert halves
    assert all(WRAP_UP in half for half in halves)


@pytest.mark.parametrize("effort", [None, 40])
async def test_line_breaks_without_end_behind_the_end_tag(effort: int | None) -> None:
    def script(segment: Segment, _prompt: str) -> str:
        so_far = said(segment)
        return (so_far if END in so_far else THOUGHT + END) + "\n" * 5000

    asked = job(reasoning=Reasoning(effort=effort), sampling=Sampling(max_tokens=4000))
    run = Run(asked, script)
    usage = (await run.go()).usage
    assert usage.completion_tokens <= 4000
    assert usage.completion_tokens + usage.wasted_tokens < 6000


async def test_tags_that_were_thrown_away_are_wasted() -> None:
    def script(segment: Segment, _prompt: str) -> str:
        so_far = said(segment)
        if END not in so_far:
            return f"{THOUGHT}{END}\n\n\n\n"
        return so_far + (ANSWER if WRAP_UP in so_far else "")

    run = Run(job(), script)
    usage = (await run.go()).usage
    assert usage.completion_tokens == usage.reasoning_tokens + len(ANSWER) + 1
    assert usage.completion_tokens + usage.wasted_tokens == sum(map(len, run.made))


@pytest.mark.parametrize("blanks", [" ", " \n "])
async def test_no_reasoning_at_all_refuses_it_behind_blanks_too(blanks: str) -> None:
    def script(segment: Segment, _prompt: str) -> str:
        thinking = f"{blanks}{START}{THOUGHT}{END}{ANSWER}"
        return said(segment) + (ANSWER if is_banned(segment) else thinking)

    run = Run(job(reasoning=Reasoning(effort=0)), script)
    report = await run.go()
    assert (report.text.strip(), report.reasoning) == (ANSWER, None)


@pytest.mark.parametrize("between", [f"\n{END}\n\n", f"{END}\n\n", f" {END} "])
async def test_what_is_thought_on_after_a_cut_is_no_answer(between: str) -> None:
    more = "Hm, wait, let me think more about it."

    def script(segment: Segment, _prompt: str) -> str:
        so_far = said(segment)
        if END not in so_far:
            return THOUGHT
        goes_on = so_far.count(END) == 1 and more not in so_far and not is_banned(segment)
        return so_far + (f"{more}{between}{ANSWER}" if goes_on else ANSWER)

    run = Run(job(reasoning=Reasoning(effort=40)), script)
    report = await run.go(stream=False)
    assert report.text.strip() == ANSWER


async def test_a_policy_that_gives_up_leaves_no_reasoning_in_the_text() -> None:
    table = read_table(
        '[reasoning]\nlevel = 6\nplace = "attempt"\nrungs = [{ at = "onset", close = true }]\n'
    )
    run = Run(
        job(reasoning=Reasoning(effort=40)),
        lambda s, _p: said(s) if END in said(s) else THOUGHT,
        gating=Gating(None, table, WRAP_UP),
    )
    report = await run.go()
    assert isinstance(run.ending, GaveUp)
    assert (report.text, run.record.text) == ("", "")
    assert report.reasoning == run.thought.text == THOUGHT[:40]
    assert (run.thought.ended, run.thought.cuts) == ("cut", 1)


# An answer that stands in the reasoning.


async def test_an_answer_that_is_not_taken_does_not_break_the_stream() -> None:
    trip = "The train to the coast leaves at nine in the morning."
    ways = ("red", "quick", "cheap", "full", "late", "warm", "calm", "new")
    refused = " ".join(f"{trip} It is {way}." for way in ways)
    thought = f"{THOUGHT}\n\n**Final Answer**\n\n{refused}"
    run = Run(job(gates=NO_LOOPS, sampling=Sampling(max_tokens=4000)), thinks(thought), chunk=1)
    report = await run.go()
    assert report.text == ANSWER
    assert run.thought.ended == "cut"


async def test_the_first_stop_string_ends_an_answer_that_is_taken_from_the_reasoning() -> None:
    thought = f"{THOUGHT}\n\n**Final Answer**\n\nTake one STOP then two STOP then three."
    asked = job(sampling=Sampling(max_tokens=2000, stop=("STOP",)))
    run = Run(asked, lambda _s, _p: thought)
    report = await run.go()
    assert report.text.strip() == "Take one"
    assert run.thought.ended == "salvaged"


async def test_blanks_are_not_put_before_an_answer_that_was_spoken_as_a_thought() -> None:
    spoken = "Morning! What shall we do first?"
    run = Run(job(), lambda s, _p: f"{said(s)} \n \n" if END in said(s) else spoken)
    assert (await run.go(stream=False)).text == spoken


async def test_a_long_answer_is_generated_again_and_not_put_in() -> None:
    words = " ".join(f"w{at * 7919 % 100003}" for at in range(1_500))
    thought = f"{THOUGHT}\n\n**Final Answer**\n\n{words}."
    sampling = Sampling(max_tokens=30_000)
    asked = job(sampling=sampling, gates=NO_LOOPS, reasoning=Reasoning(effort=20_000))
    run = Run(asked, thinks(thought), max_model_len=10**6, chunk=64)
    report = await run.go()
    assert len(words) > 8_000
    assert (report.text, run.thought.ended) == (ANSWER, "cut")


# Grammars.


@pytest.mark.parametrize(("hold", "lead"), [(0, ""), (1, " "), (32, " " * 40)])
async def test_what_came_before_the_grammar_was_not_shown(hold: int, lead: str) -> None:
    run = Run(
        structured("q", gates={"hold_back_tokens": hold}),
        lambda s, _p: JSON if is_held(s) else f"{lead}Sure, here",
        chunk=1,
    )
    assert (await run.go()).text == JSON


@pytest.mark.parametrize("first", ["<", "<thi", "", "\n"])
async def test_a_text_that_ends_while_it_may_open_a_block_is_made_under_the_grammar(
    first: str,
) -> None:
    run = Run(structured("q"), lambda s, _p: JSON if is_held(s) else first)
    assert (await run.go()).text == JSON


@pytest.mark.parametrize("closing", [">{", '>"', ">."])
async def test_a_grammar_begins_behind_a_token_that_closes_and_goes_on(closing: str) -> None:
    def script(segment: Segment) -> Sequence[int]:
        if is_held(segment):
            return carried(segment) + letters(JSON)
        return [*letters(f"{THOUGHT}</think"), 300, *letters('"a":1}')]

    run = Run(structured(), WordEngine(script, {300: closing}))
    report = await run.go()
    assert (report.text, report.reasoning) == (JSON, THOUGHT)
    assert said(run.segments[-1]).endswith(END)


async def test_bans_in_the_reasoning_do_not_stand_in_the_answer() -> None:
    def script(segment: Segment, _prompt: str) -> str:
        if is_held(segment):
            return said(segment) + JSON
        return f"{said(segment)} fine.{END}x" if segment.carried else f"{GARBAGE} and"

    run = Run(structured(), script, chunk=1)
    assert (await run.go(stream=False)).text == JSON
    assert any(is_banned(segment) for segment in run.segments)
    assert is_held(run.segments[-1])
    assert not is_banned(run.segments[-1])


# What was found in the reasoning, and what is found in the answer.


def _loses_confidence(*, in_reasoning: bool) -> WordEngine:
    signal = sentinel_for(Signal.LOST_CONFIDENCE, SENTINELS)
    thought = f"{THOUGHT} {THOUGHT[::-1]}"
    told: list[bool] = []

    def script(segment: Segment) -> Sequence[int]:
        if in_reasoning and not told:
            told.append(True)
            return [*letters(thought), signal]
        so_far = said(segment)
        if END not in so_far:
            return [*letters(f"{thought} so.{END}Take it "), signal]
        more = [*letters("word and more #"), signal] if so_far.count("#") < 6 else letters("done")
        return carried(segment) + more

    return WordEngine(script, {}, sentinels=SENTINELS)


@pytest.mark.parametrize("in_reasoning", [False, True])
async def test_notes_in_the_reasoning_do_not_silence_the_answer(in_reasoning: bool) -> None:
    run = Run(job(), _loses_confidence(in_reasoning=in_reasoning))
    await run.go(stream=False)
    trips = run.record.trips
    assert any(trip.channel == "reasoning" for trip in trips) == in_reasoning
    assert "rollback" in {trip.action for trip in trips if trip.channel == "content"}


async def test_places_in_the_reasoning_are_not_near_to_places_in_the_answer() -> None:
    async def first(*, garbage: bool) -> tuple[int, str]:
        bad: list[bool] = []

        def script(segment: Segment, _prompt: str) -> str:
            so_far = said(segment)
            if END in so_far:
                if bad:
                    return f"{so_far} Good."
                bad.append(True)
                return f"{so_far.partition(END)[0]}{END}{GARBAGE}"
            if not garbage:
                return f"Hm, so it is.{END}"
            return f"{so_far} fine, all.{END}" if segment.carried else f"{GARBAGE} and"

        run = Run(job(), script, chunk=1)
        await run.go(stream=False)
        trips = [trip for trip in run.record.trips if trip.channel == "content"]
        assert len(run.record.trips) > len(trips) or not garbage
        return trips[0].kept, trips[0].action

    assert await first(garbage=True) == await first(garbage=False)


async def test_a_signal_is_placed_by_all_that_was_accepted() -> None:
    signal = sentinel_for(Signal.LOW_CONFIDENCE, SENTINELS)

    def script(segment: Segment) -> Sequence[int]:
        if segment.carried:
            return carried(segment) + letters(" ok.")
        return [*letters(f"{THOUGHT}{END}Take ggbadtok"), signal]

    run = Run(job(), WordEngine(script, {}, sentinels=SENTINELS))
    await run.go(stream=False)
    (trip,) = run.record.trips
    # As many as in the middle of an output, where the engine is.
    assert trip.tokens[1] - trip.tokens[0] == 6


# What opens a block.


@pytest.mark.parametrize(("hold", "blanks"), [(0, "\n"), (32, "\n" * 40)])
async def test_blanks_before_the_start_tag_are_not_shown(hold: int, blanks: str) -> None:
    run = Run(
        job("q", gates={"hold_back_tokens": hold}),
        lambda _s, _p: f"{blanks}{START}{THOUGHT}{END}{ANSWER}",
        chunk=1,
    )
    report = await run.go()
    assert (report.reasoning, report.text) == (THOUGHT, ANSWER)


async def test_a_model_may_think_after_a_rollback_to_the_beginning() -> None:
    thinking = f"{START}{THOUGHT}{END}{ANSWER}"
    run = Run(
        job("q"), lambda _s, _p: thinking if run.segments[1:] else "\x02\x03\x04\x05 and", chunk=1
    )
    report = await run.go(stream=False)
    assert (report.reasoning, report.text) == (THOUGHT, ANSWER)


HEADERS = {310: "<|user|>", 311: "<|assistant|>", 312: "<|end|>"}


class _Template(WordEngine):
    """With a chat template that is special tokens only."""

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        return (310, *self.encode(job.prompt or ""), 312, 311)


@pytest.mark.parametrize("tags", [{300: START, 301: END}, {}], ids=["by id", "by text"])
async def test_a_user_who_ends_with_the_start_tag_opens_no_block(tags: dict[int, str]) -> None:
    words = HEADERS | tags
    engine = _Template(
        lambda s: carried(s) + letters(ANSWER), words, special=set(words), silent=set(words)
    )
    run = Run(job(f"What does this tag do: {START}"), engine)
    report = await run.go()
    assert (report.reasoning, report.text) == (None, ANSWER)
    assert run.thought.ended == "not_opened"
    assert len(run.segments) == 1


# Tags in wide tokens.


async def test_a_stop_string_in_the_token_that_closes_ends_the_answer() -> None:
    asked = job(sampling=Sampling(max_tokens=2000, stop=(".",)))
    output = [*letters(f"{THOUGHT}</think"), 300, *letters("Take the train. Or not.")]
    run = Run(asked, WordEngine(lambda _s: output, {300: ">."}))
    report = await run.go()
    assert "." not in report.text
    assert report.reasoning is not None
    assert report.reasoning.startswith(THOUGHT[:-1])


async def test_a_token_that_is_half_thought_half_tag_goes_with_the_tag() -> None:
    def script(segment: Segment) -> Sequence[int]:
        if not segment.carried:
            return [*letters(THOUGHT), 300, 301]
        return carried(segment) + (letters(ANSWER) if WRAP_UP in said(segment) else [])

    run = Run(job(), WordEngine(script, {300: "foo</th", 301: "ink>"}))
    report = await run.go(stream=False)
    assert report.text == ANSWER
    assert run.thought.tokens == len(THOUGHT)
    assert 300 not in run.segments[-1].prompt_token_ids


async def test_a_banned_tag_that_is_spelled_out_is_refused() -> None:
    def script(segment: Segment) -> Sequence[int]:
        if 301 not in (so_far := carried(segment)):
            return [300, *letters(THOUGHT)]
        assert segment.sampling.logit_bias == {300: -100}
        spelled = f"{START}Hm, once more.{END}{ANSWER}"
        return so_far + letters(ANSWER if is_banned(segment) else spelled)

    words = {300: START, 301: END}
    engine = WordEngine(script, words, special=set(words), silent=set(words))
    run = Run(job("q", reasoning=Reasoning(effort=40)), engine)
    report = await run.go()
    assert report.text == ANSWER
    assert Flaw.REASONING_AGAIN in [trip.flaw for trip in run.record.trips]


# What can't be done.


@pytest.mark.parametrize("mode", ["off", "observe", "cut"])
@pytest.mark.parametrize("effort", [0, 40])
async def test_a_prompt_that_is_too_long_is_refused(mode: Any, effort: int) -> None:
    asked = job("x" * 200, reasoning=Reasoning(mode=mode, effort=effort))
    run = Run(asked, lambda _s, _p: "hi", max_model_len=100)
    await run.go()
    assert isinstance(run.ending, Refused)
    assert run.ending.error.reason is Reason.PROMPT_TOO_LONG


def test_a_block_that_is_always_open_needs_tags() -> None:
    with pytest.raises(ConfigError, match="reasoning_block"):
        gating(Config(model="m", reasoning_block="open"))
    with pytest.raises(ConfigError, match="set both"):
        gating(Config(model="m", reasoning_start=START))
    gating(Config(model="m", reasoning_block="open", reasoning_start=START, reasoning_end=END))


# Behind a rollback, a second cut, a second end.


async def test_an_answer_that_spells_a_tag_is_taken_as_it_was_said_or_not_at_all() -> None:
    words = {300: START, 301: END}
    spelled = letters(f"The tag {END} closes it, and {START} opens it.")

    def script(segment: Segment) -> Sequence[int]:
        first = len(run.segments) == 1
        return carried(segment) + ([*spelled, 301] if first else letters(ANSWER))

    engine = WordEngine(script, words, special=set(words), silent=set(words))
    run = Run(job("q", reasoning=Reasoning(effort=0)), engine)
    report = await run.go(stream=False)
    assert report.text in {ANSWER, bytes(spelled).decode()}


async def test_what_was_shown_of_the_reasoning_stays_when_less_of_it_is_tried() -> None:
    def script(segment: Segment) -> Sequence[int]:
        if not segment.carried:
            return [*letters(THOUGHT), 300]
        return carried(segment) + (letters(ANSWER) if WRAP_UP in said(segment) else [])

    run = Run(job(), WordEngine(script, {300: f" a{END}"}))
    report = await run.go()
    assert (report.text, report.reasoning) == (ANSWER, f"{THOUGHT} a")


@pytest.mark.parametrize("chunk", [1, 64])
async def test_bans_of_what_was_thought_on_do_not_stand_in_the_answer_behind_it(
    chunk: int,
) -> None:
    outputs = iter([THOUGHT, f"{START}Hm", f"Hm, wait.\n{END}\x02\x03\x04 bad", ANSWER])

    def script(segment: Segment, _prompt: str) -> str:
        return said(segment) + next(outputs, "")

    run = Run(job(reasoning=Reasoning(effort=40)), script, chunk=chunk)
    report = await run.go(stream=False)
    assert report.text.startswith(ANSWER[:16])
    gates = run.segments[3].gates
    assert gates is not None
    assert [ban.token for ban in gates.bans] == [2]
