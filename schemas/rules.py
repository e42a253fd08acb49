"""Business rules: what a backend demands of every text for a job, whoever wrote it."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from .checks import checked, require_clean, require_json
from .errors import InvalidMessage
from .limits import (
    MAX_OUTPUT_CHARS,
    MAX_OUTPUT_TOKENS,
    MAX_PATTERN_CHARS,
    MAX_PATTERNS,
    MAX_PHRASE_CHARS,
    MAX_PHRASES,
    MAX_SCHEMA_BYTES,
)
from .reasons import Reason

Phrase = Annotated[str, Meta(min_length=1, max_length=MAX_PHRASE_CHARS)]
Phrases = Annotated[tuple[Phrase, ...], Meta(max_length=MAX_PHRASES)]
Pattern = Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN_CHARS)]
Patterns = Annotated[tuple[Pattern, ...], Meta(max_length=MAX_PATTERNS)]
Length = Annotated[int, Meta(ge=0, le=MAX_OUTPUT_CHARS)]
Tokens = Annotated[int, Meta(ge=0, le=MAX_OUTPUT_TOKENS)]
LanguageCode = Annotated[
    str, Meta(pattern=r"^[a-z]{2,3}\Z", description="ISO 639, as `en`, `de`, `zh`")
]
RuleName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*\Z", max_length=64)]


class Rules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rules for the whole text, judged by the checker; a limit of 0 is none.

    `must_include`, `must_not_include`: phrases, whatever their case; `must_match`,
    `must_not_match`: patterns of the `regex` package, searched anywhere. `complete`: the text ends
    by itself, not at `max_tokens`. `json`: the text is one
    JSON value; `json_schema`: and it fits this schema. `language`: the language that the answer is
    in. `own`: rule functions of the checker's installation, by entry point.
    """

    must_include: Phrases = ()
    must_not_include: Phrases = ()
    must_match: Patterns = ()
    must_not_match: Patterns = ()
    min_characters: Length = 0
    max_characters: Length = 0
    min_words: Length = 0
    max_words: Length = 0
    min_tokens: Tokens = 0
    max_tokens: Tokens = 0
    complete: bool = False
    json: bool = False
    json_schema: dict[str, Any] | None = None
    language: LanguageCode | None = None
    own: Annotated[tuple[RuleName, ...], Meta(max_length=16)] = ()

    @checked
    def __post_init__(self) -> None:
        for name in ("must_include", "must_not_include", "must_match", "must_not_match"):
            require_clean(name, getattr(self, name))
            # A pattern of blanks may be meant: two in a row, say.
            if "include" in name and not all(phrase.strip() for phrase in getattr(self, name)):
                raise InvalidMessage(
                    Reason.INVALID_FIELD, name, "has a phrase of nothing but blanks"
                )
        if self.json_schema is not None:
            require_json("json_schema", self.json_schema, max_bytes=MAX_SCHEMA_BYTES)
        for unit in ("characters", "words", "tokens"):
            least, most = getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")
            if most and least > most:
                raise InvalidMessage(
                    Reason.INVALID_FIELD,
                    f"min_{unit}",
                    f"{least} is more than max_{unit} {most}",
                )

    @property
    def asks_for_json(self) -> bool:
        """Whether the text must be JSON."""
        return self.json or self.json_schema is not None

    def beside(self, others: "Rules") -> "Rules":
        """These rules and others', both in force; where there can be but one, these go before.
        Raises InvalidMessage where they contradict each other."""
        return Rules(
            must_include=_joined(self.must_include, others.must_include),
            must_not_include=_joined(self.must_not_include, others.must_not_include),
            must_match=_joined(self.must_match, others.must_match),
            must_not_match=_joined(self.must_not_match, others.must_not_match),
            min_characters=max(self.min_characters, others.min_characters),
            max_characters=_least(self.max_characters, others.max_characters),
            min_words=max(self.min_words, others.min_words),
            max_words=_least(self.max_words, others.max_words),
            min_tokens=max(self.min_tokens, others.min_tokens),
            max_tokens=_least(self.max_tokens, others.max_tokens),
            complete=self.complete or others.complete,
            json=self.json or others.json,
            json_schema=self.json_schema if self.json_schema is not None else others.json_schema,
            language=self.language or others.language,
            own=_joined(self.own, others.own),
        )


def _joined(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _least(one: int, other: int) -> int:
    """The stricter of two limits, of which 0 is none."""
    return min(one or other, other or one)
