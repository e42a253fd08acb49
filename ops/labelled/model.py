"""Texts that the real model wrote: as it should, and with a fault in it."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import msgspec
from msgspec import Struct

from ...worker.model_tokenizer import ModelTokenizer
from .faulty_engine import Answer, FaultyEngine, Request
from .line import Line
from .repeats import distinct, loop_start
from .stages import kept
from .words import LOOPERS, TASKS, THINGS, TOPICS

_NORMAL, _LOOPS = 240, 56
_TOKENS, _FAULTY_TOKENS, _LOOP_TOKENS = 100, 120, 420
# Fewer tokens say nothing about a text.
_LEAST_FAULTY: Final = 16
_LEAST_NORMAL: Final = 50
_PREFIX: Final = (15, 45)  # tokens of a normal answer before the fault
_DISTINCT: Final = 0.6  # share of 4-grams: below it a normal answer has begun to loop
_LOOP_COVERED, _LOOP_ENOUGH = 100, 300  # tokens

Progress = Callable[[str], None]


class Written(Struct, frozen=True, kw_only=True):
    """What the model wrote: ids of prompt and answer, the token at which the fault begins, and how
    surprising the rest is to the sound model."""

    prompt: list[int]
    asked: str
    profile: str
    ids: list[int]
    onset: int | None = None
    surprise: float | None = None


def model_texts(
    folder: Path,
    tokenizer: ModelTokenizer,
    seed_of: Callable[[str], random.Random],
    scale: float,
    progress: Progress,
) -> list[Line]:
    """All of them; what is in `folder` is not written again."""
    writer = _Writer(folder, tokenizer, seed_of, scale, progress)
    normal = writer.stage("normal", writer.normal)
    known = [one.surprise for one in normal if one.surprise is not None]
    # A faulty passage counts as bad if it surprises the sound model more than 99% of the passages
    # of the same length that the sound model wrote.
    limit = quantiles(known, n=100)[98]
    lines = [writer.line("model", one, None) for one in normal]
    for kind, make in (
        ("model:hot", writer.hot),
        ("model:noisy-weights", writer.noisy_weights),
        ("model:corrupt-cache", writer.corrupt_cache),
    ):
        faulty = writer.stage(kind.partition(":")[2], lambda make=make: make(normal))
        kept = [one for one in faulty if (one.surprise or 0) > limit]
        progress(f"model: {kind}: {len(kept)} of {len(faulty)} surprise more than {limit:.2f} nats")
        lines += [writer.line(kind, one, one.onset) for one in kept]
    for kind, make in (("nan:engine", lambda: writer.nan(normal)), ("loop:greedy", writer.loops)):
        done = writer.stage(kind.replace(":", "-"), make)
        lines += [writer.line(kind, one, one.onset) for one in done]
    return lines


class _Writer:
    """The stages. The engine is started by the first that is not there yet."""

    def __init__(
        self,
        folder: Path,
        tokenizer: ModelTokenizer,
        seed_of: Callable[[str], random.Random],
        scale: float,
        progress: Progress,
    ) -> None:
        self._folder, self._tokenizer, self._seed_of = folder, tokenizer, seed_of
        self._scale, self._say = scale, progress
        self._engine: FaultyEngine | None = None
        self._numbers: dict[str, int] = {}

    def stage(self, name: str, make: Callable[[], list[Written]]) -> list[Written]:
        """What a stage wrote, now or in an earlier run."""
        done = kept(self._folder / f"{name}.json", Written, make)
        self._say(f"model: {name}: {len(done)} texts")
        return done

    def line(self, kind: str, one: Written, onset: int | None) -> Line:
        """A line of the set. The text is decoded as the engine does, so that half a character at
        the end is no part of it."""
        number = self._numbers[kind] = self._numbers.get(kind, -1) + 1
        steps = list(self._tokenizer.steps(one.ids))
        if onset is None:
            # Cut off by the limit on tokens, not by a fault.
            while steps and not steps[-1].text:
                steps.pop()
        return Line(
            id=f"{kind}:{number}",
            text="".join(step.text for step in steps),
            label="good" if onset is None else "bad",
            kind=kind,
            profile=one.profile,
            prompt=one.asked,
            onset=None if onset is None else steps[min(onset, len(steps) - 1)].offset,
            token_ids=one.ids[: len(steps)],
            source="SmolLM2-135M-Instruct",
        )

    def normal(self) -> list[Written]:
        """Answers at temperature 0.7."""
        draw = self._seed_of("normal")
        asked = [(task.format(topic), own) for task, own in TASKS for topic in TOPICS]
        chosen = draw.sample(asked, min(len(asked), max(8, round(_NORMAL * self._scale))))
        prompts = [self._chat(question) for question, _ in chosen]
        answers = self._answers(
            "normal", [self._request(one, _TOKENS, 0.7, draw, 0.95) for one in prompts]
        )
        written: list[Written] = []
        for (question, profile), prompt, answer in zip(chosen, prompts, answers, strict=True):
            ids = self._without_end(answer.ids)
            if len(ids) >= _LEAST_NORMAL and distinct(ids) >= _DISTINCT:
                written.append(Written(prompt=prompt, asked=question, profile=profile, ids=ids))
        return self._scored(written, lambda one: one.ids[-_FAULTY_TOKENS:])

    def hot(self, normal: Sequence[Written]) -> list[Written]:
        """Continued at temperatures up to 2, the highest that vLLM takes, with nothing cut off."""
        draw = self._seed_of("hot")
        cut = self._cuts(normal, 120, draw)
        requests = [
            self._request(one.prompt + one.ids, _FAULTY_TOKENS, draw.choice((1.7, 1.85, 2.0)), draw)
            for one in cut
        ]
        return self._continued(cut, self._answers("hot", requests))

    def noisy_weights(self, normal: Sequence[Written]) -> list[Written]:
        """Continued by a model with noise in its weights."""
        draw = self._seed_of("noisy-weights")
        written: list[Written] = []
        for strength in (0.6, 0.9, 1.3):
            cut = self._cuts(normal, 32, draw)
            requests = [
                self._request(one.prompt + one.ids, _FAULTY_TOKENS, 0.7, draw) for one in cut
            ]
            with self._running().noise_in_weights(strength, draw.getrandbits(31)):
                answers = self._answers(f"noise {strength} in the weights", requests)
            written += self._continued(cut, answers)
        return written

    def corrupt_cache(self, normal: Sequence[Written]) -> list[Written]:
        """Continued after the keys and values read so far were spoiled."""
        draw = self._seed_of("corrupt-cache")
        engine = self._running()
        written: list[Written] = []
        for what, fault in (
            ("noise 1 in the cache", lambda: engine.noise_in_cache(1.0, 1)),
            ("noise 3 in the cache", lambda: engine.noise_in_cache(3.0, 2)),
            ("blocks swapped in the cache", engine.swap_cache_blocks),
        ):
            cut = self._cuts(normal, 32, draw)
            requests = [
                self._request(one.prompt + one.ids, _FAULTY_TOKENS + 2, 0.7, draw) for one in cut
            ]
            written += self._continued(
                cut, self._answers(what, requests, fault_after=2, fault=fault)
            )
        return written

    def nan(self, normal: Sequence[Written]) -> list[Written]:
        """Continued on logits that are NaN."""
        draw = self._seed_of("nan")
        cut = self._cuts(normal, 32, draw)
        requests = [self._request(one.prompt + one.ids, 16, 0.7, draw) for one in cut]
        with self._running().nan_when_called() as fault:
            answers = self._answers("NaN", requests, fault_after=2, fault=fault)
        return [self._joined(one, answer) for one, answer in zip(cut, answers, strict=True)]

    def loops(self) -> list[Written]:
        """The most likely token again and again, until it goes round in circles."""
        draw = self._seed_of("loops")
        asked: list[str] = []
        for _ in range(max(8, round(_LOOPS * self._scale))):
            one = draw.choice(LOOPERS)
            asked.append(one.format(*(draw.choice((*TOPICS, *THINGS)) for _ in "ab")))
        prompts = [self._tokenizer.encode(one) for one in asked]
        answers = self._answers(
            "loops",
            [self._request(one, _LOOP_TOKENS, 0.0, draw) for one in prompts],
            enough=_looped,
        )
        written: list[Written] = []
        for question, prompt, answer in zip(asked, prompts, answers, strict=True):
            ids = self._without_end(answer.ids)
            onset = loop_start(ids, _LOOP_COVERED)
            if onset is not None:
                written.append(
                    Written(prompt=prompt, asked=question, profile="chat", ids=ids, onset=onset)
                )
        return written

    def _cuts(self, normal: Sequence[Written], number: int, draw: random.Random) -> list[Written]:
        """The beginnings of normal answers."""
        most = min(len(normal), max(4, round(number * self._scale)))
        return [
            msgspec.structs.replace(one, ids=one.ids[: draw.randint(*_PREFIX)], surprise=None)
            for one in draw.sample(list(normal), most)
        ]

    def _continued(self, cut: Sequence[Written], answers: Sequence[Answer]) -> list[Written]:
        joined = [self._joined(one, answer) for one, answer in zip(cut, answers, strict=True)]
        long = [one for one in joined if len(one.ids) - (one.onset or 0) >= _LEAST_FAULTY]
        return self._scored(long, lambda one: one.ids[one.onset or 0 :])

    def _joined(self, one: Written, answer: Answer) -> Written:
        ids = one.ids + self._without_end(answer.ids)
        onset = len(one.ids) + (answer.before_fault or 0)
        return msgspec.structs.replace(one, ids=ids, onset=onset)

    def _scored(
        self, written: list[Written], passage: Callable[[Written], list[int]]
    ) -> list[Written]:
        pairs: list[tuple[list[int], list[int]]] = []
        for one in written:
            tail = passage(one)
            pairs.append((one.prompt + one.ids[: len(one.ids) - len(tail)], tail))
        found = self._running().surprise(pairs)
        return [
            msgspec.structs.replace(one, surprise=nats)
            for one, nats in zip(written, found, strict=True)
        ]

    def _answers(self, what: str, requests: Sequence[Request], **faults: Any) -> list[Answer]:
        def tell(done: int) -> None:
            self._say(f"model: {what}: {done} of {len(requests)}")

        return self._running().answer(requests, tell, **faults)

    def _request(
        self, prompt: list[int], tokens: int, heat: float, draw: random.Random, top_p: float = 1.0
    ) -> Request:
        return Request(
            prompt=prompt,
            max_tokens=tokens,
            temperature=heat,
            top_p=top_p,
            seed=draw.getrandbits(31),
        )

    def _running(self) -> FaultyEngine:
        if self._engine is None:
            self._say("model: starting the engine")
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

    def _without_end(self, ids: list[int]) -> list[int]:
        return ids[:-1] if ids and ids[-1] in self._tokenizer.stop_ids else ids


def _looped(ids: list[int]) -> bool:
    return len(ids) % 16 == 0 and loop_start(ids, _LOOP_ENOUGH) is not None
