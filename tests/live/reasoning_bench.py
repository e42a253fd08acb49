"""An open engine whose model says what a test wants it to."""

from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from sluicegate.guards.reasoning.tags import Tags
from sluicegate.ops.faults import Vocabulary
from sluicegate.schemas import GenerationJob, Sampling
from sluicegate.worker.engine import Engine
from sluicegate.worker.model_tokenizer import ModelTokenizer

from .reasoners import Forced, View, Watched, watch

START, END = "<think>", "</think>"
PROMPT: Final = "What is the capital of France, and what is it known for?"
ANSWER: Final = "Paris, which is known for its tower."
# Tokens of their own; and several, with words between them, as in models that speak in channels.
SPECIAL: Final = {
    "a token": ("<jupyter_start>", "<jupyter_text>"),
    "messages": (
        "<jupyter_start>thinking<jupyter_code>",
        "<jupyter_text>\n<jupyter_start>final<jupyter_output>",
    ),
}


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
        self, start: Sequence[int] | str = f"{START}\n", *, max_tokens: int = 96, **more: Any
    ) -> GenerationJob:
        """A question, greedy. The prompt ends with `start`, as a template that opens the block
        would end it."""
        prompt = more.pop("prompt", PROMPT)
        asked = await self.engine.prompt_token_ids(GenerationJob(prompt=prompt))
        tail = self.ids(start) if isinstance(start, str) else start
        sampling = Sampling(
            temperature=0,
            max_tokens=max_tokens,
            min_tokens=more.pop("min_tokens", 0),
            structured_output=more.pop("output", None),
        )
        return GenerationJob(
            id=f"job-{next(self._numbers)}",
            prompt_token_ids=(*asked, *tail),
            sampling=sampling,
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

    def special_tags(self, kind: str) -> Tags:
        """Of tokens that are special to this model."""
        return self.tokenizer.tags(*SPECIAL[kind])
