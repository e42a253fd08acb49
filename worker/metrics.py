"""The worker's metrics, beside vLLM's own in the default registry. Labels are closed sets."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

# Steps of about one and a half: a quantile read from them is off by a quarter at most.
_LATENCY_S: Final = (
    *(0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75),
    *(1, 1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 450, 600, 900, 1800, 3600),
)

JOBS: Final = Counter("sluice_jobs_total", "Attempts that ended, by outcome", ["outcome"])
IN_FLIGHT: Final = Gauge("sluice_in_flight", "Attempts running now; of a checker, candidates")
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
HELD_BACK: Final = Histogram(
    "sluice_held_back_tokens",
    "Tokens that are not sent to a streaming client yet, sampled",
    buckets=(0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024),
)
GATES: Final = Histogram(
    "sluice_gate_seconds",
    "What the gates take for a token, sampled",
    buckets=(
        *(5e-6, 1e-5, 2e-5, 3e-5, 5e-5, 7.5e-5, 1e-4, 1.5e-4, 2e-4, 3e-4, 5e-4),
        *(1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.1),
    ),
)
ROLLBACKS: Final = Counter(
    "sluice_rollbacks_total", "Times that a text was taken back, by the gate's level", ["level"]
)
ROLLED_BACK: Final = Counter(
    "sluice_rolled_back_tokens_total", "Tokens that were taken back by that", ["level"]
)
TRIPS: Final = Counter(
    "sluice_gate_trips_total", "Findings of gates, by what was done", ["level", "flaw", "action"]
)
REASONING: Final = Counter(
    "sluice_reasoning_total",
    "Attempts on a model that reasons, by how the reasoning ended and what was found in it",
    ["mode", "ended", "flaw"],
)
REASONING_CUTS: Final = Counter(
    "sluice_reasoning_cuts_total", "Times that reasoning was cut, by the first reason", ["flaw"]
)
REASONING_SAVED: Final = Counter(
    "sluice_reasoning_saved_tokens_total", "Tokens that reasoning might have taken yet, when cut"
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
RETRIES: Final = Counter("sluice_retries_total", "Jobs sent round once more, by why", ["reason"])
RESULTS: Final = Counter(
    "sluice_results_total", "Results published, those of agent jobs too, by outcome", ["outcome"]
)
DEAD_LETTERS: Final = Counter(
    "sluice_dead_letters_total", "Dead letters published, by why and where", ["reason", "stage"]
)
END_TO_END: Final = Histogram(
    "sluice_end_to_end_seconds",
    "From publishing a job to its result, retries included",
    ["outcome"],
    buckets=_LATENCY_S,
)
ATTEMPTS: Final = Histogram(
    "sluice_attempts", "Attempts that a job took, at its end", buckets=(1, 2, 3, 4, 5, 6, 8, 10, 20)
)
SETTLED: Final = Counter(
    "sluice_deliveries_settled_total", "Deliveries settled, by what the broker was told", ["verb"]
)
PREEMPTED: Final = Counter(
    "sluice_preempted_total",
    "Attempts that were handed back, with what was written of them or without",
    ["kept"],
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
AGENT_CHANGES: Final = Counter(
    "sluice_agent_state_changes_total",
    "Changes of agent jobs: of their phase, or of the breaker's state",
    ["state", "to"],
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
QUARANTINES: Final = Counter(
    "sluice_quarantines_total", "Times that the engine was not to be used any more", ["reason"]
)
ENGINE_RESTARTS: Final = Counter(
    "sluice_engine_restarts_total", "Engines started in the place of another", ["outcome"]
)
CONSUMERS: Final = Gauge("sluice_consumers", "Lanes being consumed now")
LOOP_LAG: Final = Gauge("sluice_event_loop_lag_seconds", "How late the event loop wakes up")
LOOP_DELAYS: Final = Histogram(
    "sluice_event_loop_delay_seconds",
    "The same, of each beat",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
)
RECONNECTS: Final = Counter(
    "sluice_reconnects_total", "Connections to the broker that were made anew", ["connection"]
)
INFO: Final = Gauge("sluice_service_info", "1, for each service", ["kind", "version"])
STATE: Final = Gauge("sluice_state", "1 for the state that the service is in, else 0", ["state"])
HELD: Final = Gauge(
    "sluice_unacknowledged", "Deliveries that this service has and has not settled", ["queue"]
)
READY: Final = Gauge(
    "sluice_queue_ready", "Messages that wait in a queue for a consumer", ["queue"]
)
QUEUE_CONSUMERS: Final = Gauge("sluice_queue_consumers", "Consumers that a queue has", ["queue"])
QUEUE_LIMIT: Final = Gauge(
    "sluice_queue_limit", "Messages that a queue takes, where it has a limit", ["queue"]
)
QUEUES_SEEN: Final = Gauge(
    "sluice_queues_seen_timestamp_seconds", "When the queues were last counted, in Unix time"
)
