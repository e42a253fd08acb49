"""The job: what a backend asks for."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from .checks import checked, require_clean, require_json, require_type
from .errors import InvalidMessage
from .ids import new_id
from .limits import (
    MAX_ATTEMPT_NUMBER,
    MAX_ATTEMPTS,
    MAX_ID_CHARS,
    MAX_MESSAGES,
    MAX_METADATA_BYTES,
    MAX_PROMPT_CHARS,
    MAX_PROMPT_TOKENS,
    MAX_SPAN_CHARS,
    MAX_SPANS,
)
from .lineage import Lineage
from .mutations import Mutation
from .progress import Progress
from .reasoning import Reasoning
from .reasons import Reason
from .rules import Rules
from .sampling import Sampling, TokenId
from .timestamps import Timestamp
from .version import SchemaVersion, this_version

# No dots: ids and reply keys are words of routing keys. No controls: they are printed on terminals.
JobId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_:-]*\Z",
        min_length=1,
        max_length=MAX_ID_CHARS,
        description="a UUIDv7, a ULID, or an idempotency key of the caller's",
    ),
]
ReplyKey = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_:-]*\Z", min_length=1, max_length=MAX_ID_CHARS)
]
ProfileName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]*\Z", max_length=64)]
Lane = Literal["interactive", "batch"]
Traceparent = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z",
        description="W3C trace context",
    ),
]
Mark = Annotated[str, Meta(min_length=1, max_length=MAX_SPAN_CHARS)]
PromptText = Annotated[str, Meta(max_length=MAX_PROMPT_CHARS)]


class ChatMessage(Struct, frozen=True, kw_only=True):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: PromptText

    @checked
    def __post_init__(self) -> None:
        require_clean("content", [self.content])


class GenerationJob(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="generation_job"
):
    """One text to generate.

    Exactly one of `prompt` (the user's words, put through the model's chat template),
    `messages` (a conversation, through the same template) and `prompt_token_ids` (used as they
    are) says what from. `exempt`: what opens and what closes spans of its text that are no prose,
    such as the arguments of a call; the gates on text don't judge them.
    """

    schema_version: SchemaVersion = this_version()
    id: JobId = field(default_factory=new_id)
    prompt: PromptText | None = None
    messages: Annotated[tuple[ChatMessage, ...], Meta(max_length=MAX_MESSAGES)] | None = None
    prompt_token_ids: Annotated[tuple[TokenId, ...], Meta(max_length=MAX_PROMPT_TOKENS)] | None = (
        None
    )
    sampling: Sampling = Sampling()
    profile: ProfileName = "chat"
    gates: dict[str, Any] = {}
    exempt: Annotated[tuple[tuple[Mark, Mark], ...], Meta(max_length=MAX_SPANS)] = ()
    reasoning: Reasoning = Reasoning()
    checks: Literal["off", "observe", "block"] = "off"
    rules: Rules = Rules()
    lane: Lane = "interactive"
    max_attempts: Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS)] = 3
    deadline: Timestamp | None = None
    stream: bool = False
    reply_to: ReplyKey = "default"
    traceparent: Traceparent | None = None
    metadata: dict[str, Any] = {}
    # Written by the system as the job travels; a publisher leaves them alone.
    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPT_NUMBER)] = 1
    first_attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPT_NUMBER)] = 1
    mutation: Mutation | None = None
    enqueued_at: Timestamp | None = None
    lineage: Lineage = Lineage()
    progress: Progress | None = None

    @checked
    def __post_init__(self) -> None:
        given = [self.prompt, self.messages, self.prompt_token_ids]
        if sum(source is not None for source in given) != 1:
            raise InvalidMessage(
                Reason.MISSING_FIELD
                if not any(s is not None for s in given)
                else Reason.INVALID_FIELD,
                "prompt",
                "set exactly one of prompt, messages, prompt_token_ids",
            )
        require_clean("exempt", [mark for span in self.exempt for mark in span])
        require_clean("prompt", [] if self.prompt is None else [self.prompt])
        for index, message in enumerate(self.messages or ()):
            require_type(f"messages[{index}]", message, ChatMessage, "a ChatMessage")
        if self.is_empty():
            raise InvalidMessage(Reason.EMPTY_PROMPT, "prompt", "there is nothing to answer")
        if not self.first_attempt <= self.attempt <= self.last_attempt:
            raise InvalidMessage(
                Reason.INVALID_FIELD,
                "attempt",
                f"{self.attempt} is not from {self.first_attempt} to {self.last_attempt}: there "
                f"are max_attempts {self.max_attempts}, beginning with first_attempt",
            )
        require_json("metadata", self.metadata, max_bytes=MAX_METADATA_BYTES)
        require_json("gates", self.gates, max_bytes=MAX_METADATA_BYTES)

    @property
    def last_attempt(self) -> int:
        """The number of the last attempt. A job that an operator sent back begins with
        `first_attempt`, so that its outcomes are no duplicates of earlier ones."""
        return self.first_attempt + self.max_attempts - 1

    def is_empty(self) -> bool:
        """Whether there is nothing but white space to answer."""
        if self.prompt is not None:
            return not self.prompt.strip()
        if self.messages is not None:
            return not any(message.content.strip() for message in self.messages)
        return not self.prompt_token_ids
