"""The result: what comes back for a job, whatever became of it."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from .agents import AgentRecord
from .jobs import JobId, Traceparent
from .limits import MAX_STOP_CHARS
from .lineage import FinishReason, Lineage
from .reasoning import ReasoningRecord
from .reasons import Reason
from .usage import Usage
from .version import SchemaVersion, this_version


class Completed(Struct, frozen=True, kw_only=True, tag_field="kind", tag="completed"):
    """The text was generated and accepted."""


class Partial(Struct, frozen=True, kw_only=True, tag_field="kind", tag="partial"):
    """An agent job was ended before its model said that it is done. The text says what is done and
    what is not; it never counts as completed."""

    reason: Reason
    detail: str


class Rejected(Struct, frozen=True, kw_only=True, tag_field="kind", tag="rejected"):
    """The job, or every text made for it, was refused; a dead letter has the details."""

    reason: Reason
    detail: str
    field: str | None = None


class Cancelled(Struct, frozen=True, kw_only=True, tag_field="kind", tag="cancelled"):
    """The publisher, or an operator, called the job off."""


class Expired(Struct, frozen=True, kw_only=True, tag_field="kind", tag="expired"):
    """The deadline passed before the job was done."""

    deadline: datetime


class Failed(Struct, frozen=True, kw_only=True, tag_field="kind", tag="failed"):
    """The system, not the job, was at fault."""

    reason: Reason
    detail: str


Outcome = Completed | Partial | Rejected | Cancelled | Expired | Failed


class Timings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds: `queued_s` from publishing to delivery, `engine_s` from admission to last token."""

    queued_s: float | None = None
    first_token_s: float | None = None
    engine_s: float = 0.0


class GenerationResult(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="generation_result"
):
    """The outcome of a job. `(job_id, attempt)` marks duplicates of the same outcome. `agent` says
    of an agent job how it came to its text."""

    schema_version: SchemaVersion = this_version()
    job_id: JobId
    attempt: int
    outcome: Outcome
    text: str = ""
    reasoning: str | None = None
    finish_reason: FinishReason | None = None
    stop_string: Annotated[str, Meta(max_length=MAX_STOP_CHARS)] | None = None
    usage: Usage = Usage()
    timings: Timings = Timings()
    lineage: Lineage = Lineage()
    agent: AgentRecord | None = None
    model: str | None = None
    worker: str | None = None
    finished_at: datetime
    traceparent: Traceparent | None = None
    metadata: dict[str, Any] = {}

    @property
    def reasoning_record(self) -> ReasoningRecord | None:
        """What the guard over the reasoning saw and did in the last attempt; None where the worker
        knows of no reasoning."""
        return self.lineage.attempts[-1].reasoning if self.lineage.attempts else None

    @property
    def ok(self) -> bool:
        """Whether there is a text that was accepted."""
        return isinstance(self.outcome, Completed)
