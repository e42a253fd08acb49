"""Random models that think, and what holds of every attempt at one."""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from sluicegate.schemas import AttemptRecord, GenerationJob, Reasoning, Sampling
from sluicegate.schemas.sampling import StructuredOutput
from sluicegate.worker.endings import Answered, GaveUp
from sluicegate.worker.engine import Segment
from sluicegate.worker.scripted import END_OF_TEXT

from .reasoning_model import ANSWER, END, START, THOUGHT, UNIT, Run, WordEngine, carried, job

TAGS: Final = {300: START, 301: END}
# Halves of tags with something before or behind, and a token without text.
WORDS: Final = TAGS | {
    302: "k>{",
    303: "</",
    304: "\n\n",
    305: "foo</th",
    306: "ink>bar",
    307: ">\n\n",
    308: ">Hi",
    309: "<|x|>",
    310: "🙂",
    312: "a</think>b",
}
# What tags that are told by their ids look like, so that one is known from its letters.
SHOWN: Final = {300: "⟨", 301: "⟩"}
PARTS: Final = (
    THOUGHT,
    UNIT * 12,
    *("\n", "\n\n", " ", "  ", "\n" * 40, " \n" * 30),
    *(START, END, "<", "</th", "think>"),
    *("\x02", "\x02\x03", "`", "```\n", "é🙂", "x" * 120),
    *("Wait, ", "a b c. ", "Morning!", "yes", ANSWER),
    *("\\boxed{4}", "**Final Answer**\n\nTake it.", "Final answer: 4\n", '{"a": 1}'),
)
OBJECTS: Final = ('{"a": 1}', "{}")
CHOICES: Final = ("yes", "no")
GRAMMARS: Final = (
    StructuredOutput(json_schema={"type": "object"}),
    StructuredOutput(choice=CHOICES),
)


class Case(Struct, frozen=True):
    """A job, the engine that it runs on, and whether somebody listens."""

    job: GenerationJob
    engine: WordEngine
    by_id: bool
    stream: bool


def some_job(rng: random.Random) -> GenerationJob:
    grammar = rng.choice([None, None, None, *GRAMMARS])
    most = rng.choice([1, 2, 3, 4, 5, 8, 20, 60, 200, 800])
    stops = [(), ("Take",), ("\n",), ("ink>",), (END,), (".", "train"), ("e",)]
    gates: dict[str, float] = {}
    if rng.random() < 0.4:
        gates["hold_back_tokens"] = rng.choice([0, 1, 4])
    if rng.random() < 0.3:
        gates["max_rollbacks"] = rng.choice([0, 1, 3])
    if rng.random() < 0.2:
        gates["max_wasted_tokens"] = rng.choice([0, 10])
    return job(
        rng.choice(["q", f"q {START}", f"q {START}\n", f"q {START}{END}"]),
        sampling=Sampling(
            max_tokens=most,
            min_tokens=rng.choice([0, 0, min(most, 5), min(most, 50)]),
            temperature=rng.choice([0.0, 1.0]),
            stop=rng.choice(stops) if grammar is None else (),
            structured_output=grammar,
        ),
        gates=gates,
        reasoning=Reasoning(
            mode=rng.choice(["cut", "cut", "cut", "off", "observe"]),
            effort=rng.choice([None, 0, 1, 2, 10, 50, 200, "low", 131072]),
            wrap_up=rng.choice([None, "", f"Enough {END} ok", START, "好了。", "\n"]),
        ),
    )


def soup(rng: random.Random, words: Sequence[int]) -> list[int]:
    ids: list[int] = []
    for _ in range(rng.randint(0, 6)):
        ids += [rng.choice(words)] if words and rng.random() < 0.4 else rng.choice(PARTS).encode()
    return ids


