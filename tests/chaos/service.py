"""A service of a run, in a process of its own: `python -m tests.chaos.service worker`.

Its settings are in the environment, as for `sluice`. SLUICE_CHAOS_FOLDER: where it writes down what
it holds on to, and where its tools leave their effects.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec
from sluicegate.schemas import SluiceError
from sluicegate.worker import logs
from sluicegate.worker.agent.service import Orchestrator
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config
from sluicegate.worker.frame import ExitCode, Service, until_signalled
from sluicegate.worker.service import Worker
from sluicegate.worker.tools.registry import Registry

from ..worker.agent.killed_agent import tools
from ..worker.killed import ActingScorer
from . import clock, vitals
from .stage import StageEngine

FOLDER_VARIABLE: Final = "SLUICE_CHAOS_FOLDER"
EFFECTS: Final = "effects"


def config() -> Config:
    """The settings that the environment names."""
    names = {field: f"SLUICE_{field.upper()}" for field in Config.__struct_fields__}
    given = {field: os.environ[name] for field, name in names.items() if name in os.environ}
    return msgspec.convert(given, Config, strict=False)


def make(kind: str, settings: Config, folder: Path) -> Service:
    """The service of that kind."""
    match kind:
        case "worker":
            return Worker(settings, StageEngine(frail=settings.worker_id.endswith("-1")))
        case "checker":
            return Checker(settings, ActingScorer(harmless=True))
        case "agent":
            return Orchestrator(settings, Registry(tools(str(folder / EFFECTS))))
        case _:
            raise ValueError(f"no service is called {kind!r}")


def _say_what_it_does() -> None:
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)


async def _run(service: Service, file: Path) -> int:
    # What it waits for, where somebody wants to know.
    asyncio.get_running_loop().add_signal_handler(signal.SIGQUIT, _say_what_it_does)
    async with vitals.recorded(file):
        return await until_signalled(service)


def main() -> int:
    settings = config()
    folder = Path(os.environ[FOLDER_VARIABLE])
    logs.configure(settings.log_format, settings.log_level)
    service = make(sys.argv[1], settings, folder)
    clock.install()
    try:
        return asyncio.run(_run(service, folder / f"{settings.worker_id}.vitals"))
    except SluiceError as error:
        print(f"Error: {error}", file=sys.stderr)
        return ExitCode.CANNOT_START


if __name__ == "__main__":
    sys.exit(main())
