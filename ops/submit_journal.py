"""The results of a submitted file, safe on disk one by one, and in order when all are there.

`<out>.part` takes each result as it comes: its first line names the queue on which results come
back, each other line is a result. When every job has one, `<out>` is written in the order of the
input, in one step. Whatever moment the process dies at, the next one goes on from what is there.
Where `<out>` is a symbolic link, all this happens where it leads.
"""

import asyncio
import contextlib
import fcntl
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec

from ..producer.tasks import see_through
from ..schemas.codec import decode, encode
from ..schemas.errors import InvalidMessage
from ..schemas.results import GenerationResult
from .console import CannotStart
from .submit_progress import counted
from .submit_target import CantWrite, NotOurs, Target, require_regular, sync_folder

LOCK_TRIES: Final = 10
HEADER_START: Final = b'{"type":"submission","reply_to":"'


class Busy(CannotStart):
    """Another process is writing the same results."""


class _Header(msgspec.Struct, frozen=True, tag_field="type", tag="submission"):
    reply_to: str


@dataclass(slots=True)
class _Item:
    """A line to be written, and what became of it."""

    job_id: str
    kind: str
    line: bytes
    written: bool = False
    is_news: bool = True
    error: CantWrite | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a result's line is."""

    in_part: bool
    offset: int
    length: int


@dataclass(slots=True)
class _Recorded:
    places: dict[str, _Place] = field(default_factory=dict[str, _Place])
    outcomes: Counter[str] = field(default_factory=Counter[str])

    def add(self, job_id: str, kind: str, place: _Place) -> bool:
        """False where the job has a result already."""
        if job_id in self.places:
            return False
        self.places[job_id] = place
        self.outcomes[kind] += 1
        return True


