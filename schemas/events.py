"""Events: what happens to a job, as it happens. Best effort; the result is the truth."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from .agents import Decision
from .jobs import JobId
from .limits import MAX_TOOL_CALLS
from .lineage import Channel
from .measures import Count, Sentence
from .reasoning import ReasoningRecord
from .results import Outcome
from .timestamps import Timestamp
from .verdicts import Verdict
from .version import SchemaVersion, this_version

CallWords = Annotated[tuple[Sentence, ...], Meta(max_length=MAX_TOOL_CALLS)]


class Accepted(Struct, frozen=True, kw_only=True, tag_field="kind", tag="accepted"):
    """A worker has started an attempt, or goes on with one: from the `kept` tokens that the last
    worker handed back. With 0 it begins at the beginning, whatever was announced before."""

    kept: Count = 0


class Delta(Struct, frozen=True, kw_only=True, tag_field="kind", tag="delta"):
    """A piece of text that won't be taken back.

    `offset` is where the piece begins in the whole text of its channel, in characters: a consumer
    that sees a gap has missed an event. `channel`: the model's reasoning, or the answer.
    """

    offset: int
    text: str
    channel: Channel = "content"


class Interrupted(Struct, frozen=True, kw_only=True, tag_field="kind", tag="interrupted"):
    """The attempt was handed back to the queue, unspent. The next worker goes on from `kept` of its
    tokens, so its text stands; with 0 it starts anew."""

    detail: str
    kept: Count = 0


class Retrying(Struct, frozen=True, kw_only=True, tag_field="kind", tag="retrying"):
    """The text was not accepted, or the engine failed: attempt `next_attempt` begins in `wait_s`
    seconds or a little less. A new attempt starts over: its text begins at offset 0."""

    next_attempt: int
    detail: str
    wait_s: float


class Reasoned(Struct, frozen=True, kw_only=True, tag_field="kind", tag="reasoned"):
    """What the guard over the reasoning saw and did. It comes when the attempt is over."""

    record: ReasoningRecord


class Judged(Struct, frozen=True, kw_only=True, tag_field="kind", tag="judged"):
    """The checker's verdict on a text. With `checks` "observe" it comes after the result."""

    verdict: Verdict


class RoundEnded(Struct, frozen=True, kw_only=True, tag_field="kind", tag="round_ended"):
    """A round of an agent job is over: what was called, in a word each, and how it stands."""

    round: Count
    calls: CallWords = ()
    tokens: Count = 0
    score: Count = 0
    decision: Decision


class ApprovalWanted(Struct, frozen=True, kw_only=True, tag_field="kind", tag="approval_wanted"):
    """Calls of an agent job wait for a person, until `expires_at`, which means no."""

    round: Count
    calls: CallWords
    expires_at: Timestamp


class Finished(Struct, frozen=True, kw_only=True, tag_field="kind", tag="finished"):
    """The outcome is settled and its result published."""

    outcome: Outcome


Happening = (
    Accepted
    | Delta
    | Interrupted
    | Reasoned
    | Retrying
    | Judged
    | RoundEnded
    | ApprovalWanted
    | Finished
)


class JobEvent(Struct, frozen=True, kw_only=True, tag_field="type", tag="job_event"):
    """One thing that happened to a job. `seq` grows within one run of an attempt."""

    schema_version: SchemaVersion = this_version()
    job_id: JobId
    attempt: int
    seq: int
    at: datetime
    worker: str
    event: Happening

    @property
    def kind(self) -> str:
        """The event's tag: a word of the routing key."""
        return str(self.event.__struct_config__.tag)
