"""A calibration for a person and as JSON: the thresholds, what they find, and what the sample can't
say."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from .calibration import BASE, Aim, Sample, Setting, Table, rejected, rejects
from .histogram import side_by_side
from .intervals import harm_bound, needed, percent, wilson

TableOf = Callable[[Sequence[Sequence[str]]], Iterator[str]]
_SOURCES: Final = {"rate": "set", "share": "share of mean", "kept": "kept"}


def as_json(tables: Sequence[Table], aim: Aim) -> dict[str, Any]:
    """The whole calibration as one JSON object."""
    return {
        "rate": aim.rate,
        "coherence_share": aim.coherence_share,
        "profiles": {table.name: _table(table) for table in tables},
        "warnings": list(warnings(tables, aim)),
    }


def report(tables: Sequence[Table], table_of: TableOf, *, width: int, full: bool) -> Iterator[str]:
    """The result as lines for a person, at most `width` characters where it can be. `full`: with
    the classes and distributions of each profile, and not of [base] alone, and with the thresholds
    that a profile has from elsewhere."""
    rows = [
        ("PROFILE", "THRESHOLD", "WAS", "NOW", "GOOD", "FALSE", "AT MOST", "BAD", "FOUND", "RECALL")
    ]
    for table in tables:
        shown = full or table.name == BASE
        rows += [
            _row(table, each) for each in table.settings if each.is_set or (shown and each.n_good)
        ]
        rows.append(_all_row(table))
    yield from table_of(rows)
    yield ""
    yield "AT MOST: of all good texts like these, with 95% confidence; RECALL: with its interval."
    if any(each.value != each.edge for table in tables for each in table.settings):
        yield "+: with a margin beyond the worst good text, which FALSE and AT MOST don't count on."
    yield "Counted are texts that have the score; in the lines `all together`, all texts."
    for table in tables:
        if full or table.name == BASE:
            for each in table.settings:
                if each.n_good:
                    yield ""
                    yield from _details(table, each, table_of, width)


def warnings(tables: Sequence[Table], aim: Aim) -> Iterator[str]:
    """What the sample can't support, and what in it looks wrong."""
    for table in tables:
        yield from _of_claim(table, aim)
        for each in table.settings:
            where = f"[{table.name}] {each.about.key}"
            # Of too few texts it is said once.
            counts = aim.least <= table.n_good and each.n_good
            if each.source == "kept" and counts and table.name == BASE:
                yield f"{where} stays at {each.before:g}: {each.why}"
            if each.source == "share" and each.harmed > aim.rate * each.n_good:
                yield (
                    f"{where}: the share of the mean rejects {percent(each.harmed / each.n_good)} "
                    f"of good texts, the wanted rate is {aim.rate:.4g}"
                )
            if each.is_set and _found(table, each) == (0, 0) and table.name == BASE:
                yield f"{where}: no bad text has this score, so nobody knows what it finds"


def _of_claim(table: Table, aim: Aim) -> Iterator[str]:
    """Whether the sample bears the rate out."""
    if not table.drawn:
        if table.name != BASE:
            yield f"[{table.name}] has too few good texts ({table.n_good}) and keeps to [base]"
        elif table.n_good < aim.least:
            yield (
                f"[{BASE}] has too few good texts ({table.n_good}) and stays as it is; it takes "
                f"{aim.least:,}, or fewer with --least"
            )
        return
    if table.harmed > aim.rate * table.n_good:
        yield (
            f"[{table.name}] rejects {table.harmed} of {table.n_good} good texts, more than the "
            f"wanted {aim.rate:.4%}: thresholds that the rate does not set reject some as well"
        )
    elif table.expected > aim.rate:
        yield _of_few(table, aim)


def _of_few(table: Table, aim: Aim) -> str:
    # Where what is expected keeps to the rate, the bound keeps to three times the rate, and there
    # is nothing to say.
    bound = harm_bound(table.harmed, table.n_good, table.drawn)
    enough = needed(aim.rate, table.drawn)
    where = "at the worst of them"
    who = f"{table.drawn} thresholds {where} reject"
    if table.drawn == 1:
        who = f"One threshold {where} rejects"
    text = (
        f"[{table.name}]: {table.n_good:,} good texts are too few for {aim.rate:.4%}. {who} "
        f"about {table.expected:.3%} of new ones, with 95% confidence at "
        f"most {bound:.3%}"
    )
    if any(each.value != each.edge for each in table.settings):
        text += "; the margin, where NOW has a +, brings that near the rate by an estimate"
    # What is kept, or is a share of the mean, rejects some of any number.
    return text if table.n_good >= enough else f"{text}; {enough:,} would do"


