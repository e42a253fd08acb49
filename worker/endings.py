"""How one run of an attempt can end: a closed union, and the record that a run leaves."""

from datetime import datetime

from msgspec import Struct

from ..schemas import (
    AttemptRecord,
    FinishReason,
    Flaw,
    InvalidMessage,
    Progress,
    Timings,
    Usage,
)


class Answered(Struct, frozen=True):
    """The engine finished a text."""

    finish_reason: FinishReason


class Refused(Struct, frozen=True):
    """The job can't be done by this engine, today or tomorrow."""

    error: InvalidMessage


class DeadlinePassed(Struct, frozen=True):
    """The job's deadline came first."""

    deadline: datetime


class TimedOut(Struct, frozen=True):
    """The attempt used up the wall time that a worker gives it."""

    limit_s: float


class Cancelled(Struct, frozen=True):
    """Someone called the job off."""


class Faulted(Struct, frozen=True):
    """The engine failed. Whether it was the job's doing is unknown."""

    detail: str


class GaveUp(Struct, frozen=True):
    """The gates found what no rollback mended. `engine_fault`: it looks like the engine's doing.
    `flaw` is what was found last, by the gate `found_by`."""

    detail: str
    engine_fault: bool = False
    flaw: Flaw | None = None
    found_by: str = ""


class EngineLost(Struct, frozen=True):
    """The engine is gone, and with it every attempt on it."""

    detail: str


class Interrupted(Struct, frozen=True):
    """The worker stops, or lost what it needs. Not the job's fault: no attempt is spent.
    `trusted`: what was accepted so far may be gone on from; not where the engine's numbers are in
    doubt."""

    detail: str
    trusted: bool = True


Ending = (
    Answered
    | Refused
    | DeadlinePassed
    | TimedOut
    | Cancelled
    | GaveUp
    | Faulted
    | EngineLost
    | Interrupted
)


class Report(Struct, frozen=True, kw_only=True):
    """What a run leaves behind, however it ended. `text` is the answer, `reasoning` what the model
    thought before it, None where it thought nothing. `prompt`: its end as text, where the job has
    it as token ids and a check will want to read it. `stop_string`: the one that ended it.
    `resumed`: what it went on from, None where it began at the beginning; `progress`: what the next
    worker can go on from, where it was interrupted."""

    ending: Ending
    text: str
    record: AttemptRecord
    timings: Timings
    prompt: str = ""
    reasoning: str | None = None
    stop_string: str | None = None
    resumed: Progress | None = None
    progress: Progress | None = None

    @property
    def usage(self) -> Usage:
        """The tokens of this attempt."""
        return self.record.usage
