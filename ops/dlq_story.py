"""The story of a dead letter for a terminal: what died, what was tried, and what would help."""

import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import click

from ..schemas import (
    AttemptRecord,
    CheckRecord,
    DeadLetter,
    FaultRecord,
    GenerationJob,
    HandoverRecord,
    Reasoning,
    Rules,
    Sampling,
    TripRecord,
)
from .console import table
from .dlq_agent_story import agent_story
from .dlq_deaths import local
from .dlq_filter import age
from .dlq_letter import Letter, bad_spans
from .dlq_text import Span, excerpt, marked
from .dlq_values import changed, values
from .plain_text import one_line
from .reasoning_text import in_lines

TEXT_SHOWN: Final = 1_500
_PROMPT_SHOWN: Final = 300
_TRIPS_SHOWN: Final = 12
_ACTIONS: Final = {
    "note": "noted",
    "rollback": "went back",
    "cut": "cut there",
    "give_up": "gave up",
}


def story(
    letter: Letter,
    *,
    now: datetime,
    width: int,
    colour: bool,
    text_limit: int = TEXT_SHOWN,
    copies: int = 1,
) -> Iterator[str]:
    """Everything, in the order in which it is read."""
    yield _title(one_line(f"dead letter {letter.head.id}", 200), width, colour)
    yield from table(_what(letter, now, copies), indent="  ")
    if letter.job is not None:
        yield ""
        yield _title("the job", width, colour)
        yield from table(_job(letter.job, now), indent="  ")
    elif letter.agent_job is not None:
        parts = agent_story(
            letter.agent_job,
            letter.scene,
            now,
            colour=colour,
            limit=text_limit,
            whole=text_limit > TEXT_SHOWN,
        )
        for title, lines in parts:
            yield ""
            yield _title(title, width, colour)
            yield from lines
    elif letter.result is None:
        yield ""
        yield _title("the body", width, colour)
        yield from _raw(letter, colour)
    lineage = letter.lineage
    if lineage.attempts or lineage.faults or lineage.handovers:
        yield ""
        yield _title("what was tried", width, colour)
        yield from _timeline(letter, colour, text_limit)
    if letter.result is not None and letter.result.text:
        yield ""
        yield _title("the text that is there", width, colour)
        text, _, _, more = excerpt(letter.result.text, (), text_limit)
        yield from marked(text + (" …" if more else ""), (), colour=colour, indent="  ")
    yield ""
    yield _title("what would help", width, colour)
    yield from textwrap.wrap(
        letter.advice, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )


def _title(text: str, width: int, colour: bool) -> str:
    line = f"── {text} ".ljust(width, "─")
    return click.style(line, bold=True) if colour else line


def _time(at: datetime | None) -> str:
    return local(at, "%Y-%m-%d %H:%M:%S") if at is not None else "?"


def _what(letter: Letter, now: datetime, copies: int) -> Iterator[tuple[str, str]]:
    head = letter.head
    yield "why", one_line(f"{head.reason}: {head.sentence}", 600)
    if head.gate or head.flaw:
        yield "found by", one_line(f"{head.gate or '?'}: {head.flaw or '?'}", 200)
    yield "when", f"{_time(head.at)} ({age(head.at, now)} ago)"
    if copies > 1:
        yield "copies", f"{copies}, of which this is the newest"
    yield "job", one_line(head.job_id or "not known", 200)
    message = letter.message
    if isinstance(message, DeadLetter):
        origin = message.origin
        yield "where", one_line(f"stage {origin.stage}, worker {origin.worker}", 300)
        again = ", delivered before" if origin.redelivered else ""
        yield "from", one_line(f"queue {origin.queue}, key {origin.routing_key or '?'}{again}", 300)
        if message.field:
            yield "field", one_line(message.field, 200)
        if message.versions:
            yield "versions", values(message.versions)
    elif head.worker:
        yield "worker", one_line(head.worker, 300)
    for death in letter.deaths:
        times = f", {death.count} times" if death.count != 1 else ""
        keys = ", ".join(death.routing_keys)
        yield (
            "broker",
            one_line(
                f"{death.reason} in queue {death.queue or '?'}{times} at {_time(death.at)}"
                f"{f', key {keys}' if keys else ''}",
                400,
            ),
        )
    if letter.hidden:
        yield "texts", one_line(letter.hidden, 300)
    elif letter.was_sealed:
        yield "texts", "were encrypted, and opened with your key"
    yield "size", f"{head.bytes:,} bytes"


