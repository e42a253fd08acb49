"""Comparing the topology that should stand with what was seen on a broker. Pure."""

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

from ..schemas.topology import Binding, Exchange, Names, Queue, Topology

Value = str | int | float | bool | None
Properties = dict[str, Value]

BINDINGS_UNSEEN: Final = (
    "bindings: AMQP can't tell them. Enable the plugin rabbitmq_management on the broker and, "
    "where it is not at the usual address, set SLUICE_MANAGEMENT_URL"
)


class ExchangeBinding(Struct, frozen=True):
    """From one exchange to another. None of ours is so."""

    source: str
    destination: str
    routing_key: str = ""


class Observed(Struct, frozen=True):
    """What stands on the broker. `bindings` is None where they couldn't be seen.

    A property that is None, or not there at all, is not set. `unchecked` says what could not be
    compared and why.
    """

    exchanges: dict[str, Properties] = {}
    queues: dict[str, Properties] = {}
    bindings: tuple[Binding, ...] | None = None
    unchecked: tuple[str, ...] = ()
    exchange_bindings: tuple[ExchangeBinding, ...] = ()


class Difference(Struct, frozen=True):
    """One thing that is not as it should be."""

    kind: Literal["missing", "different"]
    what: str
    property: str | None = None
    wanted: Value = None
    found: Value = None

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"{self.what}: missing"
        return (
            f"{self.what}: {self.property} is {_said(self.found)}, should be {_said(self.wanted)}"
        )


def exchange_properties(exchange: Exchange) -> Properties:
    """Everything about an exchange that a broker compares."""
    return {"type": exchange.kind, "durable": True, "auto_delete": False, "internal": False}


def queue_properties(queue: Queue) -> Properties:
    """Everything about a queue that a broker compares."""
    return {"durable": True, "auto_delete": False, "exclusive": False, **queue.arguments}


def compare(topology: Topology, observed: Observed) -> list[Difference]:
    """Every difference, in the order of the topology."""
    found: list[Difference] = []
    for exchange in topology.exchanges:
        what = f"exchange {exchange.name}"
        seen = observed.exchanges.get(exchange.name)
        found += _compare_one(what, exchange_properties(exchange), seen)
    for queue in topology.queues:
        what = f"queue {queue.name}"
        found += _compare_one(what, queue_properties(queue), observed.queues.get(queue.name))
    if observed.bindings is not None:
        found += [
            Difference("missing", describe(binding))
            for binding in topology.bindings
            if binding not in observed.bindings
        ]
    return found


def notes(topology: Topology, observed: Observed) -> list[str]:
    """What else stands under our names. No difference: backends have reply queues of their own."""
    names = topology.names
    wanted = {queue.name for queue in topology.queues}
    listeners = f"{names.events}."  # queues of those who watch just now
    others = sorted(
        name
        for name in observed.queues
        if name not in wanted and _ours(name, names) and not name.startswith(listeners)
    )
    replies = [name for name in others if name.startswith(names.results_queue(""))]
    said = [f"queue {name} is no part of the topology" for name in others if name not in replies]
    if replies:
        said.append(f"{len(replies)} more reply queue(s) under {names.results_queue('*')}")
    exchanges = {exchange.name for exchange in topology.exchanges}
    said += [
        f"exchange {name} is no part of the topology"
        for name in sorted(observed.exchanges)
        if name not in exchanges and _ours(name, names)
    ]
    said += [
        f"{describe(binding)} is no part of the topology{_danger(topology, binding)}"
        for binding in observed.bindings or ()
        if _is_strange(topology, binding)
    ]
    said += [
        f"binding {each.source} -> exchange {each.destination} is no part of the topology"
        for each in observed.exchange_bindings
        if _ours(each.source, names) or _ours(each.destination, names)
    ]
    return said


def _is_strange(topology: Topology, binding: Binding) -> bool:
    """Whether a binding touches what is ours, is not of ours, and not what anybody may make."""
    names = topology.names
    if binding in topology.bindings:
        return False
    if binding.queue not in {queue.name for queue in topology.queues}:
        # Whoever likes may listen to these, and backends have results queues of their own.
        listens = binding.exchange in (names.events, names.control)
        reply = names.results_queue(binding.routing_key)
        if listens or (binding.exchange == names.results and binding.queue == reply):
            return False
    return _ours(binding.exchange, names) or _ours(binding.queue, names)


def _danger(topology: Topology, binding: Binding) -> str:
    """What becomes of jobs by a binding that should not be."""
    names = topology.names
    into_ours = binding.queue in {queue.name for queue in topology.queues}
    if binding.exchange == names.dlx and into_ours:
        return ": dead jobs come back to life"
    if binding.exchange in (names.jobs, names.results):
        return ": messages are copied, or go astray"
    return ""


def describe(binding: Binding) -> str:
    """A binding in words."""
    arguments = ", ".join(f"{key}={value}" for key, value in binding.arguments.items())
    key = f"routing key {binding.routing_key}" if binding.routing_key else ""
    when = "; ".join(part for part in (key, arguments) if part)
    return f"binding {binding.exchange} -> {binding.queue}" + (f" ({when})" if when else "")


def _compare_one(what: str, wanted: Properties, seen: Properties | None) -> Iterable[Difference]:
    if seen is None:
        return [Difference("missing", what)]
    keys = dict.fromkeys([*wanted, *seen])
    return [
        Difference("different", what, key, wanted.get(key), seen.get(key))
        for key in keys
        if wanted.get(key) != seen.get(key)
    ]


def _ours(name: str, names: Names) -> bool:
    return name == names.namespace or name.startswith(f"{names.namespace}.")


def _said(value: Value) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
