"""Agent jobs: a model with tools, and the state that travels with it from round to round.

The state has four layers, each with one writer: execution (what was said and called), monitoring
(what the watchdog measured), decision (what the breaker made of it), orchestration (where the job
stands, and what it has spent).
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from .checks import checked, require_clean, require_json
from .errors import InvalidMessage
from .ids import new_id
from .jobs import Lane, ProfileName, PromptText, ReplyKey, Traceparent
from .limits import (
    MAX_AGENT_ID_CHARS,
    MAX_AGENT_ROUNDS,
    MAX_ATTEMPT_NUMBER,
    MAX_LEDGER,
    MAX_METADATA_BYTES,
    MAX_SAMPLES,
    MAX_SUMMARY_CHARS,
    MAX_TOOL_CALLS,
    MAX_TOOLS,
)
from .measures import Count, Quote, Seconds, Sentence, WorkerName
from .reasoning import Reasoning
from .reasons import Reason
from .sampling import Sampling
from .timestamps import Timestamp
from .tools import EffectId, SaidName, ToolCall, ToolCalls, ToolName, ToolResult, ToolStatus
from .usage import Usage
from .version import SchemaVersion, this_version

# Its rounds' jobs are called after it: `<id>:r12`.
AgentId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_:-]*\Z",
        min_length=1,
        max_length=MAX_AGENT_ID_CHARS,
        description="a UUIDv7, a ULID, or an idempotency key of the caller's",
    ),
]
AgentText = Annotated[str, Meta(max_length=MAX_SUMMARY_CHARS)]
Score = Annotated[int, Meta(ge=0, le=1_000)]

BreakerState = Literal["normal", "warning", "tripped"]
Degree = Literal["none", "warn", "degrade", "terminate"]
Phase = Literal["thinking", "calling", "approving", "finishing", "ending"]


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job may spend before it must end. Tokens are those of prompts and answers together, as
    they are billed; seconds are those since it began, less those it waited for a person.

    `answer_share` of tokens and time is kept for the final answer.
    """

    tokens: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 200_000
    tool_calls: Annotated[int, Meta(ge=0, le=100_000)] = 100
    rounds: Annotated[int, Meta(ge=1, le=MAX_AGENT_ROUNDS)] = 50
    wall_s: Annotated[float, Meta(gt=0, le=7 * 24 * 3_600)] = 1_800.0
    answer_share: Annotated[float, Meta(gt=0, lt=1)] = 0.15


class AgentJob(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="agent_job"
):
    """A task for a model that may call tools. `system` is what it is told before anything else: who
    it is, and what it must not do. `sampling` is for each of its answers, `task_type` names the
    watchdog's thresholds, `watchdog` changes some of them. `format`: how it says what it calls;
    "auto": as its chat template has it, in plain text where that knows no tools; "text": in plain
    text; "grammar": in plain text, and held to it by a grammar. `attempt` counts how often it was
    begun: an operator who sends it back begins another, whose effects are its own.
    """

    schema_version: SchemaVersion = this_version()
    id: AgentId = field(default_factory=new_id)
    task: PromptText
    system: PromptText = ""
    tools: Annotated[tuple[ToolName, ...], Meta(max_length=MAX_TOOLS)] = ()
    task_type: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]*\Z", max_length=64)] = "default"
    budget: Budget = Budget()
    watchdog: dict[str, Any] = {}
    format: Literal["auto", "text", "grammar"] = "auto"
    sampling: Sampling = Sampling()
    profile: ProfileName = "chat"
    gates: dict[str, Any] = {}
    reasoning: Reasoning = Reasoning()
    lane: Lane = "interactive"
    deadline: Timestamp | None = None
    reply_to: ReplyKey = "default"
    traceparent: Traceparent | None = None
    metadata: dict[str, Any] = {}
    # Written by the system; a publisher leaves them alone.
    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPT_NUMBER)] = 1
    enqueued_at: Timestamp | None = None

    @checked
    def __post_init__(self) -> None:
        require_clean("task", [self.task])
        require_clean("system", [self.system])
        if not self.task.strip():
            raise InvalidMessage(Reason.EMPTY_PROMPT, "task", "there is nothing to do")
        if self.sampling.structured_output is not None:
            raise InvalidMessage(
                Reason.INVALID_FIELD,
                "sampling.structured_output",
                'an agent\'s answers have a grammar of their own: format "grammar"',
            )
        require_json("watchdog", self.watchdog, max_bytes=MAX_METADATA_BYTES)
        require_json("gates", self.gates, max_bytes=MAX_METADATA_BYTES)
        require_json("metadata", self.metadata, max_bytes=MAX_METADATA_BYTES)


