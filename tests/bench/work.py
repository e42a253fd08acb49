"""The work that every contender does: the same prompts, answered by the same scripted engine."""

import random
import time
from collections.abc import AsyncGenerator
from typing import Final

from sluicegate.schemas import GenerationJob, Sampling
from sluicegate.worker.engine import Piece, Segment
from sluicegate.worker.scripted import END_OF_TEXT, ScriptedEngine

PROMPT_BYTES: Final = 2_000
# The engine answers with the prompt itself, as one token, in one step.
SAMPLING: Final = Sampling(max_tokens=PROMPT_BYTES)

_SENTENCES: Final = (
    "the gate holds back what comes too fast and lets through what the engine can take now",
    "a job is a promise to answer once even when the power fails between two words of it",
)
_WORDS: Final = " ".join(_SENTENCES).split()


def prompts(count: int, seed: int) -> list[str]:
    """Texts of PROMPT_BYTES each, no two alike. The same seed gives the same texts."""
    return [_prompt(random.Random(f"{seed}:{number}")) for number in range(count)]


def _prompt(source: random.Random) -> str:
    text = " ".join(source.choices(_WORDS, k=PROMPT_BYTES // 3))
    return text[: PROMPT_BYTES - 1] + "."


class Whole:
    """A detokenizer for which one token is a whole text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def step(self, token_id: int) -> str:
        """The text."""
        return self._text if token_id != END_OF_TEXT else ""


class OneStepEngine(ScriptedEngine):
    """Takes one step for each answer, and no time but that of its own code."""

    def detokenizer(self, prompt_token_ids: tuple[int, ...]) -> Whole:
        """One that knows the answer: the prompt."""
        return Whole(bytes(prompt_token_ids).decode())

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """The answer in one piece."""
        del segment
        yield Piece(token_ids=(0, END_OF_TEXT), finish_reason="stop")


def engine() -> ScriptedEngine:
    """The engine of every contender."""
    return OneStepEngine()


class Answerer:
    """The scripted engine for those who have no worker of ours around it."""

    def __init__(self) -> None:
        self._engine = engine()

    async def open(self) -> None:
        """Must come first."""
        await self._engine.open()

    async def answer(self, job_id: str, prompt: str) -> str:
        """What the engine says to a prompt."""
        segment = Segment(
            request_id=job_id,
            prompt_token_ids=tuple(prompt.encode()),
            sampling=SAMPLING,
            seed=0,
        )
        detokenizer = self._engine.detokenizer(segment.prompt_token_ids)
        ids = [token async for piece in self._engine.stream(segment) for token in piece.token_ids]
        return "".join(map(detokenizer.step, ids))


async def engine_cpu_ms(answers: int = 200) -> float:
    """What the scripted engine itself takes for an answer: CPU time in milliseconds."""
    answerer = Answerer()
    await answerer.open()
    texts = prompts(answers, 0)
    began = time.process_time()
    for number, prompt in enumerate(texts):
        await answerer.answer(str(number), prompt)
    return 1000 * (time.process_time() - began) / answers


def job(prompt: str) -> GenerationJob:
    """A prompt as a job of ours. What the gates cost is measured elsewhere."""
    return GenerationJob(prompt=prompt, sampling=SAMPLING, profile="off")
