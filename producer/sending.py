"""A job on its way out: stamped, encoded, confirmed. The one place that knows its properties."""

from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from ..schemas.agents import AgentJob
from ..schemas.codec import encode, tag_of
from ..schemas.jobs import GenerationJob
from ..schemas.topology import Names
from .confirms import ConfirmedPublisher
from .tracing import current_traceparent

Job = GenerationJob | AgentJob
J = TypeVar("J", bound=Job)


def stamped(job: J, reply_to: str) -> J:
    """The job with its reply key, and with the time and the caller's trace where it has none."""
    return msgspec.structs.replace(
        job,
        reply_to=reply_to,
        enqueued_at=job.enqueued_at or datetime.now(UTC),
        traceparent=job.traceparent or current_traceparent(),
    )


async def send_job(
    publisher: ConfirmedPublisher,
    names: Names,
    job: Job,
    body: bytes | None = None,
    *,
    timeout_s: float,
) -> None:
    """Publish a stamped job; return when it is stored. Errors as `ConfirmedPublisher.publish`.

    `body` is the encoded job where the caller has it already; otherwise InvalidMessage may come.
    """
    await publisher.publish(
        names.jobs,
        names.new_agents_key if isinstance(job, AgentJob) else names.jobs_key(job.lane),
        encode(job) if body is None else body,
        kind=tag_of(type(job)),
        correlation_id=job.id,
        headers={"traceparent": job.traceparent} if job.traceparent else None,
        timeout_s=timeout_s,
    )
