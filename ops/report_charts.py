"""Charts as inline SVG: shapes alone, stretched to the room there is; words and numbers stand as
text beside them, and a table says the same. Pure."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from .report_html import esc, table

COLOURS: Final = 7
_WIDE, _HIGH = 1000, 200


def bar(value: float, most: float) -> str:
    """A bar in a cell of a table, which has the number, too."""
    width = 100 * min(1.0, max(0.0, value / most)) if most > 0 else 0
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="s3" width="{width:.2f}" height="10" rx="1"/></svg>'
    )


def counts(head: str, numbers: Mapping[str, int], *, shown: int = 15) -> str:
    """Names with a bar and a number each, in the order given; the rest in one line."""
    if not numbers:
        return '<p class="soft">None.</p>'
    items = list(numbers.items())
    if len(items) > shown:
        items = [*items[:shown], (f"{len(items) - shown} more", sum(c for _, c in items[shown:]))]
    most = max(count for _, count in items)
    rows = [(f"<bdi>{esc(name)}</bdi>", bar(count, most), f"{count:,}") for name, count in items]
    return table((esc(head), "", "number"), rows, numbers=(2,), chart=1)


def strip(low: float, values: tuple[float, float, float], high: float) -> str:
    """Three quantiles on a scale of powers of ten from `low` to `high`, in a cell of a table."""

    def place(value: float) -> float:
        if value <= low or high <= low:
            return 0.0
        return 100 * min(1.0, math.log(value / low) / math.log(high / low))

    p50, p95, p99 = map(place, values)
    return (
        '<svg class="strip" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" y="4" width="100" height="2"/>'
        f'<rect class="s0" y="1" width="{p50:.2f}" height="8"/>'
        f'<rect class="s4" x="{p50:.2f}" y="2.5" width="{p95 - p50:.2f}" height="5"/>'
        f'<rect class="s1" x="{p95:.2f}" y="3.5" width="{p99 - p95:.2f}" height="3"/></svg>'
    )


def legend(colours: Mapping[str, int]) -> str:
    """Which colour is what."""
    parts = [
        f'<span><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="s{colour % COLOURS}" '
        f'width="10" height="10"/></svg>{esc(name)}</span>'
        for name, colour in colours.items()
    ]
    return f'<div class="legend">{"".join(parts)}</div>'


def stacked(
    title: str, columns: Sequence[tuple[datetime, Mapping[str, int]]], colours: Mapping[str, int]
) -> str:
    """Columns over time, of the names' counts on each other; with a legend and a table."""
    names = list(colours)
    most = max((sum(each.get(name, 0) for name in names) for _, each in columns), default=0)
    if not most:
        return '<p class="soft">None.</p>'
    step = _WIDE / len(columns)
    shapes: list[str] = []
    for place, (_, each) in enumerate(columns):
        top = float(_HIGH)
        for name, colour in colours.items():
            height = _HIGH * each.get(name, 0) / most
            top -= height
            if height:
                shapes.append(
                    f'<rect class="s{colour % COLOURS}" x="{place * step:.2f}" y="{top:.2f}" '
                    f'width="{max(step * 0.86, 0.5):.2f}" height="{height:.2f}"/>'
                )
    rows = [
        (when(at), *(f"{each.get(name, 0):,}" for name in names)) for at, each in columns if each
    ]
    (begin, _), (end, _) = columns[0], columns[-1]
    return (
        f"{legend(colours)}{_chart(title, shapes)}{axis(begin, end, f'{most:,}')}"
        f"<details><summary>the same as a table</summary>"
        f"{table(('from', *map(esc, names)), rows, numbers=range(1, len(names) + 1))}</details>"
    )


def lines(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], *, unit: str = ""
) -> str:
    """Lines over time (Unix seconds, value); gaps where there is no value."""
    points = [point for each in series.values() for point in each if math.isfinite(point[1])]
    if not points:
        return '<p class="soft">Nothing in this time.</p>'
    begin, end = min(at for at, _ in points), max(at for at, _ in points)
    most = max(1e-12, *(value for _, value in points))
    shapes: list[str] = []
    for number, each in enumerate(series.values()):
        places = " ".join(
            f"{_WIDE * (at - begin) / ((end - begin) or 1):.1f},"
            f"{_HIGH - 0.96 * _HIGH * max(0.0, value) / most:.1f}"
            for at, value in each
            if math.isfinite(value)
        )
        shapes.append(f'<polyline class="s{number % COLOURS}" points="{places}"/>')
    rows = [
        (esc(name), f"{min(values):.3g}", f"{max(values):.3g}", f"{values[-1]:.3g}")
        for name, each in series.items()
        if (values := [value for _, value in each if math.isfinite(value)])
    ]
    first, last = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(end, UTC)
    return (
        f"{legend({name: at for at, name in enumerate(series)})}{_chart(title, shapes)}"
        f"{axis(first, last, f'{most:.3g}{unit}')}"
        f"<details><summary>the same as a table</summary>"
        f"{table(('', 'least', 'most', 'last'), rows, numbers=(1, 2, 3))}</details>"
    )


def _chart(title: str, shapes: Sequence[str]) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDE} {_HIGH}" preserveAspectRatio="none" role="img" '
        f'aria-label="{esc(title)}"><title>{esc(title)}</title>{"".join(shapes)}</svg>'
    )


def axis(begin: datetime, end: datetime, most: str) -> str:
    """What stands beneath a chart: when it begins and ends, and what its height is."""
    return (
        f'<div class="axis"><span>{when(begin)}</span><span>height: {esc(most)}</span>'
        f"<span>{when(end)}</span></div>"
    )


def when(at: datetime | None) -> str:
    """A time to the minute, in this machine's zone."""
    if at is None:
        return "-"
    try:
        return f"{at.astimezone():%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError):  # at either end of the calendar
        return f"{at:%Y-%m-%d %H:%M}"


def seconds(value: float) -> str:
    """A duration for people: three digits and a unit."""
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 600 else f"{value / 60:,.0f} min"
