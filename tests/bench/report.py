"""What the turns come to, and how it is shown. Pure, but for asking what machine this is."""

import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from .contender import BASELINE, CONTENDERS, installed

LIBRARIES: Final = (
    "sluicegate",
    "aio-pika",
    "aiormq",
    "msgspec",
    "faststream",
    "taskiq",
    "taskiq-aio-pika",
    "pydantic",
)


class Turn(Struct, frozen=True, kw_only=True):
    """One contender's run of `jobs` jobs. Times in seconds."""

    contender: str
    round: int
    jobs: int
    wall_s: float
    worker_cpu_s: float
    backend_cpu_s: float

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / self.wall_s


class Spread(Struct, frozen=True):
    """A figure over all rounds."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of at least one value."""
        return cls(median(values), min(values), max(values))


class Line(Struct, frozen=True, kw_only=True):
    """One contender's line. `ratio` is against the baseline of the same round; None without one.

    CPU times are milliseconds of one job.
    """

    contender: str
    jobs_per_s: Spread
    ratio: Spread | None
    worker_cpu_ms: Spread
    backend_cpu_ms: Spread
    remark: str


class Machine(Struct, frozen=True, kw_only=True):
    """Where it was measured. `load` is the load average, over a minute, before the first turn."""

    cpu: str
    cpus: int
    memory_gib: float
    system: str
    python: str
    load: float
    rabbitmq: str
    private_broker: bool
    libraries: dict[str, str]


class Report(Struct, frozen=True, kw_only=True):
    """Everything, as `--json` prints it. `engine_cpu_ms` is in every contender's worker CPU."""

    jobs: int
    rounds: int
    concurrency: int
    prompt_bytes: int
    engine_cpu_ms: float
    machine: Machine
    lines: list[Line]
    turns: list[Turn]


def summary(turns: Sequence[Turn]) -> list[Line]:
    """A line for each contender, in the order in which they first ran."""
    baseline = {turn.round: turn.rate for turn in turns if turn.contender == BASELINE}
    return [
        _line([turn for turn in turns if turn.contender == name], baseline)
        for name in dict.fromkeys(turn.contender for turn in turns)
    ]


def _line(turns: Sequence[Turn], baseline: dict[int, float]) -> Line:
    name = turns[0].contender
    ratios = [turn.rate / baseline[turn.round] for turn in turns if turn.round in baseline]
    return Line(
        contender=name,
        jobs_per_s=Spread.of([turn.rate for turn in turns]),
        ratio=Spread.of(ratios) if ratios else None,
        worker_cpu_ms=Spread.of([1000 * turn.worker_cpu_s / turn.jobs for turn in turns]),
        backend_cpu_ms=Spread.of([1000 * turn.backend_cpu_s / turn.jobs for turn in turns]),
        remark=CONTENDERS[name].remark,
    )


def machine(rabbitmq: str, *, private_broker: bool) -> Machine:
    """This machine, now."""
    return Machine(
        cpu=_cpu(),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cpu_count(),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=platform.platform(terse=True),
        python=platform.python_version(),
        load=round(os.getloadavg()[0], 2),
        rabbitmq=rabbitmq,
        private_broker=private_broker,
        libraries={name: found for name in LIBRARIES if (found := installed(name))},
    )


def _cpu_count() -> int:
    return os.cpu_count() or 1


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def render(report: Report) -> Iterator[str]:
    """The report for people, in Markdown, line by line."""
    here = report.machine
    yield (
        f"{report.jobs} jobs a turn, {report.rounds} rounds, {report.concurrency} in flight, "
        f"prompts of {report.prompt_bytes} bytes. Median (least to most) over the rounds."
    )
    yield ""
    yield "| contender | jobs/s | against aio-pika | worker CPU, ms/job | backend CPU, ms/job |"
    yield "|---|---|---|---|---|"
    for line in report.lines:
        cells = (
            line.contender,
            _spread(line.jobs_per_s, 0),
            _spread(line.ratio, 2) if line.ratio else "",
            _spread(line.worker_cpu_ms, 2),
            _spread(line.backend_cpu_ms, 2),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield f"{report.engine_cpu_ms:.2f} ms of each worker's CPU time are the scripted engine's."
    yield ""
    for line in report.lines:
        if line.remark:
            yield f"- {line.contender}: {line.remark}."
    yield ""
    yield (
        f"{here.cpus} CPUs ({here.cpu}), {here.memory_gib:g} GiB, {here.system}, "
        f"Python {here.python}; load average before: {here.load:g}."
    )
    where = "private, on the same CPUs" if here.private_broker else "given by SLUICE_AMQP_URL"
    yield f"RabbitMQ {here.rabbitmq} ({where})."
    yield ", ".join(f"{name} {number}" for name, number in here.libraries.items()) + "."


def _spread(spread: Spread, digits: int) -> str:
    low, middle, high = (f"{each:.{digits}f}" for each in (spread.min, spread.median, spread.max))
    return f"{middle} ({low}–{high})"
