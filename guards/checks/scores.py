"""What the scoring model says of a text: numbers only, so that judging them needs no model."""

from msgspec import Struct


class SentenceScore(Struct, frozen=True):
    """A sentence, its characters half open, and its mean log probability (nats a token) `alone`
    and `after` the text before it."""

    chars: tuple[int, int]
    alone: float
    after: float
    tokens: int


class TextScores(Struct, frozen=True, kw_only=True):
    """Scores of one text under one scoring model, whose name is `model`.

    Parallel lists, one entry a token of the scoring model: `chars` in the text, half open;
    `logprobs` of the text by itself, `given_prompt` behind the prompt (empty where there is none),
    natural logarithms. `scored_chars` of the text were scored: a long one is cut short.
    `similarity` is the cosine of prompt and text where an embedding model judges relevance.
    """

    model: str
    chars: tuple[tuple[int, int], ...]
    logprobs: tuple[float, ...]
    given_prompt: tuple[float, ...] = ()
    sentences: tuple[SentenceScore, ...] = ()
    scored_chars: int = 0
    similarity: float | None = None
