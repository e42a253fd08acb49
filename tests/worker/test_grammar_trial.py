"""Grammars that would hang the engine, and some that look so and don't."""

import asyncio
import time
from typing import Any

import pytest
from sluicegate.schemas import InvalidMessage, Reason, StructuredOutput
from sluicegate.worker import grammar_trial
from sluicegate.worker.grammar_trial import GrammarTrials, is_plain, problem_of

pytest.importorskip("xgrammar")


def wide(count: int, **more: Any) -> dict[str, Any]:
    """An object of so many properties."""
    properties = {f"p{number}": {"type": "string"} for number in range(count)}
    return {"type": "object", "properties": properties, **more}


BOMBS = {
    # Compiled at once; what may come next takes hours to say.
    "walking": StructuredOutput(regex="(((((a?){100}){100}){100}){100}){100}"),
    # Grows with the third power: a schema of 64 KiB would take a quarter of an hour.
    "reading": StructuredOutput(json_schema=wide(1_600, minProperties=800)),
}


@pytest.mark.parametrize("stage", BOMBS)
async def test_a_bomb_is_refused_in_bounded_time(stage: str) -> None:
    began = time.process_time()
    problem = await problem_of(BOMBS[stage])
    assert problem is not None
    assert "takes longer than" in problem
    # None of it here.
    assert time.process_time() - began < 1


async def test_sound_grammars_pass() -> None:
    for wanted in (
        StructuredOutput(regex=r"(yes|no|maybe){1,3}"),
        StructuredOutput(grammar='root ::= "a" root | "b"'),
        # Not for the trial to say.
        StructuredOutput(grammar="root ::= ("),
        StructuredOutput(json_schema=wide(200)),
    ):
        assert not is_plain(wanted)
        assert await problem_of(wanted) is None


@pytest.mark.parametrize(
    "wanted",
    [
        StructuredOutput(choice=("yes", "no")),
        StructuredOutput(json_schema={"type": "string", "maxLength": 100_000_000}),
        StructuredOutput(json_schema={"type": "array", "minItems": 10**9}),
    ],
    ids=["choice", "length", "items"],
)
def test_what_is_plain_costs_no_trial(wanted: StructuredOutput) -> None:
    assert is_plain(wanted)


async def test_each_grammar_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[StructuredOutput] = []

    async def told(wanted: StructuredOutput) -> str | None:
        tried.append(wanted)
        await asyncio.sleep(0)
        return "no" if wanted.regex == "a+" else None

    monkeypatch.setattr(grammar_trial, "problem_of", told)
    trials = GrammarTrials()
    await trials.require(None)
    good, bad = StructuredOutput(regex="b+"), StructuredOutput(regex="a+")
    await asyncio.gather(*(trials.require(good) for _ in range(5)))
    for _ in range(2):
        with pytest.raises(InvalidMessage) as refused:
            await trials.require(bad)
        assert refused.value.reason is Reason.UNSUPPORTED
        assert refused.value.field == "$.sampling.structured_output"
    assert tried == [good, bad]


async def test_a_trial_that_is_given_up_leaves_no_process() -> None:
    task = asyncio.create_task(problem_of(BOMBS["walking"]))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
