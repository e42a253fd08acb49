"""The breaker of an agent job: normal, warning, tripped. A pure state machine.

    normal --warning--> warning --third warning, or a score to trip--> tripped
    warning --clean rounds, one for each warning--> normal

A first warning is told to the model, a second takes the tools away that were used already, a third
ends the job; so does a score of 6 at once. Tripped is final. A warning for size alone is told, and
does not count: forty files are forty rounds.
"""

from typing import Final

from ..schemas.agents import Assessment, Decision
from ..schemas.errors import tame
from ..schemas.limits import MAX_DETAIL
from .watchdog import ROUNDS, size_points
from .watchdog_thresholds import Watchdog

# From which warning on the tools are fewer.
_DEGRADE: Final = 2
_REMINDER: Final = MAX_DETAIL
# Of the reminder, for what was seen.
_SEEN: Final = 280
# Rounds between two reminders that there were many.
_EVERY: Final = 10


def decide(decision: Decision, assessment: Assessment, rules: Watchdog) -> Decision:
    """What the breaker makes of one more round."""
    if decision.state == "tripped":
        return decision
    # Size is told, and neither counts nor adds to what does.
    score = assessment.score - (size_points(assessment) if rules.size_never_ends else 0)
    circling = assessment.circling or not rules.size_never_ends
    if score < rules.warn_score or not circling:
        return _recovering(decision, assessment, rules)
    warnings = decision.warnings + 1
    if score >= rules.trip_score or warnings >= rules.warnings_max:
        return Decision(
            state="tripped", warnings=warnings, degree="terminate", because=_because(assessment)
        )
    return Decision(
        state="warning",
        warnings=warnings,
        degree="degrade" if warnings >= _DEGRADE else "warn",
        because=_because(assessment),
    )


def reminder(assessment: Assessment, decision: Decision) -> str:
    """What is told to the model at the tail of its next prompt, at most 500 characters; empty where
    there is nothing to say. That there were many rounds is told in the first that is too many, and
    in every tenth behind it: a longer prompt each time would be more of the same."""
    if decision.degree == "none" or not _is_due(assessment, decision):
        return ""
    seen = tame(decision.because, _SEEN) or "you are going round in circles"
    if decision.degree == "terminate":
        advice = "The task ends here. Give your final answer now, with what you know."
    elif decision.degree == "degrade":
        advice = (
            "Doing it once more will not help. You may call only tools that you have not used yet, "
            "or give your final answer with what you know."
        )
    elif assessment.circling and decision.warnings:
        advice = (
            "Doing it once more will not help. Try another way, or give your final answer with "
            "what you know."
        )
    else:
        advice = "If you have enough, give your final answer; else do only what is still missing."
    return tame(f"Note: {seen}. {advice}", _REMINDER)


def _recovering(decision: Decision, assessment: Assessment, rules: Watchdog) -> Decision:
    warnings = max(0, decision.warnings - 1)
    told = assessment.score >= rules.warn_score
    return Decision(
        state="warning" if warnings or told else "normal",
        warnings=warnings,
        degree="warn" if told else "none",
        because=_because(assessment) if told else "",
    )


def _because(assessment: Assessment) -> str:
    """The findings in one sentence, the weightiest first."""
    found = sorted(assessment.findings, key=lambda each: -each.points)
    said = "; ".join(each.detail or each.metric for each in found)
    return tame(said or f"the watchdog gave {assessment.score} points", MAX_DETAIL)


def _is_due(assessment: Assessment, decision: Decision) -> bool:
    if decision.degree != "warn" or (assessment.circling and decision.warnings):
        return True
    over = [each.value - each.threshold for each in assessment.findings if each.metric == ROUNDS]
    return not over or int(over[0] - 1) % _EVERY == 0
