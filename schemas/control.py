"""Control messages: what publishers and operators say to all services."""

from typing import Literal

from msgspec import Struct

from .jobs import JobId
from .measures import Name, Sentence
from .timestamps import Timestamp
from .version import SchemaVersion, this_version

Scope = Literal["all", "kind", "service", "queue"]


class CancelJob(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="cancel_job"
):
    """Call a job off: what was published of this id up to `at`. What is published later is another
    job. `by` says who, `reason` why, for logs."""

    schema_version: SchemaVersion = this_version()
    job_id: JobId
    at: Timestamp
    by: Name = ""
    reason: Sentence = ""


class Target(Struct, frozen=True, omit_defaults=True):
    """What is paused: all services; those of a kind ("worker", "checker", "agent"); one by its
    name; or a queue, by its whole name, for whoever consumes it. `name` is empty for "all"."""

    scope: Scope
    name: Name = ""


class Pause(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="pause"):
    """Take nothing more from the target, and finish what runs; until a `Resume` of the same target,
    or until the time `until`. One for the same target again takes the place of the one before."""

    schema_version: SchemaVersion = this_version()
    target: Target
    at: Timestamp
    until: Timestamp | None = None
    by: Name = ""
    reason: Sentence = ""


class Resume(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="resume"):
    """Lift the pause of a target. Of "all": every pause there is, of whatever target."""

    schema_version: SchemaVersion = this_version()
    target: Target
    at: Timestamp
    by: Name = ""
    reason: Sentence = ""
