"""Calibrated thresholds as a file in the form of `checks.toml`, each with what it rests on."""

from collections.abc import Iterator, Sequence
from typing import Final

from .calibration import BASE, Aim, Setting, Table, rejected, rejects
from .intervals import harm_bound, percent

_HEAD: Final = """\
# Thresholds of the checks on whole texts, by `sluice calibrate`, for the setting `checks_file`.
# What is not in here is as in the installation.
"""


def document(tables: Sequence[Table], aim: Aim, *, scoring_model: str) -> str:
    """The whole file. A table that sets nothing is left out."""
    return "\n".join(_document(tables, aim, scoring_model)) + "\n"


def _document(tables: Sequence[Table], aim: Aim, scoring_model: str) -> Iterator[str]:
    yield _HEAD.rstrip()
    # What is in a comment must stay in its line.
    yield f"# Scoring model: {''.join(filter(str.isprintable, scoring_model))}."
    yield f"# Wanted: at most {aim.rate:.4%} of good texts rejected, by all of them together."
    for table in tables:
        if not table.own():
            continue
        yield ""
        yield f"[{table.name}]"
        yield f"# {_of_table(table)}"
        if table.name == BASE:
            yield "# Of all profiles. A profile without enough texts has these."
        for each in table.settings:
            if each.is_set:
                yield f"# {_of_setting(each, table)}"
                yield f"{each.about.key} = {each.value!r}"


def _of_table(table: Table) -> str:
    bad = [sample for sample in table.samples if not sample.good]
    found = sum(rejected(table.settings, sample) for sample in bad)
    bound = harm_bound(table.harmed, table.n_good, table.drawn)
    text = (
        f"{table.n_good:,} good texts, {table.harmed:,} of them rejected by any "
        f"({percent(table.expected)} of all such expected, at most {percent(bound)} with 95% "
        "confidence)"
    )
    return f"{text}; {len(bad):,} bad, {percent(found / len(bad))} found." if bad else f"{text}."


def _of_setting(setting: Setting, table: Table) -> str:
    about = setting.about
    text = f"{setting.n_good:,} good, {setting.harmed:,} {about.bad}"
    if setting.source == "rate":
        bound = harm_bound(setting.harmed, setting.n_good)
        text += f" (at most {percent(bound)})"
        if setting.value != setting.edge:
            text += f", with a margin beyond {setting.edge!r}"
    else:
        text += ", by its share of the mean of good text"
    bad = [sample for sample in table.samples if not sample.good and about.score in sample.scores]
    if bad:
        found = sum(rejects(about, setting.value, sample) for sample in bad)
        text += f"; {percent(found / len(bad))} of {len(bad):,} bad"
    return f"{text}."
