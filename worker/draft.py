"""The text of an attempt as it grows: what must go forward and back together."""

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Final

from ..guards.finding import Finding
from ..guards.gate import Step
from ..guards.pipeline import Pipeline
from ..rollback import CheckpointStack
from ..schemas import Sampling
from ..schemas.progress import DraftState
from .metrics import GATES, HELD_BACK
from .release import Releaser
from .transcript import Transcript

# One token in so many is timed. Not the first, where gates have nothing to do, and a number that
# fits no rhythm of theirs.
_SAMPLED: Final = 61
# Tokens that are fed again in one go: a few milliseconds.
_SLICE: Final = 64


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
        finding = self._judged(step)
        if finding is None and not self.held:
            # What was just found is no longer suspected, and must not be sent for that.
            self.releaser.advance(self._gates.suspected)
        return finding

    def _judged(self, step: Step) -> Finding | None:
        """What the gates say of a token; how long they take is measured of one in many."""
        if step.position % _SAMPLED != _SAMPLED - 1:
            return self._gates.feed(step)
        began = perf_counter()
        finding = self._gates.feed(step)
        GATES.observe(perf_counter() - began)
        if self.releaser.streams:
            HELD_BACK.observe(len(self.transcript) - self.releaser.floor)
        return finding

    def guide(
        self, token_ids: tuple[int, ...], parameters: Sampling, seed_path: tuple[int, ...]
    ) -> None:
        """Put in tokens as if the model had said them. Findings are for the next token's gates."""
        for token_id in token_ids:
            self._guides.append(len(self))
            self.accept(token_id, parameters, seed_path)

    def trim(self) -> int:
        """Drop what is not a whole character at the end. How many tokens of the engine's that
        were."""
        return self.cut(self.checkpoints.cut(len(self)))

    @property
    def state(self) -> DraftState:
        """What the tokens don't tell of it."""
        return DraftState(
            lead=self.transcript.lead,
            guides=tuple(self._guides),
            floor=self.releaser.floor,
            sent=self.releaser.sent,
        )

    async def restore(
        self, token_ids: Sequence[int], state: DraftState, parameters: Sampling
    ) -> None:
        """Become the draft that had these tokens and was in this state. What gates find is not
        told again: it was dealt with when the tokens came. O(tokens), a slice at a time, so that
        other attempts go on meanwhile."""
        for count, token_id in enumerate(token_ids, 1):
            step = self.transcript.add(token_id)
            self.checkpoints.offer(
                count, step.offset + len(step.text), parameters, (), bool(step.text)
            )
            self._gates.feed(step)
            if count % _SLICE == 0:
                await asyncio.sleep(0)
        self._guides = list(state.guides)
        self.releaser.restore(state.floor, state.sent)

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
