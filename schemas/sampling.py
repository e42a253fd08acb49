"""How to sample: the names and meanings of vLLM's sampling parameters, with ranges."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from .checks import checked, require_clean, require_finite, require_json
from .errors import InvalidMessage
from .limits import (
    MAX_BAD_WORDS,
    MAX_CHOICES,
    MAX_LOGIT_BIAS,
    MAX_OUTPUT_TOKENS,
    MAX_SCHEMA_BYTES,
    MAX_SEED,
    MAX_STOP_CHARS,
    MAX_STOP_STRINGS,
    MAX_TOKEN_ID,
)
from .reasons import Reason

ShortText = Annotated[str, Meta(min_length=1, max_length=MAX_STOP_CHARS)]
TokenId = Annotated[int, Meta(ge=0, le=MAX_TOKEN_ID)]


class StructuredOutput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Constrain the output by a grammar: exactly one of the five fields is set.

    `json_schema`: JSON that fits the schema; `regex`: text that the pattern matches as a whole;
    `choice`: one of the texts; `grammar`: a grammar in EBNF; `structural_tag`: parts between marks,
    held to schemas, in free text or not, as xgrammar writes it down.
    """

    json_schema: dict[str, Any] | None = None
    regex: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    choice: Annotated[tuple[ShortText, ...], Meta(min_length=1, max_length=MAX_CHOICES)] | None = (
        None
    )
    grammar: Annotated[str, Meta(min_length=1, max_length=MAX_SCHEMA_BYTES)] | None = None
    structural_tag: dict[str, Any] | None = None

    @checked
    def __post_init__(self) -> None:
        given = [self.json_schema, self.regex, self.choice, self.grammar, self.structural_tag]
        if sum(field is not None for field in given) != 1:
            raise InvalidMessage(
                Reason.INVALID_FIELD,
                "",
                "set exactly one of json_schema, regex, choice, grammar, structural_tag",
            )
        if self.json_schema is not None:
            require_json("json_schema", self.json_schema, max_bytes=MAX_SCHEMA_BYTES)
        if self.structural_tag is not None:
            require_json("structural_tag", self.structural_tag, max_bytes=MAX_SCHEMA_BYTES)
        require_clean("regex", [self.regex or ""])
        require_clean("grammar", [self.grammar or ""])
        require_clean("choice", self.choice or ())


class Sampling(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling parameters. The defaults are neutral: they change nothing about the model."""

    temperature: Annotated[float, Meta(ge=0, le=2, description="0 is greedy")] = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=0, le=1_000_000, description="0 keeps every candidate")] = 0
    min_p: Annotated[float, Meta(ge=0, le=1)] = 0.0
    seed: (
        Annotated[
            int,
            Meta(ge=0, le=MAX_SEED, description="derived from the job's id where none is given"),
        ]
        | None
    ) = None
    max_tokens: Annotated[int, Meta(ge=1, le=MAX_OUTPUT_TOKENS)] = 512
    min_tokens: Annotated[int, Meta(ge=0, le=MAX_OUTPUT_TOKENS)] = 0
    stop: Annotated[tuple[ShortText, ...], Meta(max_length=MAX_STOP_STRINGS)] = ()
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] = 1.0
    bad_words: Annotated[tuple[ShortText, ...], Meta(max_length=MAX_BAD_WORDS)] = ()
    logit_bias: Annotated[
        dict[TokenId, Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=MAX_LOGIT_BIAS)
    ] = {}
    structured_output: StructuredOutput | None = None

    @checked
    def __post_init__(self) -> None:
        require_finite(
            temperature=self.temperature,
            top_p=self.top_p,
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
        )
        for token, bias in self.logit_bias.items():
            require_finite(**{f"logit_bias[{token}]": bias})
        require_clean("stop", self.stop)
        require_clean("bad_words", self.bad_words)
        if self.min_tokens > self.max_tokens:
            raise InvalidMessage(
                Reason.INVALID_FIELD,
                "min_tokens",
                f"{self.min_tokens} is more than max_tokens {self.max_tokens}",
            )
