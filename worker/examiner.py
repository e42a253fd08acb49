"""From candidates to verdicts: the scoring model over all of them at once, then check by check."""

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..guards.checks.judge import judge, needs_scores
from ..guards.checks.records import failed
from ..guards.checks.scores import TextScores
from ..guards.checks.subject import Subject
from ..guards.checks.thresholds import BadThresholds, Thresholds, thresholds
from ..schemas import (
    Candidate,
    CheckRecord,
    GenerationJob,
    InvalidMessage,
    Level,
    Rules,
    Verdict,
)
from .effective import effective
from .scoring import Scorer, ScoreRequest, ScoringFailed, Wants

log = logging.getLogger(__name__)

_SCORING: Final = "scoring"


class Waiting(Struct, frozen=True):
    """A candidate, and when it came (`time.monotonic`)."""

    candidate: Candidate
    since: float


def subject_of(candidate: Candidate) -> Subject:
    """What the checks look at."""
    job = effective(candidate.job)
    result = candidate.result
    last = result.lineage.attempts[-1]
    return Subject(
        text=result.text,
        prompt=candidate.prompt or prompt_of(candidate.job),
        profile=job.profile,
        rules=job.rules,
        structured=job.sampling.structured_output,
        finish_reason=result.finish_reason or "stop",
        stop=job.sampling.stop,
        tokens=last.usage.completion_tokens,
        notes=tuple(
            trip for trip in last.trips if trip.action == "note" and trip.level == Level.COHERENCE
        ),
    )


def prompt_of(job: GenerationJob) -> str:
    """What was asked, as text; nothing where the job has token ids."""
    if job.messages is not None:
        return "\n\n".join(message.content for message in job.messages)
    return job.prompt or ""


class Examiner:
    """Judges candidates, many at a time. Blocking: call it in a thread.

    Nothing that a text does to a check gets out of here: a check that breaks is in the verdict.
    """

    def __init__(
        self,
        scorer: Scorer,
        checker: str,
        tables: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._scorer = scorer
        self._checker = checker
        self._tables = tables

    def __repr__(self) -> str:
        return f"<Examiner {self._checker} with {self._scorer.name}>"

    @property
    def model(self) -> str:
        """The scoring model's name."""
        return self._scorer.name

    def rules_for(self, job: GenerationJob) -> Rules:
        """The rules that are in force for a job: its own, and those of its profile."""
        try:
            return job.rules.beside(thresholds(job.profile, deployment=self._tables).rules)
        except (BadThresholds, InvalidMessage):
            return job.rules

    def examine(self, waiting: Sequence[Waiting]) -> list[Verdict]:
        """A verdict for each, in their order. One pass of the scoring model over all of them."""
        cases = [_Case(each, self._tables) for each in waiting]
        asking = [case for case in cases if case.wants_scores]
        for case, scores in zip(asking, self._scores(asking), strict=True):
            if isinstance(scores, CheckRecord):
                case.broken = scores
            else:
                case.subject = msgspec.structs.replace(case.subject, scores=scores)
        return [self._verdict(case) for case in cases]

    def _scores(self, cases: Sequence["_Case"]) -> list[TextScores | CheckRecord]:
        """For each its scores, or what went wrong with them."""
        if not cases:
            return []
        requests = [ScoreRequest(each.subject.prompt, each.subject.text) for each in cases]
        try:
            return list(self._scorer.score(requests, _wants(cases)))
        except ScoringFailed as error:
            log.warning("%s", error)
            return [
                scores if scores is not None else failed(_SCORING, error.failed[index])
                for index, scores in enumerate(error.scores)
            ]
        except Exception as error:
            if len(cases) == 1:
                log.exception("the scoring model broke on a text")
                return [failed(_SCORING, f"the scoring model broke on it: {error}", error)]
            log.warning("the scoring model broke on %d texts; one by one", len(cases))
        return [one for case in cases for one in self._scores([case])]

    def _verdict(self, case: "_Case") -> Verdict:
        said = judge(
            case.subject,
            case.thresholds,
            checker=self._checker,
            model=self._scorer.name,
            at=datetime.now(UTC),
            seconds=time.monotonic() - case.since,
        )
        if case.broken is None:
            return said
        outcome = "failed" if said.outcome == "passed" else said.outcome
        return msgspec.structs.replace(said, outcome=outcome, checks=(*said.checks, case.broken))


class _Case:
    """A candidate under examination."""

    def __init__(self, waiting: Waiting, tables: Mapping[str, Mapping[str, Any]] | None) -> None:
        self.since = waiting.since
        self.subject = subject_of(waiting.candidate)
        self.broken: CheckRecord | None = None
        self.thresholds: Thresholds
        try:
            self.thresholds = thresholds(self.subject.profile, deployment=tables)
        except BadThresholds as error:
            self.broken = failed("thresholds", str(error), error)
            self.thresholds = thresholds("chat")
        self.wants_scores = needs_scores(self.subject, self.thresholds)


def _wants(cases: Sequence[_Case]) -> Wants:
    """What any of them needs."""
    rules = [each.thresholds for each in cases]
    return Wants(
        perplexity=any(each.check_perplexity for each in rules),
        relevance=any(each.check_relevance for each in rules),
        coherence=any(each.check_coherence for each in rules),
        similarity=any(each.check_relevance for each in rules),
    )
