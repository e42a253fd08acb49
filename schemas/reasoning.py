"""Reasoning: what a job asks of the guard over the model's thinking, and what became of it."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from .checks import checked, require_clean
from .errors import InvalidMessage
from .flaws import Flaw
from .limits import MAX_KEPT_TEXT, MAX_OUTPUT_TOKENS, MAX_WRAP_UP_CHARS
from .measures import Count, Seconds
from .reasons import Reason
from .usage import Usage

ReasoningMode = Literal["off", "observe", "cut"]
# A name stands for a number of tokens that the profile gives; 0: no reasoning at all.
EFFORTS: Final = ("low", "medium", "high", "max")
Effort = Literal["low", "medium", "high", "max"] | Annotated[int, Meta(ge=0, le=MAX_OUTPUT_TOKENS)]


class Reasoning(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be thought before the answer. What is null is as the job's profile says.

    `mode`: "off" lets the model think as it likes, "observe" writes down what the guard finds,
    "cut" acts on it. `effort`: how many tokens the reasoning may have. `wrap_up`: the sentence that
    closes reasoning that was cut; an empty one is none.
    """

    mode: ReasoningMode | None = None
    effort: Effort | None = None
    wrap_up: Annotated[str, Meta(max_length=MAX_WRAP_UP_CHARS)] | None = None

    @checked
    def __post_init__(self) -> None:
        require_clean("wrap_up", [self.wrap_up or ""])
        effort = self.effort
        number = type(effort) is int and 0 <= effort <= MAX_OUTPUT_TOKENS
        if effort is not None and not number and effort not in EFFORTS:
            raise InvalidMessage(
                Reason.INVALID_FIELD,
                "effort",
                f"{effort!r} is none of {', '.join(EFFORTS)}, and no whole number from 0 to "
                f"{MAX_OUTPUT_TOKENS}",
            )


class ReasoningRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the guard saw of one attempt's reasoning, and did.

    `effort` is what was asked, `cap` the tokens that it came to. `flaw`, found by `gate`, is the
    first reason to cut, `tripped` whether there was one (mode "observe" leaves it at that).
    `tokens` stayed, `dropped_tokens` were thrown away, in `cuts` cuts. `ended`: the block was never
    opened, was closed by the model, was cut, held a complete answer that was taken from it
    (`salvaged`), or was still open when the attempt ended. The next segment had
    `resumed_prompt_tokens`, of which `resumed_cached_tokens` came from the prefix cache, and its
    first token `first_answer_token_s` seconds after the cut. `usage` is the attempt's. `text`: the
    beginning of the reasoning, where the attempt led to no accepted answer.
    """

    mode: ReasoningMode
    effort: Effort
    cap: Count
    tripped: bool = False
    flaw: Flaw | None = None
    gate: Annotated[str, Meta(max_length=64)] = ""
    tokens: Count = 0
    dropped_tokens: Count = 0
    cuts: Count = 0
    ended: Literal["not_opened", "closed", "cut", "salvaged", "open"] = "not_opened"
    first_answer_token_s: Seconds | None = None
    resumed_prompt_tokens: Count = 0
    resumed_cached_tokens: Count = 0
    usage: Usage = Usage()
    text: Annotated[str, Meta(max_length=MAX_KEPT_TEXT)] = ""
