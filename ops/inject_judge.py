"""What became of an ordered fault: when it was found, and what of it is still there."""

from collections.abc import Sequence
from typing import Final

from ..guards.mojibake import pictures
from ..schemas import TripRecord
from ..schemas.lineage import Channel
from ..worker.endings import Answered, Report
from .faults import IN_REASONING, Fault, Order

# Of a passage in another script, so many characters in the answer are no accident.
_PASSAGE_CHARACTERS: Final = 4


def found_after(trips: Sequence[TripRecord], ordered: Order) -> int | None:
    """Counted from the fault's first token to the last one of the first finding that covers any of
    it. What was found before it struck is some other trouble, and so is what was found in another
    channel. A fault in the reasoning is found when it is cut: a suspicion may go by."""
    return next(
        (
            trip.tokens[1] - ordered.at
            for trip in trips
            if trip.tokens[1] > ordered.at
            and trip.channel == channel_of(ordered)
            and (ordered.kind not in IN_REASONING or trip.action == "cut")
        ),
        None,
    )


def surviving(report: Report, ordered: Order) -> int:
    """How many tokens of the fault are in the text, or the reasoning it was made from: those
    of the segments that were struck, as far as no later rollback or cut took them away."""
    struck: list[tuple[int, int]] = []
    rollbacks = [
        trip
        for trip in report.record.trips
        if trip.action in ("rollback", "cut") and trip.channel == channel_of(ordered)
    ]
    for number, segment in enumerate(report.record.segments):
        end = segment.start + segment.tokens
        if end > ordered.at and (ordered.persistent or not struck):
            first = max(ordered.at + innocent(ordered), segment.start)
            keeps = [trip.kept for trip in rollbacks if trip.segment >= number]
            # What ends a text, or a request, is no part of the text.
            text_end = end - (segment.finish_reason == "stop")
            struck.append((first, min([text_end, first + ordered.length, *keeps])))
    return sum(max(0, last - first) for first, last in struck)


def is_clean(report: Report, ordered: Order) -> bool:
    """Accepted, no struck token in it, and nothing in it that looks like the fault. Behind a fault
    in the reasoning there is an answer, too, and what it was made from is as clean."""
    if not isinstance(report.ending, Answered) or surviving(report, ordered):
        return False
    match ordered.kind:
        case Fault.MOJIBAKE:
            return not pictures(report.text)
        case Fault.LANGUAGE:
            return ordered.text.strip()[:_PASSAGE_CHARACTERS] not in report.text
        case Fault.LOOP:
            # Any text may have the phrase once; two in a row are the loop.
            return ordered.text.strip() + ordered.text not in report.text
        case Fault.REASONING_LOOP:
            twice = ordered.text.strip() + ordered.text
            return bool(report.text.strip()) and twice not in f"{report.reasoning}\n{report.text}"
        case _:
            return True


def innocent(ordered: Order) -> int:
    """How many struck tokens are no fault by themselves: whoever thinks something once has thought
    it. Of a loop in the reasoning the first turn may stay."""
    return len(ordered.ids) if ordered.kind is Fault.REASONING_LOOP else 0


def channel_of(ordered: Order) -> Channel:
    """Where the fault strikes."""
    return "reasoning" if ordered.kind in IN_REASONING else "content"
