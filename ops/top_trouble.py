"""What somebody should look at, in a line each. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from .top_cells import span
from .top_picture import NEARLY_FULL, QueueRow, ServiceRow, Trouble

# The loop of a service that wakes up this late is busy with something that should not be there.
LATE_LOOP_S: Final = 0.5
# Every service speaks within this time.
ALL_HEARD_S: Final = 12.0


def trouble(
    queues: Sequence[QueueRow], services: Sequence[ServiceRow], *, heard_s: float
) -> tuple[Trouble, ...]:
    """The worst first. `heard_s`: for how long services have been listened to."""
    found = [*_of_queues(queues), *_of_services(services)]
    consumed = any(each.consumers for each in queues if each.role == "work")
    if consumed and not services and heard_s > ALL_HEARD_S:
        found.append(
            Trouble(
                "warn", "queues are consumed, but no service is heard of: is it an old version?"
            )
        )
    order = ("bad", "warn", "note")
    return tuple(sorted(found, key=lambda each: order.index(each.urgency)))


def _of_queues(queues: Sequence[QueueRow]) -> Iterator[Trouble]:
    for queue in queues:
        if queue.ready is None:
            yield Trouble(
                "bad", f"queue {queue.name} is missing: `sluice topology apply` creates it"
            )
            continue
        if queue.role == "work" and queue.ready and not queue.consumers:
            yield Trouble(
                "bad",
                f"queue {queue.name}: {queue.ready:,} waiting, nobody takes them; "
                "paused? `sluice pause`",
            )
        if queue.limit and queue.ready >= NEARLY_FULL * queue.limit:
            full = queue.ready / queue.limit
            yield Trouble(
                "bad", f"queue {queue.name} is {full:.0%} full: at {queue.limit:,} it refuses more"
            )
        if queue.role == "dead" and queue.per_minute is not None and queue.per_minute >= 0.5:
            yield Trouble(
                "warn", f"dead letters grow by {queue.per_minute:,.0f} a minute: `sluice dlq stats`"
            )
        if queue.role == "wait" and queue.ready:
            yield Trouble(
                "note",
                f"{queue.ready:,} of the agent jobs wait for a person: `sluice agent approvals`",
            )


def _of_services(services: Sequence[ServiceRow]) -> Iterator[Trouble]:
    for each in services:
        who, why = f"{each.kind} {each.name}", f": {each.detail}" if each.detail else ""
        since = span(each.state_s)
        match each.state:
            case "quarantined":
                yield Trouble("bad", f"{who} is quarantined, {since}{why}")
            case "silent":
                yield Trouble("bad", f"{who} has been silent for {since}")
            case "restarting":
                yield Trouble("warn", f"{who} restarts its engine, {since}{why}")
            case "paused":
                yield Trouble("warn", f"{who} is paused, {since}{why}")
            case "ready" if each.detail:
                yield Trouble("warn", f"{who}{why}")
            case _:
                pass
        if each.state == "ready" and each.loop_lag_s >= LATE_LOOP_S:
            yield Trouble("warn", f"{who}: its event loop wakes up {each.loop_lag_s:.1f} s late")
