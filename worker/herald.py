"""What a service says of itself on the events exchange: each turn of its life at once, and every
few seconds how it stands. Best effort, like all events."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from prometheus_client import Counter, Gauge

from ..schemas import Names, ServiceEvent
from ..schemas.errors import tame
from ..schemas.limits import MAX_DETAIL
from ..schemas.services import Said, ServiceKind, ServiceState
from . import metrics
from .event_stream import EventStream
from .installed import versions

STATUS_S: Final = 5.0
# What ended, of each kind of service.
_ENDED: Final[dict[ServiceKind, Counter]] = {
    "worker": metrics.JOBS,
    "checker": metrics.VERDICTS,
    "agent": metrics.AGENTS,
    "tools": metrics.TOOL_CALLS,
}


class Standing(Struct, frozen=True, kw_only=True):
    """How a service stands: its state, what is in the way, what it consumes, how much it has under
    way of how much it can."""

    state: ServiceState
    trouble: str
    queues: tuple[str, ...]
    in_flight: int
    slots: int


class Herald:
    """Says how a service stands; `look` tells."""

    def __init__(
        self,
        names: Names,
        service: str,
        kind: ServiceKind,
        look: Callable[[], Standing],
    ) -> None:
        self._names = names
        self._service = service
        self._kind: ServiceKind = kind
        self._look = look
        self._began = time.monotonic()
        self._version = versions().get("sluicegate", "")
        self.model = ""
        self.events = EventStream(names, service)

    def say(self, what: Said, detail: str = "") -> None:
        """Say that something happened, and how it stands by now. Returns at once."""
        stands = self._look()
        message = ServiceEvent(
            service=self._service[:256],
            kind=self._kind,
            at=datetime.now(UTC),
            what=what,
            state=stands.state,
            detail=tame(detail or stands.trouble)[:MAX_DETAIL],
            model=self.model[:256],
            version=self._version,
            up_s=round(time.monotonic() - self._began, 1),
            in_flight=stands.in_flight,
            slots=stands.slots,
            queues=stands.queues[:16],
            jobs=by(_ENDED[self._kind], "status" if self._kind == "tools" else "outcome"),
            trips=by(metrics.TRIPS, "flaw"),
            tokens=by(metrics.TOKENS, "kind"),
            rollbacks=by(metrics.TRIPS, "action").get("rollback", 0),
            loop_lag_s=round(reading(metrics.LOOP_LAG), 3),
        )
        self.events.put(self._names.service_key(self._service, what), message)

    async def run(self) -> None:
        """Say "status" every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(STATUS_S)
            self.say("status")


def reading(gauge: Gauge) -> float:
    """A gauge's value now."""
    return next((s.value for metric in gauge.collect() for s in metric.samples), 0.0)


def by(counter: Counter, label: str) -> dict[str, int]:
    """What a counter has come to, by one of its labels."""
    found: dict[str, int] = {}
    for metric in counter.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total") and sample.value:
                key = sample.labels[label]
                found[key] = found.get(key, 0) + int(sample.value)
    return found
