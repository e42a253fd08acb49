"""Where tools come from: installed packages, modules that a setting names, and a file."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from sluicegate.schemas.tools import ToolSpec
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.tools import ToolContext, registry, tool
from sluicegate.worker.tools.registry import Registry, announce
from sluicegate.worker.tools.runner import Runner

from .calls import WAIT_S

Write = Callable[[str, str], None]

ONE = "from sluicegate.worker.tools import tool\n@tool\ndef one(x: int) -> int:\n    return x + 1\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules that can be imported, in this test only."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = set(sys.modules)

    def file(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    yield file
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def install(write: Write) -> Callable[..., None]:
    """Installs a package that has these entry points."""

    def installed(*points: str, package: str = "somebodys") -> None:
        write(f"{package}-1.0.dist-info/METADATA", f"Name: {package}\nVersion: 1.0\n")
        lines = "\n".join(("[sluicegate.tools]", *points))
        write(f"{package}-1.0.dist-info/entry_points.txt", f"{lines}\n")

    return installed


def loaded(**settings: Any) -> Registry:
    return Registry.load(Config(**settings))


def test_without_any_there_are_none() -> None:
    assert dict(loaded().specs) == {}


def test_modules_that_a_setting_names(write: Write) -> None:
    write("first_tools.py", ONE)
    write("second_tools.py", ONE.replace("one", "two"))
    found = loaded(agent_tools=" first_tools, second_tools ,")
    assert list(found.specs) == ["one", "two"]
    assert found.get("one") is not None
    assert found.get("three") is None


async def test_a_module_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command's own folder is on Python's path, not the one it was called in. And a child process
    finds the module too."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_own_tools.py").write_text(ONE)
    found = loaded(agent_tools="my_own_tools")
    one = found.get("one")
    assert one is not None
    context = ToolContext(job_id="j", round=1, effect_id="e")
    async with asyncio.timeout(WAIT_S):
        assert (await Runner().run(one, {"x": 1}, context)).content == "2"
    del sys.modules["my_own_tools"]


def test_installed_ones(write: Write, install: Callable[..., None]) -> None:
    write("a_module.py", ONE)
    write("a_tool.py", ONE.replace("one", "two"))
    write(
        "a_function.py",
        ONE.replace("one", "three") + "def several():\n    return (three, three)\n",
    )
    install("module = a_module", "tool = a_tool:two", "function = a_function:several")
    assert sorted(loaded().specs) == ["one", "three", "two"]


def test_the_same_tool_may_come_twice(write: Write, install: Callable[..., None]) -> None:
    write("a_module.py", ONE)
    write("another.py", "from a_module import one\n")
    install("module = a_module", "again = a_module:one")
    assert list(loaded(agent_tools="a_module,another").specs) == ["one"]


def test_two_of_one_name_are_an_error_that_names_both(write: Write) -> None:
    write("first_tools.py", ONE)
    write("second_tools.py", ONE)
    with pytest.raises(ConfigError, match="one of first_tools:one, one of second_tools:one"):
        loaded(agent_tools="first_tools,second_tools")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No module named"),
        ("raise OSError('no disk')", "OSError: no disk"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("def x(", "SyntaxError"),
        ("x = 1", "has no tools"),
        (ONE.replace("x: int", "x"), "NotATool: tool one: parameter x has no type"),
    ],
)
def test_modules_that_can_not_be_used(text: str | None, said: str, write: Write) -> None:
    if text is not None:
        write("their_tools.py", text)
    with pytest.raises(ConfigError, match=f"their_tools.*{said}"):
        loaded(agent_tools="their_tools")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (None, True),
        ("import nobody_has_this", False),
        ("raise OSError('no disk')", False),
    ],
)
def test_where_modules_are_looked_for_is_told_only_if_it_is_missing(
    text: str | None, hint: bool, write: Write
) -> None:
    if text is not None:
        write("their_tools.py", text)
    with pytest.raises(ConfigError) as raised:
        loaded(agent_tools="their_tools")
    assert ("PYTHONPATH" in str(raised.value)) is hint
    with pytest.raises(ConfigError, match="PYTHONPATH"):
        loaded(agent_tools="nobody_has_this.tools")


def test_a_service_says_which_tools_it_has(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def told() -> None:
        """Does it."""

    @tool
    async def untold() -> None: ...

    bare = ToolSpec(name="bare")
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    nameless = ToolSpec(name="nameless", parameters=schema)
    with caplog.at_level(logging.INFO):
        announce(Registry([told, untold], [bare, nameless]))
    assert [each.levelname for each in caplog.records] == ["INFO", "WARNING", "WARNING", "WARNING"]
    lines = caplog.messages
    assert lines[0] == "tools: told, untold, bare, nameless"
    assert "untold has no docstring" in lines[1]
    assert "bare has neither description nor parameters" in lines[2]
    assert "nameless has no description" in lines[3]


def test_a_service_without_tools_says_so(caplog: pytest.LogCaptureFixture) -> None:
    announce(Registry())
    (only,) = caplog.records
    assert (only.levelname, "no tools are registered" in only.message) == ("WARNING", True)


@pytest.mark.parametrize("name", ["..", "a b", "x/y.py", "."])
def test_names_that_are_no_modules(name: str) -> None:
    with pytest.raises(ConfigError, match="agent_tools"):
        loaded(agent_tools=name)


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("x = missing_module", "No module named"),
        ("x = some_module:missing", "AttributeError"),
        ("x = some_module:number", "must name a module"),
        ("x = some_module:numbers", "must name a module"),
        ("x = some_module:breaks", "ZeroDivisionError"),
        ("x = some_module", "has no tools"),
    ],
)
def test_entry_points_that_can_not_be_used(
    point: str, said: str, write: Write, install: Callable[..., None]
) -> None:
    write(
        "some_module.py",
        "number = 3\ndef numbers():\n    return [1]\ndef breaks():\n    return 1 / 0\n",
    )
    install(point)
    with pytest.raises(ConfigError, match=f"entry point {point}.*{said}"):
        loaded()


def test_those_served_elsewhere(tmp_path: Path, write: Write) -> None:
    file = tmp_path / "tools.json"
    file.write_bytes(msgspec.json.encode([ToolSpec(name="far", quota=3)]))
    found = loaded(agent_tools_file=str(file))
    assert found.specs["far"].remote
    assert found.specs["far"].quota == 3
    assert found.get("far") is None
    # Its server judges them.
    assert found.validate("far", {"anything": 1}) is None
    write("near_tools.py", ONE.replace("one", "far"))
    with pytest.raises(ConfigError, match="near_tools:far, one of tools served elsewhere"):
        loaded(agent_tools="near_tools", agent_tools_file=str(file))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "can't be read"),
        ("", "sluice agent tools --json"),
        ("{}", "Expected `array`"),
        ('[{"name": "two words"}]', "name"),
        ('[{"name": "x", "parameters": {"type": "array"}}]', "parameters"),
        ("[" * 100_000, "agent_tools_file"),
    ],
)
def test_a_file_that_can_not_be_used(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        loaded(agent_tools_file=str(file))


def test_arguments_are_judged_by_name(faulty: ModuleType) -> None:
    found = Registry([faulty.fine])
    assert found.validate("fine", {"text": "x"}) is None
    told = found.validate("fine", {"text": 1})
    assert told is not None
    assert "$.text" in told
    with pytest.raises(KeyError):
        found.validate("other", {})


def test_the_specs_can_not_be_changed(faulty: ModuleType) -> None:
    specs: Any = Registry([faulty.fine]).specs
    with pytest.raises(TypeError):
        specs["other"] = specs["fine"]


async def test_a_job_that_ends_is_told_to_those_who_want_to_know(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "RELEASE_TIMEOUT_S", 0.05)
    told: list[str] = []

    async def hang(job_id: str) -> None:
        await asyncio.sleep(WAIT_S)

    async def later(job_id: str) -> None:
        await asyncio.sleep(0)
        told.append(f"async {job_id}")

    def fail(job_id: str) -> None:
        raise OSError("it is gone already")

    def block(job_id: str) -> None:
        time.sleep(WAIT_S * 100)

    releases: dict[str, Any] = {
        "sync": told.append,
        "block": block,
        "later": later,
        "hang": hang,
        "fail": fail,
        "none": None,
    }

    def made(name: str) -> Any:
        @tool(name=name, release=releases[name])
        async def anything() -> str:
            return ""

        return anything

    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(WAIT_S):
            await Registry([made(name) for name in releases]).release("job-7")
    assert sorted(told) == ["async job-7", "job-7"]
    assert "tool hang: release took longer" in caplog.text
    assert "tool block: release took longer" in caplog.text
    assert "it is gone already" in caplog.text
