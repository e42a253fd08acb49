"""What `--out` may name, and what is left where it may not or where writing fails."""

import errno
import io
import os
import socket
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sluicegate.ops import submit_target
from sluicegate.ops.submit_journal import Journal, part_of
from sluicegate.ops.submit_output import OrderedOutput
from sluicegate.ops.submit_target import CantWrite, NotOurs, Target
from sluicegate.schemas import Completed, GenerationResult, decode

FINISHED_AT = datetime(2026, 1, 1, tzinfo=UTC)


def result(job_id: str) -> GenerationResult:
    return GenerationResult(
        job_id=job_id, attempt=1, outcome=Completed(), text="text", finished_at=FINISHED_AT
    )


def written(out: Path) -> list[str]:
    return [decode(line, GenerationResult).job_id for line in out.read_bytes().splitlines()]


def content(path: Path) -> bytes:
    return path.read_bytes()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    path.write_bytes(data)
    path.chmod(mode)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def run_whole(out: Path, *job_ids: str) -> None:
    journal = Journal.open(out, job_ids)
    for job_id in job_ids:
        await journal.append(result(job_id))
    journal.finish(job_ids)
    journal.close()


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


class TestWhatIsThere:
    @pytest.mark.parametrize(
        ("make", "kind"),
        [(os.mkfifo, "a named pipe"), (Path.mkdir, "a folder"), (bind_socket, "a socket")],
    )
    @pytest.mark.parametrize("name", ["results.jsonl", "results.jsonl.part"])
    @pytest.mark.parametrize("linked", [False, True])
    def test_what_is_no_regular_file_is_refused_and_stays(
        self,
        out: Path,
        monkeypatch: pytest.MonkeyPatch,
        make: Callable[[Path], None],
        kind: str,
        name: str,
        linked: bool,
    ) -> None:
        monkeypatch.chdir(out.parent)  # the path of a socket must be short
        make(Path(name))
        before = os.lstat(name)
        asked = out
        if linked:
            asked = out.with_name("link")
            asked.symlink_to(out)
        entries = sorted(out.parent.iterdir())
        with pytest.raises(NotOurs, match=f"{kind}, and results go to a regular file"):
            Journal.open(asked, ["a"])
        assert os.lstat(name) == before
        assert sorted(out.parent.iterdir()) == entries

    def test_a_device_is_refused(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # No device is touched: only what `stat` says of the name is one.
        out.touch()
        like_null = os.stat_result((stat.S_IFCHR | 0o666, 1, 1, 1, 0, 0, 0, 0, 0, 0))
        real = Path.stat

        def as_device(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
            return like_null if path == out else real(path, follow_symlinks=follow_symlinks)

        monkeypatch.setattr(Path, "stat", as_device)
        with pytest.raises(NotOurs, match="is a device"):
            Journal.open(out, ["a"])
        assert names_in(out.parent) == [out.name]

    def test_a_journal_that_is_a_link_is_not_followed(self, out: Path) -> None:
        precious = out.with_name("precious")
        precious.write_bytes(b"")
        part_of(out).symlink_to(precious)
        with pytest.raises(NotOurs, match="is a symbolic link"):
            Journal.open(out, ["a"])
        assert precious.read_bytes() == b""
        assert part_of(out).is_symlink()

    def test_a_ring_of_links_is_an_error_with_its_name(self, out: Path) -> None:
        out.symlink_to(out)
        with pytest.raises(OSError, match="Too many levels of symbolic links") as raised:
            Journal.open(out, ["a"])
        assert raised.value.filename == str(out)

    @pytest.mark.parametrize("there", [True, False])
    async def test_a_link_stays_and_what_it_leads_to_is_written(
        self, tmp_path: Path, there: bool
    ) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        real, link = elsewhere / "real.jsonl", tmp_path / "link.jsonl"
        link.symlink_to(real)
        if there:
            await run_whole(real, "a")
        await run_whole(link, "a", "b")
        assert link.is_symlink()
        assert written(real) == ["a", "b"]
        assert names_in(elsewhere) == ["real.jsonl"]
        assert names_in(tmp_path) == ["elsewhere", "link.jsonl"]


class TestMode:
    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
    async def test_an_existing_file_keeps_its_mode(self, out: Path, mode: int) -> None:
        with umask(0o022):
            await run_whole(out, "a")
            write(out, content(out), mode=mode)
            journal = Journal.open(out, ["a", "b"])
            assert mode_of(part_of(out)) & ~mode == 0
            await journal.append(result("b"))
            journal.finish(["a", "b"])
            journal.close()
        assert written(out) == ["a", "b"]
        assert mode_of(out) == mode

    @pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
    async def test_a_new_file_goes_by_the_umask(self, out: Path, mask: int, mode: int) -> None:
        with umask(mask):
            await run_whole(out, "a")
        assert mode_of(out) == mode


class TestReplacing:
    async def test_no_file_beside_it_is_touched(self, out: Path) -> None:
        own = out.with_name(f"{out.name}.tmp")
        own.write_text("my own")
        await run_whole(out, "a")
        assert own.read_text() == "my own"
        assert sorted(out.parent.iterdir()) == [out, own]

    async def test_a_full_disk_leaves_the_earlier_file_and_the_journal(
        self, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await run_whole(out, "a")
        before = content(out)
        journal = Journal.open(out, ["a", "b"])
        await journal.append(result("b"))

        def full(file: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(submit_target.os, "fsync", full)
            with pytest.raises(CantWrite) as raised:
                journal.finish(["a", "b"])
        assert str(raised.value) == (
            f"can't write {out}: No space left on device. Results that were recorded are safe; "
            "remove the cause and run the same command again"
        )
        journal.close()
        assert content(out) == before
        assert sorted(out.parent.iterdir()) == [out, part_of(out)]
        again = Journal.open(out, ["a", "b"])
        assert len(again) == 2
        again.finish(["a", "b"])
        again.close()
        assert written(out) == ["a", "b"]

    @pytest.mark.parametrize("there", [True, False])
    async def test_what_somebody_wrote_meanwhile_is_left_alone(
        self, out: Path, there: bool
    ) -> None:
        if there:
            await run_whole(out, "a")
        journal = Journal.open(out, ["a", "b"])
        await journal.append(result("a"))
        await journal.append(result("b"))
        write(out, b"somebody else's")
        with pytest.raises(NotOurs, match="was written by somebody else meanwhile"):
            journal.finish(["a", "b"])
        journal.close()
        assert content(out) == b"somebody else's"
        assert part_of(out).exists()

    def test_an_error_in_the_body_leaves_nothing(self, out: Path) -> None:
        with pytest.raises(ZeroDivisionError), Target.of(out).replaced() as file:
            file.write(bytes([1 // 0]))
        assert list(out.parent.iterdir()) == []


class Full(io.BytesIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_no_room_for_standard_output_is_told() -> None:
    output = OrderedOutput(["a"], Full())
    with pytest.raises(CantWrite, match="can't write to standard output: No space left on device"):
        await output.append(result("a"))
    assert not output.has("a")
