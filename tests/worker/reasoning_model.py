"""Attempts of models that think: a session on a scripted engine, with all that it asked and told.

The engine has bytes for tokens, or bytes and a few tokens of its own: wide ones, special ones that
are tags by their id, silent ones, sentinels.
"""

import codecs
from collections.abc import AsyncGenerator, Callable, Container, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import msgspec
from sluicegate.guards.reasoning.tags import make_tags
from sluicegate.schemas import (
    AttemptRecord,
    FinishReason,
    GenerationJob,
    InvalidMessage,
    Reason,
    ReasoningRecord,
    Sampling,
)
from sluicegate.worker.endings import Answered, Ending, Report
from sluicegate.worker.engine import Detokenizer, Piece, Segment
from sluicegate.worker.gating import Gating
from sluicegate.worker.manuscript import Manuscript
from sluicegate.worker.scripted import END_OF_TEXT, Script, ScriptedEngine
from sluicegate.worker.session import GenerationSession

START, END = "<think>", "</think>"
WRAP_UP = "Enough."
# Nothing in it comes twice.
THOUGHT = (
    "The train leaves at nine and takes four hours. Lunch would be at one, then. "
    "A window seat is what she asked for."
)
UNIT = " So it goes round once more, as it did before."
ANSWER = "Take the train at nine."
# No attempt has more requests.
_MOST_SEGMENTS: Final = 64

# The ids of the whole output, those that were carried over included.
IdScript = Callable[[Segment], Sequence[int]]


class WordEngine(ScriptedEngine):
    """Bytes, and the tokens in `words`. `special` ones are what `encode` makes of their text, and
    tell the tags if these are made of them; `silent` ones have no text when they come."""

    def __init__(
        self,
        script: IdScript,
        words: Mapping[int, str],
        *,
        special: Container[int] = (),
        silent: Container[int] = (),
        shown: Mapping[int, str] | None = None,
        sentinels: tuple[int, ...] = (),
        chunk: int = 4,
        max_model_len: int = 8192,
        always_thinks: bool = False,
    ) -> None:
        """`shown`: the text of a special token when it comes, where that is not what it encodes."""
        super().__init__(chunk=chunk, max_model_len=max_model_len, always_thinks=always_thinks)
        self._ids = script
        self._special = {text: token for token, text in words.items() if token in special}
        said = {token: text for token, text in words.items() if token not in silent}
        self._words = said | {token: text for token, text in (shown or {}).items() if token in said}
        self._info = msgspec.structs.replace(
            self._info,
            vocabulary_size=1000,
            tags=make_tags(START, END, self.encode, special),
            sentinels=sentinels,
        )

    def encode(self, text: str) -> tuple[int, ...]:
        ids: list[int] = []
        at = 0
        while at < len(text):
            word = next((word for word in self._special if text.startswith(word, at)), "")
            ids += [self._special[word]] if word else text[at].encode()
            at += len(word) or 1
        return tuple(ids)

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        return job.prompt_token_ids or self.encode(job.prompt or "")

    def detokenizer(self, prompt_token_ids: tuple[int, ...]) -> Detokenizer:
        del prompt_token_ids
        return _Detokenizer(self._words)

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        room = self._info.max_model_len - len(segment.prompt_token_ids)
        if room <= 0:
            raise InvalidMessage(Reason.PROMPT_TOO_LONG, "$.prompt", "is too long")
        ids = tuple(self._ids(segment))[segment.carried :]
        limit = min(segment.sampling.max_tokens, room)
        sentinels = self._info.sentinels
        ended = next((at + 1 for at, token in enumerate(ids) if token in sentinels), 0)
        ids = ids[:ended] if ended else (*ids, END_OF_TEXT)
        finish: FinishReason = "stop" if len(ids) <= limit else "length"
        ids = ids[:limit]
        for at in range(0, len(ids), self._chunk):
            last = at + self._chunk >= len(ids)
            step = ids[at : at + self._chunk]
            yield Piece(token_ids=step, finish_reason=finish if last else None)


class _Detokenizer:
    def __init__(self, words: Mapping[int, str]) -> None:
        self._words = words
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def step(self, token_id: int) -> str:
        if token_id < END_OF_TEXT:
            return self._decoder.decode(bytes([token_id]))
        return self._words.get(token_id, "")


