"""A job on its way out: stamped, encoded, confirmed. The one place that knows its properties."""

from datetime import UTC, datetime

import msgspec

from ..schemas.codec import encode, tag_of
from ..schemas.jobs import GenerationJob
from ..schemas.topology import Names
from .confirms import ConfirmedPublisher


def stamped(job: GenerationJob, reply_to: str) -> GenerationJob:
    """The job with its reply key, and with the time where it has none."""
    return msgspec.structs.replace(
        job, reply_to=reply_to, enqueued_at=job.enqueued_at or datetime.now(UTC)
    )


async def send_job(
    publisher: ConfirmedPublisher,
    names: Names,
    job: GenerationJob,
    body: bytes | None = None,
    *,
    timeout_s: float,
) -> None:
    """Publish a stamped job; return when it is stored. Errors as `ConfirmedPublisher.publish`.

    `body` is the encoded job where the caller has it already; otherwise InvalidMessage may come.
    """
    await publisher.publish(
        names.jobs,
        names.jobs_key(job.lane),
        encode(job) if body is None else body,
        kind=tag_of(GenerationJob),
        correlation_id=job.id,
        headers={"traceparent": job.traceparent} if job.traceparent else None,
        timeout_s=timeout_s,
    )
