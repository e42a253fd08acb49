"""A scorer whose scores a test says, and labelled lines."""

import json
from collections.abc import Callable, Sequence

from sluicegate.guards.checks.scores import TextScores
from sluicegate.ops.evaluation import Labelled, parse
from sluicegate.worker.config import Config
from sluicegate.worker.scoring import ScoreRequest, ScoringFailed, Wants


class MadeScorer:
    """Each character is a token, each as surprising as `surprise` of the text has it, in nats;
    None: the text can't be scored."""

    name = "made"

    def __init__(self, surprise: Callable[[str], float | None] = lambda _: 1.0) -> None:
        self.surprise = surprise
        self.batches: list[list[str]] = []
        self.closed = False

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        """One for each."""
        assert not self.closed
        del wants
        self.batches.append([request.text for request in requests])
        found = [self._scores(request.text) for request in requests]
        failed = {at: "too odd" for at, each in enumerate(found) if each is None}
        if failed:
            raise ScoringFailed(failed, found)
        return [each for each in found if each is not None]

    def close(self) -> None:
        """Scoring afterwards is an error."""
        self.closed = True

    def _scores(self, text: str) -> TextScores | None:
        surprise = self.surprise(text)
        if surprise is None:
            return None
        chars = tuple((at, at + 1) for at in range(len(text)))
        return TextScores(model=self.name, chars=chars, logprobs=(-surprise,) * len(text))


def always(scorer: MadeScorer) -> Callable[[Config], MadeScorer]:
    """What opens this scorer whatever the configuration."""

    def opened(config: Config) -> MadeScorer:
        del config
        return scorer

    return opened


def line(**fields: object) -> str:
    """A line of a file of labelled texts."""
    return json.dumps({"id": "x", "label": "good", "text": "Hello.", **fields}) + "\n"


def lines(*some: str) -> list[Labelled]:
    """The same, read."""
    found, problems = parse(one.encode() for one in some)
    assert problems == []
    return found
