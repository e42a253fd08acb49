"""What another attempt changes: a pure function of the job, its flaws and the table."""

import math
from typing import Any, Final

import msgspec

from ..schemas import AttemptRecord, Flaw, GenerationJob, Mutation, Rules, Sampling
from ..schemas.sampling import StructuredOutput
from .instructions import instruction
from .retry_table import RetryRow, RetryTable

_MIN_TOP_P: Final = 0.1
_MAX_FREQUENCY_PENALTY: Final = 1.0
# What leaves one candidate, as good as always: whatever the seed, the same text comes again.
_GREEDY_TEMPERATURE: Final = 0.01
_GREEDY_TOP_P: Final = 0.05
_GREEDY_MIN_P: Final = 0.95
_WIDER_TOP_P: Final = 0.5
_WIDER_MIN_P: Final = 0.1
# A text that is mostly numbers or signs is no measure of how many tokens a word takes.
_MAX_TOKENS_A_WORD: Final = 6.0
_LEAST_LENGTHENED: Final = 16
_MAX_BAD_WORDS: Final = 256
_MAX_AVOIDED: Final = 8
# Any JSON that is not a mere word or number.
_ANY_JSON: Final[dict[str, Any]] = {"anyOf": [{"type": "object"}, {"type": "array"}]}
# What the best token depends on, besides the prompt. A seed, heat and top-p only choose among more.
_FELT_WHEN_GREEDY: Final = (
    *("repetition_penalty", "frequency_penalty", "min_tokens", "bad_words", "structured_output"),
)


def next_mutation(
    job: GenerationJob,
    flaws: tuple[Flaw, ...],
    record: AttemptRecord,
    table: RetryTable,
    *,
    rules: Rules | None = None,
    engine_fault: bool = False,
) -> Mutation:
    """What the attempt after `record` does differently, for its flaws.

    Starts from the sampling in force in `job`; what was said and avoided before stays. Always
    within the limits of `Sampling`; `job.sampling` itself and its seed are left alone. `rules`:
    those in force, where a profile adds to the job's. `engine_fault`: the worker is suspect,
    whatever the flaws. Two attempts of one job that always take the best token never have the same
    sampling, instruction and workers to avoid.
    """
    rules = job.rules if rules is None else rules
    before = job.mutation or Mutation(sampling=job.sampling)
    known = tuple(dict.fromkeys((*before.flaws, *flaws)))
    rows = table.rows_of(flaws)
    avoid = before.avoid
    if engine_fault or any(row.avoid_worker for row in rows):
        # Full is full: taking one out would bring back what was tried.
        avoid = tuple(dict.fromkeys((*avoid, record.worker)))[:_MAX_AVOIDED]
    after = Mutation(
        sampling=_changed(before.sampling, rows, record, rules, job),
        instruction=_said(job, known, table, rules),
        flaws=known,
        avoid=avoid,
    )
    if _is_greedy(after.sampling) and not _is_felt(before, after):
        heat = max(row.greedy_temperature for row in rows)
        return msgspec.structs.replace(after, sampling=_loosened(after.sampling, heat))
    return after


def _said(job: GenerationJob, flaws: tuple[Flaw, ...], table: RetryTable, rules: Rules) -> str:
    """For all flaws so far: the next attempt should not fall back into an earlier one."""
    if job.prompt_token_ids is not None or not flaws:
        return ""
    rows = table.rows_of(flaws)
    return instruction([row.instruction for row in rows if row.instruction], rules, job.sampling)


def _changed(
    sampling: Sampling,
    rows: tuple[RetryRow, ...],
    record: AttemptRecord,
    rules: Rules,
    job: GenerationJob,
) -> Sampling:
    for row in rows:
        sampling = _by_row(sampling, row)
        if row.structured_output and rules.asks_for_json and sampling.structured_output is None:
            sampling = _as_json(sampling, rules, job)
        if sampling.structured_output is not None:
            continue
        least = max(row.min_tokens_at_least, _longer(record, rules, row.lengthen))
        if least > sampling.min_tokens:
            least = min(least, sampling.max_tokens)
            sampling = msgspec.structs.replace(sampling, min_tokens=least)
        if row.ban_forbidden:
            words = tuple(dict.fromkeys((*sampling.bad_words, *rules.must_not_include)))
            sampling = msgspec.structs.replace(sampling, bad_words=words[:_MAX_BAD_WORDS])
    return sampling


