"""An attempt that is handed from worker to worker: a session each, with the broker left out."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sluicegate.producer.subscription import Delivery
from sluicegate.rollback import default_retry_table
from sluicegate.schemas import GenerationJob, Names, Progress, Sampling, decode, encode
from sluicegate.worker.endings import Ending, Interrupted, Report
from sluicegate.worker.engine import Engine, Piece, Segment
from sluicegate.worker.gating import Gating
from sluicegate.worker.publications import Identity, Settlement, Verb
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.session import GenerationSession
from sluicegate.worker.settlement import Moment, plan

WHO = Identity(worker="w", model="scripted", names=Names("relay.v1"))
WAIT_S = 20
NACKED = ""


class Stalling:
    """An engine that stands still after so many pieces, all requests together, so that the session
    on it can be stopped right there. `slow`: it takes a while to abort a request, so that a session
    can be stopped in the middle of a decision, too, behind the piece of that number."""

    def __init__(self, engine: Engine, pieces: int | None, *, slow: bool = False) -> None:
        self._engine = engine
        self._left = pieces
        self._slow = slow
        self.stands = asyncio.Event()
        self.segments: list[Segment] = []
        self.info = engine.info
        self.prompt_token_ids = engine.prompt_token_ids
        self.detokenizer = engine.detokenizer
        self.encode = engine.encode

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        self.segments.append(segment)
        try:
            async for piece in self._engine.stream(segment):
                if self._left is not None:
                    if not self._left:
                        await self._stand()
                    self._left -= 1
                yield piece
        finally:
            if self._slow and self._left == 0 and not self.stands.is_set():
                await self._stand()

    async def _stand(self) -> None:
        self.stands.set()
        await asyncio.sleep(WAIT_S)


@dataclass
class Relay:
    """What came of it: the reports of all sessions, what a client was sent, and what was asked of
    the engines."""

    ending: Ending | None = None
    reports: list[Report] = field(default_factory=list[Report])
    released: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])
    segments: list[Segment] = field(default_factory=list[Segment])
    handed: list[Progress] = field(default_factory=list[Progress])
    nacked: int = 0
    started_over: list[str] = field(default_factory=list[str])

    @property
    def last(self) -> Report:
        return self.reports[-1]

    def told(self, channel: str) -> str:
        """What a client has of it. Nothing comes twice, but where nothing was handed on."""
        text, again = "", False
        for kind, offset, piece in self.released:
            if kind == NACKED:
                again = True
            elif kind == channel:
                assert offset <= len(text) if again else offset == len(text), (offset, text)
                text, again = text[:offset] + piece, False
        return text


async def relay(
    job: GenerationJob,
    engine: Callable[[], ScriptedEngine],
    stops: Sequence[int] = (),
    *,
    slow: bool = False,
    gating: Gating | None = None,
    stream: bool = True,
) -> Relay:
    """Run an attempt; the first workers are stopped after so many pieces each, the last is not."""
    done = Relay()
    for pieces in (*stops, None):
        inner = engine()
        await inner.open()
        stalling = Stalling(inner, pieces, slow=slow)
        session = GenerationSession(
            job,
            stalling,  # type: ignore[arg-type]  an engine but for its life
            worker="w",
            nonce="n",
            gating=gating,
            release=(lambda at, text: done.released.append(("content", at, text)))
            if stream
            else None,
            release_reasoning=(lambda at, text: done.released.append(("reasoning", at, text)))
            if stream
            else None,
            on_start_over=done.started_over.append,
        )
        running = asyncio.create_task(session.run())
        standing = asyncio.create_task(stalling.stands.wait())
        await asyncio.wait([running, standing], return_when=asyncio.FIRST_COMPLETED)
        standing.cancel()
        done.segments += stalling.segments
        if running.done():
            done.ending = running.result()
            done.reports.append(session.report(done.ending, None))
            return done
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        done.reports.append(session.report(Interrupted("stops"), None))
        settlement = settled(job, done.last)
        if settlement.verb is Verb.NACK:
            done.nacked += 1
            done.released.append((NACKED, 0, ""))
            continue
        (copy,) = settlement.publications
        assert isinstance(copy.message, GenerationJob)
        job = decode(encode(copy.message), GenerationJob)
        assert job.progress is not None
        done.handed.append(job.progress)
    raise AssertionError("the last one is not stopped")


def plain_job() -> GenerationJob:
    """One with nothing to it."""
    return GenerationJob(id="j", prompt="go", sampling=Sampling(max_tokens=2000))


def settled(job: GenerationJob, report: Report) -> Settlement:
    """What is planned for a first delivery."""
    moment = Moment(datetime.now(UTC), 0.5)
    return plan(WHO, job, _delivery(), report, default_retry_table(), moment)


def _delivery() -> Delivery:
    class _First:
        times_returned = 0

    return _First()  # type: ignore[return-value]  nothing else is asked
