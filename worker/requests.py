"""What is asked of the engine for the next segment."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ..guards.engine_gates import Ban, EngineGates
from ..guards.profiles import Profile
from ..schemas import GenerationJob, Sampling
from .engine import Segment
from .manuscript import Manuscript


class Plan(Struct, frozen=True, kw_only=True):
    """The next segment: how to sample, for how many tokens (0: to the end of the text)."""

    sampling: Sampling
    seed: int
    tokens: int = 0
    fresh_cache: bool = False


def request(
    job: GenerationJob,
    plan: Plan,
    profile: Profile,
    prompt: tuple[int, ...],
    written: Manuscript,
    *,
    bans: Sequence[tuple[int, int]],
    number: int,
    nonce: str,
) -> Segment:
    """The segment that goes on from what is written. `bans`: positions in the running draft, each
    with the token that may not come there. `number`: of this request in its attempt."""
    sampling = job.sampling
    left = sampling.max_tokens - written.spent
    limit = min(left, plan.tokens or left)
    here = len(written.draft)
    ahead = tuple(Ban(place - here, token) for place, token in bans if place >= here)
    return Segment(
        request_id=f"{job.id}:{job.attempt}:{nonce}:{number}",
        prompt_token_ids=(*prompt, *written.tokens),
        sampling=msgspec.structs.replace(
            plan.sampling,
            max_tokens=limit,
            min_tokens=max(0, min(limit, sampling.min_tokens - written.said)),
            structured_output=sampling.structured_output if written.constrained else None,
            logit_bias=plan.sampling.logit_bias | written.unthinkable,
        ),
        seed=plan.seed,
        carried=written.length,
        gates=_engine_gates(job, profile, written, ahead),
        fresh_cache=plan.fresh_cache,
    )


def _engine_gates(
    job: GenerationJob, profile: Profile, written: Manuscript, bans: tuple[Ban, ...]
) -> EngineGates:
    gates = profile.engine_gates(written.length, job.sampling.max_tokens)
    if written.constrained and not profile.structured_text_gates:
        # How sure the model is of a text is a matter of level 4; a grammar leaves it no choice.
        gates = msgspec.structs.replace(gates, confidence_window=0)
    return msgspec.structs.replace(gates, bans=bans)
