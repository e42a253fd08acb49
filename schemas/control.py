"""Control messages: what publishers and operators say to all workers."""

from msgspec import Struct

from .jobs import JobId
from .timestamps import Timestamp
from .version import SchemaVersion, this_version


class CancelJob(Struct, frozen=True, kw_only=True, tag_field="type", tag="cancel_job"):
    """Call a job off."""

    schema_version: SchemaVersion = this_version()
    job_id: JobId
    at: Timestamp
