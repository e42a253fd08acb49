"""Why a job is dead, in words, and what would help: the table behind `sluice dlq show`."""

from typing import Final

from ..schemas import Flaw, Reason
from ..schemas.topology import DELIVERY_LIMIT

# What is no code of ours: what the broker says of a message that it moved, and what it doesn't say.
BROKER_REASONS: Final = ("delivery_limit", "expired", "maxlen", "rejected")
UNDECODABLE: Final = "undecodable"
UNKNOWN: Final = "unknown"

_CORRECT_IT: Final = (
    "Correct the publisher: the field and the limit are named above. A body that can't be read "
    "can't be sent back; export it with --raw, mend it and publish it again."
)

_ROUND_AND_ROUND: Final = (
    "It thought in circles, and cutting that did not bring an answer: requeue --set "
    "reasoning.effort=low, or --set sampling.temperature=0.8. If the reasoning was good, the guard "
    "is wrong: --set reasoning.mode=observe lets it be."
)

# By reason code, by the broker's reason, and by flaw where that says more than the reason.
ADVICE: Final[dict[str, str]] = {
    Reason.MALFORMED_JSON: _CORRECT_IT,
    Reason.WRONG_TYPE: _CORRECT_IT,
    Reason.UNKNOWN_TYPE: "Something else was published to the jobs exchange. Find who did by the "
    "message's properties, and give it an exchange of its own.",
    Reason.FUTURE_VERSION: "The publisher is newer than this worker: upgrade the workers first, "
    "then publish again.",
    Reason.TOO_LARGE: "Shorten the prompt, or pass long context by reference. If the outcome was "
    "too large, lower max_tokens: --set sampling.max_tokens=...",
    Reason.TOO_DEEP: "Flatten what is nested so deeply: a schema, metadata or gates.",
    Reason.MISSING_FIELD: _CORRECT_IT,
    Reason.INVALID_FIELD: _CORRECT_IT,
    Reason.EMPTY_PROMPT: "There was nothing to answer. Look at what fills the publisher's prompt.",
    Reason.PROMPT_TOO_LONG: "The prompt with max_tokens does not fit the model's context: shorten "
    "it, lower max_tokens, or serve the job with a larger max_model_len.",
    Reason.UNSUPPORTED: "This engine can't do what the job asks: another profile (--profile), "
    "other parameters (--set), or workers that can. A gate that is wrong: --set gates.NAME=VALUE, "
    "or null, which takes it away.",
    Reason.DEADLINE_PASSED: "It waited or ran too long. If the answer is still wanted: requeue "
    "--no-deadline, or --deadline-in 10m. If many died so: more workers, or a longer deadline.",
    Reason.CANCELLED: "Its publisher, or an operator, called it off. Nothing to mend; purge it, or "
    "requeue it if that was a mistake.",
    Reason.ATTEMPT_TIMEOUT: "One attempt took longer than a worker allows: lower max_tokens (--set "
    "sampling.max_tokens=...), or raise --attempt-timeout-s of the workers.",
    Reason.ENGINE_FAULT: "The engine failed under it again and again. Read the workers' logs of "
    "that time (memory, driver). If other jobs ran there, this one may be what breaks it: try it "
    "alone, or with fewer tokens.",
    Reason.GATE_TRIPPED: "The streaming gates found garbage that going back did not mend. See "
    "below what was found; a lower temperature often helps: requeue --set "
    "sampling.temperature=0.3. If the text is good, the gate is wrong: export it and run "
    "`sluice evaluate`.",
    Reason.CHECKS_REJECTED: "No text for it passed the checks. See scores and thresholds above: if "
    "the texts are bad, change the parameters or the prompt; if they are good, `sluice calibrate` "
    "the threshold, then requeue.",
    Reason.CHECK_FAILED: "A check broke on the text, so nobody knows whether it is good. The trace "
    "is above: mend the check or the rule, then requeue.",
    Reason.BREAKER_TRIPPED: "The agent went round in circles, and neither a reminder nor fewer "
    "tools helped: the rounds above say where. Mend the task or the tool that it asked again and "
    "again, then requeue; if the rounds are good work, the watchdog is too strict: another --set "
    "task_type=..., or --set watchdog.<threshold>=...",
    Reason.BUDGET_SPENT: "Its budget ran out before it was done; what it had done by then is "
    "in its partial answer. If the rounds got on: requeue --set budget.tokens=... (or rounds, "
    "tool_calls, wall_s). It begins anew: what its tools did may be done again.",
    Reason.TOOLS_SPENT: "No tool was left that it might call: their quotas are spent, or the "
    "breaker left it only tools that it had called already. Raise the tool's quota, give it others "
    "(--set tools=...), or ask for less.",
    Reason.GENERATION_FAILED: "The model gave no answer that could be used, again and again: none "
    "came, or no call could be read from it. Look at what it said above; requeue --set "
    "format=grammar, or --set sampling.temperature=0.3. If none came, see to the workers first.",
    Reason.CONTEXT_FULL: "Task, tools and what must be told do not fit the model's context, or the "
    "state does not fit a message: a shorter task or system prompt, fewer tools (--set tools=...), "
    "tools that answer in fewer words, or a model with a larger max_model_len.",
    Reason.TOOL_UNAVAILABLE: "It asks for a tool that no agent service here has: install it there, "
    "or say where it is served, then requeue; or --set tools=... without it.",
    Reason.RESULT_UNROUTABLE: "The text is there, but the queue of its reply key was not. Create "
    "it (`sluice results --reply KEY` does), then requeue: the result itself is published again, "
    "nothing is generated anew.",
    "delivery_limit": "Each worker that took it died or lost the broker before it could say how "
    "it ended. Look whether the workers were killed for memory. Requeue one such job alone first, "
    "perhaps with fewer tokens: it may be what kills them. An agent job that was under way goes on "
    "where it was.",
    "expired": "It waited in a queue with a time limit until that was over. See who set the limit: "
    "a policy, or the publisher's `expiration`. Requeue it if the answer is still wanted.",
    "maxlen": "A queue was full and dropped it. More workers, or a longer queue; then requeue.",
    "rejected": "A worker left it to the broker whole, as a rule because it, or its outcome, was "
    "too large to be written into a letter. The letter beside it says why.",
    UNDECODABLE: "No message of ours. Find by its properties who publishes it here. It can't be "
    "sent back: export it with --raw if it matters, then purge it.",
    UNKNOWN: "Nothing says how it came here; somebody may have published it here by hand.",
    Flaw.NON_FINITE_LOGITS: "The logits were not numbers: a broken kernel, a bad quantisation or "
    "failing memory. Compare the workers in `sluice dlq stats`; take a worker that stands out out "
    "of service, then requeue.",
    Flaw.UNIFORM_LOGITS: "Every token was as likely as any other: logits that were not numbers, "
    "made to look as if they were. Compare the workers in `sluice dlq stats`.",
    Flaw.ENGINE_ABORT: "The engine broke the request off by itself: read its log.",
    Flaw.ENGINE_REPETITION: "The engine saw a repetition: requeue --set "
    "sampling.repetition_penalty=1.1",
    Flaw.LOW_CONFIDENCE: "The model did not know how to go on: requeue --set "
    "sampling.temperature=0.3 --set sampling.top_p=0.9",
    Flaw.FEW_CANDIDATES: "Hardly a token was left to choose from: look at logit_bias, bad_words, "
    "top_k and the grammar.",
    Flaw.LOST_CONFIDENCE: "The model lost its thread: requeue --set sampling.temperature=0.3",
    Flaw.LOOP: "It went round in circles: requeue --set sampling.repetition_penalty=1.1 --set "
    "sampling.temperature=0.8",
    Flaw.REPETITIVE: "It said the same again and again: requeue --set "
    "sampling.repetition_penalty=1.1, or ask for less (max_tokens).",
    Flaw.NEAR_DUPLICATES: "Paragraphs say the same: requeue --set sampling.frequency_penalty=0.3, "
    "or ask for less (max_tokens).",
    Flaw.GIBBERISH: "Words that are none: requeue --set sampling.temperature=0.3 --set "
    "sampling.top_p=0.9",
    Flaw.HIGH_PERPLEXITY: "The scoring model found the text, or a part of it, most unlikely: "
    "requeue --set sampling.temperature=0.3. Of a field of its own (code, tables, another "
    "language) another --profile may be the answer.",
    Flaw.IRRELEVANT: "The text does not answer the prompt. A clearer prompt, or requeue --set "
    "sampling.temperature=0.3",
    Flaw.DISJOINTED: "Neighbouring sentences have nothing to do with each other: requeue --set "
    "sampling.temperature=0.3",
    Flaw.WRONG_LANGUAGE: "Say the language in the prompt; or the job's rules.language is wrong.",
    Flaw.SCRIPT_SWITCH: "A passage in another script: say the language in the prompt, or requeue "
    "--set sampling.temperature=0.3",
    Flaw.MOJIBAKE: "UTF-8 that was read as something else: look at the prompt first, it may have "
    "come so.",
    Flaw.EMPTY_ANSWER: "The model ended at once. Look at the prompt and the stop strings; or "
    "requeue --set sampling.min_tokens=16",
    Flaw.TOO_SHORT: "Requeue --set sampling.min_tokens=..., or lower the rule's limit.",
    Flaw.TOO_LONG: "Say the length in the prompt, lower max_tokens, or raise the rule's limit.",
    Flaw.INVALID_JSON: "Constrain the output by a schema: requeue --set "
    "'sampling.structured_output={\"json_schema\":{...}}', and see that max_tokens is enough.",
    Flaw.SCHEMA_MISMATCH: "Constrain the output by the same schema (sampling.structured_output).",
    Flaw.UNCLOSED_FENCE: "A block of code was never closed, though the text ended by itself: say "
    "in the prompt how to end, or requeue for another seed.",
    Flaw.CUT_OFF: "The text was not done: raise max_tokens (requeue --set "
    "sampling.max_tokens=...), or ask for less.",
    Flaw.MISSING_TEXT: "The rule's phrase never came: say in the prompt that it must.",
    Flaw.FORBIDDEN_TEXT: "A forbidden phrase came: say so in the prompt, or add it to bad_words.",
    Flaw.PATTERN_MISMATCH: "The rule's pattern did not fit: say the form in the prompt, or use "
    "sampling.structured_output with a regex.",
    Reason.REASONING_RUNAWAY: "No attempt got from its reasoning to an answer: look at what was "
    "thought and where it was cut, then requeue --set reasoning.effort=low (or a number below the "
    "cap that it had), or --set reasoning.effort=0 for an answer without it.",
    Flaw.REASONING_CAP: "All that may be thought was thought, and no answer came of it: ask for "
    "less at once, or requeue --set reasoning.effort=high. See that max_tokens leaves room for the "
    "answer behind it.",
    Flaw.REASONING_LOOP: _ROUND_AND_ROUND,
    Flaw.REASONING_PARAGRAPHS: _ROUND_AND_ROUND,
    Flaw.REASONING_NGRAMS: _ROUND_AND_ROUND,
    Flaw.REASONING_SENTENCES: _ROUND_AND_ROUND,
    Flaw.REASONING_OPENINGS: "The model took back what it had thought again and again: requeue "
    "--set sampling.temperature=0.8, or --set reasoning.effort=low, which has it answer sooner.",
    Flaw.REASONING_UNCLOSED: "The reasoning had no end, and so there is no answer: requeue --set "
    "reasoning.effort=low, or raise max_tokens (--set sampling.max_tokens=...). If all jobs of a "
    "model end so, the worker's reasoning_end is not the model's own end of reasoning.",
    Flaw.REASONING_AGAIN: "The model went back to thinking in the middle of its answer: requeue "
    "--set reasoning.effort=0, or --set sampling.temperature=0.8",
    Flaw.REASONING_END_AGAIN: "The end of reasoning came a second time: requeue --set "
    "reasoning.effort=0. If all jobs of a model end so, look at the worker's reasoning_start, "
    "reasoning_end and reasoning_block.",
    Flaw.REASONING_NO_ANSWER: "The model thought, and said nothing: requeue --set "
    "reasoning.effort=low, or --set sampling.temperature=0.8. If all jobs of a model end so, the "
    "worker may take its answers for reasoning: see reasoning_parser and reasoning_block.",
    Flaw.OWN_RULE: "A rule of the installation's own said no; its sentence is above.",
}

