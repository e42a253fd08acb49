"""The real model at work for the heavy set."""

import random
from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import Final

from ...worker.model_tokenizer import ModelTokenizer
from .faulty_engine import FaultyEngine, Request
from .heavy_line import Pair, Rot
from .heavy_prompts import tasks

_TASKS: Final = 440
_TOKENS: Final = 160
_ROT, _ROT_TOKENS = 48, 90
_LEAST_ROT: Final = 40  # tokens
_MAX_PROMPT: Final = 250  # tokens
_NOISE: Final = (0.6, 0.9)

Progress = Callable[[str], None]


class HeavyWriter:
    """The engine is started by the first that needs it."""

    def __init__(
        self,
        tokenizer: ModelTokenizer,
        seed_of: Callable[[str], random.Random],
        scale: float,
        progress: Progress,
    ) -> None:
        self._tokenizer, self._seed_of, self._scale = tokenizer, seed_of, scale
        self._say = progress
        self._engine: FaultyEngine | None = None

    def pairs(self, passages: Sequence[str]) -> list[Pair]:
        """Answers at temperature 0.7, and greedy ones."""
        draw = self._seed_of("heavy:pairs")
        asked = tasks(draw, max(12, round(_TASKS * self._scale)), passages)
        prompts = [self._chat(task.prompt) for task in asked]
        fitting = [
            (task, prompt)
            for task, prompt in zip(asked, prompts, strict=True)
            if len(prompt) <= _MAX_PROMPT
        ]
        answers = self._running().answer(
            [
                Request(
                    prompt=prompt,
                    max_tokens=_TOKENS,
                    temperature=0.0 if task.greedy else 0.7,
                    top_p=1.0 if task.greedy else 0.95,
                    seed=draw.getrandbits(31),
                )
                for task, prompt in fitting
            ],
            lambda done: self._say(f"heavy: {done} of {len(fitting)} answers"),
        )
        pairs: list[Pair] = []
        for (task, _), answer in zip(fitting, answers, strict=True):
            ids = [one for one in answer.ids if one not in self._tokenizer.stop_ids]
            reason = "stop" if answer.ended else "length"
            pairs.append(Pair(task=task, text=self._text(ids), ids=ids, finish_reason=reason))
        return pairs

    def rot(self, pairs: Sequence[Pair]) -> list[Rot]:
        """Answers gone on with by a model with noise in its weights, from their middle."""
        draw = self._seed_of("heavy:rot")
        long = [pair for pair in pairs if len(pair.ids) >= _ROT_TOKENS]
        chosen = draw.sample(long, min(len(long), max(4, round(_ROT * self._scale))))
        before = [self._chat(one.task.prompt) + one.ids[:_LEAST_ROT] for one in chosen]
        usual = self._usual(chosen)
        engine = self._running()
        rot: list[Rot] = []
        for number, strength in enumerate(_NOISE):
            some = before[number :: len(_NOISE)]
            requests = [
                Request(
                    prompt=one, max_tokens=_ROT_TOKENS, temperature=0.7, seed=draw.getrandbits(31)
                )
                for one in some
            ]
            with engine.noise_in_weights(strength, draw.getrandbits(31)):
                answers = engine.answer(requests, lambda _: None)
            passages = [
                (prompt, ids)
                for prompt, answer in zip(some, answers, strict=True)
                if len(ids := [one for one in answer.ids if one not in self._tokenizer.stop_ids])
                >= _LEAST_ROT
            ]
            found = engine.surprise(passages)
            rot += [
                Rot(text=self._text(ids), surprise=nats, usual=usual)
                for (_, ids), nats in zip(passages, found, strict=True)
            ]
        return rot

    def _usual(self, pairs: Sequence[Pair]) -> float:
        found = self._running().surprise(
            [
                (self._chat(one.task.prompt) + one.ids[:_LEAST_ROT], one.ids[_LEAST_ROT:])
                for one in pairs
            ]
        )
        return quantiles(found, n=100)[98] if len(found) > 1 else found[0]

    def _running(self) -> FaultyEngine:
        if self._engine is None:
            self._say("heavy: starting the engine")
            self._engine = FaultyEngine(self._tokenizer.name)
        return self._engine

    def _chat(self, question: str) -> list[int]:
        ids: list[int] = self._tokenizer.tokenizer.apply_chat_template(
            [{"role": "user", "content": question}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        return ids

    def _text(self, ids: list[int]) -> str:
        """As the engine decodes it: half a character at the end is no part of it."""
        return "".join(step.text for step in self._tokenizer.steps(ids))
