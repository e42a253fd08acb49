"""A run: jobs by portions, a fault with each, and the count when all is quiet again."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from . import vitals
from .faults import Injected, Injector
from .jobs import REAL, SCRIPTED, Kind
from .journal import Line, Reader
from .report import Report, fault_lines
from .schedule import FAULTS, Fault, Step, steps
from .service import EFFECTS
from .site import TAP, Engine, Site, built
from .tally import Key, Outcome, letter_in, outcome_in, tally
from .vitals import Vitals

# Jobs for each fault: enough to be under way before, during and after it.
JOBS_A_FAULT: Final = {"scripted": 150, "vllm": 10}
# The slowest retry of a run waits two minutes; and a dead-lettering of the broker's that can't be
# done at once is tried again after three.
QUIET_LIMIT_S: Final = 240.0
_LOOK_S: Final = 0.2
_PORTION_LIMIT_S: Final = 6.0
# A channel for each exchange that is published to, which are opened as they are needed.
_SPARE: Final = 6
_REST_BEFORE_S: Final = 1.0
_REST_S: Final = 20.0
_NEAR_S: Final = 6.0

# A worker with a model runs as `sluice worker`, whose clock nobody sets.
_WITH_MODEL: Final[tuple[Fault, ...]] = tuple(
    fault for fault in FAULTS if not fault.startswith("clock")
)


class Setup(Struct, frozen=True, kw_only=True):
    """What to run. `minutes`: no further fault is begun after."""

    jobs: int
    seed: int
    engine: Engine = "scripted"
    minutes: float = 8.0
    faults: tuple[Fault, ...] = ()
    count: int = 0
    mix: Mapping[Kind, int] | None = None


class Watch:
    """What the backend's journal says so far."""

    def __init__(self, file: Path) -> None:
        self._reader = Reader(file)
        self.lines: list[Line] = []
        self.stored: set[str] = set()
        self.taken: set[str] = set()
        self.keys: set[Key] = set()
        self.tried: set[str] = set()

    def look(self) -> None:
        """Read on."""
        for line in self._reader.new():
            self.lines.append(line)
            match line.what:
                case "try":
                    self.tried.add(line.job)
                case "stored":
                    self.stored.add(line.job)
                case "result":
                    self.taken.add(line.job)
                    self.keys.add((line.job, line.attempt))
                case _:
                    pass

    @property
    def waiting(self) -> set[str]:
        """Acknowledged, and no result taken."""
        return self.stored - self.taken


async def run(setup: Setup, folder: Path, say: Callable[[str], None]) -> Report:
    """Run it in a folder of its own. Raises SluiceError where it can't begin."""
    mix = setup.mix or (REAL if setup.engine == "vllm" else SCRIPTED)
    say("starting broker, services and backend")
    workers = 1 if setup.engine == "vllm" else 2
    async with built(folder, setup.engine, setup.seed, mix, workers=workers) as site:
        say(f"ready; logs are in {folder}")
        await asyncio.sleep(_REST_BEFORE_S)
        before = _latest(site)
        began = time.monotonic()
        watch = Watch(site.journal)
        injector = Injector(site)
        injected = await _storm(setup, site, injector, watch, say)
        await injector.heal()
        await site.backend.allow(setup.jobs)
        quiet = await _until_quiet(setup, site, watch, say)
        seconds = time.monotonic() - began
        # What a service still holds in its hands, no queue tells of: let it end its tasks first.
        grown = await _not_back(site, before)
        await site.backend.stop()
        watch.look()
        late = [outcome_in(each.body) for each in await site.take_all(site.replies)]
        published = [outcome_in(each.body) for each in await site.take_all(TAP)]
        dead = await site.take_all(site.names.dead)
        effects = folder / EFFECTS
        counted = tally(
            watch.lines,
            published,
            [letter_in(each.body, each.kind) for each in dead],
            injector.late(),
            effects.read_text().splitlines() if effects.exists() else (),
            scripted=setup.engine == "scripted",
        )
        for job in [*counted.lost, *counted.unmarked, *counted.unexpected][:5]:
            for line in history(job, watch.lines, injected, folder):
                say(line)
        return Report(
            seed=setup.seed,
            engine=setup.engine,
            jobs=setup.jobs,
            seconds=round(seconds, 1),
            faults=fault_lines(injected),
            tally=counted,
            left={**await site.depths(), **_not_taken(site, late, watch)},
            grown=grown,
            ended=site.ends,
            quiet=quiet,
        )