# Of a message of ours that can't be read here, whatever the reason.
OLDER_HERE: Final = (
    "It was written by a newer version than this `sluice`. Upgrade this side, and look again. Keep "
    "it until then: `sluice dlq export --raw` writes it down as it is."
)
INVALID_HERE: Final = (
    "It is one of our messages, and breaks a rule of this version, which is named above; the "
    "version that took it may have been another. It can't be sent back as it is: export it with "
    "--raw, mend it and publish it again, or look at it with the version that wrote it."
)


def advice(reason: str, flaw: str | None) -> str:
    """What would help. By the flaw where that says more than the reason."""
    # A deadline that passed, say, is the reason whatever was found on the way.
    by_flaw = reason in (Reason.GATE_TRIPPED, Reason.CHECKS_REJECTED)
    return (ADVICE.get(flaw) if flaw and by_flaw else None) or ADVICE.get(reason, ADVICE[UNKNOWN])


def broker_sentence(reason: str, queue: str) -> str:
    """How a message came here that no worker wrote a letter for."""
    where = f"queue {queue}" if queue else "its queue"
    match reason:
        case "delivery_limit":
            return (
                f"the broker gave it up after {DELIVERY_LIMIT + 1} deliveries from {where}: each "
                "worker that took it died, or lost the broker, before it could say how it ended"
            )
        case "expired":
            return f"the broker gave it up: its time in {where} was over before anybody took it"
        case "maxlen":
            return f"the broker gave it up: {where} was full"
        case "rejected":
            return f"a worker took it from {where} and left it whole to the broker"
        case _:
            return "nothing says how it came here"
