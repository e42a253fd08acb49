"""The embedded model made to reason: its tokens forced as a test wants them, and one attempt
watched as a streaming client sees it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import Struct
from sluicegate.ops.faults import KEY, Fault, Orders, Strike
from sluicegate.schemas import AttemptRecord, GenerationJob, ReasoningRecord, TripRecord
from sluicegate.worker.endings import Answered, Report
from sluicegate.worker.engine import Detokenizer, Engine, EngineInfo, Piece, Segment
from sluicegate.worker.gating import Gating
from sluicegate.worker.session import GenerationSession

WRAP_UP: Final = "Enough."
Channel = Literal["reasoning", "content"]


class Forced(Orders):
    """Orders, and scripts: what a job's requests say, token by token."""

    def __init__(self) -> None:
        super().__init__()
        self._scripts: dict[str, tuple[tuple[int, ...], ...]] = {}
        self._at: dict[str, int] = {}

    def say(self, job_id: str, *requests: Sequence[int], at: int = 0) -> None:
        """The first request says the first of these, the second the second, each from its token
        `at` on; before and behind it, and where nothing is to be said, the model speaks for itself,
        or as ordered."""
        self._scripts[job_id] = tuple(map(tuple, requests))
        self._at[job_id] = at

    def __call__(self, segment: Segment) -> dict[str, Any]:
        """What to put into the request's `extra_args`."""
        job_id, _, _, number = segment.request_id.rsplit(":", 3)
        script = dict(enumerate(self._scripts.get(job_id, ())))
        if not (ids := script.get(int(number))):
            return super().__call__(segment)
        strike = Strike(kind=Fault.LOOP, at=self._at[job_id], length=len(ids), seed=0, ids=ids)
        return {KEY: msgspec.to_builtins(strike)}


class View:
    """A running engine as if its model had other tags, or brought `chunk` tokens at once. Keeps
    what it was asked for and what came."""

    def __init__(self, engine: Engine, *, chunk: int = 1, **info: Any) -> None:
        self._engine = engine
        self._chunk = chunk
        self._info = msgspec.structs.replace(engine.info, **info)
        self.segments: list[Segment] = []
        self.tokens: list[list[int]] = []

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def open(self) -> EngineInfo:
        return self._info

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        return await self._engine.prompt_token_ids(job)

    def detokenizer(self, prompt_token_ids: tuple[int, ...]) -> Detokenizer:
        return self._engine.detokenizer(prompt_token_ids)

    def encode(self, text: str) -> tuple[int, ...]:
        return self._engine.encode(text)

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        self.segments.append(segment)
        came: list[int] = []
        self.tokens.append(came)
        held: list[int] = []
        async with aclosing(self._engine.stream(segment)) as pieces:
            async for piece in pieces:
                held += piece.token_ids
                if piece.finish_reason is not None or len(held) >= self._chunk:
                    came += held
                    yield msgspec.structs.replace(piece, token_ids=tuple(held))
                    held = []

    async def health(self) -> None:
        await self._engine.health()

    async def close(self) -> None:
        """The engine is somebody else's."""

    def text_of(self, token_ids: Sequence[int]) -> str:
        return "".join(map(self.detokenizer(()).step, token_ids))


class Delta(Struct, frozen=True):
    """What a client was sent."""

    channel: Channel
    offset: int
    text: str


class SomeDelta(Protocol):
    """This one, or that of an event."""

    @property
    def channel(self) -> Channel: ...
    @property
    def offset(self) -> int: ...
    @property
    def text(self) -> str: ...


class Watched(Struct, frozen=True):
    """One attempt from outside."""

    report: Report
    view: View
    deltas: list[Delta]

    @property
    def record(self) -> AttemptRecord:
        return self.report.record

    @property
    def thought(self) -> ReasoningRecord:
        assert self.record.reasoning is not None
        return self.record.reasoning

    @property
    def trips(self) -> tuple[TripRecord, ...]:
        return self.record.trips

    @property
    def reasoning(self) -> str | None:
        return self.report.reasoning

    @property
    def answer(self) -> str:
        return self.report.text

    def kept(self, segment: int = 1) -> str:
        """What a segment had to go on from, behind the prompt."""
        asked = self.view.segments[segment]
        behind = len(asked.prompt_token_ids) - asked.carried
        return self.view.text_of(asked.prompt_token_ids[behind:])


async def watch(view: View, job: GenerationJob) -> Watched:
    """Run the job, streaming. It must end in an answer, and nothing is taken back."""
    deltas: list[Delta] = []
    session = GenerationSession(
        job,
        view,
        worker="w",
        nonce="n",
        gating=Gating(wrap_up=WRAP_UP),
        release=lambda at, text: deltas.append(Delta("content", at, text)),
        release_reasoning=lambda at, text: deltas.append(Delta("reasoning", at, text)),
    )
    ending = await session.run()
    watched = Watched(session.report(ending, None), view, deltas)
    assert isinstance(ending, Answered), (ending, watched.trips)
    assert watched.answer.strip()
    assert_seamless(deltas, watched.reasoning, watched.answer)
    usage = watched.report.usage
    assert usage.reasoning_tokens == watched.thought.tokens
    assert usage.completion_tokens + usage.wasted_tokens == sum(map(len, view.tokens))
    assert watched.thought.usage == usage
    return watched


def assert_seamless(deltas: Sequence[SomeDelta], reasoning: str | None, answer: str) -> None:
    """Deltas add up to what the result says, the reasoning before the answer."""
    told = {"reasoning": "", "content": ""}
    for delta in deltas:
        assert delta.text
        assert delta.offset == len(told[delta.channel]), "nothing is left out or sent again"
        told[delta.channel] += delta.text
    assert told == {"reasoning": reasoning or "", "content": answer}
    channels = [delta.channel for delta in deltas]
    assert channels == sorted(channels, reverse=True), "the reasoning comes first"
