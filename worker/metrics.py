"""The worker's metrics, beside vLLM's own in the default registry. Labels are closed sets."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_LATENCY_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)

JOBS: Final = Counter("sluice_jobs_total", "Attempts that ended, by outcome", ["outcome"])
IN_FLIGHT: Final = Gauge("sluice_in_flight", "Attempts running now")
SLOTS: Final = Gauge("sluice_slots", "Attempts that can run at once")
QUEUED: Final = Histogram(
    "sluice_queued_seconds", "From publishing a job to its delivery", buckets=_LATENCY_S
)
ENGINE: Final = Histogram(
    "sluice_engine_seconds", "From admission by the engine to the last token", buckets=_LATENCY_S
)
FIRST_TOKEN: Final = Histogram(
    "sluice_first_token_seconds",
    "From admission by the engine to the first token",
    buckets=_LATENCY_S,
)
TOKENS: Final = Counter("sluice_tokens_total", "Tokens, by kind", ["kind"])
TRIPS: Final = Counter(
    "sluice_gate_trips_total", "Findings of gates, by what was done", ["level", "flaw", "action"]
)
REASONING: Final = Counter(
    "sluice_reasoning_total",
    "Attempts on a model that reasons, by how the reasoning ended and what was found in it",
    ["mode", "ended", "flaw"],
)
ANSWER_AFTER_CUT: Final = Histogram(
    "sluice_reasoning_cut_seconds",
    "From cutting the reasoning to the first token of the answer",
    buckets=_LATENCY_S,
)
VERDICTS: Final = Counter(
    "sluice_verdicts_total", "Verdicts of the checker, by what they say", ["outcome", "mode"]
)
CHECK_FINDINGS: Final = Counter(
    "sluice_check_findings_total", "What checks found in texts, or broke on", ["check", "flaw"]
)
UNCHECKED: Final = Counter(
    "sluice_unchecked_total", "Texts to be observed that could not be sent to the checkers"
)
CHECK_BATCH: Final = Histogram(
    "sluice_check_batch", "Texts examined at once", buckets=(1, 2, 4, 8, 16, 32, 64, 128)
)
CHECK_SECONDS: Final = Histogram(
    "sluice_check_seconds", "How long a batch of texts was examined", buckets=_LATENCY_S
)
SETTLED: Final = Counter(
    "sluice_deliveries_settled_total", "Deliveries settled, by what the broker was told", ["verb"]
)
DUPLICATES: Final = Counter(
    "sluice_duplicate_deliveries_total", "Deliveries of an attempt that runs or was settled already"
)
EVENTS_DROPPED: Final = Counter(
    "sluice_events_dropped_total", "Events not published: the broker was slow or gone"
)
AGENTS: Final = Counter(
    "sluice_agent_jobs_total", "Agent jobs that ended, by outcome", ["outcome", "reason"]
)
AGENT_STEPS: Final = Gauge("sluice_agent_steps", "Steps of agent jobs under way")
AGENT_STEP_SECONDS: Final = Histogram(
    "sluice_agent_step_seconds", "How long a step took", ["phase"], buckets=_LATENCY_S
)
AGENT_ROUNDS: Final = Counter(
    "sluice_agent_rounds_total", "Rounds that ended, by what the breaker asked for", ["degree"]
)
AGENT_FOLDS: Final = Counter("sluice_agent_folds_total", "Times that older rounds were summed up")
TOOL_CALLS: Final = Counter(
    "sluice_tool_calls_total",
    "Calls of tools that were made, by what came of them",
    ["tool", "status"],
)
TOOL_SECONDS: Final = Histogram(
    "sluice_tool_seconds", "How long a call of a tool took", buckets=_LATENCY_S
)
CONSUMERS: Final = Gauge("sluice_consumers", "Lanes being consumed now")
LOOP_LAG: Final = Gauge("sluice_event_loop_lag_seconds", "How late the event loop wakes up")
