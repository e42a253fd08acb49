"""The dead letter: a job that could not be done, with everything needed to see why."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from .agents import AgentContext
from .flaws import Flaw
from .ids import new_id
from .jobs import GenerationJob
from .reasons import Reason
from .results import GenerationResult
from .version import SchemaVersion, this_version

Stage = Literal["decode", "admit", "generate", "check", "agent", "deliver"]


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a message was when it died, and the AMQP properties it came with."""

    stage: Stage
    worker: str
    queue: str
    routing_key: str | None = None
    message_id: str | None = None
    correlation_id: str | None = None
    redelivered: bool = False


class Sealed(Struct, frozen=True, kw_only=True):
    """A letter encrypted for an operator: HPKE (RFC 9180) in base mode with X25519, HKDF-SHA256 and
    ChaCha20-Poly1305, over the letter as JSON, deflated. `key`: the first 16 hexadecimal digits of
    the SHA-256 of the public key's 32 bytes."""

    key: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
    body: bytes


class DeadLetter(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="dead_letter"
):
    """Why a job died. It carries the job with its whole lineage, or, where that can't be read, the
    body as it came. `flaw` is what ended it, where a gate or check did (`found_by`); `versions` are
    those of the software that wrote the letter. `agent` is the scene at the end of an agent job.

    `raw_body` is base64 in JSON and holds at most the limit of a job's body; where
    `raw_body_bytes` says that there was more, the broker keeps the whole body as a dead letter
    of its own right behind this one.

    `texts`: "full", or "redacted" where each text in it is replaced by its length, or "encrypted"
    where besides that the letter as it was is `sealed` for an operator's key.
    """

    schema_version: SchemaVersion = this_version()
    id: str = field(default_factory=new_id)
    job_id: str | None = None
    reason: Reason
    field: str | None = None
    flaw: Flaw | None = None
    found_by: Annotated[str, Meta(max_length=64)] = ""
    detail: str
    at: datetime
    origin: Origin
    job: GenerationJob | None = None
    agent: AgentContext | None = None
    raw_body: bytes | None = None
    raw_body_bytes: int | None = None
    result: GenerationResult | None = None
    versions: dict[str, str] = {}
    texts: Literal["full", "redacted", "encrypted"] = "full"
    sealed: Sealed | None = None
