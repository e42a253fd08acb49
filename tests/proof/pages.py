"""The proof's figures as tables of Markdown, and their place in the README and docs. Pure but for
`write`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from .claims import claim, saving
from .contender import GATED, LLMQ, MEANING, PLAIN
from .figures import (
    MOST_INVALID,
    MOST_LATENCY,
    MOST_TOUCHED,
    Estimate,
    Part,
    Row,
)

_MARK: Final = "proof"


def headline(parts: Sequence[Part], command: str) -> list[str]:
    """The table of the README."""
    first = parts[0]
    plain, ours = first.row(PLAIN), first.row(GATED)
    claimed = claim(first, parts)
    assert plain is not None
    assert ours is not None
    assert claimed is not None
    rows = [
        ("invalid outputs delivered", _of(plain.invalid, plain.delivered),
         _of(ours.invalid, ours.delivered), f"at most {MOST_INVALID:.2%}"),
        ("good outputs touched", "-", _of(ours.touched, ours.good), f"at most {MOST_TOUCHED:.1%}"),
        ("the model's own loops delivered", _of(plain.looping, plain.delivered),
         _of(ours.looping, ours.delivered), ""),
        ("latency, median", f"{plain.p50_s:.2f} s", _with(ours.p50_s, ours.p50_ratio),
         f"{MOST_LATENCY - 1:+.0%}"),
        ("latency of the same job, at the median of jobs", "1",
         _ratio(ours.each_ratio).strip(" ()"), f"{MOST_LATENCY - 1:+.0%}"),
        ("latency, P95", f"{plain.p95_s:.2f} s", _with(ours.p95_s, ours.p95_ratio), ""),
        ("delivered tokens a second, repairs included", f"{plain.tokens_per_s:.0f}",
         f"{ours.tokens_per_s:.0f}{_ratio(ours.rate_ratio)}", ""),
        ("the same, where nothing was to repair", "1",
         f"{_ratio(ours.calm_ratio).strip(' ()')}, {ours.calm_jobs} jobs", "x 0.98"),
        ("tokens generated in vain", _of(plain.wasted, plain.tokens),
         _of(ours.wasted, ours.tokens), ""),
        ("rollbacks, retries, dead letters", "-",
         f"{ours.rollbacks}, {ours.retries}, {ours.dead}", ""),
    ]  # fmt: skip
    what = (
        f"{first.jobs * 2:,} jobs on a real engine, half without and half with sluicegate: the "
        f"same {first.jobs:,} prompts, seeds and faults, {ours.struck} of them struck "
        f"({first.rate:.1%}). `{command}`"
    )
    shown = (
        f"Ratios are to the left column, with 95% intervals over batches. {ours.struck} faults "
        f"show little: with the part below, {claimed.missed} of {claimed.faults} faults got "
        f"through, so at most {claimed.miss_bound:.1%} of faults do (95%), which at this rate of "
        f"faults is {claimed.derived:.3%} of outputs. Of {claimed.good:,} good outputs "
        f"{claimed.touched} were touched (at most {claimed.touched_bound:.2%})."
    )
    return [
        what,
        "",
        "| | vLLM behind a queue | sluicegate | aim |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        shown,
    ]


def side_by_side(of: Part) -> list[str]:
    """Every contender, over the same jobs and faults."""
    what = (
        f"{of.jobs:,} jobs for each, {of.rate:.0%} of them with a fault (seed {of.seed}, "
        f"{of.concurrency} at once)."
    )
    head = (
        "| | faults delivered | jobs without a text | good texts touched | latency, median, P95 "
        "| tokens/s | tokens in vain |"
    )
    lines = [what, "", head, "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {row.arm} | {row.invalid} of {row.struck} | {row.jobs - row.delivered} "
        f"| {row.touched} of {row.good} | {row.p50_s:.2f} s, {row.p95_s:.2f} s "
        f"| {row.tokens_per_s:.0f}{_ratio(row.rate_ratio)} | {_of(row.wasted, row.tokens)} |"
        for row in of.rows
    ]
    lines += ["", *(f"- **{row.arm}**: {MEANING[row.arm]}" for row in of.rows)]
    if of.row(LLMQ) is None:
        lines.append("- llmq did not take part in this run: it was not installed.")
    got = [row for row in of.rows if row.invalid_by_kind]
    if got:
        lines += ["", "What got through, by kind of fault:", ""]
        lines += [f"- {row.arm}: {_kinds(row)}" for row in got]
    saved = saving(of)
    if saved is not None:
        spared = (
            f"For each fault, against judging at the end: {saved.tokens:.0f} tokens in vain "
            f"instead of {saved.tokens_judged:.0f} ({saved.share:.0%} less), and "
            f"{saved.engine_s:.1f} s in the engine instead of {saved.engine_judged_s:.1f} s "
            f"({saved.time_share:.0%} less)."
        )
        lines += ["", spared]
    return lines


def cases(parts: Sequence[Part], most: int = 12) -> list[str]:
    """Those to look at, if there are any."""
    found = [case for each in parts for case in each.cases]
    return [
        f"- {case.arm}, job {case.number}{f' ({case.kind})' if case.kind else ''}: {case.what}"
        f"{f', {case.detail}' if case.detail else ''}"
        for case in found[:most]
    ] + ([f"- and {len(found) - most} more"] if len(found) > most else [])


def write(page: Path, lines: Iterable[str]) -> None:
    """Put the lines between the page's two marks. Raises ValueError where it has none."""
    write_between(page, _MARK, lines)


def write_between(page: Path, mark: str, lines: Iterable[str]) -> None:
    """The same, between marks of another name."""
    begins, ends = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(begins)
    _, end, after = rest.partition(ends)
    if not begin or not end:
        raise ValueError(f"{page} has no {begins} and {ends}")
    body = "\n".join(lines)
    page.write_text(f"{before}{begins}\n{body}\n{ends}{after}", encoding="utf-8")


def _kinds(row: Row) -> str:
    return ", ".join(
        f"{kind} {count} of {row.struck_by_kind.get(kind, 0)}"
        for kind, count in sorted(row.invalid_by_kind.items())
    )


def _of(count: int, of: int) -> str:
    return f"{count:,} of {of:,} ({count / of:.2%})" if of else "0"


def _with(value_s: float, ratio: Estimate | None) -> str:
    return f"{value_s:.2f} s{_ratio(ratio)}"


def _ratio(ratio: Estimate | None) -> str:
    return (
        f" (x {ratio.value:.3f}, {ratio.low:.3f} to {ratio.high:.3f})" if ratio is not None else ""
    )