class Model:
    """What it says next is settled by all that stands there, the seed and the bans."""

    def __init__(self, rng: random.Random, words: Sequence[int]) -> None:
        self._words = words
        self._key = rng.random()
        self._style = rng.choice(["soup", "obeys", "obeys", "obeys", "ignores", "empty"])
        opening = [300] if words else list(START.encode())
        self._plan = rng.choice([opening, opening, [], [], list(b"<")]) + soup(rng, words)

    def __call__(self, segment: Segment) -> Sequence[int]:
        so_far = carried(segment)
        bans = segment.gates.bans if segment.gates is not None else ()
        rng = random.Random(f"{self._key}{so_far}{segment.seed}{bans}")
        grammar = segment.sampling.structured_output
        if grammar is not None:
            return so_far + list(rng.choice(grammar.choice or OBJECTS).encode())
        if not so_far and not bans:
            return self._plan
        if self._style == "ignores" and rng.random() < 0.5:
            return so_far + self._plan
        if self._style in {"soup", "ignores"}:
            return so_far + soup(rng, self._words)
        if self._style == "empty":
            return so_far
        closes = [301] if self._words else list(END.encode())
        return so_far + (closes if rng.random() < 0.3 else []) + list(ANSWER.encode())


def some_case(seed: int) -> Case:
    rng = random.Random(seed)
    wide = rng.random() < 0.5
    by_id = wide and rng.random() < 0.5
    words = WORDS if wide else {}
    tags = set(TAGS) if by_id else set[int]()
    engine = WordEngine(
        Model(rng, list(words)),
        words,
        special=tags,
        silent={309} | (tags if rng.random() < 0.5 else set[int]()),
        shown=SHOWN if by_id else {},
        chunk=rng.choice([1, 2, 3, 5, 17, 4096]),
        max_model_len=rng.choice([8192, 8192, 8192, 100, 40]),
        always_thinks=rng.random() < 0.1,
    )
    return Case(some_job(rng), engine, by_id, rng.random() < 0.6)


def attempt(seed: int) -> tuple[Case, Run]:
    """The stream's own laws are held by the run: in order, contiguous, nothing taken back, equal
    to the result; and that it ends."""
    case = some_case(seed)
    run = Run(case.job, case.engine)
    asyncio.run(run.go(stream=case.stream))
    assert isinstance(run.ending, Answered | GaveUp)
    return case, run


def check_accounts(run: Run) -> None:
    """What the engine made was kept or wasted, and nothing counts twice."""
    usage, thought = run.report.usage, run.thought
    produced = sum(map(len, run.made))
    assert usage.completion_tokens + usage.wasted_tokens == produced
    if isinstance(run.ending, Answered) and thought.ended != "salvaged":
        ended = run.made[-1][-1] == END_OF_TEXT and not run.written.draft.transcript.stopped
        assert usage.completion_tokens == run.written.spent + ended
    assert usage.completion_tokens <= run.job.sampling.max_tokens
    assert 0 <= usage.reasoning_tokens <= usage.completion_tokens
    assert all(trip.wasted >= 0 for trip in run.record.trips)
    assert thought.tripped == (thought.flaw is not None)
    if thought.mode == "cut":
        assert thought.tokens <= thought.cap
    else:
        assert thought.cuts == thought.dropped_tokens == 0
    assert thought.cuts or thought.ended != "cut"
    assert msgspec.json.decode(msgspec.json.encode(run.record), type=AttemptRecord) == run.record


def check_answer(case: Case, run: Run) -> None:
    """What was promised of it holds, wherever it came from."""
    text, sampling = run.report.text, run.job.sampling
    if run.ending == Answered("stop") and sampling.structured_output is not None:
        assert text in (sampling.structured_output.choice or OBJECTS)
    if not sampling.min_tokens:
        assert not any(stop in text for stop in sampling.stop)
    if run.thought.mode != "cut" or not isinstance(run.ending, Answered):
        return
    assert run.thought.ended != "open"
    if case.by_id:
        assert not any(tag in text for tag in SHOWN.values())
    elif "`" not in text:
        assert not any(line.startswith((START, END)) for line in text.split("\n"))


def check_bans(run: Run) -> None:
    """Each bans the token that came at its place, behind the same text, in an earlier request."""
    outputs: list[list[int]] = []
    for segment, made in zip(run.segments, run.made, strict=True):
        so_far = carried(segment)
        for ban in segment.gates.bans if segment.gates is not None else ():
            place = segment.carried + ban.position
            assert any(
                output[: len(so_far)] == so_far and output[place : place + 1] == [ban.token]
                for output in outputs
            )
        outputs.append(so_far + made)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_whatever_the_model_says(seed: int) -> None:
    case, run = attempt(seed)
    check_accounts(run)
    check_answer(case, run)
    check_bans(run)
