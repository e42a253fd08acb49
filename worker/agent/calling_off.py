"""The end of an agent job that is called off while it is under way: what runs for it is ended, and
its record says how far it had come."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ...producer.errors import BrokerError
from ...producer.subscription import Delivery
from ...schemas import AgentContext, InvalidMessage
from .. import logs
from ..cancellations import Cancellations
from ..publications import Settlement, Verb
from . import rounds
from .body import within_limit
from .carrier import Carrier
from .effects import NotOurs
from .final import close_open_calls
from .moves import called_off
from .patience import patiently
from .sites import Sites
from .step import Stepper

log = logging.getLogger(__name__)


class CallingOff:
    """Ends jobs that were called off. `cancel_generation` has a generation job called off; it
    raises BrokerError."""

    def __init__(
        self,
        stepper: Stepper,
        sites: Sites,
        carrier: Carrier,
        cancellations: Cancellations,
        cancel_generation: Callable[[str], Awaitable[object]],
        *,
        patience_s: float,
    ) -> None:
        self._stepper = stepper
        self._sites = sites
        self._carrier = carrier
        self._cancellations = cancellations
        self._cancel_generation = cancel_generation
        self._patience_s = patience_s

    def covers(self, context: AgentContext) -> bool:
        """Whether it was called off before its end was decided on. An end is told by whoever has
        the job, the same each time."""
        if context.orchestration.phase == "ending":
            return False
        return self._cancellations.covers(context.id, context.job.enqueued_at)

    async def end(self, context: AgentContext, deliveries: list[Delivery]) -> None:
        """End it, by its record, with what is known of the calls that ran. Raises NotOurs."""
        if not deliveries:  # handed on already: whoever gets it ends it
            return
        first = deliveries[0]
        try:
            with logs.about(context.id, context.job.attempt):
                await self._end_generation(context)
                known = within_limit(close_open_calls(await self._known(context, first)))
                await self._carrier.finish(called_off(known), deliveries)
        except asyncio.CancelledError:
            await self._carrier.settle(Settlement((), Verb.NACK), deliveries)
            raise
        except NotOurs:
            raise
        except BrokerError as error:
            log.warning("the broker is in the way, the job goes back: %s", error)
            await self._carrier.settle(Settlement((), Verb.NACK), deliveries)
        except Exception:
            log.exception("the job that was called off can't be ended")
            await self._carrier.settle(Settlement((), Verb.REJECT), deliveries)

    async def _known(self, context: AgentContext, first: Delivery) -> AgentContext:
        try:
            site = self._sites.of(context.job)
        except InvalidMessage:
            return context
        return await patiently(
            lambda _: self._stepper.cut_off(context, site, held=lambda: first.held),
            self._patience_s,
        )

    async def _end_generation(self, context: AgentContext) -> None:
        for job_id in rounds.open_generation(context):
            try:
                await self._cancel_generation(job_id)
            except BrokerError as error:
                log.info("%s can't be called off: %s", job_id, error)