def _by_row(own: Sampling, row: RetryRow) -> Sampling:
    heat = max(own.temperature * row.temperature_times, row.temperature_at_least)
    heat = min(heat, row.temperature_at_most)
    top_p = max(own.top_p * row.top_p_times, _MIN_TOP_P)
    changed = {
        "temperature": heat,
        "top_p": min(own.top_p, top_p, row.top_p_at_most),
        "top_k": min(own.top_k or row.top_k_at_most, row.top_k_at_most or own.top_k),
        "repetition_penalty": _raised(
            own.repetition_penalty, row.repetition_penalty_by, row.repetition_penalty_at_most
        ),
        "frequency_penalty": _raised(
            own.frequency_penalty, row.frequency_penalty_by, _MAX_FREQUENCY_PENALTY
        ),
    }
    # What a job gave with more digits keeps them where nothing changes it.
    rounded = {name: round(new, 4) for name, new in changed.items() if new != getattr(own, name)}
    return msgspec.structs.replace(own, **rounded)


def _raised(own: float, by: float, at_most: float) -> float:
    """More, but not above the limit; what is above it already stays."""
    return max(own, min(own + by, at_most)) if by else own


def _as_json(own: Sampling, rules: Rules, job: GenerationJob) -> Sampling:
    """Held to JSON. A grammar that has come to its end leaves no token but the end, and may need
    any word before: what an earlier retry demanded or banned would leave none at all."""
    schema = rules.json_schema if rules.json_schema is not None else _ANY_JSON
    return msgspec.structs.replace(
        own,
        structured_output=StructuredOutput(json_schema=schema),
        min_tokens=0,
        bad_words=job.sampling.bad_words,
    )


def _longer(record: AttemptRecord, rules: Rules, times: float) -> int:
    """How many tokens a text needs that was too short, at the pace of this one, times `times`."""
    if not times:
        return 0
    had = record.usage.completion_tokens
    wanted = [rules.min_tokens]
    if rules.min_characters:
        wanted.append(math.ceil(rules.min_characters * _pace(had, record.text_chars, 1.0)))
    if rules.min_words:
        # The record may hold the beginning of a long text: its words stand for the rest.
        share = len(record.text) / record.text_chars if record.text_chars else 0.0
        words = len(record.text.split())
        wanted.append(math.ceil(rules.min_words * _pace(had * share, words, _MAX_TOKENS_A_WORD)))
    return math.ceil(times * (max(wanted) or max(2 * had, _LEAST_LENGTHENED)))


def _pace(tokens: float, units: int, at_most: float) -> float:
    """Tokens a unit; a third of the most where there is nothing to tell it from."""
    return min(tokens / units, at_most) if units and tokens else at_most / 3


def _is_greedy(sampling: Sampling) -> bool:
    return (
        sampling.temperature < _GREEDY_TEMPERATURE
        or sampling.top_k == 1
        or sampling.top_p <= _GREEDY_TOP_P
        or sampling.min_p >= _GREEDY_MIN_P
    )


def _is_felt(before: Mutation, after: Mutation) -> bool:
    """Whether a greedy attempt would say anything else, or say it elsewhere."""
    return (
        before.instruction != after.instruction
        or before.avoid != after.avoid
        or any(
            getattr(before.sampling, name) != getattr(after.sampling, name)
            for name in _FELT_WHEN_GREEDY
        )
    )


def _loosened(own: Sampling, heat: float) -> Sampling:
    return msgspec.structs.replace(
        own,
        temperature=max(own.temperature, heat),
        top_k=0 if own.top_k == 1 else own.top_k,
        top_p=_WIDER_TOP_P if own.top_p <= _GREEDY_TOP_P else own.top_p,
        min_p=_WIDER_MIN_P if own.min_p >= _GREEDY_MIN_P else own.min_p,
    )
