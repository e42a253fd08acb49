"""A picture as lines of text, for a terminal of any size. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from .top_cells import Column, cell, cut, cut_right, number, span, table
from .top_picture import Gates, Picture, QueueRow, ServiceRow

Style = Literal["plain", "head", "dim", "bad", "warn", "good"]
_SGR: Final[dict[Style, str]] = {
    "plain": "",
    "head": "1",
    "dim": "2",
    "bad": "1;31",
    "warn": "33",
    "good": "32",
}
_OUTCOMES: Final = ("completed", "partial", "rejected", "failed", "expired", "cancelled")
_SHOWN_FLAWS: Final = 4
_SHOWN_REASONS: Final = 6

_QUEUES: Final = (
    Column("QUEUE", right=False, stretches=True),
    Column("READY"),
    Column("IN FLIGHT"),
    Column("CONSUMERS", spare=1),
    Column("PER MIN", spare=2),
    Column("EMPTY IN", spare=3),
)
_SERVICES: Final = (
    Column("SERVICE", right=False, stretches=True),
    Column("KIND", right=False, spare=3),
    Column("STATE", right=False),
    Column("FOR", spare=4),
    Column("BUSY"),
    Column("JOBS/MIN", spare=1),
    Column("TOK/S", spare=2),
    Column("LAG", spare=5),
    Column("UP", spare=6),
    Column("MODEL", right=False, spare=7),
)


class Line(Struct, frozen=True):
    """A line of the picture, no wider than was asked for, and how it is to look."""

    text: str
    style: Style = "plain"

    def painted(self) -> str:
        """With the codes of a terminal around it."""
        codes = _SGR[self.style]
        return f"\x1b[{codes}m{self.text}\x1b[0m" if codes and self.text else self.text


class _Section(Struct):
    """Lines that stand together; of its rows at least so many stay where there is no room."""

    head: list[Line]
    rows: list[Line]
    least: int

    def shown(self) -> list[Line]:
        return [*self.head, *self.rows] if self.rows or self.head else []


def render(
    picture: Picture, width: int, height: int | None = None, *, foot: str = ""
) -> list[Line]:
    """Lines of at most `width` columns, `height` of them where that is given; the rows that matter
    least go first, and a line says how many. `foot` is the last line."""
    width = max(1, width)
    last = [Line(cut(foot, width), "dim")] if foot else []
    sections = [
        _Section(_title(picture, width), [], 0),
        _Section([], _troubles(picture, width), 2),
        _Section(*_queues(picture.queues, width), 3),
        _Section(*_services(picture.services, width), 2),
        _Section(_gates(picture.gates, width), [], 0),
        _Section(_dead(picture, width), [], 0),
    ]
    if height is not None:
        _squeeze(sections, height - len(last), width)
    lines = [line for part in _joined(sections, height, len(last)) for line in part]
    if height is not None:
        lines = lines[: max(0, height - len(last))]
    return [*lines, *last]


def _joined(sections: Sequence[_Section], height: int | None, taken: int) -> list[list[Line]]:
    """The sections with a blank line between them, where there is room for all of those."""
    parts = [part for each in sections if (part := each.shown())]
    lines = sum(map(len, parts)) + len(parts) - 1
    if height is not None and lines > height - taken:
        return parts
    return [part if at == 0 else [Line(""), *part] for at, part in enumerate(parts)]


def _squeeze(sections: Sequence[_Section], height: int, width: int) -> None:
    """Leave out rows, of the section that has most above its least, until it fits."""
    rows = [list(each.rows) for each in sections]
    kept = [len(each) for each in rows]

    def lines() -> int:
        return sum(
            len(each.head) + count + (count < len(all_))
            for each, count, all_ in zip(sections, kept, rows, strict=True)
        )

    while lines() > height:
        over = [count - each.least for count, each in zip(kept, sections, strict=True)]
        most = max(range(len(sections)), key=lambda at: over[at])
        if over[most] <= 0:
            break
        kept[most] -= 1
    for each, count, all_ in zip(sections, kept, rows, strict=True):
        if count < len(all_):
            each.rows = [*all_[:count], Line(cut(f"… {len(all_) - count} more", width), "dim")]


def _title(picture: Picture, width: int) -> list[Line]:
    when = f"{picture.at:%H:%M:%S}"
    name = cut(f"sluice top  {picture.namespace}  {picture.broker}", max(1, width - len(when) - 2))
    room = max(1, width - len(when))
    head = cut_right(f"{cell(name, room)}{when}", width)
    window = "last minute" if picture.seen_s >= 60 else f"last {picture.seen_s:.0f} s"
    told = [
        f"{kind} {number(picture.outcomes.get(kind, 0))}"
        for kind in _OUTCOMES
        if kind in ("completed", "rejected", "failed") or picture.outcomes.get(kind)
    ]
    told.append(f"retries {number(picture.moves.get('retrying', 0))}")
    if back := picture.moves.get("interrupted"):
        told.append(f"handed back {number(back)}")
    return [
        Line(head, "head"),
        Line(cut(f"Jobs, {window}: {' · '.join(told)}", width)),
    ]


def _troubles(picture: Picture, width: int) -> list[Line]:
    if not picture.trouble:
        return [Line(cut("No trouble.", width), "good")]
    return [
        Line(
            cut(f"{'!' if each.urgency != 'note' else '·'} {each.text}", width),
            _urgency(each.urgency),
        )
        for each in picture.trouble
    ]


def _urgency(urgency: str) -> Style:
    match urgency:
        case "bad":
            return "bad"
        case "warn":
            return "warn"
        case _:
            return "plain"


def _queues(queues: Sequence[QueueRow], width: int) -> tuple[list[Line], list[Line]]:
    shown = _merged(queues)
    if not shown:
        return [Line(cut("QUEUE", width), "head")], [
            Line(cut("the broker has not told yet", width), "dim")
        ]
    lines = table(_QUEUES, [_queue(each) for each in shown], width)
    return [Line(lines[0], "head")], [
        Line(line, _queue_style(row)) for row, line in zip(shown, lines[1:], strict=True)
    ]


def _merged(queues: Sequence[QueueRow]) -> list[QueueRow]:
    """The waits between attempts as one row; where there are no agents, their queues go."""
    agents = any(
        each.ready or each.consumers or each.ready is None
        for each in queues
        if each.name.startswith("agents")
    )
    rows = [
        each
        for each in queues
        if each.role != "retry" and (agents or not each.name.startswith("agents"))
    ]
    waits = [each for each in queues if each.role == "retry" and each.ready is not None]
    if waits:
        at = sum(each.role in ("work", "wait", "other") for each in rows)
        rates = [each.per_minute for each in waits if each.per_minute is not None]
        rows.insert(
            at,
            QueueRow(
                name="retry (waiting)",
                role="retry",
                ready=sum(each.ready or 0 for each in waits),
                consumers=0,
                in_flight=None,
                in_flight_most=False,
                limit=None,
                per_minute=sum(rates) if rates else None,
                empty_in_s=None,
            ),
        )
    return rows


def _queue(row: QueueRow) -> tuple[str, ...]:
    in_flight = number(row.in_flight)
    return (
        row.name,
        "missing" if row.ready is None else number(row.ready),
        f"<={in_flight}" if row.in_flight_most else in_flight,
        number(row.consumers) if row.consumers or row.role == "work" else "-",
        "-" if row.per_minute is None else _signed(row.per_minute),
        "-" if row.empty_in_s is None else span(row.empty_in_s),
    )


def _signed(rate: float) -> str:
    whole = round(rate)
    if not whole:
        return "0"
    return f"{'+' if whole > 0 else '-'}{number(abs(whole))}"


def _queue_style(row: QueueRow) -> Style:
    if row.ready is None or (row.role == "work" and row.ready and not row.consumers):
        return "bad"
    if row.role == "dead" and row.ready:
        return "warn"
    return "plain" if row.ready or row.in_flight or row.consumers else "dim"


def _services(services: Sequence[ServiceRow], width: int) -> tuple[list[Line], list[Line]]:
    if not services:
        return [Line(cut("SERVICE", width), "head")], [
            Line(cut("none heard of yet: each speaks every 5 s", width), "dim")
        ]
    lines = table(_SERVICES, [_service(each) for each in services], width)
    return [Line(lines[0], "head")], [
        Line(line, _service_style(row.state)) for row, line in zip(services, lines[1:], strict=True)
    ]


def _service(row: ServiceRow) -> tuple[str, ...]:
    return (
        row.name,
        row.kind,
        row.state,
        span(row.state_s),
        f"{number(row.in_flight)}/{number(row.slots)}",
        "-" if row.jobs_per_minute is None else number(round(row.jobs_per_minute)),
        "-" if row.tokens_per_second is None else number(round(row.tokens_per_second)),
        f"{row.loop_lag_s * 1000:.0f}ms" if row.loop_lag_s < 10 else span(row.loop_lag_s),
        span(row.up_s),
        row.model,
    )


def _service_style(state: str) -> Style:
    if state in ("quarantined", "silent"):
        return "bad"
    return "plain" if state == "ready" else "warn"


def _gates(gates: Gates, width: int) -> list[Line]:
    trips = sum(sum(flaws.values()) for flaws in gates.trips.values())
    wasted = "-" if gates.wasted_share is None else f"{gates.wasted_share:.2%}"
    told = [
        f"GATES {number(trips)} trips (+{number(sum(gates.trips_minute.values()))})",
        f"{number(gates.rollbacks)} rollbacks (+{number(gates.rollbacks_minute)})",
        f"{wasted} wasted",
        f"{number(gates.reasoning_trips)} in reasoning",
    ]
    lines = [Line(cut(" · ".join(told), width), "head")]
    levels = sorted(gates.trips, key=lambda level: -sum(gates.trips[level].values()))
    lines += [Line(cut(f"{level}: {_most(gates.trips[level])}", width)) for level in levels]
    return lines


def _dead(picture: Picture, width: int) -> list[Line]:
    lines = [Line(cut(f"DEAD LETTERS {number(picture.dead)}", width), "head")]
    if picture.dead_reasons:
        shown = _most(picture.dead_reasons, _SHOWN_REASONS, picture.dead_reasons_minute)
        lines.append(Line(cut(f"ended badly since this began: {shown}", width)))
    return lines


def _most(
    counts: Mapping[str, int], shown: int = _SHOWN_FLAWS, new: Mapping[str, int] | None = None
) -> str:
    """The first of them, in words; `new` of them came in the last minute."""
    first = [
        f"{name} {number(count)}"
        + (f" (+{number(more)})" if (more := (new or {}).get(name)) else "")
        for name, count in list(counts.items())[:shown]
    ]
    rest = sum(list(counts.values())[shown:])
    return ", ".join([*first, *([f"others {number(rest)}"] if rest else [])])
