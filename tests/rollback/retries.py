"""Jobs, attempts and flaws for the tests of retries."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import strategies as st
from sluicegate.rollback import NoRetry, Retry, decide_retry, default_retry_table
from sluicegate.schemas import (
    AttemptRecord,
    Flaw,
    GenerationJob,
    Mutation,
    Rules,
    Sampling,
    StructuredOutput,
    Usage,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.001, 0.3, 1.0, 2.0]),
    top_p=st.sampled_from([0.01, 0.07, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 40]),
    min_p=st.sampled_from([0.0, 1.0]),
    repetition_penalty=st.sampled_from([0.5, 1.0, 1.25, 2.0]),
    frequency_penalty=st.sampled_from([-2.0, 0.0, 2.0]),
    min_tokens=st.integers(0, 20),
    max_tokens=st.integers(20, 400),
    bad_words=st.sampled_from([(), ("never",)]),
    structured_output=st.sampled_from([None, StructuredOutput(regex="a+")]),
)
rules_of_jobs = st.builds(
    Rules,
    must_include=st.lists(
        st.text("ab{}\n\x07 é", min_size=1, max_size=256).filter(str.strip), max_size=9
    ).map(tuple),
    must_not_include=st.sampled_from([(), ("ad",), ("x" * 256,) * 64]),
    min_words=st.integers(0, 500),
    min_characters=st.integers(0, 500),
    min_tokens=st.integers(0, 500),
    json=st.booleans(),
    json_schema=st.sampled_from([None, {"type": "object"}]),
    language=st.sampled_from([None, "de", "xyz"]),
)
jobs = st.builds(
    GenerationJob,
    id=st.just("job-1"),
    prompt=st.just("Say something."),
    sampling=samplings,
    rules=rules_of_jobs,
    max_attempts=st.integers(1, 10),
)
flaw_sets = st.lists(st.sampled_from(Flaw), max_size=4, unique=True).map(tuple)


def job_of(rules: Rules | None = None, *, attempts: int = 3, **sampling: Any) -> GenerationJob:
    """A plain job."""
    return GenerationJob(
        id="job-1",
        prompt="Say something.",
        sampling=Sampling(**sampling),
        rules=rules or Rules(),
        max_attempts=attempts,
    )


def attempt_of(
    job: GenerationJob,
    *flaws: Flaw,
    text: str = "one two three four",
    tokens: int = 8,
    worker: str = "w1",
    wasted: int = 0,
) -> AttemptRecord:
    """The job's attempt, not accepted for the first of the flaws."""
    return AttemptRecord(
        attempt=job.attempt,
        worker=worker,
        started_at=NOW,
        flaw=flaws[0] if flaws else None,
        usage=Usage(completion_tokens=tokens, wasted_tokens=wasted),
        text=text,
        text_chars=len(text),
    )


def after(job: GenerationJob, *flaws: Flaw, **attempt: Any) -> Retry | NoRetry:
    """What follows from an attempt with these flaws, by the default table."""
    lineage = job.lineage.with_attempt(attempt_of(job, *flaws, **attempt))
    return decide_retry(job, lineage, NOW, default_retry_table(), flaws=flaws)


def retried(job: GenerationJob, *flaws: Flaw, **attempt: Any) -> GenerationJob:
    """The next attempt, which there must be."""
    decided = after(job, *flaws, **attempt)
    assert isinstance(decided, Retry), decided
    return decided.job


def mutation_of(job: GenerationJob) -> Mutation:
    """What a retried job does differently."""
    assert job.mutation is not None
    return job.mutation


def story(job: GenerationJob, flaws: list[tuple[Flaw, ...]], **attempt: Any) -> list[GenerationJob]:
    """The job at each of its attempts, which fail with these flaws, to the end or to the last."""
    seen = [job]
    for found in flaws:
        decided = after(seen[-1], *found, **attempt)
        if isinstance(decided, NoRetry):
            break
        seen.append(decided.job)
    return seen


def valid(job: GenerationJob) -> bool:
    """Whether the job is one that a consumer takes."""
    return msgspec.json.decode(msgspec.json.encode(job), type=GenerationJob) == job