class ParseFailure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why what the model said is neither a call nor an answer. Never taken for an answer.

    "truncated": it was cut off by its length; "malformed": a call can't be read; "nothing": there
    is no call and no answer; "mixed": there are both, or more than one answer.
    """

    kind: Literal["truncated", "malformed", "nothing", "mixed"]
    detail: Sentence = ""
    quote: Quote = ""


# --- monitoring ---


class CallSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call as the watchdog sees it. `key`: tool and arguments, canonical, or what the tool says
    is the same; `words`: those of the arguments, for calls that say the same in other words."""

    tool: SaidName
    key: Annotated[str, Meta(max_length=64)]
    fingerprint: Annotated[str, Meta(max_length=64)] = ""
    status: ToolStatus = ToolStatus.OK
    at: Timestamp
    words: Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=32)] = ()
    polls: bool = False
    changes_state: bool = False


class RoundSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A round as the watchdog sees it. `prose` is what was said without the calls, cut short.
    `wall_s`: from admission by the engine to the last result; waiting in a queue or for a person,
    and going back, don't count. `tokens` are those of prompt and answer. `failed`: what was said
    could not be read."""

    number: Count
    at: Timestamp
    tokens: Count = 0
    wall_s: Seconds = 0.0
    prose: Annotated[str, Meta(max_length=MAX_SUMMARY_CHARS)] = ""
    calls: Annotated[tuple[CallSample, ...], Meta(max_length=MAX_TOOL_CALLS)] = ()
    failed: bool = False


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A metric past its threshold, and the points that makes."""

    metric: Annotated[str, Meta(max_length=64)]
    value: float
    threshold: float
    points: Score = 0
    detail: Sentence = ""


class Assessment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the watchdog says after a round. `score` is the sum of the points; `circling`: some of
    them are for going round in circles, and not for size alone. `measured`: every metric's value,
    past its threshold or not."""

    round: Count
    score: Score = 0
    circling: bool = False
    findings: Annotated[tuple[Finding, ...], Meta(max_length=32)] = ()
    measured: Annotated[dict[str, float], Meta(max_length=32)] = {}


class Monitoring(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The watchdog's windows: the latest rounds, oldest first."""

    samples: Annotated[tuple[RoundSample, ...], Meta(max_length=MAX_SAMPLES)] = ()


# --- decision ---


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The breaker. `warnings`: how many in a row, less what clean rounds took back. `degree` is
    what it last asked for, and `because` says why."""

    state: BreakerState = "normal"
    warnings: Count = 0
    degree: Degree = "none"
    because: Sentence = ""


# --- execution ---


class Round(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer of the model and what came of it. `said` is its text, calls and all, `prose` what
    of it is for people. `reminder` was added behind the results, for the next prompt.
    `degraded`: it might call only what it had not called yet."""

    number: Count
    at: Timestamp
    job_id: Annotated[str, Meta(max_length=120)] = ""
    said: AgentText = ""
    prose: AgentText = ""
    calls: ToolCalls = ()
    failure: ParseFailure | None = None
    reminder: Sentence = ""
    degraded: bool = False
    usage: Usage = Usage()
    engine_s: Seconds = 0.0
    tools_s: Seconds = 0.0
    assessment: Assessment | None = None
    decision: Decision = Decision()


class LedgerEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call of a round that is no longer told in full: what was asked and what came of it."""

    round: Count
    tool: SaidName
    arguments: Quote = ""
    status: ToolStatus
    result: Quote = ""


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rounds that are no longer told in full: `summary` by the model, and the `ledger` of calls and
    results, which no summary can lose. `through`: the last such round. `ledger_dropped`: entries
    that had to go."""

    summary: AgentText = ""
    ledger: Annotated[tuple[LedgerEntry, ...], Meta(max_length=MAX_LEDGER)] = ()
    through: Count = 0
    ledger_dropped: Count = 0


