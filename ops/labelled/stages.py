"""What takes long is kept in a file, so that a run that was interrupted goes on where it was."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


def kept(path: Path, kind: type[T], make: Callable[[], list[T]]) -> list[T]:
    """What `path` holds, or what `make` makes, kept there. The file is complete or not there."""
    if path.exists():
        raw = msgspec.json.decode(path.read_bytes(), type=list[msgspec.Raw])
        return [msgspec.json.decode(one, type=kind) for one in raw]
    done = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(done))
    new.rename(path)
    return done
