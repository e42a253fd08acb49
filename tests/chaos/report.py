"""What a run came to: as a table for people, and as JSON."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from .faults import Injected
from .schedule import FAULTS
from .tally import Tally

_COLUMNS: Final = (
    "seed",
    "engine",
    "jobs",
    "published",
    "acknowledged",
    "delivered",
    "recovered",
    "lost",
    "duplicates, marked",
    "of these taken",
    "duplicates, unmarked",
    "unexpected",
    "left in queues",
)


class FaultLine(Struct, frozen=True, kw_only=True):
    """One kind of fault: how often it was done, how often it did not come to pass, and how many
    jobs were under way then, at the median."""

    fault: str
    done: int
    missed: int
    in_flight: float


class Report(Struct, frozen=True, kw_only=True):
    """A run. `left`: messages left in queues of work. `grown`: processes that hold more tasks or
    descriptors than before; `ended`: services that ended by themselves."""

    seed: int
    engine: str
    jobs: int
    seconds: float
    faults: list[FaultLine]
    tally: Tally
    left: dict[str, int]
    grown: list[str]
    ended: list[str]
    quiet: bool

    @property
    def ok(self) -> bool:
        """Whether all that was promised held."""
        return self.tally.ok and self.quiet and not (self.left or self.grown or self.ended)


def fault_lines(injected: Sequence[Injected]) -> list[FaultLine]:
    """By kind, in the order of the schedule's list."""
    lines: list[FaultLine] = []
    for fault in FAULTS:
        of_kind = [each for each in injected if each.step.fault == fault]
        if of_kind:
            lines.append(
                FaultLine(
                    fault=fault,
                    done=sum(each.done for each in of_kind),
                    missed=sum(not each.done for each in of_kind),
                    in_flight=median(each.in_flight for each in of_kind),
                )
            )
    return lines


def render(report: Report) -> Iterator[str]:
    """Tables in Markdown."""
    tally = report.tally
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "|" + "---|" * len(_COLUMNS)
    cells = (
        *(report.seed, report.engine, report.jobs, tally.published, tally.acknowledged),
        *(tally.delivered, tally.recovered, len(tally.lost), tally.marked, tally.marked_reached),
        *(len(tally.unmarked), len(tally.unexpected), sum(report.left.values())),
    )
    yield "| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells) + " |"
    yield ""
    yield "| fault | times | jobs under way, median |"
    yield "|---|---|---|"
    for line in report.faults:
        missed = f" (and {line.missed} in vain)" if line.missed else ""
        yield f"| {line.fault} | {line.done}{missed} | {line.in_flight:g} |"
    yield ""
    faults = sum(line.done for line in report.faults)
    yield (
        f"{faults} faults in {report.seconds:.0f} s. Outcomes: {_words(tally.outcomes)}. "
        f"Dead letters: {_words(tally.letters)}. Never published: {tally.refused}."
    )


def troubles(report: Report) -> Iterator[str]:
    """What did not hold, a line each."""
    tally = report.tally
    for what, names in (
        ("lost", tally.lost),
        ("of these among the dead letters", tally.parked),
        ("duplicates that nothing marks", tally.unmarked),
        ("unexpected", tally.unexpected),
        ("unexplained", tally.unexplained),
        ("effects made twice", tally.effects_doubled),
        ("processes that hold more than before", report.grown),
        ("services that ended by themselves", report.ended),
    ):
        if names:
            yield f"{what}: {len(names)}: {', '.join(names[:20])}"
    if report.left:
        yield f"left in queues: {_words(report.left)}"
    if not report.quiet:
        yield "work was still under way when the time was over"


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())) or "none"
