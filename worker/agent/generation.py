"""Answers of the model: generation jobs on the ordinary queue, so that every gate, rollback, retry
and the guard over the reasoning applies to them."""

import secrets
from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

from ...guards.profiles import BadProfile, profile
from ...producer import Producer
from ...producer.errors import ResultTimeout
from ...producer.secrecy import OPEN, Secrecy
from ...rollback import Budgets
from ...schemas import AgentContext, AgentJob, GenerationJob, GenerationResult, StructuredOutput
from ...schemas.limits import MAX_JOB_BYTES, MAX_PROMPT_CHARS, MAX_PROMPT_TOKENS
from ...schemas.topology import Names
from ..dialects.dialect import Dialect, Prompt
from .budget import Allowance

# Of a job's body, for what is not the prompt: grammar, overrides of gates, words, metadata.
_BESIDE_BYTES: Final = 160 * 1024
# In JSON an id of a vocabulary of up to a million has six digits at most, and a comma.
_ID_BYTES: Final = 7
# Text goes where there is no model: a token is a byte, and two in JSON with quotes and line breaks.
# Of controls, at six, the body's own limit ends the job.
_TEXT_BYTES: Final = 2

# Answers that came too late: one that is asked for again, by the same id, may be among the latest.
LATE_KEPT: Final = 64


class Generator(Protocol):
    """Has a generation job done."""

    async def __call__(self, job: GenerationJob, timeout_s: float) -> GenerationResult | None:
        """Its result; None where none came in time. Raises BrokerError."""
        ...


def generator(
    url: str, names: Names, *, connect_timeout_s: float, secrecy: Secrecy = OPEN
) -> Producer:
    """A producer with a reply queue of its own. It stays for half an hour when this process is
    gone: what still comes then is not wanted, and no dead letter either."""
    return Producer(
        url,
        f"agents-{secrets.token_hex(8)}",
        namespace=names.namespace,
        connect_timeout_s=connect_timeout_s,
        events=False,
        reply_expires=True,
        orphans_kept=LATE_KEPT,
        secrecy=secrecy,
    )


class QueueGenerator:
    """Publishes the job and waits for its result."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    async def __call__(self, job: GenerationJob, timeout_s: float) -> GenerationResult | None:
        handle = await self._producer.publish(job)
        try:
            return await handle.result(timeout=timeout_s)
        except ResultTimeout:
            return None

    async def cancel(self, job_id: str) -> None:
        """Have a job called off that nobody waits for any more. Raises BrokerError."""
        await self._producer.cancel(job_id, reason="its agent job was called off")


def generation_job(
    context: AgentContext,
    job_id: str,
    prompt: Prompt,
    dialect: Dialect,
    *,
    allowance: Allowance,
    deadline: datetime,
    grammar: StructuredOutput | None = None,
    calls: bool = True,
) -> GenerationJob:
    """The job for one answer. `calls` False: no call of a tool may come in it."""
    agent = context.job
    sampling = agent.sampling
    gates = agent.gates
    if allowance.wasted < wasted_tokens(agent):
        gates = gates | {"max_wasted_tokens": allowance.wasted}
    forbidden = () if calls else dialect.openers
    return GenerationJob(
        id=job_id,
        prompt=prompt.text,
        prompt_token_ids=prompt.token_ids,
        sampling=msgspec.structs.replace(
            sampling,
            max_tokens=allowance.tokens,
            min_tokens=min(sampling.min_tokens, allowance.tokens),
            stop=tuple(dict.fromkeys((*sampling.stop, *(dialect.stop if calls else ()))))[:16],
            bad_words=tuple(dict.fromkeys((*sampling.bad_words, *forbidden))),
            structured_output=grammar,
        ),
        profile=agent.profile,
        gates=gates,
        max_attempts=allowance.attempts,
        reasoning=agent.reasoning,
        lane=agent.lane,
        deadline=deadline,
        traceparent=agent.traceparent,
        exempt=dialect.spans,
        metadata={"agent": agent.id, "round": context.orchestration.spent.rounds + 1},
    )


def until(now: datetime, seconds: float, deadline: datetime | None) -> datetime:
    """When a job must be done that may take so long; the agent's own deadline may be sooner."""
    end = now + timedelta(seconds=max(0.0, seconds))
    return min(end, deadline) if deadline is not None else end


def wasted_tokens(agent: AgentJob) -> int:
    """What an attempt of its answers may throw away, by its profile as it is shipped and by its own
    overrides. Where they make no sense the worker says so."""
    try:
        return profile(agent.profile, agent.gates).max_wasted_tokens
    except BadProfile:
        return Budgets().max_wasted_tokens


def carried(max_model_len: int, *, text: bool) -> int:
    """Of a model's context of so many tokens, how many a generation job can carry as its prompt:
    rounds are folded away before it can't. `text`: prompts go as text, not as token ids."""
    room = MAX_JOB_BYTES - _BESIDE_BYTES
    if text:
        return min(max_model_len, MAX_PROMPT_CHARS, room // _TEXT_BYTES)
    return min(max_model_len, MAX_PROMPT_TOKENS, room // _ID_BYTES)
