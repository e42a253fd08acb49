"""The text of an attempt as it grows: what must go forward and back together."""

from ..guards.finding import Finding
from ..guards.pipeline import Pipeline
from ..rollback import CheckpointStack
from ..schemas import Sampling
from .release import Releaser
from .transcript import Transcript


class Draft:
    """Accepted tokens with their text, gates, checkpoints and what a client has seen of them."""

    def __init__(
        self,
        transcript: Transcript,
        gates: Pipeline,
        checkpoints: CheckpointStack,
        releaser: Releaser,
    ) -> None:
        self.transcript = transcript
        self.checkpoints = checkpoints
        self.releaser = releaser
        self._gates = gates
        # Whether nothing may be sent yet, for what this text is has not shown.
        self.held = False
        # Positions of tokens that we put in ourselves.
        self._guides: list[int] = []

    def __len__(self) -> int:
        return len(self.transcript)

    def accept(
        self,
        token_id: int,
        parameters: Sampling,
        seed_path: tuple[int, ...],
        logprob: float | None = None,
    ) -> Finding | None:
        """One more token. The finding, if there is one, covers it."""
        step = self.transcript.add(token_id, logprob)
        self.checkpoints.offer(
            step.position + 1, step.offset + len(step.text), parameters, seed_path, bool(step.text)
        )
        finding = self._gates.feed(step)
        if finding is None and not self.held:
            # What was just found is no longer suspected, and must not be sent for that.
            self.releaser.advance(self._gates.suspected)
        return finding

    def guide(
        self, token_ids: tuple[int, ...], parameters: Sampling, seed_path: tuple[int, ...]
    ) -> None:
        """Put in tokens as if the model had said them. Findings are for the next token's gates."""
        for token_id in token_ids:
            self._guides.append(len(self))
            self.accept(token_id, parameters, seed_path)

    def cut(self, keep: int) -> int:
        """Keep the first `keep` tokens. How many tokens of the engine's were dropped."""
        dropped = len(self) - keep
        while self._guides and self._guides[-1] >= keep:
            self._guides.pop()
            dropped -= 1
        self.transcript.truncate(keep)
        self._gates.truncate(keep)
        self.checkpoints.truncate(keep)
        self.releaser.floor = min(self.releaser.floor, keep)
        return dropped
