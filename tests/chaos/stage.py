"""What the services of a run work with: a model by script, tools with an effect, a scorer without
an opinion."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from sluicegate.worker.engine import EngineError, Piece, Segment
from sluicegate.worker.scripted import ScriptedEngine

from ..worker.agent.troupe import answer, call, calls, script
from . import jobs

SLOW_S: Final = 1.5


def _play(number: int, _prompt: str) -> str:
    """An agent looks and puts, then pays, then is done."""
    match number:
        case 1:
            return calls(("look", {"what": "the bill"}), ("put", {"what": "the bill"}))
        case 2:
            return call("pay", what="the bill")
        case _:
            return answer(jobs.AGENT_TEXT)


_PLAYED: Final = script(_play)


def say(segment: Segment, prompt: str) -> str:
    """The answer to a prompt of `jobs.make`."""
    job, attempt = segment.request_id.split(":")[:2]
    kind = jobs.kind_in(job)
    if kind == "agent":
        return _PLAYED(segment, prompt)
    if kind is None:  # the canary
        return prompt
    text = jobs.text_in(job, int(attempt)) or ""
    if kind == "garbled" and not segment.carried:
        return f"{text[:24]}\x00\x00{text[24:]}"
    return text


class StageEngine(ScriptedEngine):
    """Takes its time over "slow" jobs. A `frail` one fails once under each of the "fault" ones."""

    def __init__(self, *, frail: bool) -> None:
        super().__init__(say, chunk=16, step_s=0.005, max_model_len=200_000)
        self._frail = frail
        self._failed: set[str] = set()

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """Pieces of the answer."""
        job = segment.request_id.split(":")[0]
        if job.startswith("slow-"):
            await asyncio.sleep(SLOW_S)
        if self._frail and job.startswith("fault-") and job not in self._failed:
            self._failed.add(job)
            raise EngineError("the engine fails under this prompt, once")
        async for piece in super().stream(segment):
            yield piece
