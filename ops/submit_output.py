"""Results to standard output, in the order of the jobs, each as soon as its turn comes."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import BinaryIO

from ..producer.tasks import see_through
from ..schemas.codec import encode
from ..schemas.results import GenerationResult
from .submit_journal import outcome_of
from .submit_target import CantWrite


class OrderedOutput:
    """Holds back each result until all before it are out."""

    def __init__(self, order: Sequence[str], stream: BinaryIO) -> None:
        self._number = {job_id: number for number, job_id in enumerate(order)}
        self._stream = stream
        self._next = 0
        self._settled: set[int] = set()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self.outcomes: Counter[str] = Counter()

    def has(self, job_id: str) -> bool:
        """Whether this job's result is out."""
        return self._number[job_id] in self._settled

    async def append(self, result: GenerationResult) -> bool:
        """Return when the result is out: after all those before it."""
        number = self._number[result.job_id]
        if number != self._next:
            turn = self._waiting[number] = asyncio.get_running_loop().create_future()
            await turn
        # In a thread: a slow reader at the other end must not hold up the loop.
        await see_through(asyncio.to_thread(self._write, encode(result) + b"\n"))
        self.outcomes[outcome_of(result)] += 1
        self._settle(number)
        return True

    def skip(self, job_id: str) -> None:
        """There will be no result of this job: the next need not wait for it."""
        self._settle(self._number[job_id])

    def _settle(self, number: int) -> None:
        self._settled.add(number)
        while self._next in self._settled:
            self._next += 1
        turn = self._waiting.pop(self._next, None)
        if turn is not None and not turn.done():
            turn.set_result(None)

    def _write(self, line: bytes) -> None:
        try:
            self._stream.write(line)
            self._stream.flush()
        except BrokenPipeError:
            raise  # a reader who has had enough
        except OSError as error:
            raise CantWrite(
                f"can't write to standard output: {error.strerror or error}. With --out FILE, what "
                "is done stays done"
            ) from error