def _found(table: Table, setting: Setting) -> tuple[int, int]:
    """Of the bad texts with the score, those that the threshold rejects."""
    bad = [each for each in table.samples if not each.good and setting.about.score in each.scores]
    return sum(rejects(setting.about, setting.value, each) for each in bad), len(bad)


def _row(table: Table, each: Setting) -> tuple[str, ...]:
    found, bad = _found(table, each)
    sign = ">" if each.about.bad == "above" else "<"
    return (
        table.name,
        each.about.key,
        f"{each.before:.4g}" if each.before else "off",
        (f"{sign} {each.value:.4g}" if each.value else "off")
        + (" +" if each.value != each.edge else "")
        + ("" if each.source == "rate" else f" ({_SOURCES[each.source]})"),
        f"{each.n_good:,}",
        f"{each.harmed:,}",
        percent(harm_bound(each.harmed, each.n_good)) if each.source == "rate" else "-",
        f"{bad:,}",
        f"{found:,}",
        _recall(found, bad),
    )


def _all_row(table: Table) -> tuple[str, ...]:
    bad = [sample for sample in table.samples if not sample.good]
    found = sum(rejected(table.settings, sample) for sample in bad)
    return (
        table.name,
        "all together",
        "",
        "",
        f"{table.n_good:,}",
        f"{table.harmed:,}",
        percent(harm_bound(table.harmed, table.n_good, table.drawn)) if table.drawn else "-",
        f"{len(bad):,}",
        f"{found:,}",
        _recall(found, len(bad)),
    )


def _recall(found: int, of: int) -> str:
    interval = wilson(found, of)
    if interval is None:
        return "-"
    return f"{percent(found / of)} ({percent(interval[0])} to {percent(interval[1])})"


def _details(table: Table, each: Setting, table_of: TableOf, width: int) -> Iterator[str]:
    about = each.about
    state = f"{each.value:g}" if each.value else "off"
    yield f"[{table.name}] {about.key} = {state}: bad {about.bad} it"
    with_score = [sample for sample in table.samples if about.score in sample.scores]
    good, bad = (
        [sample.scores[about.score] for sample in with_score if sample.good is label]
        for label in (True, False)
    )
    yield from side_by_side(good, bad, each.value, width=width)
    classes = _classes(with_score, lambda sample: rejects(about, each.value, sample))
    if classes:
        rows = [("  CLASS", "FOUND", "OF", "RECALL")]
        rows += [
            (f"  {kind}", str(found), str(of), _recall(found, of))
            for kind, (found, of) in classes.items()
        ]
        yield from table_of(rows)


def _classes(
    samples: Sequence[Sample], rejected_by: Callable[[Sample], bool]
) -> dict[str, tuple[int, int]]:
    """Of each class of bad texts how many are found, and how many there are."""
    bad = [sample for sample in samples if not sample.good]
    found = Counter(sample.kind for sample in bad if rejected_by(sample))
    return {kind: (found[kind], of) for kind, of in sorted(Counter(b.kind for b in bad).items())}


def _rates(found: int, of: int) -> dict[str, Any]:
    return {
        "n_bad": of,
        "found": found,
        "recall": found / of if of else None,
        "recall_interval": wilson(found, of),
    }


def _by_class(classes: dict[str, tuple[int, int]]) -> dict[str, Any]:
    return {kind: _rates(*counts) for kind, counts in classes.items()}


def _table(table: Table) -> dict[str, Any]:
    bad = [sample for sample in table.samples if not sample.good]
    found = sum(rejected(table.settings, sample) for sample in bad)
    classes = _classes(bad, lambda sample: rejected(table.settings, sample))
    return {
        "n_good": table.n_good,
        "false_positives": table.harmed,
        "false_positive_rate": table.harmed / table.n_good if table.n_good else None,
        "false_positive_rate_expected": table.expected if table.drawn else None,
        "false_positive_bound": (
            harm_bound(table.harmed, table.n_good, table.drawn) if table.drawn else None
        ),
        **_rates(found, len(bad)),
        "by_class": _by_class(classes),
        "thresholds": {each.about.key: _setting(table, each) for each in table.settings},
    }


def _setting(table: Table, each: Setting) -> dict[str, Any]:
    about = each.about
    by_rate = each.source == "rate"
    with_score = [sample for sample in table.samples if about.score in sample.scores]
    classes = _classes(with_score, lambda sample: rejects(about, each.value, sample))
    return {
        "value": each.value,
        "edge": each.edge,
        "before": each.before,
        "bad": about.bad,
        "source": each.source,
        "why_kept": each.why,
        "n_good": each.n_good,
        "false_positives": each.harmed,
        "false_positive_bound": harm_bound(each.harmed, each.n_good) if by_rate else None,
        **_rates(*_found(table, each)),
        "by_class": _by_class(classes),
    }
