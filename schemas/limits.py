"""Limits of the wire, checked when a message is decoded. One place, so that docs can quote it."""

from typing import Final

MIB: Final = 1024 * 1024

# RabbitMQ takes 128 MiB before 4.0 and 16 MiB after; brokers of quorum queues want far less.
MAX_JOB_BYTES: Final = 1 * MIB
# Results and dead letters carry a job, or its raw body in base64, with the story around it.
MAX_OUTCOME_BYTES: Final = 4 * MIB
# Headers must fit one AMQP frame (128 KiB by default), or the broker closes the connection.
MAX_HEADER_BYTES: Final = 4096

# Two of them and the name of an event must fit a routing key, which has 255 bytes.
MAX_ID_CHARS: Final = 120
MAX_PROMPT_CHARS: Final = 500_000
MAX_PROMPT_TOKENS: Final = 150_000
MAX_MESSAGES: Final = 1_000
MAX_OUTPUT_TOKENS: Final = 131_072
MAX_STOP_STRINGS: Final = 16
MAX_STOP_CHARS: Final = 256
MAX_BAD_WORDS: Final = 256
MAX_LOGIT_BIAS: Final = 1_024
MAX_TOKEN_ID: Final = 2**31 - 1
MAX_SEED: Final = 2**63 - 1
MAX_ATTEMPTS: Final = 10
MAX_SEGMENTS: Final = 1_000
MAX_TRIPS: Final = 1_000
MAX_NESTING: Final = 32
MAX_METADATA_BYTES: Final = 16 * 1024
MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_CHOICES: Final = 256
MAX_SPANS: Final = 8
MAX_SPAN_CHARS: Final = 64
# Of the rules for a text.
MAX_OUTPUT_CHARS: Final = 10_000_000
MAX_PHRASES: Final = 64
MAX_PHRASE_CHARS: Final = 256
MAX_PATTERNS: Final = 16
MAX_PATTERN_CHARS: Final = 1_024
MAX_INSTRUCTION_CHARS: Final = 1_000
MAX_WRAP_UP_CHARS: Final = 500
# Of the records that a job collects on its way.
MAX_ATTEMPT_NUMBER: Final = 10_000
MAX_RECORDS: Final = 20
MAX_FAULTS: Final = 10
# Of an attempt that is handed back with what it has written.
MAX_HANDOVERS: Final = 100
MAX_PROGRESS_TOKENS: Final = MAX_OUTPUT_TOKENS
MAX_PROGRESS_CHARS: Final = MIB
MAX_PROGRESS_BYTES: Final = MIB + MIB // 4
MAX_LINEAGE_BYTES: Final = MIB + MIB // 2
MAX_KEPT_TEXT: Final = 20_000
MAX_CHECKS: Final = 64
MAX_EVIDENCE: Final = 16
MAX_QUOTE_CHARS: Final = 200
MAX_TRACE_CHARS: Final = 4_000
MAX_DETAIL: Final = 500
# Of agent jobs. The context with a dead letter's words around it must fit an outcome.
MAX_CONTEXT_BYTES: Final = 3 * MIB
MAX_AGENT_ID_CHARS: Final = 100
MAX_AGENT_ROUNDS: Final = 10_000
MAX_TOOLS: Final = 64
MAX_TOOL_NAMES: Final = 64
MAX_TOOL_NAME_CHARS: Final = 64
MAX_TOOL_DESCRIPTION_CHARS: Final = 8_000
MAX_TOOL_CALLS: Final = 64
MAX_ARGUMENTS_BYTES: Final = 64 * 1024
MAX_TOOL_RESULT_CHARS: Final = 20_000
MAX_SUMMARY_CHARS: Final = 20_000
MAX_SAMPLES: Final = 64
MAX_LEDGER: Final = 500
