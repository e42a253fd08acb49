"""An injection for a terminal: the texts side by side, and what happened when."""

from collections.abc import Iterator
from typing import Final

from ..schemas import SegmentRecord, TripRecord
from .console import table
from .faults import MEANING
from .inject import Injection, Saved
from .reasoning_text import in_lines
from .side_by_side import columns, row, rule

_PLAIN: Final = "the plain engine"
_ACTIONS: Final = {
    "note": "noted",
    "rollback": "went back",
    "cut": "cut",
    "give_up": "gave up",
}


def lines(injection: Injection, *, width: int, colour: bool) -> Iterator[str]:
    """Everything, in the order in which it is read."""
    yield f"── {injection.kind}: {MEANING[injection.kind]} ".ljust(width, "─")
    yield ""
    if injection.raw.reasoning is None:
        yield row(_PLAIN, "with the gates", width)
        yield rule(width)
        yield from _text(injection, width, colour)
    else:
        yield row(_PLAIN, "with the guard", width)
        yield rule(width)
        yield from _thoughts_and_answers(injection, width, colour)
    yield ""
    yield from table(_timeline(injection))
    yield ""
    if injection.gated.reasoning_record is not None:
        yield from in_lines(injection.gated.reasoning_record)
        yield ""
    yield verdict(injection)
    if injection.saved is not None:
        yield savings(injection, injection.saved)


def _text(injection: Injection, width: int, colour: bool) -> Iterator[str]:
    yield from columns(
        injection.raw.text,
        injection.gated.text,
        marked=injection.raw.span,
        insert=_silent(injection),
        width=width,
        colour=colour,
    )


def _thoughts_and_answers(injection: Injection, width: int, colour: bool) -> Iterator[str]:
    raw, gated = injection.raw, injection.gated
    yield row("reasoning:", "reasoning:", width)
    yield from columns(
        raw.reasoning or "",
        gated.reasoning or "",
        marked=raw.span,
        width=width,
        colour=colour,
    )
    yield rule(width)
    yield row(_answer_head(raw.text), _answer_head(gated.text), width)
    yield from columns(raw.text, gated.text, marked=(0, 0), width=width, colour=colour)


def _answer_head(text: str) -> str:
    return "answer:" if text.strip() else "no answer"


def verdict(injection: Injection) -> str:
    """The outcome in a sentence."""
    gated = injection.gated
    if injection.raw.onset >= len(injection.raw.token_ids):
        return f"The plain engine's text ended before token {injection.at}: no fault struck."
    if injection.found_after_tokens is None:
        found = "The fault was not found"
    else:
        found = f"The fault was found with its token number {injection.found_after_tokens}"
    thinks = injection.raw.reasoning is not None
    there = "what the answer was made from" if thinks else "the text"
    record = gated.reasoning_record
    if injection.clean and record is not None and record.tokens > injection.at:
        left = f"of it only the first turn, a thought like any other, is in {there}"
    elif injection.clean:
        left = f"nothing of it is in {there}"
    elif gated.surviving:
        left = f"{gated.surviving} of its tokens are in {there}"
    elif gated.outcome != "completed":
        left = f"there is no text: {gated.outcome}, {gated.detail}"
    elif thinks and not gated.text.strip():
        left = "there is no answer"
    else:
        left = "the text still looks like it"
    return f"{found}; {left}. {gated.wasted_tokens} tokens were thrown away."


def savings(injection: Injection, saved: Saved) -> str:
    """What the guard saved in two sentences; less than nothing where it took more."""
    raw = injection.raw
    had = "an answer of its own" if raw.text.strip() else "no answer"
    return (
        f"Saved: {saved.tokens} of {len(raw.token_ids)} tokens and {saved.seconds:.2f} of "
        f"{raw.engine_s:.2f} s. The plain engine took {saved.token_ratio:.1f} times the tokens and "
        f"{saved.time_ratio:.1f} times the time, for {had}."
    )


def _silent(injection: Injection) -> str:
    struck = len(injection.raw.token_ids) - injection.raw.onset
    return f"({min(struck, injection.length)} tokens without text)" if struck > 0 else ""


def _timeline(injection: Injection) -> Iterator[tuple[str, ...]]:
    yield ("time", "token", "what", "details")
    yield ("", str(injection.at), "fault", str(injection.kind))
    gated = injection.gated
    elapsed = 0.0
    for number, segment in enumerate(gated.segments):
        yield (f"{elapsed:.2f} s", str(segment.start), "segment", _began(segment))
        elapsed += segment.engine_s
        for trip in gated.trips:
            if trip.segment == number:
                yield _tripped(trip, elapsed if trip.action != "note" else None)
    end = gated.segments[-1].start + gated.segments[-1].tokens if gated.segments else 0
    yield (f"{elapsed:.2f} s", str(end), gated.outcome, gated.detail)
    for trip in gated.trips:
        if trip.segment >= len(gated.segments):
            yield _tripped(trip, elapsed)


def _began(segment: SegmentRecord) -> str:
    changed = ", ".join(f"{name} {value}" for name, value in segment.parameters.items())
    cache = (
        "prefix cache not read"
        if segment.fresh_cache
        else f"{segment.cached_tokens} of {segment.prompt_tokens} tokens from the cache"
    )
    return f"{cache}; {changed or 'as the job asks'}; brought {segment.tokens} tokens"


def _tripped(trip: TripRecord, at_s: float | None) -> tuple[str, ...]:
    when = "" if at_s is None else f"{at_s:.2f} s"
    found = (
        f"{trip.flaw} by {trip.gate} (level {trip.level}) in tokens {trip.tokens[0]} to "
        f"{trip.tokens[1] - 1}, score {trip.score:g} against {trip.threshold:g}"
    )
    if trip.action in ("rollback", "cut"):
        banned = "" if trip.banned is None else f", token {trip.banned} banned there"
        found += f"; kept {trip.kept}, threw {trip.wasted} away{banned}"
    return (when, str(trip.tokens[1] - 1), _ACTIONS[trip.action], found)
