"""The handle of one job: its result, its events, and calling it off."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from ..schemas.events import JobEvent, Judged
from ..schemas.results import GenerationResult
from ..schemas.verdicts import Verdict
from .inbox import Inbox
from .ledger import Slot

RESULT_TIMEOUT_S: Final = 600.0
VERDICT_TIMEOUT_S: Final = 60.0


class Handle:
    """What `publish` gives back. Keep it for as long as the result matters.

    When the last handle of a job is dropped, its result goes to `Producer.results()` instead.
    """

    def __init__(self, slot: Slot, inbox: Inbox, cancel: Callable[[str], Awaitable[bool]]) -> None:
        self._slot = slot
        self._inbox = inbox
        self._cancel = cancel

    def __repr__(self) -> str:
        state = "result here" if self.done else "waiting"
        return f"<Handle {self.job_id}: {state}>"

    @property
    def job_id(self) -> str:
        return self._slot.job_id

    @property
    def done(self) -> bool:
        """Whether `result()` would answer at once."""
        return self._slot.arrived.is_set()

    @property
    def events_dropped(self) -> int:
        """Events that came but had to go, unread, because there were too many."""
        return self._slot.events.dropped

    async def result(self, timeout: float | None = RESULT_TIMEOUT_S) -> GenerationResult:
        """The job's outcome, whatever it is: look at `.ok` or `.outcome`.

        `timeout` in seconds; None waits for ever. The broker is told that the result was received
        when the first waiter gets it, not before. May be called again, and by many at once.

        Raises ResultTimeout (the result can still arrive: call again), ResultUnreadable,
        ProducerClosed.
        """
        return await self._inbox.wait(self._slot, timeout)

    def receive(
        self, timeout: float | None = RESULT_TIMEOUT_S
    ) -> AbstractAsyncContextManager[GenerationResult]:
        """The result for as long as it takes to put it somewhere safe.

        `async with handle.receive() as result: await save(result)` tells the broker that it was
        received only when the body has ended without an error; after an error, or the death of
        this process, it comes again. Errors as `result`.
        """
        return self._inbox.receive(self._slot, timeout)

    def events(self) -> AsyncIterator[JobEvent]:
        """What happens to the job, from the moment it was published.

        Ends after "finished", or a second after the result has arrived. Events are best effort:
        an outage, or reading too slowly, loses some; `seq` and the `offset` of a delta show the
        gap. Text comes in deltas only for a job with `stream=True`. What a model thinks before it
        answers comes so, too: a delta's `channel` tells "reasoning" from "content", the answer,
        and `offset` counts in each by itself.
        """
        return self._follow()

    async def _follow(self) -> AsyncGenerator[JobEvent]:
        # A generator of its own holds this handle, and so the events, for as long as it is read.
        async for event in self._slot.events.follow():
            yield event

    async def verdict(self, timeout: float | None = VERDICT_TIMEOUT_S) -> Verdict | None:
        """The checker's verdict on the text of a job with `checks="observe"`, which comes after its
        result. None where none came within `timeout` seconds: it is an event, and so best effort.

        With `checks="block"` the verdict is in the result, on the last attempt of its lineage.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                async for event in self._slot.events.follow(beyond=True):
                    if isinstance(event.event, Judged):
                        return event.event.verdict
        return None

    async def cancel(self) -> bool:
        """Call the job off; True when that is on record at the broker.

        Then `result()` answers within about a second, with the outcome "cancelled": by whoever ran
        the job, whose request to the engine is aborted; or by this process where nobody ran it. In
        that case no engine time is spent on it when its turn comes, and what still comes of it is
        dropped. A result that was here first stays what it is. False where the broker has no log
        of cancellations (`sluice topology apply`): then nothing is called off. Errors as
        `Producer.publish`.
        """
        return await self._cancel(self.job_id)
