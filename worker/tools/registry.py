"""The tools there are: installed ones, those of modules that a setting names, and those that are
served elsewhere. Nothing else can be called."""

import asyncio
import contextlib
import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType, ModuleType
from typing import Any, Final, cast

import msgspec

from ...schemas.errors import SluiceError
from ...schemas.tools import ToolSpec
from ..config import Config, ConfigError, file_text
from .tool import Tool

log = logging.getLogger(__name__)

GROUP: Final = "sluicegate.tools"
RELEASE_TIMEOUT_S: Final = 5.0


class Registry:
    """Tools by name, from tools of this process and specifications of remote ones. Raises
    ConfigError where two have one name."""

    def __init__(self, tools: Iterable[Tool] = (), remote: Iterable[ToolSpec] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._specs: dict[str, ToolSpec] = {}
        self._from: dict[str, str] = {}
        for each in tools:
            self._add(each, each.where)
        for spec in remote:
            self._claim(spec.name, "tools served elsewhere")
            self._specs[spec.name] = msgspec.structs.replace(spec, remote=True)

    def __repr__(self) -> str:
        return f"<Registry of {', '.join(self._specs) or 'nothing'}>"

    @classmethod
    def load(cls, config: Config) -> "Registry":
        """All that is installed (entry points of group `sluicegate.tools`), that the modules of
        `agent_tools` have, and that `agent_tools_file` lists. Raises ConfigError."""
        found: dict[int, Tool] = {}
        for tool in (*_installed(), *_of_modules(config.agent_tools)):
            found[id(tool)] = tool  # the same one can come more than one way
        remote = _manifest(config.agent_tools_file) if config.agent_tools_file else ()
        return cls(found.values(), remote)

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """Of every tool, by name, in the order they were found."""
        return MappingProxyType(self._specs)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Those that run here."""
        return tuple(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """A tool that runs here; None for a remote or unknown one."""
        return self._tools.get(name)

    def validate(self, name: str, arguments: dict[str, Any]) -> str | None:
        """What is wrong with the arguments of a call, for the model; None where nothing is. A
        remote tool's are judged by its server, which runs nothing either where they are wrong.
        Raises KeyError for a name that is not registered."""
        if self._specs[name].remote:
            return None
        return self._tools[name].validate(arguments)

    async def release(self, job_id: str) -> None:
        """Tell the tools that want to know that a job has ended. Errors are logged; a tool has 5
        seconds for it. All at the same time."""
        wanted = [each for each in self._tools.values() if each.release is not None]
        async with asyncio.TaskGroup() as group:
            for each in wanted:
                group.create_task(_release(each, job_id), name=f"release {each.name}")

    def _add(self, tool: Tool, source: str) -> None:
        self._claim(tool.name, source)
        self._tools[tool.name] = tool
        self._specs[tool.name] = tool.spec

    def _claim(self, name: str, source: str) -> None:
        if name in self._from:
            raise ConfigError(
                f"two tools are called {name}: one of {self._from[name]}, one of {source}. Rename "
                'one with @tool(name="..."), or leave one out of agent_tools or agent_tools_file'
            )
        self._from[name] = source


def announce(registry: Registry) -> None:
    """Log at the start of a service which tools there are, and what a model will miss of them."""
    if not registry.specs:
        log.warning("no tools are registered: every job that asks for one is refused")
        return
    log.info("tools: %s", ", ".join(registry.specs))
    for spec in registry.specs.values():
        if spec.description.strip():
            continue
        if not spec.remote:
            log.warning("tool %s has no docstring: a model is told its name alone", spec.name)
        elif not spec.parameters:
            log.warning(
                "tool %s has neither description nor parameters in agent_tools_file: a model is "
                "told its name alone. Write the file with `sluice agent tools --json`",
                spec.name,
            )
        else:
            log.warning("tool %s has no description in agent_tools_file", spec.name)


async def _release(tool: Tool, job_id: str) -> None:
    try:
        async with asyncio.timeout(RELEASE_TIMEOUT_S):
            await _call_release(cast("Callable[[str], Any]", tool.release), job_id)
    except TimeoutError:
        log.warning("tool %s: release took longer than %g s", tool.name, RELEASE_TIMEOUT_S)
    except Exception:
        log.exception("tool %s: release failed", tool.name)


async def _call_release(release: Callable[[str], Any], job_id: str) -> None:
    """A sync one may block, so it gets a thread; called there, an async one gives its coroutine."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def tell(tell_it: Callable[[Any], None], what: Any) -> None:
        if not answer.done():
            tell_it(what)

    def work() -> None:
        try:
            told, what = answer.set_result, release(job_id)
        except Exception as error:
            told, what = answer.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, told, what)

    # Not one of the loop's own threads: for those the end of the service would wait.
    threading.Thread(target=work, name="release of a tool", daemon=True).start()
    if (waiting := await answer) is not None:
        await waiting


def _installed() -> Iterator[Tool]:
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        yield from _of_entry_point(point)


def _of_entry_point(point: EntryPoint) -> list[Tool]:
    what = f"entry point {point.name} = {point.value} of group {GROUP}"
    try:
        found: Any = point.load()
        if callable(found) and not isinstance(found, Tool):
            found = list(cast("Callable[[], Iterable[Any]]", found)())
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{what} can't be loaded ({_cause(error)}); repair it or uninstall the package it is of"
        ) from error
    match found:
        case Tool():
            return [found]
        case ModuleType():
            return _of_module(found, what)
        case list() if all(isinstance(each, Tool) for each in cast("list[Any]", found)):
            return cast("list[Tool]", found)
        case _:
            raise ConfigError(
                f"{what} must name a module with tools, a tool, or a function that gives several"
            )


def _of_modules(setting: str) -> Iterator[Tool]:
    here = os.getcwd()  # noqa: PTH109 - an entry of sys.path is text
    if setting and here not in sys.path and "" not in sys.path:
        # A command has its own folder there, and not that in which it was called. At the end:
        # nothing that is installed may be hidden by it.
        sys.path.append(here)
    for name in filter(None, (part.strip() for part in setting.split(","))):
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as error:
            hint = ""
            if isinstance(error, ModuleNotFoundError) and _is_of(name, error.name):
                hint = (
                    f". It is looked for where Python finds modules, and in {here}; set PYTHONPATH "
                    "for other folders"
                )
            raise ConfigError(
                f"agent_tools: module {name!r} can't be imported ({_cause(error)}){hint}"
            ) from error
        yield from _of_module(module, f"agent_tools: module {name}")


def _is_of(name: str, missing: str | None) -> bool:
    """Whether the missing module is this one, or a package it is in, and none that it needs."""
    return missing is not None and f"{name}.".startswith(f"{missing}.")


def _of_module(module: ModuleType, what: str) -> list[Tool]:
    found = [each for each in vars(module).values() if isinstance(each, Tool)]
    if not found:
        raise ConfigError(f"{what} has no tools: decorate a function of it with @tool")
    return found


def _manifest(path: str) -> list[ToolSpec]:
    text = file_text(path, "agent_tools_file")
    try:
        return msgspec.json.decode(text, type=list[ToolSpec])
    except (msgspec.MsgspecError, SluiceError, RecursionError, UnicodeError) as error:
        raise ConfigError(
            f"agent_tools_file {path}: {error}. Write it with `sluice agent tools --json` where "
            "the tools are served"
        ) from error


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
