"""An attempt without an engine: accepts tokens, asks the policy, does what it says."""

from collections.abc import Callable

from sluicegate.guards.finding import Finding
from sluicegate.rollback import (
    Action,
    Budgets,
    CheckpointStack,
    GiveUp,
    Rollback,
    Situation,
    Table,
    Trip,
    decide,
    default_table,
)
from sluicegate.schemas import Flaw, Level, Sampling

SAMPLING = Sampling()

LEVELS: dict[Flaw, Level] = {
    Flaw.NON_FINITE_LOGITS: Level.LOGITS,
    Flaw.UNIFORM_LOGITS: Level.LOGITS,
    Flaw.LOW_CONFIDENCE: Level.LOGITS,
    Flaw.FEW_CANDIDATES: Level.LOGITS,
    Flaw.ID_OUT_OF_RANGE: Level.TOKEN,
    Flaw.DENIED_TOKEN: Level.TOKEN,
    Flaw.SILENT_TOKENS: Level.TOKEN,
    Flaw.LOST_CONFIDENCE: Level.COHERENCE,
    Flaw.INCOHERENT: Level.COHERENCE,
    Flaw.SCRIPT_BREAK: Level.COHERENCE,
    Flaw.LOW_NOVELTY: Level.COHERENCE,
    Flaw.EMPTY_ANSWER: Level.OUTPUT,
    Flaw.TOO_SHORT: Level.OUTPUT,
    Flaw.REPETITIVE: Level.OUTPUT,
    Flaw.UNFINISHED_CHARACTER: Level.OUTPUT,
    Flaw.ENGINE_REPETITION: Level.OUTPUT,
    Flaw.ENGINE_ABORT: Level.OUTPUT,
} | {flaw: Level.REASONING for flaw in Flaw if flaw.is_of_reasoning}


def finding(flaw: Flaw, onset: int, end: int) -> Finding:
    """A finding over tokens `onset` to `end`."""
    return Finding(
        gate="test",
        level=LEVELS.get(flaw, Level.TEXT),
        flaw=flaw,
        tokens=(onset, end),
        chars=(onset, end),
        score=1.0,
        threshold=0.0,
    )


class Attempt:
    """Grows, trips and goes back. Whether text is whole behind a token: `whole(tokens)`."""

    def __init__(
        self,
        *,
        table: Table | None = None,
        budgets: Budgets | None = None,
        greedy: bool = False,
        constrained: bool = False,
        interval: int = 5,
        findings: int = 0,
        whole: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self.table = table or default_table()
        self.budgets = budgets or Budgets()
        self.greedy = greedy
        self.constrained = constrained
        self.findings = findings
        self.within = 0
        self.whole = whole
        self.floor = 0
        self.checkpoints = CheckpointStack(interval, SAMPLING)
        self.trips: list[Trip] = []
        self.wasted = 0
        self.seconds = 0.0

    @property
    def tokens(self) -> int:
        return self.checkpoints.tokens

    def grow(self, tokens: int) -> None:
        """Accept tokens up to that many."""
        for count in range(self.tokens + 1, tokens + 1):
            self.checkpoints.offer(count, count, SAMPLING, (), self.whole(count))

    def situation(self) -> Situation:
        return Situation(
            tokens=self.tokens,
            checkpoints=self.checkpoints,
            budgets=self.budgets,
            floor=self.floor,
            trips=tuple(self.trips),
            rollbacks=sum(isinstance(trip.action, Rollback) for trip in self.trips),
            wasted=self.wasted,
            seconds=self.seconds,
            greedy=self.greedy,
            constrained=self.constrained,
            findings=self.findings,
            within=self.within,
        )

    def trip(self, flaw: Flaw, onset: int, at: int | None = None) -> Action:
        """A finding after `at` tokens (default: at its onset's token), answered and obeyed."""
        self.grow(onset + 1 if at is None else at)
        found = finding(flaw, onset, self.tokens)
        action = decide(found, self.situation(), self.table)
        self.trips.append(Trip(finding=found, action=action, tokens=self.tokens))
        if isinstance(action, Rollback):
            self.wasted += self.tokens - action.keep
            self.checkpoints.truncate(action.keep)
        return action

    def trips_until_given_up(self, flaw: Flaw, onset: int, at: int | None = None) -> list[Action]:
        """The same again and again."""
        actions: list[Action] = []
        while not actions or not isinstance(actions[-1], GiveUp):
            actions.append(self.trip(flaw, onset, at))
            assert len(actions) < 100
        return actions
