"""What is published in the place of a dead letter, and why sometimes nothing can be. Pure."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from ..schemas import AgentContext, AgentJob, Candidate, GenerationJob, Names
from ..schemas.codec import tag_of
from .dlq_deaths import local

# The shortest wait in the retry exchange: the broker carries what waits there on to where its
# routing key says, as soon as that has room, and loses none on the way.
RUNG: Final = "5s"
RUNG_HEADER: Final = "rung"


class Sending(Struct, frozen=True, kw_only=True):
    """What is to be published. `safe`: a second copy is known as one by its reader, so it may be
    confirmed first and the letter acknowledged then. `note`: what whoever sends it should know.
    `reply_to`: whose the results will be that come of it."""

    exchange: str
    routing_key: str
    body: bytes
    kind: str
    job_id: str
    headers: dict[str, str]
    safe: bool = False
    note: str = ""
    reply_to: str = ""

    @property
    def where(self) -> str:
        """In words, for a person."""
        return f"results of {self.routing_key}" if self.safe else self.routing_key


class Refusal(Struct, frozen=True):
    """Why a letter can't be sent back."""

    why: str


def through_retry(
    message: GenerationJob | Candidate | AgentJob | AgentContext,
    key: str,
    body: bytes,
    names: Names,
    job: GenerationJob | AgentJob,
    note: str = "",
) -> Sending:
    """The message on its way through the shortest wait to where the key says."""
    headers = {RUNG_HEADER: RUNG}
    if job.traceparent:
        headers["traceparent"] = job.traceparent
    return Sending(
        exchange=names.retry,
        routing_key=key,
        body=body,
        kind=tag_of(type(message)),
        job_id=job.id,
        headers=headers,
        note=note,
        reply_to=job.reply_to,
    )


def late(deadline: datetime | None, now: datetime) -> Refusal | None:
    """The refusal of what nobody would do any more."""
    if deadline is None or deadline > now:
        return None
    return Refusal(
        f"its deadline passed at {local(deadline, '%Y-%m-%d %H:%M:%S')}: say --no-deadline, or "
        "--deadline-in 10m"
    )
