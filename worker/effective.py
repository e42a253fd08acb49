"""The job as an attempt runs it: as it was asked, or as a retry has changed it."""

import msgspec

from ..schemas import ChatMessage, GenerationJob


def effective(job: GenerationJob) -> GenerationJob:
    """The job with its mutation in force: the sampling of the attempt, and its instruction at the
    end of the system message. A prompt of token ids can't be told anything."""
    mutation = job.mutation
    if mutation is None:
        return job
    changed = msgspec.structs.replace(job, sampling=mutation.sampling)
    if not mutation.instruction or job.prompt_token_ids is not None:
        return changed
    turns = job.messages or (ChatMessage(role="user", content=job.prompt or ""),)
    return msgspec.structs.replace(
        changed, prompt=None, messages=_told(turns, mutation.instruction)
    )


def _told(turns: tuple[ChatMessage, ...], instruction: str) -> tuple[ChatMessage, ...]:
    first, *others = turns
    if first.role != "system":
        return (ChatMessage(role="system", content=instruction), *turns)
    both = f"{first.content}\n\n{instruction}".strip()
    return (ChatMessage(role="system", content=both), *others)
