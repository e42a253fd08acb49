"""What services say of themselves: that they start, how they stand, and what became of them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .measures import Count, Name, Seconds, Sentence, WorkerName
from .timestamps import Timestamp
from .version import SchemaVersion, this_version

ServiceKind = Literal["worker", "checker", "agent", "tools"]
# Where a service is in its life. Only a service that is "ready" takes work.
ServiceState = Literal["starting", "ready", "paused", "quarantined", "restarting", "stopping"]
Said = Literal[
    "started", "status", "paused", "resumed", "quarantined", "restarted", "stopping", "stopped"
]
Word = Annotated[str, Meta(max_length=64)]
# What grows for weeks: as far as every JSON reader counts exactly.
Total = Annotated[int, Meta(ge=0, le=2**53)]
Totals = Annotated[dict[Word, Total], Meta(max_length=64)]


class ServiceEvent(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="service_event"
):
    """One service, at one moment. Best effort, like the events of jobs; a "status" comes every few
    seconds, so a service that is silent for long is gone.

    `detail`: what is in the way, or why something happened. Counts grow from the service's start:
    `jobs` by outcome, `trips` of gates by flaw, `tokens` by kind. `queues`: what it consumes now.
    """

    schema_version: SchemaVersion = this_version()
    service: WorkerName
    kind: ServiceKind
    at: Timestamp
    what: Said
    state: ServiceState
    detail: Sentence = ""
    model: Name = ""
    version: Name = ""
    up_s: Seconds = 0.0
    in_flight: Count = 0
    slots: Count = 0
    queues: Annotated[tuple[Name, ...], Meta(max_length=16)] = ()
    jobs: Totals = {}
    trips: Totals = {}
    tokens: Totals = {}
    rollbacks: Total = 0
    loop_lag_s: Seconds = 0.0
