"""How alike two outputs are by an embedding model: an extra, beside what the watchdog has."""

from collections.abc import Callable

from ..config import Config, ConfigError
from ..scoring import ScoreRequest, ScoringUnavailable


def make_cosine(config: Config) -> Callable[[str, str], float] | None:
    """The cosine of two texts, from -1 to 1, by the `embedding_model` of the settings; None where
    none is set. Blocking, as what it gives is: call both in a thread. Raises ConfigError where the
    model can't be loaded."""
    if not config.embedding_model:
        return None
    try:
        from ..scoring_embedding import Embedder  # noqa: PLC0415  torch and transformers
    except ImportError as error:
        raise ConfigError(
            f"embedding_model: {error}; pip install 'sluicegate[checks]', or leave it empty"
        ) from error
    try:
        embedder = Embedder(config.embedding_model, "float32")
    except ScoringUnavailable as error:
        raise ConfigError(f"embedding_model: {error}") from error

    def cosine(one: str, other: str) -> float:
        (found,) = embedder.similarities([ScoreRequest(prompt=one, text=other)])
        return found if found is not None else 0.0

    return cosine
