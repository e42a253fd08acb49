"""Counters that begin at zero. One that first appears with its first event shows no increase, so an
alert would miss that one."""

from collections.abc import Iterable
from typing import Final, get_args

from prometheus_client import Counter

from ..schemas import Flaw, Level, Reason
from ..schemas.dead_letters import Stage
from ..schemas.services import ServiceKind
from . import metrics
from .publications import Cause

_OUTCOMES: Final = ("completed", "partial", "rejected", "cancelled", "expired", "failed")
_ENDS: Final = (*_OUTCOMES, "to_check", "retrying", "returned", "undecodable")
_KINDS: Final = ("prompt", "cached", "completion", "wasted", "reasoning", "reasoning_dropped")
_UNREADABLE: Final = (
    Reason.MALFORMED_JSON,
    Reason.WRONG_TYPE,
    Reason.UNKNOWN_TYPE,
    Reason.FUTURE_VERSION,
    Reason.TOO_LARGE,
    Reason.TOO_DEEP,
    Reason.MISSING_FIELD,
    Reason.INVALID_FIELD,
)
# Where jobs die in a service, as a rule; what dies elsewhere is counted all the same.
_DEATHS: Final[dict[ServiceKind, dict[Stage, tuple[Reason, ...]]]] = {
    "worker": {
        "decode": _UNREADABLE,
        "admit": (Reason.EMPTY_PROMPT, Reason.PROMPT_TOO_LONG, Reason.UNSUPPORTED),
        "generate": (
            Reason.DEADLINE_PASSED,
            Reason.CANCELLED,
            Reason.ATTEMPT_TIMEOUT,
            Reason.ENGINE_FAULT,
            Reason.GATE_TRIPPED,
            Reason.REASONING_RUNAWAY,
        ),
        "deliver": (Reason.RESULT_UNROUTABLE, Reason.TOO_LARGE),
    },
    "checker": {
        "decode": _UNREADABLE,
        "check": (Reason.DEADLINE_PASSED, Reason.CHECKS_REJECTED, Reason.CHECK_FAILED),
        "deliver": (Reason.RESULT_UNROUTABLE,),
    },
    "agent": {
        "decode": _UNREADABLE,
        "agent": (
            Reason.DEADLINE_PASSED,
            Reason.BREAKER_TRIPPED,
            Reason.BUDGET_SPENT,
            Reason.TOOLS_SPENT,
            Reason.GENERATION_FAILED,
            Reason.CONTEXT_FULL,
            Reason.TOOL_UNAVAILABLE,
            Reason.CANCELLED,
        ),
        "deliver": (Reason.RESULT_UNROUTABLE,),
    },
}
_NUMERIC: Final = (Flaw.NON_FINITE_LOGITS, Flaw.UNIFORM_LOGITS)


def begin_at_zero(kind: ServiceKind) -> None:
    """Let the counters that a service of this kind fills, and that alerts look at, be there."""
    for stage, reasons in _DEATHS.get(kind, {}).items():
        for reason in reasons:
            metrics.DEAD_LETTERS.labels(reason=reason.value, stage=stage)
    if kind == "tools":
        return
    _zero(metrics.RESULTS, "outcome", _OUTCOMES)
    for each in _OUTCOMES:
        metrics.END_TO_END.labels(outcome=each)
    match kind:
        case "worker":
            _worker()
        case "checker":
            _zero(metrics.RETRIES, "reason", ("checks_rejected", "check_failed"))
            for outcome in ("passed", "rejected", "failed"):
                for mode in ("observe", "block"):
                    metrics.VERDICTS.labels(outcome=outcome, mode=mode)
        case "agent":
            _zero(metrics.AGENT_ROUNDS, "degree", ("none", "warn", "degrade", "terminate"))


def _worker() -> None:
    levels = [str(int(level)) for level in Level]
    _zero(metrics.JOBS, "outcome", _ENDS)
    _zero(metrics.TOKENS, "kind", _KINDS)
    _zero(metrics.RETRIES, "reason", get_args(Cause))
    _zero(metrics.PREEMPTED, "kept", ("yes", "no"))
    _zero(metrics.ROLLBACKS, "level", levels)
    _zero(metrics.ROLLED_BACK, "level", levels)
    for flaw in _NUMERIC:
        for action in ("note", "rollback", "give_up"):
            metrics.TRIPS.labels(level=str(int(Level.LOGITS)), flaw=flaw.value, action=action)


def _zero(counter: Counter, label: str, values: Iterable[str]) -> None:
    for value in values:
        counter.labels(**{label: value})
