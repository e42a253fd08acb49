"""A contender's worker in a process of its own: `python -m tests.proof.losing_worker llmq`.

The engine is a stand-in that takes its time, and fails under every prompt with FAILING in it. Each
answer that it begins is a line in a file. The rest is the contender's own code.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import aio_pika
from sluicegate.schemas import GenerationJob, Names
from sluicegate.worker.config import Config
from sluicegate.worker.engine import EngineError, Piece, Segment
from sluicegate.worker.frame import until_signalled
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker

from . import arm_llmq, arm_plain
from .contender import GATED, LLMQ, PLAIN, Came

FAILING: Final = "fails"
ANSWER: Final = "An answer to: "
URL, NAMESPACE, BEGUN = "LOSSES_URL", "LOSSES_NAMESPACE", "LOSSES_BEGUN"
SLOTS: Final = 4
_TAKES_S: Final = 0.4


class Stand:
    """Makes each text, in its time. Raises EngineError for what it can't."""

    def __init__(self, begun: Path) -> None:
        self._begun = begun

    async def text(self, prompt: str) -> str:
        """The answer to a prompt."""
        with self._begun.open("a", encoding="utf-8") as file:
            file.write(f"{prompt}\n")
        await asyncio.sleep(_TAKES_S)
        if FAILING in prompt:
            raise EngineError("the engine fails under this prompt")
        return ANSWER + prompt


class StandEngine(ScriptedEngine):
    """The same, as an engine of ours."""

    def __init__(self, stand: Stand) -> None:
        super().__init__(chunk=1_000)
        self._stand = stand

    async def stream(self, segment: Segment) -> AsyncGenerator[Piece, None]:
        """Pieces of the answer."""
        asked = len(segment.prompt_token_ids) - segment.carried
        await self._stand.text(bytes(segment.prompt_token_ids[:asked]).decode())
        async for piece in super().stream(segment):
            yield piece


async def _plain(url: str, names: Names, stand: Stand) -> None:
    async def answer(job: GenerationJob) -> Came:
        return Came(text=await stand.text(job.prompt or ""))

    async with await aio_pika.connect_robust(url) as connection:
        await arm_plain.serve(connection, names, SLOTS, answer)
        await asyncio.Event().wait()


async def _llmq(url: str, names: Names, stand: Stand) -> None:
    async def text_of(job: GenerationJob) -> str:
        return await stand.text(job.prompt or "")

    await arm_llmq.worker(f"{names.namespace}.llmq", SLOTS, url, text_of).run()


async def _gated(url: str, names: Names, stand: Stand) -> None:
    # Faults of an engine that a job is given up after: 5 by default, for up to ten minutes.
    rules = Path(os.environ[BEGUN]).with_name("retry.toml")
    rules.write_text("[limits]\nfaults = 2\n", encoding="utf-8")
    config = Config(
        amqp_url=url,
        namespace=names.namespace,
        engine="scripted",
        metrics_port=0,
        lanes=f"interactive={SLOTS}",
        canary_prompt="",
        retry_file=str(rules),
    )
    await until_signalled(Worker(config, StandEngine(stand)))


_WORKERS: Final = {PLAIN: _plain, LLMQ: _llmq, GATED: _gated}


def main() -> None:
    """The contender that the first argument names."""
    stand = Stand(Path(os.environ[BEGUN]))
    work = _WORKERS[sys.argv[1]]
    asyncio.run(work(os.environ[URL], Names(os.environ[NAMESPACE]), stand))


if __name__ == "__main__":
    main()
