"""The jobs of a run: a mix of everything that the services do, drawn from a seed."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, get_args

from sluicegate.schemas import AgentJob, GenerationJob, Rules, Sampling

# plain: an answer as it comes; observed, blocked: with checks; again: the checker refuses the first
# text and takes the second; hopeless: it refuses all; told: it refuses what lacks a word, of which
# the model is told with the retry; garbled: a gate trips, and the text goes on; slow: takes as long
# as a stop lasts; fault: the engine fails under it at first; dated: has a deadline far away; agent:
# calls tools.
Kind = Literal[
    "plain",
    "observed",
    "blocked",
    "again",
    "hopeless",
    "told",
    "garbled",
    "slow",
    "fault",
    "dated",
    "agent",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SCRIPTED: Final[Mapping[Kind, int]] = {
    "plain": 48,
    "observed": 10,
    "blocked": 15,
    "again": 5,
    "hopeless": 1,
    "garbled": 6,
    "slow": 4,
    "fault": 1,
    "dated": 7,
    "agent": 3,
}
_WORDED: Final = ("again", "hopeless", "told")
_CHECKS: Final[Mapping[Kind, Literal["observe", "block"]]] = {
    "observed": "observe",
    "blocked": "block",
    "again": "block",
    "hopeless": "block",
    "told": "block",
}
# What a model can be relied on for.
REAL: Final[Mapping[Kind, int]] = {
    "plain": 60,
    "observed": 12,
    "blocked": 20,
    "told": 5,
    "dated": 5,
}
PLAIN: Final[Mapping[Kind, int]] = {"plain": 70, "blocked": 30}
# Of all jobs, published a second time under the same id.
TWICE: Final = 0.03
DEADLINE: Final = timedelta(minutes=30)
# No answer holds it, but those that the script makes so.
WORD: Final = "pineapple"
AGENT_TEXT: Final = "The bill was found, kept and paid."
REPLY: Final = "chaos"
TOOLS: Final = ("put", "pay", "look")


def kind_of(seed: int, number: int, mix: Mapping[Kind, int]) -> Kind:
    """What the job with this number is."""
    draw = random.Random(f"{seed}:{number}")
    return draw.choices(tuple(mix), tuple(mix.values()))[0]


def job_id(seed: int, number: int, kind: Kind) -> str:
    """A job's id, which says what it is."""
    return f"{kind}-{seed}-{number}"


def kind_in(job: str) -> Kind | None:
    """The kind that an id tells; None where it is no id of ours."""
    word = job.partition("-")[0]
    return next((kind for kind in KINDS if kind == word), None)


def text_in(job: str, attempt: int) -> str | None:
    """What the script says to a job in the end, whatever happened on the way; None where the job is
    none of ours."""
    kind = kind_in(job)
    if kind is None:
        return None
    if kind == "agent":
        return AGENT_TEXT
    number = job.partition("-")[2]
    text = f"Number {number} is one of many, and nobody has ever had a doubt about it."
    return f"{text} It goes well with {WORD}." if kind == "again" and attempt > 1 else text


def published_twice(seed: int, number: int) -> bool:
    """Whether the backend publishes it a second time."""
    return random.Random(f"twice:{seed}:{number}").random() < TWICE


def make(seed: int, number: int, kind: Kind, tokens: int) -> GenerationJob | AgentJob:
    """The job. `tokens` is the most that a text may have."""
    this = job_id(seed, number, kind)
    if kind == "agent":
        return AgentJob(
            id=this,
            task=f"Pay the bill with the number {number}.",
            tools=TOOLS,
            profile="off",
            format="text",
            sampling=Sampling(max_tokens=1_000),
        )
    # The retries of a lane that an operator takes out of service would wait for minutes.
    retried = kind in ("again", "hopeless", "told", "fault")
    lane = "interactive" if retried or number % 2 else "batch"
    return GenerationJob(
        id=this,
        prompt=f"{kind} {number}: say something about this number.",
        sampling=Sampling(max_tokens=tokens),
        lane=lane,
        checks=_CHECKS.get(kind, "off"),
        rules=Rules(must_include=(WORD,)) if kind in _WORDED else Rules(),
        max_attempts=2 if kind in ("hopeless", "told") else 3,
        deadline=datetime.now(UTC) + DEADLINE if kind == "dated" else None,
    )