class Journal:
    """Results on disk, by job. Open one with `Journal.open`; it holds a lock until `close`."""

    def __init__(self, target: Target, part: FileIO) -> None:
        self._target = target
        self._out = target.path
        self._part = part  # holds the lock, and is only written to
        self._end = 0
        self._torn = False  # half a line may stand behind `_end`
        self._needless = False  # nobody would miss the journal
        self._recorded = _Recorded()
        self._pending: list[_Item] = []
        self._writing = asyncio.Lock()
        self.reply_key = ""
        self.resumed = False
        self.damaged = 0

    @classmethod
    def open(cls, out: Path, job_ids: Iterable[str]) -> Self:
        """Take up what an earlier run left, or begin.

        Raises Busy, NotOurs (what isn't ours, or results of other jobs), CantWrite, OSError (with
        the name of a file). Whatever it raises, everything is left as it was.
        """
        target = Target.of(out)
        journal = cls(target, _locked(part_of(target.path), target.mode))
        try:
            journal._load(set(job_ids))
        except BaseException as error:
            journal.drop_if_needless()
            journal.close()
            if isinstance(error, OSError) and error.filename is None:
                raise CantWrite.of(journal.part, error) from error
            raise
        return journal

    def __len__(self) -> int:
        return len(self._recorded.places)

    @property
    def part(self) -> Path:
        """The file that takes each result as it comes."""
        return part_of(self._out)

    @property
    def outcomes(self) -> Counter[str]:
        """How many results of each kind of outcome there are."""
        return self._recorded.outcomes

    def has(self, job_id: str) -> bool:
        """Whether this job's result is safe."""
        return job_id in self._recorded.places

    def skip(self, job_id: str) -> None:
        """There will be no result of this job; nothing waits for it here."""

    async def append(self, result: GenerationResult) -> bool:
        """Return when the result is safely on disk; False for a second one, passed over.

        Many at once share one write. Raises CantWrite; nothing half-written is left then.
        """
        if self.has(result.job_id):
            return False
        item = _Item(result.job_id, outcome_of(result), encode(result) + b"\n")
        self._pending.append(item)
        async with self._writing:
            if not item.written and item.error is None:
                batch, self._pending = self._pending, []
                # Seen through: a cancelled writer must not leave the others' lines in doubt.
                await see_through(asyncio.to_thread(self._write, batch))
        if item.error is not None:
            raise item.error
        return item.is_news

    def finish(self, order: Sequence[str]) -> None:
        """Write `<out>` with one line for each job, in this order, and drop the journal.

        Raises CantWrite, or NotOurs where `<out>` is no longer what it was; the journal stays then.
        """
        now = Target.of(self._out)
        if now.version != self._target.version:
            raise NotOurs(
                f"{self._out} was written by somebody else meanwhile, so it was left alone. The "
                f"results are in {self.part}: move {self._out} away and run the same command again"
            )
        try:
            with contextlib.ExitStack() as files:
                earlier = files.enter_context(self._out.open("rb")) if now.there else None
                new = files.enter_context(now.replaced())
                for job_id in order:
                    new.write(self._read(self._recorded.places[job_id], earlier))
        except OSError as error:
            raise CantWrite.of(self._out, error) from error
        self._needless = False
        self.part.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock. What was recorded stays."""
        self._part.close()

    def keep(self) -> None:
        """Jobs may have been published: results come back where the journal says."""
        self._needless = False

    def drop_if_needless(self) -> bool:
        """Leave no trace, and say so, where nothing was published and nothing recorded."""
        if self._needless:
            self.part.unlink(missing_ok=True)
        return self._needless

    def _load(self, job_ids: set[str]) -> None:
        with self.part.open("rb") as part:
            first = part.readline()
            # New, or its writer died at the very first line. Somebody else's half line is neither.
            self._needless = first[: len(HEADER_START)] == HEADER_START[: len(first)] and (
                not first.endswith(b"\n")
            )
            if self._target.there:
                with self._out.open("rb") as earlier:
                    self._take_up(earlier, in_part=False, strict=True)
            self._end = self._begin() if self._needless else self._resume(first, part)
        strangers = [job_id for job_id in self._recorded.places if job_id not in job_ids]
        if strangers:
            jobs = counted(len(strangers), "job")
            raise NotOurs(
                f"{self._out} has results of {jobs} that the input doesn't have, {strangers[0]} "
                "for one, and they would be lost. Choose another --out"
            )

    def _resume(self, first: bytes, part: BinaryIO) -> int:
        try:
            self.reply_key = msgspec.json.decode(first, type=_Header).reply_to
        except msgspec.MsgspecError as error:
            raise NotOurs(
                f"{self.part} is no journal of results. Move it away, or choose another --out"
            ) from error
        self.resumed = True
        end = self._take_up(part, in_part=True, strict=False)
        # A line without an end was being written when its writer died.
        self._cut(end)
        return end

    def _begin(self) -> int:
        self.reply_key = f"file-{secrets.token_hex(8)}"
        header = msgspec.json.encode(_Header(self.reply_key)) + b"\n"
        self._cut(0)
        self._write_all(header)
        sync_folder(self._out)
        return len(header)

    def _cut(self, end: int) -> None:
        self._part.truncate(end)
        self._part.seek(end)

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._part.write(view) :]
        os.fsync(self._part.fileno())

    def _take_up(self, file: BinaryIO, *, in_part: bool, strict: bool) -> int:
        """Record the results of a file from here on; gives the end of its last whole line."""
        end = file.tell()
        for line in file:
            offset, end_of_line = end, end + len(line)
            if not line.endswith(b"\n") and not strict:
                break
            end = end_of_line
            if not line.strip():
                continue
            try:
                result = decode(line, GenerationResult)
            except InvalidMessage as error:
                if strict:
                    raise NotOurs(
                        f"{self._out} is there already and is no file of results ({error}). "
                        "Choose another --out, or move it away"
                    ) from error
                self.damaged += 1
                continue
            place = _Place(in_part, offset, len(line))
            self._recorded.add(result.job_id, outcome_of(result), place)
        return end

    def _write(self, batch: list[_Item]) -> None:
        try:
            self._mend()
            self._torn = True
            self._write_all(b"".join(item.line for item in batch))
            self._torn = False
        except OSError as error:
            for item in batch:
                item.error = CantWrite.of(self.part, error)
                item.error.__cause__ = error
            with contextlib.suppress(OSError):  # The next write tries again.
                self._mend()
            return
        self._needless = False
        for item in batch:
            place = _Place(in_part=True, offset=self._end, length=len(item.line))
            item.is_news = self._recorded.add(item.job_id, item.kind, place)
            self._end += len(item.line)
            item.written = True

    def _mend(self) -> None:
        """Without this the next line would be glued to half of one that failed."""
        if self._torn:
            self._cut(self._end)
            self._torn = False

    def _read(self, place: _Place, earlier: BinaryIO | None) -> bytes:
        source = self._part if place.in_part else earlier
        assert source is not None  # noqa: S101  a place in the earlier file was read from it
        line = os.pread(source.fileno(), place.length, place.offset)
        return line if line.endswith(b"\n") else line + b"\n"


def outcome_of(result: GenerationResult) -> str:
    """The kind of a result's outcome, as on the wire: `completed`, `rejected` ..."""
    return str(result.outcome.__struct_config__.tag)


def part_of(out: Path) -> Path:
    """The journal that belongs to a file of results."""
    return out.with_name(f"{out.name}.part")


def _locked(path: Path, mode: int | None) -> FileIO:
    """The journal, opened or begun, readable to no more than `mode` lets read the results."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(FileNotFoundError):
            require_regular(path, path.lstat().st_mode)  # before it is opened: that can do harm
        number = os.open(path, flags, 0o666 if mode is None else mode & 0o666 | 0o600)
        file = FileIO(number, "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held the lock before may have finished and removed the file.
            if path.exists() and os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                return file
        except BlockingIOError:
            file.close()
            break
        except BaseException:
            file.close()
            raise
        file.close()
    raise Busy(f"another process is writing {path}. Wait for it to end, or choose another --out")
