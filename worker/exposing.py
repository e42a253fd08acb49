"""What every service says of itself in its metrics: what it is, its state, what it holds."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

from aio_pika.abc import AbstractRobustConnection

from ..producer.subscription import Subscription
from ..schemas.services import ServiceKind, ServiceState
from . import metrics
from .installed import versions
from .queue_watch import label
from .zeros import begin_at_zero


def expose(kind: ServiceKind, state: Callable[[], ServiceState]) -> None:
    """Show what runs here, and from now on its state, asked for whenever somebody reads."""
    begin_at_zero(kind)
    metrics.INFO.labels(kind=kind, version=versions().get("sluicegate", "")).set(1)
    for each in get_args(ServiceState):
        metrics.STATE.labels(state=each).set_function(partial(_is, state, each))


def _is(state: Callable[[], ServiceState], wanted: ServiceState) -> float:
    return float(state() == wanted)


def expose_held(namespace: str, queue: str, subscriptions: Sequence[Subscription]) -> None:
    """Show, from now on, how many deliveries of a queue are not settled, by those subscriptions
    that are of it. More may be added to them."""
    name = label(namespace, queue)
    metrics.HELD.labels(queue=name).set_function(partial(_held, queue, subscriptions))


def _held(queue: str, subscriptions: Sequence[Subscription]) -> float:
    return sum(each.unacknowledged for each in subscriptions if each.queue == queue)


def count_reconnects(connection: AbstractRobustConnection, what: str) -> None:
    """Count each time that the connection is made anew. `what` it is for: a word of ours."""
    counter = metrics.RECONNECTS.labels(connection=what)

    def again(*_: object) -> None:
        counter.inc()

    connection.reconnect_callbacks.add(again)