def _job(job: GenerationJob, now: datetime) -> Iterator[tuple[str, str]]:
    if job.messages is not None:
        for turn in (
            job.messages[:1] if len(job.messages) == 1 else (job.messages[0], job.messages[-1])
        ):
            yield turn.role, one_line(turn.content, _PROMPT_SHOWN)
        if len(job.messages) > 2:
            yield "", f"(and {len(job.messages) - 2} turns between these)"
    elif job.prompt is not None:
        yield "prompt", one_line(job.prompt, _PROMPT_SHOWN)
    else:
        yield "prompt", f"{len(job.prompt_token_ids or ())} token ids"
    yield "asked", f"profile {job.profile}, lane {job.lane}, checks {job.checks}"
    first = "" if job.first_attempt == 1 else f" since it was sent back at {job.first_attempt}"
    yield "attempts", f"number {job.attempt}, {job.max_attempts} allowed{first}"
    yield "sampling", changed(job.sampling, Sampling()) or "as usual"
    if reasoning := changed(job.reasoning, Reasoning()):
        yield "reasoning", reasoning
    if rules := changed(job.rules, Rules()):
        yield "rules", rules
    if job.gates:
        yield "gates", values(job.gates)
    if job.deadline is not None:
        passed = "passed" if job.deadline <= now else "not passed yet"
        yield "deadline", f"{_time(job.deadline)}, {passed}"
    yield "reply key", job.reply_to
    if job.metadata:
        yield "metadata", values(job.metadata)


def _raw(letter: Letter, colour: bool) -> Iterator[str]:
    message = letter.message
    body = (message.raw_body or b"") if isinstance(message, DeadLetter) else letter.body
    text = body[:TEXT_SHOWN].decode(errors="replace")
    yield from marked(
        text + (" …" if len(body) > TEXT_SHOWN else ""), (), colour=colour, indent="  "
    )
    if isinstance(message, DeadLetter) and message.raw_body_bytes:
        yield f"  ({message.raw_body_bytes:,} bytes came)"


def _timeline(letter: Letter, colour: bool, text_limit: int) -> Iterator[str]:
    lineage = letter.lineage
    happened: list[AttemptRecord | FaultRecord | HandoverRecord] = [
        *lineage.attempts,
        *lineage.faults,
        *lineage.handovers,
    ]
    for number, each in enumerate(sorted(happened, key=_began)):
        if number:
            yield ""
        if isinstance(each, FaultRecord):
            wait = f"; it waited {each.wait_s:g} s" if each.wait_s else ""
            where = f"attempt {each.attempt} on {each.worker}"
            yield f"  ○ {_time(each.at)}  {one_line(f'the engine failed under {where}', 300)}"
            yield f"      {one_line(each.detail, 500)}{wait}"
        elif isinstance(each, HandoverRecord):
            said = f"{each.worker} handed attempt {each.attempt} back with {each.tokens:,} tokens"
            yield f"  ○ {_time(each.at)}  {one_line(said, 300)}"
            yield f"      {one_line(each.detail, 500)}"
        else:
            # Of a text that is hidden the places are none of what stands for it.
            yield from _attempt(each, colour, text_limit, marks=not letter.hidden)


def _began(record: AttemptRecord | FaultRecord | HandoverRecord) -> datetime:
    return record.started_at if isinstance(record, AttemptRecord) else record.at


def _attempt(record: AttemptRecord, colour: bool, text_limit: int, *, marks: bool) -> Iterator[str]:
    took = ""
    if record.ended_at is not None:
        took = f" ({(record.ended_at - record.started_at).total_seconds():.1f} s)"
    yield f"  ● {_time(record.started_at)}{took}  attempt {record.attempt}"
    yield from table(_facts(record), indent="      ")
    shown = [trip for trip in record.trips if trip.action != "note"] or list(record.trips)
    if len(shown) > _TRIPS_SHOWN:
        yield f"      (the last {_TRIPS_SHOWN} of {len(shown)} trips)"
    for trip in shown[-_TRIPS_SHOWN:]:
        yield f"      {_trip(trip)}"
    if record.verdict is not None:
        model = f" with {record.verdict.model}" if record.verdict.model else ""
        yield f"      {one_line(f'checked by {record.verdict.checker}{model}', 300)}"
        yield from table((_check(each) for each in record.verdict.checks), indent="        ")
        for check in record.verdict.checks:
            for line in check.trace.splitlines():
                yield f"        | {one_line(line, 300)}"
    if record.reasoning is not None and record.reasoning.text:
        spans = bad_spans(record, "reasoning") if marks else []
        yield from _reasoning(record.reasoning.text, spans, colour, text_limit)
    if record.text:
        yield from _text(record, bad_spans(record) if marks else [], colour, text_limit)
    if record.shortened:
        yield "      (details were left out for their size)"