class Run:
    """One session, with all that it released and asked for."""

    def __init__(
        self,
        job: GenerationJob,
        script: Script | ScriptedEngine,
        *,
        gating: Gating | None = None,
        chunk: int = 4,
        always_thinks: bool = False,
        max_model_len: int = 8192,
    ) -> None:
        """The settings of the engine are for a script; an engine has its own."""
        self.job = job
        self.segments: list[Segment] = []
        # What the engine made of each, behind what was carried over.
        self.made: list[list[int]] = []
        self.released: list[tuple[str, int, str]] = []
        self.ending: Ending | None = None
        self.engine = (
            script
            if isinstance(script, ScriptedEngine)
            else ScriptedEngine(
                script,
                tags=(START, END),
                chunk=chunk,
                always_thinks=always_thinks,
                max_model_len=max_model_len,
            )
        )
        self._gating = gating or Gating(wrap_up=WRAP_UP)

    async def go(self, *, stream: bool = True) -> Report:
        await self.engine.open()
        inner = self.engine.stream

        async def seen(segment: Segment) -> AsyncGenerator[Piece, None]:
            assert len(self.segments) < _MOST_SEGMENTS, "it ends"
            self.segments.append(segment)
            self.made.append([])
            async with aclosing(inner(segment)) as pieces:
                async for piece in pieces:
                    self.made[-1] += piece.token_ids
                    yield piece

        self.engine.stream = seen
        session = GenerationSession(
            self.job,
            self.engine,
            worker="w",
            nonce="n",
            gating=self._gating,
            release=(lambda at, text: self.released.append(("content", at, text)))
            if stream
            else None,
            release_reasoning=(lambda at, text: self.released.append(("reasoning", at, text)))
            if stream
            else None,
        )
        self.ending = await session.run()
        self._written: Manuscript | None = vars(session)["_manuscript"]
        self.report = session.report(self.ending, None)
        self.check_stream(stream=stream)
        return self.report

    def told(self, channel: str) -> str:
        return "".join(text for kind, _, text in self.released if kind == channel)

    def check_stream(self, *, stream: bool) -> None:
        """Nothing is taken back, nothing is out of order, and the reasoning comes first."""
        for channel in ("reasoning", "content"):
            whole = self.told(channel)
            at = 0
            for kind, offset, text in self.released:
                if kind == channel:
                    assert offset == at
                    at += len(text)
            said = self.report.text if channel == "content" else self.report.reasoning or ""
            assert said.startswith(whole)
            if stream and isinstance(self.ending, Answered):
                assert whole == said
        kinds = [kind for kind, _, _ in self.released]
        assert kinds == sorted(kinds, reverse=True)

    @property
    def record(self) -> AttemptRecord:
        return self.report.record

    @property
    def thought(self) -> ReasoningRecord:
        assert self.record.reasoning is not None
        return self.record.reasoning

    @property
    def written(self) -> Manuscript:
        assert self._written is not None
        return self._written

    def sent(self, segment: int) -> str:
        """What the engine was given to go on from, as text."""
        asked = self.segments[segment]
        return bytes(asked.prompt_token_ids).decode()


def job(prompt: str = "q " + START, **more: object) -> GenerationJob:
    sampling = more.pop("sampling", None) or Sampling(max_tokens=2000)
    return GenerationJob(id="j", prompt=prompt, sampling=sampling, **more)  # type: ignore[arg-type]


def thinks(thought: str, answer: str = ANSWER) -> Script:
    """A model that goes on thinking until its block is closed."""

    def script(segment: Segment, prompt: str) -> str:
        so_far = said(segment)
        if END in so_far:
            return so_far + answer
        return thought

    return script


def carried(segment: Segment) -> list[int]:
    """What was accepted, or put in, behind the prompt."""
    return list(segment.prompt_token_ids[len(segment.prompt_token_ids) - segment.carried :])


def said(segment: Segment) -> str:
    """Its bytes, as text."""
    return bytes(token for token in carried(segment) if token < END_OF_TEXT).decode(
        errors="replace"
    )


def is_banned(segment: Segment) -> bool:
    """Whether some token is banned in it."""
    return segment.gates is not None and bool(segment.gates.bans)
