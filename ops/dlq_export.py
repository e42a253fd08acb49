"""Dead letters as lines of JSON: labelled texts for `sluice evaluate`, or the letters whole."""

from collections.abc import Iterator
from typing import Any

import msgspec

from ..guards.profiles import profile_names
from ..schemas import AttemptRecord, GenerationJob
from ..schemas.lineage import Channel
from .dlq_letter import Letter, bad_spans, failed_text
from .dlq_tables import as_data


def labelled(letter: Letter, channel: Channel = "content") -> Iterator[dict[str, Any]]:
    """One line for each attempt whose rejected text was kept, or of the channel "reasoning" what
    was thought before it: a bad text, its class being what was found in it. `onset` is where the
    first bad place begins, if that is known, and `spans` are all of them."""
    for record in () if letter.hidden else letter.lineage.attempts:
        text = failed_text(record) if channel == "content" else _thought(record)
        if not text:
            continue
        flaw = record.flaw
        if channel == "reasoning" and record.reasoning is not None:
            flaw = record.reasoning.flaw or flaw
        about = letter.head.job_id or letter.head.id
        line: dict[str, Any] = {
            "id": f"{about}:{record.attempt}",
            "text": text,
            "label": "bad",
            "class": flaw.value if flaw is not None else letter.head.reason,
            "job_id": letter.head.job_id,
            "attempt": record.attempt,
            "reason": letter.head.reason,
            "found_by": record.found_by,
            "worker": record.worker,
        }
        if spans := bad_spans(record, channel):
            line["onset"] = spans[0][0]
            line["spans"] = spans
        if letter.job is not None:
            line |= _of_job(letter.job, channel)
        if channel == "content" and len(text) < record.text_chars:
            line["text_chars"] = record.text_chars
        yield line


def _thought(record: AttemptRecord) -> str:
    return record.reasoning.text if record.reasoning is not None else ""


def _of_job(job: GenerationJob, channel: Channel) -> dict[str, Any]:
    line: dict[str, Any] = {}
    if job.profile in profile_names():  # an unknown one is why a letter may be here
        line["profile"] = job.profile
    if prompt := prompt_of(job):
        line["prompt"] = prompt
    if channel == "content" and (rules := msgspec.to_builtins(job.rules)):
        line["rules"] = rules
    return line


def whole(letter: Letter) -> dict[str, Any]:
    """The letter as it lies there, opened where there was a key for it: `message` as JSON, or
    `body` in base64 where it can't be read; with what the broker knows of it."""
    properties = letter.properties
    line: dict[str, Any] = {
        **as_data(letter.head),
        "message_id": properties.message_id,
        "message_type": properties.message_type,
        "deaths": letter.deaths,
    }
    if letter.was_sealed:
        return {**line, "message": letter.message}
    if letter.message is not None:
        return {**line, "message": msgspec.Raw(letter.body)}
    return {**line, "body": letter.body}


def prompt_of(job: GenerationJob) -> str:
    """What was asked, as text: the last thing a user said; empty where there are only token ids."""
    if job.messages is not None:
        said = [turn.content for turn in job.messages if turn.role == "user"]
        return said[-1] if said else job.messages[-1].content
    return job.prompt or ""
