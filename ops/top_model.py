"""From events and readings to a picture. Pure: times are given, in seconds of a clock that never
goes back; what a sender's own clock says does not matter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ..schemas import JobEvent, Names, ServiceEvent, topology
from ..schemas.events import Finished, Interrupted, Retrying
from ..schemas.results import Failed, Partial, Rejected
from .top_levels import level_of
from .top_meter import Meter, Trend, grown
from .top_picture import (
    Gates,
    Picture,
    QueueRow,
    Reading,
    Role,
    ServiceRow,
    Trouble,
    Watched,
    watched,
)
from .top_trouble import trouble

# A service speaks every 5 s.
SILENT_AFTER_S: Final = 15.0
DROP_SILENT_S: Final = 600.0
DROP_STOPPED_S: Final = 30.0
MOST_SERVICES: Final = 1000
MOST_QUEUES: Final = 200


@dataclass
class _Service:
    event: ServiceEvent
    heard: float
    state: str
    state_since: float
    jobs: Trend = field(default_factory=Trend)
    tokens: Trend = field(default_factory=Trend)


@dataclass
class _Queue:
    reading: Reading
    trend: Trend = field(default_factory=Trend)


class Model:
    """Everything heard so far, in bounded memory."""

    def __init__(self, names: Names, broker: str, now: float) -> None:
        self._names = names
        self._broker = broker
        self._began = now
        self._watched = {each.name: each for each in watched(topology(names.namespace))}
        self._services: dict[str, _Service] = {}
        self._queues: dict[str, _Queue] = {}
        self._outcomes, self._moves, self._reasons = Meter(), Meter(), Meter()
        self._trips, self._rollbacks = Meter(), Meter()
        self._broker_trouble = self._deaf = ""

    def service(self, event: ServiceEvent, now: float) -> None:
        """A service spoke."""
        state = "stopped" if event.what == "stopped" else event.state
        known = self._services.get(event.service)
        if known is None:
            self._make_room()
            known = _Service(event, now, state, now)
            self._services[event.service] = known
        else:
            began_anew = event.up_s < known.event.up_s
            if began_anew:
                known.jobs.clear()
                known.tokens.clear()
            before = {} if began_anew else known.event.trips
            for flaw, number in grown(before, event.trips).items():
                self._trips.add(flaw, now, number)
            rolled = event.rollbacks - (0 if began_anew else known.event.rollbacks)
            if rolled > 0:
                self._rollbacks.add("", now, rolled)
            if state != known.state:
                known.state, known.state_since = state, now
            known.event, known.heard = event, now
        known.jobs.add(sum(event.jobs.values()), now)
        known.tokens.add(event.tokens.get("completion", 0) + event.tokens.get("wasted", 0), now)

    def job(self, event: JobEvent, now: float) -> None:
        """Something happened to a job."""
        match event.event:
            case Finished(outcome=outcome):
                self._outcomes.add(str(outcome.__struct_config__.tag), now)
                if isinstance(outcome, Rejected | Failed | Partial):
                    self._reasons.add(outcome.reason.value, now)
            case Retrying():
                self._moves.add("retrying", now)
            case Interrupted():
                self._moves.add("interrupted", now)
            case _:
                pass

    def queues(self, readings: Sequence[Reading], now: float) -> None:
        """The broker told how its queues stand; all of them at once."""
        self._broker_trouble = ""
        before, self._queues = self._queues, {}
        for reading in readings[:MOST_QUEUES]:
            known = before.get(reading.name) or _Queue(reading)
            known.reading = reading
            if reading.ready is None:
                known.trend.clear()
            else:
                known.trend.add(reading.ready, now)
            self._queues[reading.name] = known

    def broker(self, why: str) -> None:
        """The broker could not be asked."""
        self._broker_trouble = why

    def deaf(self, why: str) -> None:
        """Events are no longer heard, and won't be."""
        self._deaf = why

    def picture(self, now: float, at: datetime) -> Picture:
        """How everything stands. `at` is for people."""
        self._drop(now)
        services = tuple(self._service_row(each, now) for each in self._sorted())
        queues = tuple(self._queue_row(each) for each in self._queues.values())
        minute = self._reasons.minute(now)
        return Picture(
            namespace=self._names.namespace,
            broker=self._broker,
            at=at,
            seen_s=now - self._began,
            outcomes=dict(self._outcomes.minute(now)),
            moves=dict(self._moves.minute(now)),
            outcomes_total=dict(self._outcomes.total),
            queues=queues,
            services=services,
            gates=self._gates(now),
            dead=next((each.ready for each in queues if each.role == "dead"), None),
            dead_reasons=dict(self._reasons.total.most_common()),
            dead_reasons_minute=dict(minute.most_common()),
            trouble=self._trouble(queues, services, now),
        )

    def _trouble(
        self, queues: Sequence[QueueRow], services: Sequence[ServiceRow], now: float
    ) -> tuple[Trouble, ...]:
        lost: list[Trouble] = []
        if self._broker_trouble:
            lost.append(Trouble("bad", f"the broker: {self._broker_trouble}"))
        if self._deaf:
            lost.append(Trouble("bad", f"no events are heard any more: {self._deaf}"))
        return (*lost, *trouble(queues, services, heard_s=now - self._began))

    def _sorted(self) -> list[_Service]:
        """By kind, then by name; what needs a look comes first."""
        return sorted(
            self._services.values(),
            key=lambda each: (each.state == "ready", each.event.kind, each.event.service),
        )

    def _service_row(self, known: _Service, now: float) -> ServiceRow:
        event, heard_s = known.event, now - known.heard
        silent = heard_s > SILENT_AFTER_S and known.state != "stopped"
        jobs, tokens = known.jobs.per_second(), known.tokens.per_second()
        return ServiceRow(
            name=event.service,
            kind=event.kind,
            state="silent" if silent else known.state,
            state_s=heard_s if silent else now - known.state_since,
            heard_s=heard_s,
            up_s=event.up_s + heard_s,
            detail=event.detail,
            model=event.model,
            in_flight=event.in_flight,
            slots=event.slots,
            queues=event.queues,
            jobs_per_minute=None if jobs is None or silent else max(0.0, jobs * 60),
            tokens_per_second=None if tokens is None or silent else max(0.0, tokens),
            loop_lag_s=event.loop_lag_s,
        )

    def _queue_row(self, known: _Queue) -> QueueRow:
        reading = known.reading
        about = self._watched.get(reading.name) or self._stranger(reading.name)
        rate = known.trend.per_second()
        in_flight, at_most = reading.unacked, False
        if in_flight is None:
            in_flight, at_most = self._in_flight(reading.name)
        empty_in_s = None
        if rate is not None and rate < 0 and reading.ready:
            empty_in_s = reading.ready / -rate
        return QueueRow(
            name=about.short,
            role=about.role,
            ready=reading.ready,
            consumers=reading.consumers,
            in_flight=in_flight,
            in_flight_most=at_most,
            limit=about.limit,
            per_minute=None if rate is None else rate * 60,
            empty_in_s=empty_in_s,
        )

    def _stranger(self, name: str) -> Watched:
        """A queue that is none of the topology's: a reply queue, that of a tool."""
        short = name.removeprefix(f"{self._names.namespace}.")
        role: Role = "results" if short.startswith("results.") else "other"
        return Watched(name, short, role, None)

    def _in_flight(self, queue: str) -> tuple[int | None, bool]:
        """What the services that take from a queue have under way; whether it may be another's."""
        takers = [
            each.event
            for each in self._services.values()
            if queue in each.event.queues and each.state != "stopped"
        ]
        if not takers:
            return None, False
        shared = any(len(each.queues) > 1 and each.in_flight for each in takers)
        return sum(each.in_flight for each in takers), shared

    def _gates(self, now: float) -> Gates:
        trips: dict[str, Counter[str]] = {}
        tokens: Counter[str] = Counter()
        rollbacks = 0
        for known in self._services.values():
            for flaw, number in known.event.trips.items():
                trips.setdefault(level_of(flaw), Counter())[flaw] += number
            tokens.update(known.event.tokens)
            rollbacks += known.event.rollbacks
        made = tokens["completion"] + tokens["wasted"]
        return Gates(
            trips={level: dict(counter.most_common()) for level, counter in trips.items()},
            trips_minute=dict(self._trips.minute(now).most_common()),
            rollbacks=rollbacks,
            rollbacks_minute=self._rollbacks.minute(now).total(),
            reasoning_trips=trips.get("reasoning", Counter[str]()).total(),
            wasted_share=tokens["wasted"] / made if made else None,
        )

    def _make_room(self) -> None:
        if len(self._services) >= MOST_SERVICES:
            oldest = min(self._services, key=lambda name: self._services[name].heard)
            del self._services[oldest]

    def _drop(self, now: float) -> None:
        for name, known in list(self._services.items()):
            limit = DROP_STOPPED_S if known.state == "stopped" else DROP_SILENT_S
            if now - known.heard > limit:
                del self._services[name]
