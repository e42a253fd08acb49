"""The page of `sluice report`, from its figures. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from .report_charts import COLOURS, bar, counts, seconds, stacked, strip, when
from .report_figures import Column, Figures, Latency
from .report_html import esc, marked, page, section, table
from .report_texts import BadText, Finding

_FLAWS_SHOWN: Final = 30
# Each has its colour, whatever else there is.
_OUTCOMES: Final = ("completed", "rejected", "failed", "partial", "expired", "cancelled")


class About(Struct, frozen=True, kw_only=True):
    """What a report is about: when it was written, from what sources, and what was left out."""

    title: str
    written: datetime
    sources: tuple[str, ...]
    remarks: tuple[str, ...]
    since: datetime | None
    until: datetime | None


def render(figures: Figures, about: About, watched: str = "") -> str:
    """The document. `watched`: the part that Prometheus told, as HTML, or nothing."""
    return page(about.title, "".join([_head(figures, about), *_sections(figures), watched]))


def _sections(figures: Figures) -> Iterator[str]:
    if figures.columns:
        colours = {name: at for at, name in enumerate(_OUTCOMES) if name in figures.outcomes}
        chart = _over_time("Results, by outcome", figures.columns, figures.width_s, colours)
        yield section("rates", "Results over time", chart)
    if figures.latencies:
        yield section("latency", "Latency", latency_table(figures.latencies))
    yield section("gates", "Gates", _gates(figures))
    yield section(
        "retries",
        "Retries",
        "<h3>Why another attempt was made</h3>"
        + counts("reason", figures.retries)
        + "<h3>Attempts that a job took</h3>"
        + counts("attempts", figures.attempts),
    )
    yield section("dead", "Dead letters", _dead(figures))
    yield section("texts", "The worst texts", _texts(figures.worst))
    if figures.taken_back:
        yield section("taken", "What gates took back", _taken(figures))


def _over_time(
    title: str, columns: Sequence[Column], width_s: int, colours: Mapping[str, int]
) -> str:
    chart = stacked(title, [(each.at, each.counts) for each in columns], colours)
    return f'{chart}<p class="soft">Each column is {_span(width_s)}.</p>'


def _named(column: Column, names: Sequence[str]) -> Column:
    """With what has no name of its own among the others."""
    counted: Counter[str] = Counter()
    for name, count in column.counts.items():
        counted[name if name in names else "others"] += count
    return Column(column.at, dict(counted))


def _head(figures: Figures, about: About) -> str:
    ok = figures.outcomes.get("completed", 0)
    share = f"{ok / figures.results:.1%}" if figures.results else "-"
    made = figures.made_tokens + figures.wasted_tokens
    wasted = f"{figures.wasted_tokens / made:.2%}" if made else "-"
    tiles = [
        (f"{figures.results:,}", "results"),
        (share, "of them completed"),
        (f"{figures.letters:,}", "dead letters"),
        (f"{sum(each.count for each in figures.trips):,}", "trips of gates"),
        (f"{figures.rollbacks:,}", "rollbacks"),
        (wasted, "of tokens wasted"),
    ]
    first, last = about.since or figures.first, about.until or figures.last
    span = f"{when(first)} to {when(last)}" if first or last else "no times known"
    sources = "".join(f"<li><bdi>{esc(each)}</bdi></li>" for each in about.sources)
    remarks = "".join(f"<li><bdi>{esc(each)}</bdi></li>" for each in about.remarks)
    return (
        f'<header><h1>{esc(about.title)}</h1><p class="soft">{span} · written {when(about.written)}'
        "</p>"
        f'<div class="tiles">{"".join(_tile(*each) for each in tiles)}</div>'
        f"<details open><summary>sources</summary><ul>{sources}</ul></details>"
        + (
            f"<details open><summary>remarks</summary><ul>{remarks}</ul></details>"
            if remarks
            else ""
        )
        + "</header>"
    )


def _tile(number: str, what: str) -> str:
    return f'<div class="tile"><b>{esc(number)}</b><span>{esc(what)}</span></div>'


def latency_table(latencies: Sequence[Latency]) -> str:
    """Quantiles, with a strip on one scale for all."""
    low = min(0.001, *(each.p50 for each in latencies)) or 0.001
    high = max(low * 10, *(each.most for each in latencies))
    rows = [
        (
            esc(each.name),
            strip(low, (each.p50, each.p95, each.p99), high),
            *(seconds(value) for value in (each.p50, each.p95, each.p99, each.most)),
            f"{each.count:,}",
        )
        for each in latencies
    ]
    heads = ("", f"{seconds(low)} to {seconds(high)}", "P50", "P95", "P99", "most", "number")
    note = (
        '<p class="soft">queue: from publishing to delivery, of first attempts. First token and '
        "engine: from the engine's admission. End to end: from publishing to the result. Quantiles "
        "are exact to 1%; the scale is in powers of ten.</p>"
    )
    return table(heads, rows, numbers=range(2, 7), chart=1) + note


def _gates(figures: Figures) -> str:
    if not figures.trips:
        return '<p class="soft">No gate tripped.</p>'
    levels: dict[str, int] = {}
    for each in figures.trips:
        levels[each.level] = levels.get(each.level, 0) + each.count
    most = max(each.count for each in figures.trips)
    rows = [
        (
            esc(each.flaw),
            esc(each.level),
            esc(each.action.replace("_", " ")),
            bar(each.count, most),
            f"{each.count:,}",
        )
        for each in figures.trips[:_FLAWS_SHOWN]
    ]
    rest = sum(each.count for each in figures.trips[_FLAWS_SHOWN:])
    wasted = (
        f"<p>{figures.rollbacks:,} rollbacks, {figures.reasoning_cuts:,} cuts of reasoning; "
        f"{figures.wasted_tokens:,} tokens thrown away, {figures.made_tokens:,} kept.</p>"
    )
    return (
        wasted
        + "<h3>By level</h3>"
        + counts("level", dict(sorted(levels.items(), key=lambda item: -item[1])))
        + "<h3>By flaw and action</h3>"
        + table(("flaw", "level", "action", "", "number"), rows, numbers=(4,), chart=3)
        + (f'<p class="soft">and {rest:,} of other kinds</p>' if rest else "")
    )


def _dead(figures: Figures) -> str:
    if not figures.letters:
        return '<p class="soft">None.</p>'
    times = ""
    if figures.dead_columns:
        first = [*list(figures.dead_reasons)[: COLOURS - 1], "others"]
        times = _over_time(
            "Dead letters, by reason",
            [_named(each, first) for each in figures.dead_columns],
            figures.dead_width_s,
            {
                name: at
                for at, name in enumerate(first)
                if name != "others" or len(first) == COLOURS
            },
        )
    return times + "".join(
        f"<h3>By {name}</h3>{counts(name, numbers)}"
        for name, numbers in (
            ("reason", figures.dead_reasons),
            ("flaw", figures.dead_flaws),
            ("worker", figures.dead_workers),
            ("profile", figures.dead_profiles),
        )
    )


def _texts(texts: Sequence[BadText]) -> str:
    if not texts:
        return '<p class="soft">No rejected text was kept.</p>'
    note = (
        '<p class="soft">A few of each kind, those with the largest bad share first; the bad '
        "places are marked. Characters that act are shown as signs.</p>"
    )
    return note + "".join(map(_text, texts))


def _text(text: BadText) -> str:
    about = [
        f"reason {text.reason}" if text.reason else "",
        f"found by {text.found_by}" if text.found_by else "",
        f"worker {text.worker}" if text.worker else "",
        when(text.at) if text.at is not None else "",
        f"{text.chars:,} characters, {text.share:.0%} bad"
        if text.spans
        else f"{text.chars:,} characters",
        "reasoning" if text.channel == "reasoning" else "",
    ]
    before, after = ("… " if text.cut_before else ""), (" …" if text.cut_after else "")
    prompt = (
        f'<p class="soft">asked: <bdi>{esc(" ".join(text.prompt.split()))}</bdi></p>'
        if text.prompt
        else ""
    )
    return (
        f'<article class="text"><h3><bdi class="flaw">{esc(text.kind)}</bdi> in '
        f"<bdi>{esc(text.job_id)}</bdi>, attempt {text.attempt}</h3>"
        f'<p class="soft"><bdi>{esc(" · ".join(each for each in about if each))}</bdi></p>{prompt}'
        f'<pre dir="auto">{before}{marked(text.text, text.spans)}{after}</pre>'
        f"{_findings(text.findings)}</article>"
    )


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    rows = [
        (
            esc(each.by),
            esc(each.flaw),
            esc(each.action),
            _number(each.score),
            _number(each.threshold),
            f"<bdi>{esc(each.detail)}</bdi>"
            + (f" <mark><bdi>{esc(each.quote)}</bdi></mark>" if each.quote else ""),
        )
        for each in findings
    ]
    heads = ("gate or check", "flaw", "action", "score", "threshold", "what it says")
    return (
        f"<details><summary>{len(findings)} finding{'' if len(findings) == 1 else 's'}</summary>"
        f"{table(heads, rows, numbers=(3, 4))}</details>"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _taken(figures: Figures) -> str:
    rows = [
        (
            f"<bdi>{esc(each.job_id)}</bdi>, attempt {each.attempt}",
            esc(each.by),
            esc(each.flaw),
            f"{each.wasted:,}",
            f"<mark><bdi>{esc(each.quote)}</bdi></mark>",
        )
        for each in figures.taken_back
    ]
    note = '<p class="soft">Found while the text was generated, and not in it any more.</p>'
    return note + table(("job", "gate", "flaw", "tokens", "what stood there"), rows, numbers=(3,))


def _span(width_s: int) -> str:
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if width_s >= 2 * size:
            return f"{width_s / size:.3g} {unit}"
    return f"{width_s} seconds"
