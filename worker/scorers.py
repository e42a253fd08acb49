"""The scorer that a configuration means."""

import importlib

from .config import Config
from .scoring import Scorer, ScoringUnavailable


def make_scorer(config: Config) -> Scorer:
    """The scoring model, loaded. Blocking, for seconds: torch and transformers are imported here.
    Raises ScoringUnavailable."""
    try:
        module = importlib.import_module(".scoring_model", __package__)
    except ImportError as error:
        raise ScoringUnavailable(
            f"torch or transformers can't be imported ({error}): pip install 'sluicegate[checks]'"
        ) from error
    return module.TransformersScorer(
        config.scoring_model,
        threads=config.check_threads,
        embedding_model=config.embedding_model,
    )
