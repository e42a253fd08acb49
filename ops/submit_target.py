"""The file that `--out` names: what may be written to, and how it is replaced in one step."""

import contextlib
import os
import secrets
import stat
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from ..schemas.errors import SluiceError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
)


class NotOurs(SluiceError):
    """What has this name is not ours to write to; it would be lost."""


class CantWrite(SluiceError):
    """Results can't be brought to disk."""

    @classmethod
    def of(cls, path: Path, error: OSError) -> Self:
        """The error with the file's name, and what it means for what was done so far."""
        return cls(
            f"can't write {path}: {error.strerror or error}. Results that were recorded are safe; "
            "remove the cause and run the same command again"
        )


@dataclass(frozen=True, slots=True)
class Target:
    """Where results go, links followed, and what was there when it was looked at."""

    path: Path
    there: os.stat_result | None

    @classmethod
    def of(cls, out: Path) -> Self:
        """Look at what is there, and touch nothing.

        Raises NotOurs for what is no regular file, OSError where it can't be looked at.
        """
        path = Path(os.path.realpath(out)) if out.is_symlink() else out
        try:
            there = out.stat()
        except FileNotFoundError:
            return cls(path, None)
        require_regular(out, there.st_mode)
        return cls(path, there)

    @property
    def mode(self) -> int | None:
        """The permission bits of what is there already."""
        return None if self.there is None else stat.S_IMODE(self.there.st_mode)

    @property
    def version(self) -> tuple[int, ...] | None:
        """Another one where the file has another content."""
        there = self.there
        return there and (there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns)

    @contextlib.contextmanager
    def replaced(self) -> Generator[BinaryIO]:
        """A new file that takes the target's place, whole and durable, when the body is done.

        Where the body fails the target stays as it was, and nothing is left beside it.
        """
        # A name that nobody else has, and no longer than any other: `path` may be long already.
        beside = self.path.with_name(f".sluice-{secrets.token_hex(8)}.tmp")
        try:
            with open_new(beside, self.mode) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        sync_folder(self.path)


def require_regular(path: Path, mode: int) -> None:
    """Raise NotOurs, with what it is, for what can't hold results."""
    if stat.S_ISREG(mode):
        return
    kind = next((said for is_kind, said in _KINDS if is_kind(mode)), "no regular file")
    raise NotOurs(f"{path} is {kind}, and results go to a regular file. Choose another --out")


def open_new(path: Path, mode: int | None) -> BinaryIO:
    """A file that was not there, with these permissions; None leaves them to the umask."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    number = os.open(path, flags, 0o666 if mode is None else 0o600)
    try:
        if mode is not None:
            with contextlib.suppress(PermissionError):  # A file system that knows no permissions.
                os.fchmod(number, mode)
        return os.fdopen(number, "wb")
    except BaseException:
        os.close(number)
        raise


def sync_folder(path: Path) -> None:
    """Make the folder's entries durable: a new file's name is not, by its own fsync."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
