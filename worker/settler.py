"""Carries settlements out, in one order: publish, wait for the confirmations, settle the delivery.

Nowhere else is a delivery settled.
"""

import asyncio
import logging
import time
from typing import Final

import msgspec

from ..producer.confirms import ConfirmedPublisher
from ..producer.errors import BrokerError, Unroutable
from ..producer.subscription import Delivery
from ..schemas import DeadLetter, GenerationResult, InvalidMessage, encode
from ..schemas.codec import tag_of
from .metrics import SETTLED, UNCHECKED
from .observing import observe_publication
from .publications import (
    Identity,
    Publication,
    Settlement,
    Verb,
    reduced,
    undeliverable,
)

log = logging.getLogger(__name__)

# Between tries of what can't work right now: no rights, no topology, a full queue.
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0


class Settler:
    """Publishes and settles. Never raises for what the broker did; it says how it went."""

    def __init__(
        self, publisher: ConfirmedPublisher, who: Identity, *, publish_timeout_s: float
    ) -> None:
        self._publisher = publisher
        self._who = who
        self._publish_timeout_s = publish_timeout_s

    async def settle(self, settlement: Settlement, deliveries: list[Delivery]) -> Settlement:
        """Publish, then settle every delivery in the list, those that join meanwhile included.

        Gives the settlement as far as it got: what was published is marked as sent. Where not all
        of it could be in time, the deliveries went back to the queue. That is the last resort:
        brokers before 4.3 count it against the job.
        """
        done, verb = await self._publish_somehow(settlement)
        if verb is Verb.DISCARD and self._who.secrecy.hides:
            # The broker would keep the body as it is among the dead letters, texts and all.
            verb = Verb.ACK
        if verb is Verb.REJECT:
            # An engine that fails for a second should not fail every job it is offered.
            returned = max((delivery.times_returned for delivery in deliveries), default=0)
            await asyncio.sleep(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**returned))
        while deliveries:
            await self._say(deliveries.pop(), verb)
        return done

    async def _publish_somehow(self, settlement: Settlement) -> tuple[Settlement, Verb]:
        """What became of it, and what to say about the delivery."""
        try:
            try:
                done = await self._publish_all(settlement)
            except InvalidMessage as error:
                log.warning("the outcome can't be published as it is: %s", error)
                done = await self._publish_all(reduced(settlement, error))
        except Exception:
            # A fault of ours, and this job's alone. The delivery limit ends it in the dead letters.
            log.exception("the outcome can't be published")
            return settlement, Verb.REJECT
        return done, done.verb if done.sent else Verb.NACK

    async def _publish_all(self, settlement: Settlement) -> Settlement:
        sent: list[Publication] = []
        for publication in settlement.publications:
            if not publication.sent and not await self._in_time(publication):
                break
            sent.append(msgspec.structs.replace(publication, sent=True))
        rest = settlement.publications[len(sent) :]
        return msgspec.structs.replace(settlement, publications=(*sent, *rest))

    async def _in_time(self, publication: Publication) -> bool:
        """Whether it is published, or was given up because it may be."""
        pause_s = _FIRST_PAUSE_S
        give_up = time.monotonic() + self._publish_timeout_s
        while True:
            try:
                await self._publish(publication)
            except InvalidMessage as error:
                if not publication.optional:
                    raise
                return _dropped(error)
            except BrokerError as error:
                if time.monotonic() + pause_s < give_up:
                    log.info("the outcome can't be published yet: %s", error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                    continue
                if publication.optional:
                    return _dropped(error)
                log.warning("the outcome can't be published, the job goes back: %s", error)
                return False
            return True

    async def _publish(self, publication: Publication) -> None:
        try:
            await self._send(publication)
        except Unroutable as error:
            result = publication.message
            if not isinstance(result, GenerationResult):
                raise
            log.warning("nobody takes this result, it goes to the dead letters: %s", error)
            await self._send(undeliverable(self._who, publication, result))

    async def _send(self, publication: Publication) -> None:
        message = publication.message
        if isinstance(message, DeadLetter):
            # Compressing and sealing megabytes takes a while.
            message = await asyncio.to_thread(self._who.secrecy.letter, message)
        await self._publisher.publish(
            publication.exchange,
            publication.routing_key,
            encode(message),
            kind=tag_of(type(message)),
            correlation_id=publication.correlation_id,
            headers=dict(publication.headers),
            expiration_s=publication.expiration_s,
            timeout_s=self._publish_timeout_s,
        )
        observe_publication(publication)

    async def _say(self, delivery: Delivery, verb: Verb) -> None:
        match verb:
            case Verb.ACK:
                said = await delivery.ack()
            case Verb.NACK:
                said = await delivery.nack()
            case Verb.REJECT | Verb.DISCARD:
                said = await delivery.reject(requeue=verb is Verb.REJECT)
        if not said:
            # Its channel is gone, and the broker has put it back already; the redelivery is
            # answered from what is remembered of this attempt.
            log.info("%r could not be settled, the broker delivers it again", delivery)
        SETTLED.labels(verb=verb.value if said else "lost").inc()


def _dropped(error: Exception) -> bool:
    log.warning("a text that was to be observed goes unchecked: %s", error)
    UNCHECKED.inc()
    return True
