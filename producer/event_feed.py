"""Events from the broker: a passing queue of this process alone, best effort."""

import logging
import secrets
from collections.abc import Callable
from typing import Any, Final

from aio_pika.abc import AbstractRobustConnection

from ..schemas.codec import decode
from ..schemas.control import CancelJob
from ..schemas.errors import InvalidMessage
from ..schemas.events import JobEvent
from ..schemas.topology import Names
from . import declare
from .errors import BrokerError
from .subscription import Delivery, Subscription

log = logging.getLogger(__name__)

STEP_TIMEOUT_S: Final = 10.0
# Nobody may pile up events at the broker: the oldest go.
QUEUE_LENGTH: Final = 100_000


class EventFeed:
    """Consumes the events whose routing key matches `pattern`, and hands each to `on_event`.

    The queue is exclusive: it goes with the connection, and what happens during an outage is
    missed. `seq` and `offset` of the events show the gap. `on_cancel` hears each job that anybody
    calls off.
    """

    def __init__(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        pattern: str,
        on_event: Callable[[JobEvent], None],
        on_cancel: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._names = names
        self._pattern = pattern
        self._on_event = on_event
        self._on_cancel = on_cancel
        self._subscription = Subscription(
            connection,
            what=f"events of {pattern}",
            prepare=self._prepare,
            on_message=self._on_message,
            no_ack=True,
        )

    async def start(self, on_death: Callable[[BaseException], None]) -> None:
        """Return when events come in; from here on none is missed while the connection stands.

        Raises AccessRefused, TopologyMissing, BrokerUnreachable.
        """
        await self._subscription.start(on_death)

    async def stop(self) -> None:
        await self._subscription.stop()

    async def _prepare(self) -> str:
        # A fresh name each time: the broker may not have noticed yet that the old owner is gone.
        name = f"{self._names.events}.{secrets.token_hex(8)}"
        arguments: dict[str, Any] = {"x-max-length": QUEUE_LENGTH}
        async with declare.one_channel(self._connection, STEP_TIMEOUT_S) as channel:
            with declare.explained(f"queue {name!r} for events"):
                await channel.queue_declare(
                    queue=name, exclusive=True, auto_delete=True, arguments=arguments
                )
                await channel.queue_bind(
                    queue=name, exchange=self._names.events, routing_key=self._pattern
                )
        if self._on_cancel is not None:
            await self._hear_cancellations(name)
        return name

    async def _hear_cancellations(self, name: str) -> None:
        """Where this user may not, whoever waits for a job that another calls off is answered when
        its turn comes, and no sooner."""
        try:
            async with declare.one_channel(self._connection, STEP_TIMEOUT_S) as channel:
                with declare.explained(f"exchange {self._names.control!r}"):
                    await channel.queue_bind(queue=name, exchange=self._names.control)
        except BrokerError as error:
            log.debug("cancellations are not heard: %s", error)

    def _on_message(self, delivery: Delivery) -> None:
        if delivery.message.exchange == self._names.control:
            self._hear(delivery)
            return
        try:
            event = decode(delivery.body, JobEvent)
        except InvalidMessage as error:
            log.debug("an event can't be read: %s", error)
            return
        self._on_event(event)

    def _hear(self, delivery: Delivery) -> None:
        try:
            message = decode(delivery.body, CancelJob)
        except InvalidMessage as error:
            log.debug("no cancellation: %s", error)
            return
        if self._on_cancel is not None:
            self._on_cancel(message.job_id)
