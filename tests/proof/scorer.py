"""No scoring model: the checks that want one are switched off."""

from collections.abc import Sequence

from sluicegate.guards.checks.scores import TextScores
from sluicegate.worker.scoring import ScoreRequest, ScoringFailed, Wants


class NoScores:
    """In the place of a scoring model."""

    name = "none"

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        """Raises ScoringFailed: nobody was to ask."""
        del wants
        reason = "there is no scoring model here"
        raise ScoringFailed(dict.fromkeys(range(len(requests)), reason), [None] * len(requests))

    def close(self) -> None:
        """There is nothing to give back."""
