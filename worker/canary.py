"""The canary: a short greedy answer that shows whether an engine works, before jobs rely on it.

Greedy decoding is not the same to the bit in every batch, so the judgement is not either: the text
must pass the gates on logits, tokens and characters, with numbers that are finite, and begin as it
did the first time, where the engine has nothing else to do.
"""

import asyncio
import logging
import secrets
from contextlib import aclosing
from typing import Final

from msgspec import Struct, structs

from ..guards.engine_gates import FLAWS, signal_of
from ..guards.finding import Level
from ..guards.pipeline import streaming_gates
from ..guards.profiles import Profile, profile
from ..schemas import GenerationJob, InvalidMessage, Sampling
from .engine import Engine, Segment
from .stop_strings import StopStrings
from .transcript import Transcript

log = logging.getLogger(__name__)

TOKENS: Final = 8
# Of the first answer, so much must come again at the beginning. Further on, near ties may fall the
# other way when a kernel rounds differently; a model that counts has none at the start.
_AGREEMENT: Final = 0.5


class Canary:
    """Runs the prompt and judges what comes. The first answer that passes is what later ones are
    compared with."""

    def __init__(self, prompt: str, answer: str = "") -> None:
        """`prompt` empty: nothing is run, and all is well. `answer`: must be in what comes."""
        self._prompt = prompt
        self._answer = answer
        self._reference: str | None = None

    def __repr__(self) -> str:
        return f"<Canary, {'no reference yet' if self._reference is None else 'with a reference'}>"

    @property
    def is_on(self) -> bool:
        """Whether there is a prompt."""
        return bool(self._prompt)

    async def sing(self, engine: Engine, limit_s: float, *, alone: bool) -> str | None:
        """What is wrong with the engine, or None. `alone`: nothing else runs on it. Raises
        EngineError where it fails altogether."""
        if not self._prompt:
            return None
        try:
            async with asyncio.timeout(limit_s):
                heard = await _hear(engine, self._prompt)
        except TimeoutError:
            return f"no answer within {limit_s:g} s"
        except InvalidMessage as error:
            # The prompt is at fault, not the engine.
            log.warning("canary_prompt can't be tried, so nothing is: %s", error)
            return None
        problem = judged(heard, self._answer, self._reference if alone else None)
        if problem is None and alone and self._reference is None:
            self._reference = heard.text
        return problem


class Heard(Struct, frozen=True):
    """What came of the prompt: the text, and what a gate found in it, if anything."""

    text: str
    found: str = ""


def judged(heard: Heard, answer: str, reference: str | None) -> str | None:
    """What is wrong with it, in a sentence; None: nothing."""
    if heard.found:
        return f"a gate found {heard.found} in its answer {heard.text!r}"
    if not heard.text.strip():
        return "its answer is empty"
    if answer and answer.casefold() not in heard.text.casefold():
        return f"its answer {heard.text!r} has no {answer!r} in it"
    if reference is not None and not _agree(heard.text, reference):
        return f"its answer {heard.text!r} does not begin as the first one did, {reference!r}"
    return None


def _agree(text: str, reference: str) -> bool:
    common = 0
    for one, other in zip(text, reference, strict=False):
        if one != other:
            break
        common += 1
    return common >= _AGREEMENT * len(reference)


async def _hear(engine: Engine, prompt: str) -> Heard:
    sampling = Sampling(temperature=0.0, max_tokens=TOKENS)
    ids = await engine.prompt_token_ids(GenerationJob(prompt=prompt, sampling=sampling))
    rules, info = profile("chat"), engine.info
    gates = streaming_gates(
        rules,
        vocabulary_size=info.vocabulary_size,
        denied=info.denied,
        outside=not info.sentinels,
    )
    transcript = Transcript(lambda: engine.detokenizer(ids), StopStrings(()))
    async with aclosing(engine.stream(_segment(ids, sampling, rules))) as pieces:
        async for piece in pieces:
            ended = piece.finish_reason == "stop"
            last = piece.token_ids[-1] if ended and piece.token_ids else None
            spoken = piece.token_ids[: len(piece.token_ids) - (last is not None)]
            for index, token in enumerate(spoken):
                logprob = piece.logprobs[index] if index < len(piece.logprobs) else None
                finding = gates.feed(transcript.add(token, logprob))
                if finding is not None and finding.level <= Level.TEXT:
                    return Heard(transcript.text, finding.flaw.value)
            if last is not None and (signal := signal_of(last, info.sentinels)) is not None:
                return Heard(transcript.text, FLAWS[signal][1].value)
    return Heard(transcript.text)


def _segment(ids: tuple[int, ...], sampling: Sampling, rules: Profile) -> Segment:
    # An answer that is as good as certain is what is asked for here.
    gates = structs.replace(
        rules.engine_gates(max_tokens=TOKENS),
        few_candidates_edge=0,
        few_candidates_middle=0,
        confidence_window=0,
    )
    return Segment(
        request_id=f"canary:{secrets.token_hex(4)}",
        prompt_token_ids=ids,
        sampling=sampling,
        seed=0,
        gates=gates,
        # What was remembered of an earlier run proves nothing, and might be what is wrong.
        fresh_cache=True,
    )
