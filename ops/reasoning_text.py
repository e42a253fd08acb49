"""What became of a model's reasoning, in words."""

from collections.abc import Iterator
from typing import Final

from ..schemas import GenerationResult, ReasoningRecord
from .plain_text import one_line
from .submit_progress import counted

_ENDED: Final = {
    "not_opened": "none",
    "closed": "closed by the model",
    "cut": "closed by the guard",
    "salvaged": "the answer stood in it and was taken from it",
    "open": "still open when the attempt ended",
}


def thought(record: ReasoningRecord) -> str:
    """How much there was and how it ended, in a line."""
    parts = [] if record.ended == "not_opened" else [counted(record.tokens, "token")]
    if record.dropped_tokens or record.cuts:
        parts.append(f"{record.dropped_tokens} thrown away in {counted(record.cuts, 'cut')}")
    parts.append(_ENDED[record.ended])
    return ", ".join(parts)


def why(record: ReasoningRecord) -> str:
    """What the guard found, and that it let it be; empty where it found nothing."""
    if record.flaw is None:
        return ""
    gate = f" by {one_line(record.gate, 64)}" if record.gate else ""
    let_be = ", noted and let be" if record.tripped and record.mode == "observe" else ""
    return f"{record.flaw.value} found{gate}{let_be}"


def limits(record: ReasoningRecord) -> str:
    """What it was held to."""
    return f"mode {record.mode}, effort {record.effort}, cap {counted(record.cap, 'token')}"


def resumed(record: ReasoningRecord) -> str:
    """How fast the answer came after the cut; empty where there was none."""
    if record.first_answer_token_s is None:
        return ""
    return (
        f"answer's first token {record.first_answer_token_s:.2f} s after the cut, "
        f"{record.resumed_cached_tokens} of {record.resumed_prompt_tokens} tokens from the cache"
    )


def in_a_line(record: ReasoningRecord) -> str:
    """The record on one line."""
    return "; ".join(filter(None, (thought(record), why(record), limits(record))))


def in_lines(record: ReasoningRecord) -> Iterator[str]:
    """The record on two lines, or three where the answer began anew behind a cut."""
    yield "; ".join(filter(None, (thought(record), why(record))))
    yield limits(record)
    if behind := resumed(record):
        yield behind


def of_result(result: GenerationResult) -> str:
    """What a reader of a result should know of its reasoning: empty where there was none, and
    nothing was found."""
    record = result.reasoning_record
    if record is None or (record.ended == "not_opened" and record.flaw is None):
        return ""
    return "; ".join(filter(None, (thought(record), why(record))))
