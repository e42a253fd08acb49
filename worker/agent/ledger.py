"""The ledger: a line for each call, and for each decision, of the rounds that are no longer told in
full. It is written from the record and not by a model, so that no summary can lose a result.

What is no call stands under the empty name: what the model said that it would do, what of it could
not be read, and what it was reminded of.
"""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from ...schemas import Round, ToolCall, ToolSpec, ToolStatus
from ...schemas.agents import LedgerEntry
from ...schemas.limits import MAX_LEDGER, MAX_QUOTE_CHARS, MAX_TOOL_NAME_CHARS
from .shortening import arguments_line, one_line

# Of the ledger in a message: JSON.
LEDGER_BYTES: Final = 128 * 1024
# Of the ledger in a prompt, in characters: about fifty lines; and for each token of the model's
# context. The rest stays on record.
SHOWN_CHARS: Final = 6_000
_SHOWN_A_TOKEN: Final = 0.5
NO_NAME: Final = "(no name)"


def entries(this: Round) -> tuple[LedgerEntry, ...]:
    """What is to be kept of a round: one entry for each call, and those for decisions."""
    found: list[LedgerEntry] = []
    if this.prose.strip():
        found.append(_note(this, "it said: ", this.prose))
    found.extend(_call(this.number, call) for call in this.calls)
    if this.failure is not None:
        why = f"could not be read ({this.failure.kind}): "
        found.append(_note(this, why, this.failure.detail, ToolStatus.ERROR))
    if this.reminder.strip():
        found.append(_note(this, "it was told: ", this.reminder))
    return tuple(found)


def _note(this: Round, label: str, text: str, status: ToolStatus = ToolStatus.OK) -> LedgerEntry:
    result = label + one_line(text, MAX_QUOTE_CHARS - len(label))
    return LedgerEntry(round=this.number, tool="", status=status, result=result)


def _call(number: int, call: ToolCall) -> LedgerEntry:
    result = call.result
    return LedgerEntry(
        round=number,
        tool=one_line(call.name, MAX_TOOL_NAME_CHARS) or NO_NAME,
        arguments=arguments_line(call.arguments, MAX_QUOTE_CHARS),
        status=ToolStatus.NOT_RUN if result is None else result.status,
        result="" if result is None else one_line(result.content, MAX_QUOTE_CHARS),
    )


def changing(tools: Iterable[ToolSpec]) -> tuple[str, ...]:
    """The names of tools after which something is other than before."""
    return tuple(sorted(tool.name for tool in tools if tool.changes_state))


def is_kept_longest(entry: LedgerEntry, changed: Collection[str]) -> bool:
    """Calls that changed something must not be made again, and failures not be repeated."""
    return entry.status is not ToolStatus.OK or entry.tool in changed


def bounded(
    ledger: tuple[LedgerEntry, ...],
    changed: Collection[str],
    *,
    max_entries: int = MAX_LEDGER,
    max_bytes: int = LEDGER_BYTES,
) -> tuple[tuple[LedgerEntry, ...], int]:
    """The ledger within its bounds, and how many entries had to go: the oldest successful reads and
    decisions first, then the oldest others. `max_bytes` is of JSON. O(n log n)."""
    sizes = [len(msgspec.json.encode(entry)) + 1 for entry in ledger]
    count, size = len(ledger), sum(sizes)
    gone: set[int] = set()
    order = sorted(
        range(len(ledger)), key=lambda index: (is_kept_longest(ledger[index], changed), index)
    )
    for index in order:
        if count <= max_entries and size <= max_bytes:
            break
        gone.add(index)
        count -= 1
        size -= sizes[index]
    return tuple(entry for index, entry in enumerate(ledger) if index not in gone), len(gone)


def shown_chars(room_tokens: int | None) -> int:
    """How much of the ledger a model is told that has such a context: an eighth of it, in English;
    half of it at worst."""
    return (
        SHOWN_CHARS if room_tokens is None else min(SHOWN_CHARS, int(room_tokens * _SHOWN_A_TOKEN))
    )


def lines(
    ledger: tuple[LedgerEntry, ...], changed: Collection[str], max_chars: int = SHOWN_CHARS
) -> tuple[list[str], int]:
    """The ledger as a model is told it, oldest first, in at most `max_chars`, and how many entries
    that leaves out: by the same order in which they leave the record."""
    written = [line(entry) for entry in ledger]
    size = sum(map(len, written)) + len(written)
    if size <= max_chars:
        return written, 0
    order = sorted(
        range(len(ledger)),
        key=lambda index: (is_kept_longest(ledger[index], changed), index),
        reverse=True,
    )
    told: set[int] = set()
    room = max_chars
    for index in order:
        room -= len(written[index]) + 1
        if room < 0:
            break
        told.add(index)
    return [written[index] for index in sorted(told)], len(ledger) - len(told)


def line(entry: LedgerEntry) -> str:
    """An entry in a line."""
    if not entry.tool:
        return f"- round {entry.round}: {entry.result}"
    came = f": {entry.result}" if entry.result else ""
    return f"- round {entry.round}: {entry.tool} {entry.arguments} -> {entry.status.value}{came}"
