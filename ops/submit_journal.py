"""The results of a submitted file, safe on disk one by one, and in order when all are there.

`<out>.part` takes each result as it comes: its first line names the queue on which results come
back, each other line is a result. When every job has one, `<out>` is written in the order of the
input, in one step. Whatever moment the process dies at, the next one goes on from what is there.
"""

import asyncio
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
from ..schemas.errors import InvalidMessage, SluiceError
from ..schemas.results import GenerationResult
from .console import CannotStart

LOCK_TRIES: Final = 10


class Busy(CannotStart):
    """Another process is writing the same results."""


class NotOurs(SluiceError):
    """A file of this name holds something else; it would be lost."""


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
    error: OSError | None = None


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

    def __init__(self, out: Path, part: FileIO) -> None:
        self._out = out
        self._part = part  # holds the lock, and is only written to
        self._end = 0
        self._recorded = _Recorded()
        self._pending: list[_Item] = []
        self._writing = asyncio.Lock()
        self.reply_key = ""
        self.resumed = False
        self.damaged = 0

    @classmethod
    def open(cls, out: Path, job_ids: Iterable[str]) -> Self:
        """Take up what an earlier run left, or begin.

        Raises Busy, NotOurs (a file that isn't ours, or results of other jobs), OSError.
        """
        journal = cls(out, _locked(part_of(out)))
        try:
            journal._load(set(job_ids))
        except BaseException:
            journal.close()
            raise
        return journal

    def __len__(self) -> int:
        return len(self._recorded.places)

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

        Many at once share one write. Raises OSError; nothing half-written is left then.
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
        """Write `<out>` with one line for each job, in this order, and drop the journal."""
        beside = self._out.with_name(f"{self._out.name}.tmp")
        earlier = self._out.open("rb") if self._out.exists() else None
        try:
            with beside.open("wb") as new:
                for job_id in order:
                    new.write(self._read(self._recorded.places[job_id], earlier))
                new.flush()
                os.fsync(new.fileno())
        finally:
            if earlier is not None:
                earlier.close()
        beside.replace(self._out)
        _sync_folder(self._out)
        part_of(self._out).unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock. What was recorded stays."""
        self._part.close()

    def drop_if_empty(self) -> None:
        """Leave no trace where nothing was recorded."""
        if not self._recorded.places:
            part_of(self._out).unlink(missing_ok=True)

    def _load(self, job_ids: set[str]) -> None:
        if self._out.exists():
            with self._out.open("rb") as earlier:
                self._take_up(earlier, in_part=False, strict=True)
        self._end = self._load_part()
        strangers = [job_id for job_id in self._recorded.places if job_id not in job_ids]
        if strangers:
            raise NotOurs(
                f"{self._out} has results of {len(strangers)} jobs that are not in the input, "
                f"{strangers[0]} for one, and they would be lost. Choose another --out"
            )

    def _load_part(self) -> int:
        path = part_of(self._out)
        with path.open("rb") as part:
            first = part.readline()
            if not first.endswith(b"\n"):  # New, or its writer died at the very first line.
                return self._begin()
            try:
                self.reply_key = msgspec.json.decode(first, type=_Header).reply_to
            except msgspec.MsgspecError as error:
                raise NotOurs(
                    f"{path} is no journal of results. Move it away, or choose another --out"
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
        _sync_folder(self._out)
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
            self._write_all(b"".join(item.line for item in batch))
        except OSError as error:
            # Without this the next line would be glued to half of this one.
            self._cut(self._end)
            for item in batch:
                item.error = error
            return
        for item in batch:
            place = _Place(in_part=True, offset=self._end, length=len(item.line))
            item.is_news = self._recorded.add(item.job_id, item.kind, place)
            self._end += len(item.line)
            item.written = True

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


def _locked(path: Path) -> FileIO:
    for _ in range(LOCK_TRIES):
        file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
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


def _sync_folder(path: Path) -> None:
    """Make the folder's entries durable: a new file's name is not, by its own fsync."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
