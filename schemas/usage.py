"""Tokens spent."""

from collections.abc import Iterable

from msgspec import Struct

from .measures import Count


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens spent, over all attempts that led to a result. `completion_tokens` are those of the
    texts, reasoning and answer together, `reasoning_tokens` those of them that are reasoning,
    `wasted_tokens` those generated besides and thrown away. A prompt counts once an attempt,
    however often it was sent to the engine."""

    prompt_tokens: Count = 0
    cached_tokens: Count = 0
    completion_tokens: Count = 0
    wasted_tokens: Count = 0
    reasoning_tokens: Count = 0

    @property
    def answer_tokens(self) -> int:
        """Those of the answers alone."""
        return self.completion_tokens - self.reasoning_tokens

    @staticmethod
    def total(usages: "Iterable[Usage]") -> "Usage":
        """All of them together."""
        several = list(usages)
        names = Usage.__struct_fields__
        return Usage(**{name: sum(getattr(each, name) for each in several) for name in names})
