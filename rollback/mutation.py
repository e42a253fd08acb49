"""Sampling, changed as an action says."""

from typing import Any, Final

import msgspec

from ..schemas import Sampling
from .actions import Changes

# The limits of `Sampling`'s own fields.
_MAX_TEMPERATURE: Final = 2.0
_MAX_PENALTY: Final = 2.0
_MIN_TOP_P: Final = 0.01
_MIN_PENALTY: Final = 0.01


def mutate(sampling: Sampling, changes: Changes) -> Sampling:
    """The job's sampling with the changes that are sampling parameters: temperature, top-p, top-k,
    repetition penalty. Always within the limits of `Sampling`; no changes give the same object.

    Bans, guides and seeds belong to a place in the text and are up to the caller.
    """
    wanted: dict[str, Any] = {
        "temperature": _temperature(sampling.temperature, changes),
        "top_p": min(sampling.top_p, max(changes.top_p_at_most, _MIN_TOP_P)),
        "top_k": _top_k(sampling.top_k, changes.top_k_at_most),
        "repetition_penalty": _penalty(sampling.repetition_penalty, changes),
    }
    changed = {name: new for name, new in wanted.items() if new != getattr(sampling, name)}
    return msgspec.structs.replace(sampling, **changed) if changed else sampling


def differences(job_sampling: Sampling, sampling: Sampling) -> dict[str, Any]:
    """The fields of `sampling` that are not as the job asked, for its lineage."""
    return {
        name: getattr(sampling, name)
        for name in Sampling.__struct_fields__
        if getattr(sampling, name) != getattr(job_sampling, name)
    }


def _temperature(own: float, changes: Changes) -> float:
    if changes.greedy:
        return 0.0
    if changes.temperature_times == 1.0 and own >= changes.temperature_at_least:
        return own
    wanted = max(own * changes.temperature_times, changes.temperature_at_least, 0.0)
    return round(min(wanted, _MAX_TEMPERATURE), 4)


def _top_k(own: int, at_most: int) -> int:
    if at_most <= 0:
        return own
    return min(own, at_most) if own else at_most


def _penalty(own: float, changes: Changes) -> float:
    if not changes.repetition_penalty_by:
        return own
    return round(min(max(own + changes.repetition_penalty_by, _MIN_PENALTY), _MAX_PENALTY), 4)
