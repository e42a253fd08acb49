"""Where `sluice dlq` writes, and what it says when it can't."""

import contextlib
import errno
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any, Final

import click

from ..schemas.errors import SluiceError
from .submit_target import Target

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_IN_MEMORY: Final = 8 * 1024 * 1024


class CantWrite(SluiceError):
    """There is no room for the output."""


class Telling(click.Group):
    """Tells of a full disk in its own words."""

    def invoke(self, ctx: click.Context) -> Any:
        """Raises CantWrite."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno not in _NO_ROOM or error.filename is not None:
                raise
            raise CantWrite(f"the output can't be written: {error.strerror}") from error


@contextlib.contextmanager
def opened(out: Path | None) -> Generator[IO[bytes]]:
    """A file to write to: `out`, all or nothing; or standard output, which has everything at the
    end, since a reader that is slow, such as a pager, must not hold up a look."""
    if out is not None:
        with Target.of(out).replaced() as file:
            yield file
        return
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        yield spool
        spool.seek(0)
        shutil.copyfileobj(spool, sys.stdout.buffer)
        sys.stdout.buffer.flush()
