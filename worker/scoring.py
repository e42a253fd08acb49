"""Scoring texts under a language model: what is asked, what is given, within which bounds."""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct, structs

from ..guards.checks.scores import TextScores
from ..schemas import SluiceError

# Tokens beside the chat template's.
_LEAST_CONTEXT: Final = 32


class ScoreRequest(Struct, frozen=True):
    """A text, and the prompt it answers, "" where it isn't known."""

    prompt: str
    text: str


class Wants(Struct, frozen=True, kw_only=True):
    """Which checks the scores are for: what none of them needs is not computed. `similarity`: the
    embedding model's cosine, where there is such a model."""

    perplexity: bool = True
    relevance: bool = True
    coherence: bool = True
    similarity: bool = True


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds on the work, in tokens of the scoring model.

    Of a text at most `text` are scored: three quarters at its beginning, the rest at its end, for
    that is where texts rot. Nothing is seen at once that is longer than `window`; a further window
    begins with `overlap` that the one before has scored. Of the prompt the last `prompt` are seen;
    behind it the first `given` of the text are scored, where a prompt tells most. Of at most
    `sentences` sentences, from the first on, the first `sentence` are scored. A forward pass has at
    most `batch`, padding included, unless one row alone is longer.
    """

    text: int = 4096
    window: int = 1024
    overlap: int = 128
    prompt: int = 1024
    given: int = 64
    sentence: int = 64
    sentences: int = 64
    batch: int = 4096

    def fitted(self, around: int, context: int) -> "Limits":
        """So that all that is seen at once, with `around` tokens of a chat template, fits a
        context of so many. Raises ScoringUnavailable where it is too short."""
        window = min(self.window, context - around)
        given = min(self.given, window // 2)
        prompt = min(self.prompt, context - around - given)
        if window < _LEAST_CONTEXT or prompt < 1:
            raise ScoringUnavailable(f"a context of {context} tokens is too short to score texts")
        return structs.replace(
            self,
            window=window,
            overlap=min(self.overlap, window // 2),
            prompt=prompt,
            given=given,
            sentence=min(self.sentence, window),
        )


class Scorer(Protocol):
    """Scores texts. Blocking: to be called in a thread, in one at a time."""

    @property
    def name(self) -> str:
        """Of the model."""
        ...

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        """One for each request, in order. Raises ScoringFailed."""
        ...

    def close(self) -> None:
        """Let go of the model. Scoring afterwards is an error."""
        ...


class ScoringUnavailable(SluiceError):
    """The scoring model can't be loaded: why, and what to do."""


class ScoringFailed(SluiceError):
    """Some texts could not be scored, not even alone. `failed`: why, by their index; `scores`: of
    all the others, None for these."""

    def __init__(self, failed: dict[int, str], scores: list[TextScores | None]) -> None:
        reason = next(iter(failed.values()))
        super().__init__(f"{len(failed)} of {len(scores)} texts could not be scored: {reason}")
        self.failed = failed
        self.scores = scores
