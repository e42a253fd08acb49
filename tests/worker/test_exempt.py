"""Spans that are no prose, in an attempt: what the gates on text let be there, and what not."""

import pytest
from sluicegate.schemas import GenerationJob, Sampling, StructuredOutput
from sluicegate.worker.endings import Answered, Report
from sluicegate.worker.engine import Segment
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.session import GenerationSession

SPANS = (("Input:", "\nThought:"),)
LOOP = '{"rows": [' + "[0, 0, 0, 0], " * 60 + "[0]]}"
GRAMMAR = StructuredOutput(grammar="root ::= [^\\x00]*")


async def run(*texts: str, grammar: bool = False, exempt: bool = True) -> Report:
    """Each segment says the next of these, the last one all that follow."""
    left = list(texts)

    def script(_segment: Segment, _prompt: str) -> str:
        return left.pop(0) if len(left) > 1 else left[0]

    engine = ScriptedEngine(script)
    await engine.open()
    job = GenerationJob(
        prompt="go",
        sampling=Sampling(max_tokens=4_000, structured_output=GRAMMAR if grammar else None),
        exempt=SPANS if exempt else (),
    )
    session = GenerationSession(job, engine, worker="w", nonce="n")
    return session.report(await session.run(), None)


@pytest.mark.parametrize("grammar", [False, True])
async def test_a_loop_in_the_arguments_of_a_call_is_delivered(grammar: bool) -> None:
    text = f"Action: store\nInput: {LOOP}"
    report = await run(text, grammar=grammar)
    assert (report.ending, report.text, report.record.trips) == (Answered("stop"), text, ())


async def test_the_same_loop_without_spans_is_not() -> None:
    report = await run(f"Action: store\nInput: {LOOP}", exempt=False)
    assert report.record.trips
    assert report.ending != Answered("stop")


@pytest.mark.parametrize("grammar", [False, True])
async def test_beside_the_arguments_text_is_judged(grammar: bool) -> None:
    """Held to a grammar, an answer that goes wrong begins again: a grammar can't be resumed."""
    bad, good = f"Thought: {'very ' * 200}", f"Thought: well\nInput: {LOOP}"
    report = await run(bad, good, grammar=grammar)
    assert report.record.trips
    if grammar:
        assert (report.ending, report.text) == (Answered("stop"), good)


@pytest.mark.parametrize("grammar", [False, True])
async def test_one_character_for_long_is_delivered_in_arguments(grammar: bool) -> None:
    text = f'Input: {{"a": "{"=" * 400}"}}'
    report = await run(text, grammar=grammar)
    assert (report.text, report.record.trips) == (text, ())
