"""What `sluice topology` says: for reading and for programs. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from ..schemas.topology import LANES, Names, Queue, Topology
from .console import table
from .plain_text import plain
from .topology_check import Difference, describe


class Applied(Struct, frozen=True):
    """What `apply` did."""

    broker: str
    server: str
    namespace: str
    created: list[str]
    present: list[str]
    bindings: int
    differences: list[Difference]
    remarks: list[str]

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "broker": self.broker,
            "server": self.server,
            "namespace": self.namespace,
            "created": self.created,
            "present": self.present,
            "bindings": self.bindings,
            "differences": [_as_data(each) for each in self.differences],
            "remarks": self.remarks,
        }

    def as_text(self) -> Iterator[str]:
        """For reading, line by line; names on the broker may be anybody's."""
        return map(plain, self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.broker}, RabbitMQ {self.server}, namespace {self.namespace}"
        yield from (f"different: {each}" for each in self.differences)
        yield from (f"created: {name}" for name in self.created)
        yield from (f"note: {each}" for each in self.remarks)
        if not self.differences:
            yield (
                f"{len(self.created)} created, {len(self.present)} were there already; "
                f"{self.bindings} bindings are in place."
            )


class Checked(Struct, frozen=True):
    """What `check` saw."""

    broker: str
    server: str
    namespace: str
    differences: list[Difference]
    unchecked: list[str]
    notes: list[str]
    remarks: list[str]
    bindings_seen: bool

    @property
    def complete(self) -> bool:
        """Whether all was compared: only then is "equal" the whole truth."""
        return self.bindings_seen and not self.unchecked

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "equal": not self.differences,
            "complete": self.complete,
            "broker": self.broker,
            "server": self.server,
            "namespace": self.namespace,
            "differences": [_as_data(each) for each in self.differences],
            "unchecked": self.unchecked,
            "notes": self.notes,
            "remarks": self.remarks,
        }

    def as_text(self) -> Iterator[str]:
        """For reading, line by line; names on the broker may be anybody's."""
        return map(plain, self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.broker}, RabbitMQ {self.server}, namespace {self.namespace}"
        yield from (f"different: {each}" for each in self.differences)
        yield from (f"unchecked: {each}" for each in self.unchecked)
        yield from (f"note: {each}" for each in [*self.notes, *self.remarks])
        count = len(self.differences)
        if count:
            yield f"{count} difference{'s' if count > 1 else ''}. See `sluice topology apply`."
        else:
            yield self._equal()

    def _equal(self) -> str:
        if self.complete:
            return "Equal."
        unseen = "" if self.bindings_seen else " The bindings were not."
        return f"Equal, as far as could be checked.{unseen}"


def drawn(wanted: Topology) -> Iterator[str]:
    """The topology for reading, line by line."""
    names = wanted.names
    yield f"namespace {names.namespace}; everything is durable"
    yield ""
    yield "exchanges"
    yield from table([(each.name, each.kind) for each in wanted.exchanges], indent="  ")
    yield ""
    yield "queues"
    yield from table([(each.name, _arguments(each)) for each in wanted.queues], indent="  ")
    yield ""
    yield "bindings"
    yield from (f"  {describe(each).removeprefix('binding ')}" for each in wanted.bindings)
    yield ""
    yield "the way of a job"
    yield from table(_flow(names), indent="  ")


def _flow(names: Names) -> Sequence[tuple[str, str]]:
    lanes = " or ".join(names.jobs_key(lane) for lane in LANES)
    return (
        ("a job", f"backend -> {names.jobs} ({lanes}) -> worker"),
        ("a result", f"worker -> {names.results} (reply_to of the job) -> backend"),
        ("an event", f"worker -> {names.events} (<reply_to>.<job id>.<kind>) -> whoever listens"),
        ("a retry", f"worker -> {names.retry} (header rung) -> waits -> {names.jobs}"),
        (
            "an agent job",
            (
                f"backend -> {names.jobs} ({names.new_agents_key}) -> agent service -> "
                f"{names.jobs} ({names.agents_key}), step by step"
            ),
        ),
        (
            "an approval",
            f"agent service -> {names.jobs} ({names.approvals_key}) -> waits for a person",
        ),
        ("a tool elsewhere", f"agent service -> {names.tools} (the tool's name) -> its server"),
        ("the journal", f"agent service -> {names.jobs} ({names.journal_key}) -> a stream"),
        ("a death", f"worker, or the broker after too many tries -> {names.dlx} -> {names.dead}"),
        (
            "control",
            f"declared, workers don't listen yet: backend or operator -> {names.control}",
        ),
    )


def _arguments(queue: Queue) -> str:
    return ", ".join(
        f"{key.removeprefix('x-')}={_number(value) if isinstance(value, int) else value}"
        for key, value in queue.arguments.items()
    )


def _number(value: int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_data(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "what": difference.what,
        "property": difference.property,
        "wanted": difference.wanted,
        "found": difference.found,
        "text": str(difference),
    }
