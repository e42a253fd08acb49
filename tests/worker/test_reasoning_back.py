"""Going back in an attempt with reasoning: what the text means is judged anew from there on."""

import pytest
from sluicegate.schemas import Flaw, GenerationJob, Reasoning, Sampling
from sluicegate.schemas.sampling import StructuredOutput
from sluicegate.worker.engine import Segment

from .test_reasoning import ANSWER, END, START, THOUGHT, Run, job, said

# One is enough, at once.
GARBAGE = "\x00"


async def test_line_breaks_behind_the_end_tag_are_no_answer_after_a_rollback_either() -> None:
    def script(segment: Segment, _prompt: str) -> str:
        so_far = said(segment)
        if END not in so_far:
            return THOUGHT
        banned = segment.gates is not None and bool(segment.gates.bans)
        return so_far + (f"\n\n{ANSWER}" if banned else f"{START}Hm")

    run = Run(job(reasoning=Reasoning(effort=40)), script)
    report = await run.go()
    assert [trip.flaw for trip in run.record.trips] == [Flaw.REASONING_CAP, Flaw.REASONING_AGAIN]
    assert report.text == ANSWER


async def test_a_block_opens_where_garbage_was_taken_back() -> None:
    thought = f"{START}{THOUGHT}{END}{ANSWER}"
    run = Run(job("q"), lambda _s, _p: thought if run.segments[1:] else GARBAGE, chunk=1)
    report = await run.go()
    assert [trip.flaw for trip in run.record.trips] == [Flaw.DENIED_CHARACTER]
    assert (report.reasoning, report.text) == (THOUGHT, ANSWER)
    assert run.thought.ended == "closed"


async def test_a_grammar_that_has_begun_goes_on_after_a_rollback() -> None:
    asked = StructuredOutput(json_schema={"type": "object"})
    wanted = GenerationJob(
        id="j", prompt="q", sampling=Sampling(max_tokens=2000, structured_output=asked)
    )
    answers = iter([ANSWER, "", '{"a": 1}'])
    run = Run(wanted, lambda _s, _p: next(answers), chunk=1)
    report = await run.go()
    assert report.text == '{"a": 1}'
    held = [segment.sampling.structured_output for segment in run.segments]
    assert held == [None, asked, asked]


@pytest.mark.parametrize("over", ["<", "</thi"])
async def test_the_text_ends_within_what_may_be_the_end_tag_at_the_cap(over: str) -> None:
    def script(segment: Segment, _prompt: str) -> str:
        so_far = said(segment)
        return so_far + ANSWER if END in so_far else THOUGHT[:40] + over

    run = Run(job(reasoning=Reasoning(effort=40)), script)
    report = await run.go()
    assert (report.text, report.reasoning) == (ANSWER, THOUGHT[:40])
    assert run.thought.tokens == 40
    assert f"{THOUGHT[:40]}{over}" not in run.sent(1)
