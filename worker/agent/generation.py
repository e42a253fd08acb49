"""Answers of the model: generation jobs on the ordinary queue, so that every gate, rollback, retry
and the guard over the reasoning applies to them."""

import secrets
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from ...producer import Producer
from ...producer.errors import ResultTimeout
from ...schemas import AgentContext, GenerationJob, GenerationResult, StructuredOutput
from ...schemas.topology import Names
from ..dialects.dialect import Dialect, Prompt


class Generator(Protocol):
    """Has a generation job done."""

    async def __call__(self, job: GenerationJob, timeout_s: float) -> GenerationResult | None:
        """Its result; None where none came in time. Raises BrokerError."""
        ...


def generator(url: str, names: Names, *, connect_timeout_s: float) -> Producer:
    """A producer with a reply queue of its own. It stays for half an hour when this process is
    gone: what still comes then is not wanted, and no dead letter either."""
    return Producer(
        url,
        f"agents-{secrets.token_hex(8)}",
        namespace=names.namespace,
        connect_timeout_s=connect_timeout_s,
        events=False,
        reply_expires=True,
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


def generation_job(
    context: AgentContext,
    job_id: str,
    prompt: Prompt,
    dialect: Dialect,
    *,
    max_tokens: int,
    deadline: datetime,
    grammar: StructuredOutput | None = None,
    calls: bool = True,
) -> GenerationJob:
    """The job for one answer. `calls` False: no call of a tool may come in it."""
    agent = context.job
    sampling = agent.sampling
    forbidden = () if calls else dialect.openers
    return GenerationJob(
        id=job_id,
        prompt=prompt.text,
        prompt_token_ids=prompt.token_ids,
        sampling=msgspec.structs.replace(
            sampling,
            max_tokens=max(1, max_tokens),
            min_tokens=min(sampling.min_tokens, max(1, max_tokens)),
            stop=tuple(dict.fromkeys((*sampling.stop, *(dialect.stop if calls else ()))))[:16],
            bad_words=tuple(dict.fromkeys((*sampling.bad_words, *forbidden))),
            structured_output=grammar,
        ),
        profile=agent.profile,
        gates=agent.gates,
        reasoning=agent.reasoning,
        lane=agent.lane,
        deadline=deadline,
        traceparent=agent.traceparent,
        exempt=dialect.spans,
        metadata={"agent": agent.id, "round": context.orchestration.spent.rounds + 1},
    )


def until(now: datetime, seconds: float, deadline: datetime | None) -> datetime:
    """When a job must be done that may take so long; the agent's own deadline may be sooner."""
    end = now + timedelta(seconds=max(1.0, seconds))
    return min(end, deadline) if deadline is not None else end
