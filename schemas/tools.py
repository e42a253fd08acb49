"""Tools: what a model may call, what it called, and what came of it."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from .checks import checked, require_clean, require_json
from .errors import InvalidMessage
from .ids import new_id
from .limits import (
    MAX_ARGUMENTS_BYTES,
    MAX_ID_CHARS,
    MAX_SCHEMA_BYTES,
    MAX_TOOL_CALLS,
    MAX_TOOL_DESCRIPTION_CHARS,
    MAX_TOOL_NAME_CHARS,
    MAX_TOOL_NAMES,
    MAX_TOOL_RESULT_CHARS,
)
from .measures import Count, Name, Seconds, Sentence
from .reasons import Reason
from .timestamps import Timestamp
from .version import SchemaVersion, this_version

# Fit for a routing key, for a grammar, and for every model's own format of calls.
ToolName = Annotated[
    str, Meta(pattern=rf"^[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_TOOL_NAME_CHARS - 1}}}\Z")
]
# As a model said it: it may be any text.
SaidName = Annotated[str, Meta(max_length=MAX_TOOL_NAME_CHARS)]
ArgumentNames = Annotated[tuple[ToolName, ...], Meta(max_length=MAX_TOOL_NAMES)]
ToolText = Annotated[str, Meta(max_length=MAX_TOOL_RESULT_CHARS)]
EffectId = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)]
RequestId = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)]


class ToolSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a tool without its code: what the model is told (`name`, `description`,
    `parameters`: JSON Schema of an object), and how it is to be handled.

    `quota`: calls in one job; None: as many as the budget has. `idempotent`: to run it twice with
    one effect id is to run it once. `polls`: to ask the same again is legal. `changes_state`: what
    was read before may be other afterwards. `loop_key`: the arguments by which two calls are the
    same; None: all of them. `volatile`: fields of its result that change without meaning. `remote`:
    it is called over the broker.
    """

    name: ToolName
    description: Annotated[str, Meta(max_length=MAX_TOOL_DESCRIPTION_CHARS)] = ""
    parameters: dict[str, Any] = {}
    quota: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=3_600)] = 30.0
    needs_approval: bool = False
    approval_timeout_s: Annotated[float, Meta(gt=0, le=30 * 24 * 3_600)] = 3_600.0
    idempotent: bool = False
    polls: bool = False
    changes_state: bool = False
    loop_key: ArgumentNames | None = None
    volatile: ArgumentNames = ()
    remote: bool = False

    @checked
    def __post_init__(self) -> None:
        require_clean("description", [self.description])
        require_json("parameters", self.parameters, max_bytes=MAX_SCHEMA_BYTES)
        if self.parameters and self.parameters.get("type") != "object":
            raise InvalidMessage(
                Reason.INVALID_FIELD, "parameters", 'must be the JSON Schema of an "object"'
            )


class ToolStatus(StrEnum):
    """What came of a call. Nothing ran but for `ok`, `error`, `timeout`, `unknown`."""

    OK = "ok"
    ERROR = "error"  # the tool raised, or what it gave back can't be used
    TIMEOUT = "timeout"  # it was cancelled or killed; what it had done by then is not known
    UNKNOWN = "unknown"  # it was dispatched, and whoever did so died before its result was kept
    UNKNOWN_TOOL = "unknown_tool"
    NOT_ALLOWED = "not_allowed"  # known, and not for this job, or not now
    INVALID_ARGUMENTS = "invalid_arguments"
    QUOTA_SPENT = "quota_spent"
    DENIED = "denied"  # by a person, or because nobody said yes in time
    NOT_RUN = "not_run"  # the job was ended first


RAN = frozenset({ToolStatus.OK, ToolStatus.ERROR, ToolStatus.TIMEOUT, ToolStatus.UNKNOWN})
"""Of these something was, or may have been, done."""


class ToolResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model is told of its call. `content` is text, or JSON as text; `whole_chars` is how
    long it was where it was cut short. `fingerprint` is of what came back, whole, without what
    changes by itself: two equal ones bring no news. `abandoned`: a tool that would not end was left
    behind, and may still run."""

    status: ToolStatus
    content: ToolText = ""
    whole_chars: Count | None = None
    fingerprint: Annotated[str, Meta(max_length=64)] = ""
    seconds: Seconds = 0.0
    abandoned: bool = False

    @checked
    def __post_init__(self) -> None:
        require_clean("content", [self.content])

    @property
    def ok(self) -> bool:
        """Whether the tool did what it was asked to."""
        return self.status is ToolStatus.OK


class Approval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's yes or no to a call. "waiting" until `expires_at`, which means no."""

    state: Literal["waiting", "approved", "denied", "timed_out"] = "waiting"
    expires_at: Timestamp
    by: Name = ""
    why: Sentence = ""
    at: Timestamp | None = None


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call as the model made it. `id` is the model's own name for it, or made up. By `effect_id`
    two runs of the same call are known as one: it is made of job, round and position. `result` is
    None while it is open."""

    id: Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)]
    name: SaidName
    arguments: dict[str, Any] = {}
    effect_id: EffectId
    approval: Approval | None = None
    result: ToolResult | None = None

    @checked
    def __post_init__(self) -> None:
        require_json("arguments", self.arguments, max_bytes=MAX_ARGUMENTS_BYTES)

    @property
    def is_open(self) -> bool:
        """Whether nothing has come of it yet."""
        return self.result is None


ToolCalls = Annotated[tuple[ToolCall, ...], Meta(max_length=MAX_TOOL_CALLS)]


class ToolRequest(Struct, frozen=True, kw_only=True, tag_field="type", tag="tool_request"):
    """A call to a tool elsewhere, over the broker. The answer goes to the message's `reply_to`.

    Not to be begun after `expires_at`: nobody waits for it any more. `id` names the request, and is
    another when it is made again; `effect_id` is the same then.
    """

    schema_version: SchemaVersion = this_version()
    id: RequestId = field(default_factory=new_id)
    job_id: Annotated[str, Meta(max_length=MAX_ID_CHARS)]
    name: ToolName
    arguments: dict[str, Any]
    effect_id: EffectId
    expires_at: Timestamp

    @checked
    def __post_init__(self) -> None:
        require_json("arguments", self.arguments, max_bytes=MAX_ARGUMENTS_BYTES)


class ToolReply(Struct, frozen=True, kw_only=True, tag_field="type", tag="tool_reply"):
    """What came of a request, by whose `id` it is known."""

    schema_version: SchemaVersion = this_version()
    id: RequestId
    effect_id: EffectId
    result: ToolResult
    server: Name = ""
