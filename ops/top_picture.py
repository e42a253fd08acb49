"""What `sluice top` shows, as data: a picture of queues, services, gates, outcomes and trouble."""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from ..schemas import Topology

Role = Literal["work", "wait", "retry", "results", "dead", "other"]
Urgency = Literal["bad", "warn", "note"]

# Of a queue's limit of length.
NEARLY_FULL: Final = 0.8


class Reading(Struct, frozen=True, kw_only=True):
    """One queue as the broker tells. `ready` None: it is missing. `unacked` None: not told, as AMQP
    alone never does."""

    name: str
    ready: int | None
    consumers: int = 0
    unacked: int | None = None


class Watched(Struct, frozen=True):
    """A queue that is looked at: its name without the namespace, what it is for, and its limit."""

    name: str
    short: str
    role: Role
    limit: int | None


class QueueRow(Struct, frozen=True, kw_only=True):
    """`ready` None: the queue is missing. `in_flight`: delivered and not settled; `in_flight_most`
    says that services which take from several queues make it an upper bound. `per_minute`: how
    `ready` grew; `empty_in_s`: when it is empty if that goes on. None: not known."""

    name: str
    role: Role
    ready: int | None
    consumers: int
    in_flight: int | None
    in_flight_most: bool
    limit: int | None
    per_minute: float | None
    empty_in_s: float | None


class ServiceRow(Struct, frozen=True, kw_only=True):
    """`state` is its own word, or "silent" where it has not been heard of for long, or "stopped".
    Seconds: `state_s` since the state changed, as far as was seen, `heard_s` since it spoke."""

    name: str
    kind: str
    state: str
    state_s: float
    heard_s: float
    up_s: float
    detail: str
    model: str
    in_flight: int
    slots: int
    queues: tuple[str, ...]
    jobs_per_minute: float | None
    tokens_per_second: float | None
    loop_lag_s: float


class Gates(Struct, frozen=True, kw_only=True):
    """Trips by level and flaw, rollbacks, reasoning cuts: in all since the services that are there
    started, and in the last minute as far as was seen. `wasted_share`: of all tokens generated."""

    trips: dict[str, dict[str, int]]
    trips_minute: dict[str, int]
    rollbacks: int
    rollbacks_minute: int
    reasoning_trips: int
    wasted_share: float | None


class Trouble(Struct, frozen=True):
    """A line that somebody should read."""

    urgency: Urgency
    text: str


class Picture(Struct, frozen=True, kw_only=True):
    """One moment. `outcomes` and `moves` (retrying, interrupted): in the last minute; `seen_s`: for
    how long events have been heard, at most a minute counts. `dead_reasons`: of jobs that ended
    badly since then, by reason."""

    namespace: str
    broker: str
    at: datetime
    seen_s: float
    outcomes: dict[str, int]
    moves: dict[str, int]
    outcomes_total: dict[str, int]
    queues: tuple[QueueRow, ...]
    services: tuple[ServiceRow, ...]
    gates: Gates
    dead: int | None
    dead_reasons: dict[str, int]
    dead_reasons_minute: dict[str, int]
    trouble: tuple[Trouble, ...]


def watched(topology: Topology) -> tuple[Watched, ...]:
    """The queues to look at: all of the topology but its log, which keeps what was read."""
    names = topology.names
    roles: dict[str, Role] = {names.dead: "dead", names.approvals: "wait"}
    found: list[Watched] = []
    for queue in topology.queues:
        if queue.is_stream:
            continue
        limit = queue.arguments.get("x-max-length")
        found.append(
            Watched(
                queue.name,
                queue.name.removeprefix(f"{names.namespace}."),
                roles.get(queue.name) or _role(queue.name, names.namespace),
                limit if isinstance(limit, int) else None,
            )
        )
    order: tuple[Role, ...] = ("work", "wait", "other", "retry", "results", "dead")
    return tuple(sorted(found, key=lambda each: order.index(each.role)))


def _role(name: str, namespace: str) -> Role:
    if name.startswith(f"{namespace}.retry."):
        return "retry"
    if name.startswith(f"{namespace}.results."):
        return "results"
    return "work"
