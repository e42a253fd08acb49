"""A plot of one or more series on logarithmic axes, as SVG. Pure."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

Points = Sequence[tuple[float, float]]

_WIDTH: Final = 640
_HEIGHT: Final = 360
_LEFT: Final = 70
_TOP: Final = 40
_INNER: Final = (540, 250)
_COLOURS: Final = ("#1b6ca8", "#c8553d", "#3c896d", "#8d5a97")


def plot(title: str, across: str, up: str, series: Mapping[str, Points], note: str = "") -> str:
    """The SVG. Every value must be above 0."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    low_x, high_x = _decades(xs)
    low_y, high_y = _decades(ys)

    def at(x: float, y: float) -> tuple[float, float]:
        over = (math.log10(x) - low_x) / (high_x - low_x) * _INNER[0]
        down = (high_y - math.log10(y)) / (high_y - low_y) * _INNER[1]
        return round(_LEFT + over, 1), round(_TOP + down, 1)

    right = _LEFT + _INNER[0]
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'font-family="sans-serif" font-size="12">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{escape(title)}</text>',
        f'<text x="{right}" y="{_HEIGHT - 28}" text-anchor="end">{escape(across)}</text>',
        f'<text x="{_LEFT}" y="{_HEIGHT - 10}" fill="#555">{escape(note)}</text>',
        (
            f'<text x="16" y="{_TOP + 10}" transform="rotate(-90 16 {_TOP + 10})" '
            f'text-anchor="end">{escape(up)}</text>'
        ),
    ]
    for power in range(low_x, high_x + 1):
        x, _ = at(10**power, 10**low_y)
        lines.append(_grid(x, _TOP, x, _TOP + _INNER[1]))
        y = _TOP + _INNER[1] + 16
        lines.append(f'<text x="{x}" y="{y}" text-anchor="middle">{_label(power)}</text>')
    for power in range(low_y, high_y + 1):
        _, y = at(10**low_x, 10**power)
        lines.append(_grid(_LEFT, y, _LEFT + _INNER[0], y))
        lines.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{_label(power)}</text>')
    for index, (name, points) in enumerate(series.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        places = [at(x, y) for x, y in points]
        way = " ".join(f"{x},{y}" for x, y in places)
        lines.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in places]
        y = _TOP + 16 + 16 * index
        lines.append(f'<text x="{_LEFT + 10}" y="{y}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low = math.floor(math.log10(min(values)) + 1e-9)
    high = math.ceil(math.log10(max(values)) - 1e-9)
    return low, max(high, low + 1)


def _label(power: int) -> str:
    return f"{10.0**power:g}" if -4 <= power <= 4 else f"10^{power}"


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#ddd"/>'
