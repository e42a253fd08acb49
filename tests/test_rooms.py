"""The rooms and who may enter: import rules between the top-level folders, read from the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("schemas", "guards", "rollback", "producer", "worker", "ops")
HEAVY = {"vllm", "torch", "transformers"}

# What a room must never import: rooms of ours, and packages of others.
FORBIDDEN: dict[str, set[str]] = {
    "schemas": {*ROOMS} - {"schemas"} | {"aio_pika", "aiormq", *HEAVY},
    "guards": {"producer", "worker", "rollback", "ops", "aio_pika", "aiormq"},
    "rollback": {"producer", "worker", "ops", "aio_pika", "aiormq", *HEAVY},
    "producer": {"guards", "rollback", "worker", "ops", *HEAVY},
    "worker": {"ops"},
    "ops": set(),
}


def imported(path: Path, room: str, root: Path = ROOT) -> Iterator[str]:
    """Each room (by its name) and each foreign package that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield first_part(alias.name)
            case ast.ImportFrom(module=module, level=0) if module:
                yield first_part(module)
            case ast.ImportFrom(module=module, level=level, names=names):
                package = (room, *path.parent.relative_to(root / room).parts)
                base = package[: len(package) + 1 - level]
                if base:
                    yield base[0]
                elif module:
                    yield module.split(".")[0]
                else:
                    yield from (alias.name for alias in names)
            case _:
                pass


def first_part(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "sluicegate" and len(parts) > 1 else parts[0]


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    assert files(room), f"no room {room}"
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(room)
        for name in imported(path, room)
        if name in FORBIDDEN[room]
    ]
    assert wrong == []


@pytest.mark.parametrize("room", ROOMS)
def test_inside_the_packages_imports_are_relative(room: str) -> None:
    """An absolute one would work only where the mapping of names is in force."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files(room)
        for module in named_modules(path)
        if module.split(".")[0] == "sluicegate"
    ]
    assert wrong == []


def named_modules(path: Path) -> Iterator[str]:
    """The modules that a file imports by their full names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def test_the_reader_of_imports_reads_them(tmp_path: Path) -> None:
    """A rule that sees nothing forbids nothing."""
    room = tmp_path / "producer"
    room.mkdir()
    source = room / "x.py"
    source.write_text(
        "import vllm.sampling_params\n"
        "from ..worker import config\n"
        "from ..guards.gate import Gate\n"
        "from .. import rollback\n"
        "from . import inbox\n"
        "from sluicegate.ops import cli\n"
        "def late():\n    from torch import nn\n"
    )
    assert list(imported(source, "producer", tmp_path)) == [
        "vllm",
        "worker",
        "guards",
        "rollback",
        "producer",
        "ops",
        "torch",
    ]


def test_only_the_plug_in_of_the_guards_knows_vllm() -> None:
    wrong = [
        path.name
        for path in files("guards")
        if "plugin" not in path.stem
        for name in imported(path, "guards")
        if name in HEAVY
    ]
    assert wrong == []
