"""What is told on the events exchange: what services say of themselves, and the turns of jobs."""

import logging
import secrets
from collections.abc import Callable
from typing import Any, Final

from aio_pika.abc import AbstractRobustConnection

from ..producer import declare
from ..producer.subscription import Delivery, Subscription
from ..schemas import InvalidMessage, JobEvent, Names, ServiceEvent, decode
from ..schemas.topology import SERVICES

log = logging.getLogger(__name__)

STEP_TIMEOUT_S: Final = 10.0
# Whoever looks away for a while loses the oldest, and the broker holds no more than this.
QUEUE_LENGTH: Final = 20_000
# The pieces of texts are not asked for: they are most of what is told.
KINDS: Final = ("finished", "retrying", "interrupted")


class Listener:
    """Hands on what it hears, from a queue that goes with the connection. What can't be read, a
    newer side's perhaps, is passed over."""

    def __init__(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        on_service: Callable[[ServiceEvent], None],
        on_job: Callable[[JobEvent], None],
    ) -> None:
        self._connection = connection
        self._names = names
        self._on_service = on_service
        self._on_job = on_job
        self._subscription = Subscription(
            connection,
            what="events for `sluice top`",
            prepare=self._prepare,
            on_message=self._on_message,
            no_ack=True,
        )

    async def start(self, on_death: Callable[[BaseException], None]) -> None:
        """Return when events come in. Raises AccessRefused, TopologyMissing, BrokerUnreachable."""
        await self._subscription.start(on_death)

    async def stop(self) -> None:
        await self._subscription.stop()

    async def _prepare(self) -> str:
        name = f"{self._names.events}.{secrets.token_hex(8)}"
        arguments: dict[str, Any] = {"x-max-length": QUEUE_LENGTH}
        async with declare.one_channel(self._connection, STEP_TIMEOUT_S) as channel:
            with declare.explained(f"queue {name!r} for events"):
                await channel.queue_declare(
                    queue=name, exclusive=True, auto_delete=True, arguments=arguments
                )
            with declare.explained(f"exchange {self._names.events!r}"):
                for key in (f"{SERVICES}.#", *(f"*.*.{kind}" for kind in KINDS)):
                    await channel.queue_bind(
                        queue=name, exchange=self._names.events, routing_key=key
                    )
        return name

    def _on_message(self, delivery: Delivery) -> None:
        # No reply key begins with an underscore, so the key tells which of both it is.
        of_service = (delivery.routing_key or "").startswith(f"{SERVICES}.")
        try:
            if of_service:
                self._on_service(decode(delivery.body, ServiceEvent))
            else:
                self._on_job(decode(delivery.body, JobEvent))
        except InvalidMessage as error:
            log.debug("an event can't be read: %s", error)
