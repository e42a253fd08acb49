"""An engine without a model, for tests of systems that use sluicegate.

A token is a byte of UTF-8. What it answers is a function of the job: by default the last user
message comes back word by word. The behaviour is that of the real engine where it can be seen from
outside: deltas, half characters held back, limits, resumed answers, aborts, death.
"""

import asyncio
import codecs
from collections.abc import AsyncGenerator, Callable
from typing import Final

from ..guards.reasoning.tags import make_tags
from ..schemas import FinishReason, GenerationJob, InvalidMessage, Reason
from .engine import Detokenizer, EngineDead, EngineInfo, EngineUnavailable, Piece, Segment

# No byte, and what an answer ends with.
END_OF_TEXT: Final = 256

Script = Callable[[Segment, str], str]


def echo(_segment: Segment, prompt: str) -> str:
    """Answer with the prompt itself."""
    return prompt


class ScriptedEngine:
    """Answers by a script, `chunk` bytes a step, `step_s` seconds between steps.

    `script` gets the segment and the prompt's text and returns the answer. An exception that it
    raises is raised where the real engine would raise it.
    """

    def __init__(
        self,
        script: Script = echo,
        *,
        chunk: int = 4,
        step_s: float = 0.0,
        max_model_len: int = 8192,
        model: str = "scripted",
        tags: tuple[str, str] | None = None,
        always_thinks: bool = False,
    ) -> None:
        """`tags`: what opens and closes reasoning in its answers, if they have any."""
        self._script = script
        self._chunk = chunk
        self._step_s = step_s
        self._info = EngineInfo(
            model=model,
            version="scripted",
            max_model_len=max_model_len,
            vocabulary_size=END_OF_TEXT,
            tags=make_tags(*tags, str.encode, ()) if tags is not None else None,
            always_thinks=always_thinks,
        )
        self._open = False
        self._death: asyncio.Event | None = None
        self.running: set[str] = set()

    @property
    def info(self) -> EngineInfo:
        """The same open or not."""
        return self._info

    async def open(self) -> EngineInfo:
        """Ready at once."""
        if self._open:
            raise EngineUnavailable("this engine is open already")
        self._open = True
        self._death = asyncio.Event()
        return self._info

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        """The prompt's bytes; of a conversation, those of the last message."""
        if job.prompt_token_ids is not None:
            return job.prompt_token_ids
        text = job.messages[-1].content if job.messages else job.prompt or ""
        return tuple(text.encode())

    def die(self) -> None:
        """Fail as an engine does whose process was killed: every request, and all later ones."""
        if self._death is not None:
            self._death.set()

    def detokenizer(self, prompt_token_ids: tuple[int, ...]) -> Detokenizer:
        """One for UTF-8."""
        del prompt_token_ids
        return _Utf8()

    def encode(self, text: str) -> tuple[int, ...]:
        """The bytes."""
        return tuple(text.encode())

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """Pieces of the script's answer, from where the carried tokens leave off."""
        self._admit(segment)
        asked = len(segment.prompt_token_ids) - segment.carried
        prompt = bytes(segment.prompt_token_ids[:asked]).decode(errors="replace")
        answer = self._script(segment, prompt).encode()[segment.carried :]
        self.running.add(segment.request_id)
        try:
            async for piece in self._steps(segment, answer):
                yield piece
        finally:
            self.running.discard(segment.request_id)

    async def health(self) -> None:
        """Raises EngineDead after `die` and before `open`."""
        if not self._open or (self._death is not None and self._death.is_set()):
            raise EngineDead("the scripted engine is not running")

    async def close(self) -> None:
        """Nothing to give back."""
        self.die()
        self._open = False

    def _admit(self, segment: Segment) -> None:
        if not self._open or self._death is None or self._death.is_set():
            raise EngineDead("the scripted engine is not running")
        if not segment.prompt_token_ids:
            raise InvalidMessage(Reason.EMPTY_PROMPT, "$.prompt", "there are no tokens in it")
        if len(segment.prompt_token_ids) >= self._info.max_model_len:
            raise InvalidMessage(
                Reason.PROMPT_TOO_LONG,
                "$.prompt",
                f"has {len(segment.prompt_token_ids)} tokens, "
                f"the model's context is {self._info.max_model_len}",
            )
        if (worst := max(segment.prompt_token_ids)) > 255:
            raise InvalidMessage(
                Reason.UNSUPPORTED, "$.prompt_token_ids", f"token {worst} is out of vocabulary"
            )

    async def _steps(self, segment: Segment, answer: bytes) -> AsyncGenerator[Piece, None]:
        room = self._info.max_model_len - len(segment.prompt_token_ids)
        limit = min(segment.sampling.max_tokens, room)
        sent = 0
        while True:
            if await self._died_within(self._step_s):
                raise EngineDead("the scripted engine died")
            step = answer[sent : min(sent + self._chunk, limit)]
            sent += len(step)
            reason: FinishReason | None = None
            ids = tuple(step)
            if sent >= limit:
                reason = "length"
            elif sent >= len(answer):
                reason = "stop"
                ids = (*ids, END_OF_TEXT)
            yield Piece(token_ids=ids, finish_reason=reason)
            if reason is not None:
                return

    async def _died_within(self, seconds: float) -> bool:
        assert self._death is not None  # noqa: S101 - _admit has seen it
        if seconds <= 0:
            await asyncio.sleep(0)
            return self._death.is_set()
        try:
            async with asyncio.timeout(seconds):
                await self._death.wait()
        except TimeoutError:
            return False
        return True


class _Utf8:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def step(self, token_id: int) -> str:
        return self._decoder.decode(bytes([token_id])) if token_id < END_OF_TEXT else ""
