"""What a cut of the reasoning costs, and how it is shown. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from .engine_report import Place
from .report import Spread


class CutTurn(Struct, frozen=True, kw_only=True):
    """Reasoning of `kept` tokens, cut once with the prefix cache and once without reading it; and
    plain requests whose prompts are as long as that of the answer. Seconds to the first token.
    `cached_tokens` were read from the cache, by the one as by the others, where it was read at all.
    `behind_abort_s`: with it, right after another request was aborted, as it is in a cut."""

    round: int
    kept: int
    prompt_tokens: int
    cached_tokens: int
    cut_s: float
    cut_uncached_s: float
    normal_s: float
    normal_uncached_s: float
    behind_abort_s: float


class CutLine(Struct, frozen=True, kw_only=True):
    """One length of reasoning. Milliseconds; the ratios are within a round: after a cut against a
    normal first token, both with the cache; against one behind an aborted request; and both
    without the cache."""

    kept: int
    prompt_tokens: Spread
    cached_tokens: Spread
    cut_ms: Spread
    normal_ms: Spread
    ratio: Spread
    behind_abort_ms: Spread
    behind_abort_ratio: Spread
    cut_uncached_ms: Spread
    normal_uncached_ms: Spread
    uncached_ratio: Spread


class CutReport(Struct, frozen=True, kw_only=True):
    """Everything, as `--json` prints it."""

    rounds: int
    place: Place
    lines: list[CutLine]
    turns: list[CutTurn]


def cut_lines(turns: Sequence[CutTurn]) -> list[CutLine]:
    """A line for each length, in the order in which they first ran."""
    return [
        _line([turn for turn in turns if turn.kept == kept])
        for kept in dict.fromkeys(turn.kept for turn in turns)
    ]


def _line(turns: Sequence[CutTurn]) -> CutLine:
    def spread(values: Iterator[float]) -> Spread:
        return Spread.of(list(values))

    return CutLine(
        kept=turns[0].kept,
        prompt_tokens=spread(turn.prompt_tokens for turn in turns),
        cached_tokens=spread(turn.cached_tokens for turn in turns),
        cut_ms=spread(1000 * turn.cut_s for turn in turns),
        normal_ms=spread(1000 * turn.normal_s for turn in turns),
        ratio=spread(turn.cut_s / turn.normal_s for turn in turns),
        behind_abort_ms=spread(1000 * turn.behind_abort_s for turn in turns),
        behind_abort_ratio=spread(turn.cut_s / turn.behind_abort_s for turn in turns),
        cut_uncached_ms=spread(1000 * turn.cut_uncached_s for turn in turns),
        normal_uncached_ms=spread(1000 * turn.normal_uncached_s for turn in turns),
        uncached_ratio=spread(turn.cut_uncached_s / turn.normal_uncached_s for turn in turns),
    )


def cut_tables(report: CutReport) -> Iterator[str]:
    """The report for people, in Markdown, line by line."""
    yield f"{report.rounds} rounds. Milliseconds to the first token, median (least to most)."
    yield ""
    yield "| kept | prompt, of it cached | after a cut | normal | ratio | behind an abort | ratio |"
    yield "|---|---|---|---|---|---|---|"
    for line in report.lines:
        yield _row(line, line.cut_ms, line.normal_ms, line.ratio, cached=True)
    for line in report.lines:
        yield _row(line, line.cut_uncached_ms, line.normal_uncached_ms, line.uncached_ratio)
    yield ""
    place = report.place
    yield (
        f"{place.model} on {place.device}; {place.cpus} CPUs ({place.cpu}), {place.system}; load "
        f"average before: {place.load:g}."
    )
    yield ", ".join(f"{name} {number}" for name, number in place.libraries.items()) + "."


def _row(line: CutLine, cut: Spread, normal: Spread, ratio: Spread, *, cached: bool = False) -> str:
    read = line.cached_tokens.median if cached else 0
    behind = (_shown(line.behind_abort_ms, 0), _shown(line.behind_abort_ratio, 2))
    cells = (
        str(line.kept),
        f"{line.prompt_tokens.median:.0f}, {read:.0f}",
        *(_shown(cut, 0), _shown(normal, 0), _shown(ratio, 2)),
        *(behind if cached else ("", "")),
    )
    return f"| {' | '.join(cells)} |"


def _shown(spread: Spread, digits: int) -> str:
    low, middle, high = (f"{each:.{digits}f}" for each in (spread.min, spread.median, spread.max))
    return f"{middle} ({low}–{high})"