class Execution(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was said and called: `memory` of the older rounds, then `rounds` in full; the last of
    them is open while a call of it is."""

    memory: Memory = Memory()
    rounds: Annotated[tuple[Round, ...], Meta(max_length=MAX_AGENT_ROUNDS)] = ()


# --- orchestration ---


class Spent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the job has used up. `waited_s`: for a person."""

    usage: Usage = Usage()
    tool_calls: Count = 0
    by_tool: Annotated[dict[SaidName, Count], Meta(max_length=MAX_TOOLS)] = {}
    rounds: Count = 0
    engine_s: Seconds = 0.0
    tools_s: Seconds = 0.0
    waited_s: Seconds = 0.0

    @property
    def tokens(self) -> int:
        """Those that count against the budget."""
        usage = self.usage
        return usage.prompt_tokens + usage.completion_tokens + usage.wasted_tokens


class Stop(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a job is being ended before its model said that it is done."""

    reason: Reason
    detail: Sentence = ""


class Ending(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the job comes to, decided once and not yet told: the text, and who wrote it."""

    text: PromptText
    written_by: Literal["model", "template"] = "model"


class Orchestration(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the job stands. `phase` is what comes next; `waiting_since`: for a person; `stop`: it
    is to end, and why. `ending` is there in phase "ending", in which it is only told.
    """

    phase: Phase = "thinking"
    started_at: Timestamp
    spent: Spent = Spent()
    waiting_since: Timestamp | None = None
    stop: Stop | None = None
    ending: Ending | None = None


class AgentContext(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="agent_context"
):
    """An agent job under way: the whole state. `revision` grows with every step."""

    schema_version: SchemaVersion = this_version()
    id: AgentId
    revision: Count = 0
    at: Timestamp
    by: WorkerName = ""
    job: AgentJob
    execution: Execution = Execution()
    monitoring: Monitoring = Monitoring()
    decision: Decision = Decision()
    orchestration: Orchestration

    @checked
    def __post_init__(self) -> None:
        if self.id != self.job.id:
            raise InvalidMessage(Reason.INVALID_FIELD, "id", "is not that of `job`")


class AgentRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a result says of the way there: `done` and `not_done` are calls in a sentence each, as
    the record has them, whatever the model says. `stopped`: why it did not end by itself;
    `written_by`: who wrote the text, "template" where no model could."""

    rounds: Count = 0
    tool_calls: Count = 0
    warnings: Count = 0
    stopped: Stop | None = None
    written_by: Literal["model", "template"] = "model"
    done: Annotated[tuple[Sentence, ...], Meta(max_length=MAX_LEDGER)] = ()
    not_done: Annotated[tuple[Sentence, ...], Meta(max_length=MAX_LEDGER)] = ()


# --- the journal ---


class Begun(Struct, frozen=True, kw_only=True, tag_field="kind", tag="begun"):
    """A job is begun: what is asked for."""

    job: AgentJob


class Dispatched(Struct, frozen=True, kw_only=True, tag_field="kind", tag="dispatched"):
    """A call is about to be made. Written before, so that whoever finds it knows that it may have
    been."""

    effect_id: EffectId
    round: Count
    call: ToolCall


class Returned(Struct, frozen=True, kw_only=True, tag_field="kind", tag="returned"):
    """What came of it."""

    effect_id: EffectId
    result: ToolResult


class Closed(Struct, frozen=True, kw_only=True, tag_field="kind", tag="round"):
    """A round is over."""

    round: Round


class Ended(Struct, frozen=True, kw_only=True, tag_field="kind", tag="ended"):
    """The job is over: the whole scene, the outcome, and the text that was delivered."""

    context: AgentContext
    outcome: Annotated[str, Meta(max_length=64)]
    record: AgentRecord
    text: AgentText = ""


Entry = Begun | Dispatched | Returned | Closed | Ended


class JournalEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="journal_entry"):
    """One line of the journal of all agent jobs: an append-only log, which no reader changes."""

    schema_version: SchemaVersion = this_version()
    job_id: AgentId
    at: Timestamp
    by: WorkerName = ""
    entry: Entry


def round_job_id(job: AgentJob, number: int, step: Literal["r", "fold", "final"] = "r") -> str:
    """The id of the generation job of a round, of a summary of the rounds up to it, or of the final
    answer. The same each time: what is repeated after a crash is answered from memory by a worker
    that still has it."""
    return f"{job.id}:{job.attempt}:{step}{number}"


def effect_id(job: AgentJob, number: int, index: int) -> str:
    """By what two runs of one call are known as one: job, round, and position in the round."""
    return f"{job.id}:{job.attempt}:{number}:{index}"
