"""A segment's sampling in vLLM's words, and what makes up for a seam.

After a resume the accepted output is part of the prompt. vLLM's repetition penalty still counts it,
its presence and frequency penalties and its bad words don't. So the plug-in applies those penalties
itself with the carried tokens counted, and bans what would complete a bad word over the seam.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

from ..guards.engine_gates import EngineGates, seam_bans
from ..schemas import Sampling, StructuredOutput


def sampling_params(sampling: Sampling, seed: int, *, fresh_cache: bool = False) -> SamplingParams:
    """The sampling as it is. Text and stop strings are not vLLM's business here."""
    return SamplingParams(
        output_kind=RequestOutputKind.DELTA,
        detokenize=False,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        seed=seed,
        max_tokens=sampling.max_tokens,
        min_tokens=sampling.min_tokens,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        repetition_penalty=sampling.repetition_penalty,
        bad_words=list(sampling.bad_words),
        logit_bias=sampling.logit_bias or None,
        structured_outputs=_structured(sampling.structured_output),
        skip_reading_prefix_cache=fresh_cache or None,
    )


def seamed(
    params: SamplingParams, gates: EngineGates, carried: Sequence[int], tokenizer: Any
) -> EngineGates:
    """What the plug-in must know to make up for the seam behind the carried tokens. Takes over the
    penalties, which it makes neutral in `params`."""
    if not carried:
        return gates
    bans = list(gates.bans)
    if params.bad_words:
        params.update_from_tokenizer(tokenizer)
        bans += seam_bans(params.bad_words_token_ids or (), carried)
    gates = msgspec.structs.replace(gates, bans=tuple(bans))
    if not params.presence_penalty and not params.frequency_penalty:
        return gates
    gates = msgspec.structs.replace(
        gates,
        carried=len(carried),
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        repetition_penalty=params.repetition_penalty,
    )
    params.presence_penalty = params.frequency_penalty = 0.0
    params.repetition_penalty = 1.0
    return gates


def biased(
    params: SamplingParams, gates: EngineGates | None, carried: Sequence[int]
) -> dict[int, float] | None:
    """The same where no plug-in runs, as near as a logit bias comes: carried tokens are penalised
    exactly until they are produced again, and a ban holds for the whole segment."""
    bias = dict(params.logit_bias or {})
    for token, count in Counter(carried).items():
        penalty = params.frequency_penalty * count + params.presence_penalty
        if penalty:
            bias[token] = bias.get(token, 0.0) - penalty
    for ban in gates.bans if gates else ():
        bias[ban.token] = -100.0
    return bias or None


def _structured(wanted: StructuredOutput | None) -> StructuredOutputsParams | None:
    if wanted is None:
        return None
    return StructuredOutputsParams(
        json=wanted.json_schema,
        regex=wanted.regex,
        choice=list(wanted.choice) if wanted.choice else None,
        grammar=wanted.grammar,
        structural_tag=(
            json.dumps(wanted.structural_tag) if wanted.structural_tag is not None else None
        ),
        # Unbounded white space between JSON tokens is a favourite place to loop for ever.
        disable_any_whitespace=wanted.json_schema is not None,
    )