def plan(setup: Setup, parties: Sequence[str]) -> list[Step]:
    """The faults of a run."""
    faults = setup.faults or (_WITH_MODEL if setup.engine == "vllm" else FAULTS)
    count = setup.count or max(len(faults), setup.jobs // JOBS_A_FAULT[setup.engine])
    return steps(setup.seed, count, parties, faults)


async def _storm(
    setup: Setup, site: Site, injector: Injector, watch: Watch, say: Callable[[str], None]
) -> list[Injected]:
    planned = plan(setup, ["backend", *site.services])
    end = time.monotonic() + 60 * setup.minutes
    injected: list[Injected] = []
    for number, step in enumerate(planned, 1):
        if time.monotonic() > end:
            say(f"the time is over: {len(planned) - number + 1} faults are left out")
            break
        await site.backend.allow(setup.jobs * number // len(planned))
        await asyncio.sleep(step.after_s)
        await site.revive()
        watch.look()
        one = await injector.inject(step, len(watch.waiting))
        injected.append(one)
        say(f"{number}/{len(planned)} {one}; {len(watch.taken)} of {setup.jobs} results")
        await _room(watch, 2 * JOBS_A_FAULT[setup.engine])
    return injected


async def _room(watch: Watch, most: int) -> None:
    """Wait until no more than so many jobs are under way, or for some seconds."""
    give_up = time.monotonic() + _PORTION_LIMIT_S
    while time.monotonic() < give_up:
        watch.look()
        if len(watch.waiting) <= most:
            return
        await asyncio.sleep(_LOOK_S)


async def _until_quiet(setup: Setup, site: Site, watch: Watch, say: Callable[[str], None]) -> bool:
    """Wait until all that was acknowledged is answered, and no queue holds anything."""
    give_up = time.monotonic() + QUIET_LIMIT_S
    told = time.monotonic()
    while time.monotonic() < give_up:
        watch.look()
        if len(watch.tried) >= setup.jobs and not watch.waiting and not await site.depths():
            return True
        if time.monotonic() - told > 10:
            told = time.monotonic()
            waiting = ", ".join(sorted(watch.waiting)[:5])
            say(f"{len(watch.taken)} results; {len(watch.waiting)} to come: {waiting}")
        await asyncio.sleep(_LOOK_S)
    return False


def _not_taken(site: Site, late: Sequence[Outcome], watch: Watch) -> dict[str, int]:
    """Results that came when the backend was gone, and are no duplicates of what it took."""
    missed = {each.key for each in late} - watch.keys
    return {site.replies: len(missed)} if missed else {}


def _latest(site: Site) -> dict[str, Vitals]:
    """The last sample of each service that writes them."""
    found = {
        name: vitals.read(site.folder / f"{name}.vitals", service.pid)
        for name, service in site.services.items()
        if service.runs
    }
    return {name: samples[-1] for name, samples in found.items() if samples}


async def _not_back(site: Site, before: Mapping[str, Vitals]) -> list[str]:
    """Services that hold more tasks or file descriptors than the first of their name did, ready and
    without work."""
    give_up = time.monotonic() + _REST_S
    while True:
        latest = _latest(site)
        more = [line for name, now in latest.items() if (line := _more(name, before[name], now))]
        if not more or time.monotonic() > give_up:
            return more
        await asyncio.sleep(_LOOK_S)


def _more(name: str, before: Vitals, now: Vitals) -> str:
    if now.fds <= before.fds + _SPARE and now.tasks <= before.tasks + _SPARE:
        return ""
    more = {what: n for what, n in now.running.items() if n > before.running.get(what, 0)}
    tasks = f"{before.tasks} to {now.tasks} tasks: {more}"
    return f"{name}: {before.fds} to {now.fds} descriptors, {tasks}"


def history(
    job: str, lines: Sequence[Line], injected: Sequence[Injected], folder: Path
) -> list[str]:
    """What is known of a job: the backend's lines, the faults near them, the services' logs."""
    own = [line for line in lines if line.job == job]
    said = [f"history of {job}"]
    events = [(line.at, f"  {line.what} {line.outcome}{line.detail}") for line in own]
    if own:
        first, last = own[0].at - _NEAR_S, own[-1].at + _NEAR_S
        events += [
            (each.began, f"  fault: {each}")
            for each in injected
            if each.ended >= first and each.began <= last
        ]
    said += [f"{at:12.2f}{text}" for at, text in sorted(events)]
    for log in sorted(folder.glob("*.log")):
        found = [each for each in log.read_text(errors="replace").splitlines() if job in each]
        said += [f"  {log.name}: {each[:300]}" for each in found[:20]]
    return said
