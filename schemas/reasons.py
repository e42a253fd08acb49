"""Reason codes: the closed list of answers to "why did this job end like this?"."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a job was rejected, failed or dead-lettered. Codes are added, never renamed."""

    # What was sent can't be read.
    MALFORMED_JSON = "malformed_json"
    WRONG_TYPE = "wrong_type"
    UNKNOWN_TYPE = "unknown_type"
    FUTURE_VERSION = "future_version"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    MISSING_FIELD = "missing_field"
    INVALID_FIELD = "invalid_field"
    # It can be read, but this engine can't do it.
    EMPTY_PROMPT = "empty_prompt"
    PROMPT_TOO_LONG = "prompt_too_long"
    UNSUPPORTED = "unsupported"
    # It ended before it was done.
    DEADLINE_PASSED = "deadline_passed"
    CANCELLED = "cancelled"
    ATTEMPT_TIMEOUT = "attempt_timeout"
    ENGINE_FAULT = "engine_fault"
    # The gates found what going back could not mend.
    GATE_TRIPPED = "gate_tripped"
    REASONING_RUNAWAY = "reasoning_runaway"
    # The checks of the whole text would not have any of the texts, or broke on them.
    CHECKS_REJECTED = "checks_rejected"
    CHECK_FAILED = "check_failed"
    # An agent job was ended before its model said that it is done.
    BREAKER_TRIPPED = "breaker_tripped"
    BUDGET_SPENT = "budget_spent"
    TOOLS_SPENT = "tools_spent"
    GENERATION_FAILED = "generation_failed"
    CONTEXT_FULL = "context_full"
    # It asks for tools that no agent service here has.
    TOOL_UNAVAILABLE = "tool_unavailable"
    # The outcome found no one to take it.
    RESULT_UNROUTABLE = "result_unroutable"
