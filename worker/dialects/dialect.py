"""How a conversation with tools is put before a model, and how its answer is read."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from ...schemas import FinishReason, ParseFailure, StructuredOutput, ToolCall, ToolSpec


class Told(Struct, frozen=True):
    """What somebody else than the model says. Only the first turn is the system's."""

    role: Literal["system", "user"]
    text: str


class Said(Struct, frozen=True):
    """What the model said, as it said it; `calls` is what was read in it."""

    text: str
    calls: tuple[ToolCall, ...] = ()


class Came(Struct, frozen=True):
    """What came of what the model said: the results of `calls`, or, where it could not be read,
    `failure`; and behind that a `reminder`, where there is one."""

    calls: tuple[ToolCall, ...] = ()
    failure: ParseFailure | None = None
    reminder: str = ""


Turn = Told | Said | Came


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt as it goes into a job: token ids, or, for an engine without a model, `text`.
    `tokens` is its exact length, template and tools included."""

    token_ids: tuple[int, ...] | None = None
    text: str | None = None
    tokens: int


class Asked(Struct, frozen=True, kw_only=True):
    """A call that the model asks for. `id`: its own name for it, or empty."""

    name: str
    arguments: dict[str, Any]
    id: str = ""


class Parsed(Struct, frozen=True, kw_only=True):
    """What the model said, split strictly: calls, or an answer, or a failure; exactly one of them.
    `prose` is what is left without the markup and the arguments."""

    prose: str = ""
    calls: tuple[Asked, ...] = ()
    answer: str | None = None
    failure: ParseFailure | None = None


class Dialect(Protocol):
    """One way to say what is called. Stateless: one serves all jobs."""

    @property
    def name(self) -> str:
        """For logs and records."""
        ...

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings: a model must not make up the results itself."""
        ...

    @property
    def openers(self) -> tuple[str, ...]:
        """What a call begins with: forbidden (`bad_words`) where no tool may be called."""
        ...

    @property
    def spans(self) -> tuple[tuple[str, str], ...]:
        """What opens and closes the part of an answer that is no prose, but arguments of a call."""
        ...

    def prompt(self, turns: Sequence[Turn], tools: Sequence[ToolSpec]) -> Prompt:
        """The conversation in the model's tokens. It only grows at its end from round to round, so
        that the prefix cache holds. O(len) of the conversation; may take milliseconds."""
        ...

    def grammar(
        self, tools: Sequence[ToolSpec], *, may_answer: bool = True
    ) -> StructuredOutput | None:
        """What holds an answer to calls of these tools, or to a final answer. None where this
        dialect has no grammar."""
        ...

    def parse(
        self, text: str, finish_reason: FinishReason | None, tools: Sequence[ToolSpec]
    ) -> Parsed:
        """Split what the model said. Never raises for what a model can say. Names and arguments are
        not judged here: `tools` only helps to read them."""
        ...

    def answer(self, text: str) -> str:
        """The text of a final, tool-free answer without whatever markup it still has."""
        ...
