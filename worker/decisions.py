"""What is done about findings in an attempt, by the policy, and what of it is written down."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from ..guards.finding import Finding, Flaw, Level
from ..rollback import (
    Action,
    GiveUp,
    Note,
    Rollback,
    Situation,
    Trip,
    decide,
    elsewhere,
    first_copy,
)
from .accounts import Accounts, Clock
from .gating import JobGating
from .manuscript import Manuscript

_REPETITIONS: Final = frozenset(
    {
        Flaw.REASONING_LOOP,
        Flaw.REASONING_PARAGRAPHS,
        Flaw.REASONING_NGRAMS,
        Flaw.REASONING_SENTENCES,
        Flaw.REASONING_OPENINGS,
    }
)


class Decisions:
    """Decides about each finding, carries it out on what is written, and remembers it."""

    def __init__(
        self,
        rules: JobGating,
        written: Manuscript,
        accounts: Accounts,
        clock: Clock,
        *,
        greedy: bool,
    ) -> None:
        self._rules = rules
        self._written = written
        self._accounts = accounts
        self._clock = clock
        self._greedy = greedy
        self._trips: list[Trip] = []
        # What stood before the text that they are about.
        self._base = written.base
        self.last: Finding | None = None

    @property
    def trips(self) -> list[Trip]:
        """What was found in the running text, and, at no place of it, in those before it."""
        if self._written.base is not self._base:
            self._base, self._trips = self._written.base, elsewhere(self._trips)
        return self._trips

    def restore(self, trips: Sequence[Trip]) -> None:
        """Take these for what was found and done before, with the text as it is now."""
        self._base, self._trips = self._written.base, list(trips)

    def act(self, finding: Finding, *, beyond: int) -> Action:
        """Decide about a finding, and go back if that is the decision. `beyond`: tokens of the
        engine's that come after it."""
        accounts, tokens = self._accounts, len(self._written.draft)
        self.last = finding
        if finding.level is Level.REASONING and self._written.thinking is not None:
            self._written.thinking.find(finding)
        action = decide(finding, self._situation(beyond), self._rules.table)
        # What ended the engine's request is no part of any text.
        sentinel = beyond if finding.gate == "logits" else 0
        if isinstance(action, Note) and not action.counts:
            accounts.waste(sentinel)
            return action
        if isinstance(action, Rollback):
            if action.changes.close and finding.flaw in _REPETITIONS:
                action = self._of_a_loop_once(action)
            self._go_back(finding, action, beyond=beyond)
            return action
        wasted = beyond if isinstance(action, GiveUp) else sentinel
        accounts.waste(wasted)
        self.note(finding, action, wasted=wasted)
        self.trips.append(Trip(finding=finding, action=action, tokens=tokens))
        return action

    def give_up(self, finding: Finding, why: str, *, beyond: int) -> GiveUp:
        """End the attempt, whatever the policy would say."""
        self.last = finding
        self._accounts.waste(beyond)
        action = GiveUp(detail=f"{finding.flaw} at token {finding.tokens[0]}: {why}")
        self.note(finding, action, wasted=beyond)
        return action

    def note(
        self,
        finding: Finding,
        action: Action,
        *,
        wasted: int = 0,
        banned: int | None = None,
        text: str | None = None,
    ) -> None:
        """Write it down. `text`: what it was found in, where that is gone."""
        self._accounts.note(
            finding,
            action,
            wasted=wasted,
            banned=banned,
            text=self._written.draft.transcript.text if text is None else text,
            channel=self._written.channel,
        )

    def _of_a_loop_once(self, action: Rollback) -> Rollback:
        """A cut that keeps no copies of what is thrown away, but for one."""
        draft = self._written.draft
        keep = draft.checkpoints.cut(first_copy(draft.transcript.tokens, action.keep))
        return replace(action, keep=keep)

    def _situation(self, beyond: int) -> Situation:
        written, accounts, profile = self._written, self._accounts, self._rules.profile
        thinking = written.thinking
        return Situation(
            tokens=len(written.draft),
            checkpoints=written.draft.checkpoints,
            budgets=self._rules.budgets,
            floor=written.draft.releaser.floor,
            trips=self.trips,
            rollbacks=accounts.rollbacks,
            # What was thought in vain is bounded by its own cap, and what is lost when a worker
            # stops is nobody's fault.
            wasted=accounts.wasted
            + beyond
            - accounts.dropped
            - (thinking.dropped if thinking else 0),
            seconds=accounts.lost_s,
            greedy=self._greedy,
            constrained=written.constrained,
            findings=profile.coherence_findings,
            within=profile.coherence_span,
        )

    def _go_back(self, finding: Finding, action: Rollback, *, beyond: int) -> None:
        draft = self._written.draft
        tokens, text = len(draft), draft.transcript.text
        banned = None
        if action.changes.ban and action.keep < tokens:
            banned = draft.transcript.tokens[action.keep]
        wasted = draft.cut(action.keep) + beyond
        self.note(finding, action, wasted=wasted, banned=banned, text=text)
        self.trips.append(Trip(finding=finding, action=action, tokens=tokens, banned=banned))
        if not action.changes.close:
            self._accounts.roll_back(wasted)
            return
        self._accounts.cut(wasted)
        self._written.close_reasoning(text, wasted, self._clock())