def _facts(record: AttemptRecord) -> Iterator[tuple[str, str]]:
    engine = f", {record.engine}" if record.engine else ""
    model = f", {record.model}" if record.model else ""
    yield "worker", one_line(f"{record.worker}{engine}{model}", 300)
    if record.segments:
        seeds = len(record.segments)
        again = f", and {seeds - 1} more after going back" if seeds > 1 else ""
        yield "seed", f"{record.segments[0].seed}{again}"
    if record.parameters:
        yield "changed", values(record.parameters)
    if record.instruction:
        yield "told", one_line(record.instruction, 300)
    usage = record.usage
    ended = f", ended by {record.finish_reason}" if record.finish_reason else ""
    thought = f" ({usage.reasoning_tokens} of them reasoning)" if usage.reasoning_tokens else ""
    spent = (
        f"{usage.prompt_tokens} in, {usage.completion_tokens} out{thought}, "
        f"{usage.wasted_tokens} wasted"
    )
    yield "tokens", f"{spent}{ended}"
    if record.reasoning is not None:
        for number, line in enumerate(in_lines(record.reasoning)):
            yield "" if number else "reasoning", one_line(line, 300)
    if record.flaw is not None or record.detail:
        flaw = record.flaw.value if record.flaw is not None else "not accepted"
        by = f" (by {record.found_by})" if record.found_by else ""
        detail = f": {record.detail}" if record.detail else ""
        yield "verdict", one_line(f"{flaw}{by}{detail}", 600)


def _trip(trip: TripRecord) -> str:
    quote = f" “{one_line(trip.quote, 60)}”" if trip.quote else ""
    went_back = trip.action in ("rollback", "cut")
    kept = f", {trip.kept} tokens kept, {trip.wasted} wasted" if went_back else ""
    where = "reasoning, token" if trip.channel == "reasoning" else "token"
    return one_line(
        f"{where} {trip.tokens[0]}: {trip.gate} found {trip.flaw.value}, {trip.score:.4g} against "
        f"{trip.threshold:.4g}{quote}: {_ACTIONS[trip.action]}{kept}",
        400,
    )


def _check(check: CheckRecord) -> tuple[str, ...]:
    against = ""
    if check.score is not None:
        bound = f" against {check.threshold:.4g}" if check.threshold is not None else ""
        against = f"{check.score:.4g}{bound}"
    detail = ": ".join(filter(None, (check.flaw.value if check.flaw else "", check.detail)))
    return one_line(check.check, 64), check.outcome, against, one_line(detail, 400)


def _reasoning(kept: str, bad: Sequence[Span], colour: bool, limit: int) -> Iterator[str]:
    text, spans, before, after = excerpt(kept, bad, limit)
    yield f"      reasoning, {len(text):,} of {len(kept):,} characters on record:"
    yield from _marked_part(text, spans, before, after, colour)


def _text(record: AttemptRecord, bad: Sequence[Span], colour: bool, limit: int) -> Iterator[str]:
    text, spans, before, after = excerpt(record.text, bad, limit)
    whole = max(record.text_chars, len(record.text))
    part = f", {len(text):,} of them here" if len(text) < whole else ""
    yield f"      text of {whole:,} characters{part}:"
    yield from _marked_part(text, spans, before, after or len(record.text) < whole, colour)


def _marked_part(
    text: str, spans: Sequence[Span], before: bool, after: bool, colour: bool
) -> Iterator[str]:
    lines = list(marked(text, spans, colour=colour, indent="        "))
    if before:
        lines[0] = f"        … {lines[0].lstrip()}"
    if after:
        lines[-1] += " …"
    yield from lines
