"""Results on disk: whatever moment a run dies at, the next goes on."""

import asyncio
import errno
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sluicegate.ops import submit_journal
from sluicegate.ops.submit_journal import Busy, Journal, part_of
from sluicegate.ops.submit_target import CantWrite, NotOurs
from sluicegate.schemas import Completed, Failed, GenerationResult, Reason, decode

IDS = ["a", "b", "c", "d"]


def result(job_id: str, text: str = "text", *, ok: bool = True) -> GenerationResult:
    return GenerationResult(
        job_id=job_id,
        attempt=1,
        outcome=Completed() if ok else Failed(reason=Reason.ENGINE_FAULT, detail="x"),
        text=text,
        finished_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def written(out: Path) -> list[str]:
    return [decode(line, GenerationResult).job_id for line in out.read_bytes().splitlines()]


def add_blank_lines(out: Path) -> None:
    first, second = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(first + b"\n" + second + b" \r\n\n")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


async def test_results_come_out_in_order_whatever_order_they_came_in(out: Path) -> None:
    journal = Journal.open(out, IDS)
    assert not journal.resumed
    assert journal.reply_key.startswith("file-")
    assert await journal.append(result("c")) is True
    await asyncio.gather(*(journal.append(result(each)) for each in ("d", "a", "b")))
    assert await journal.append(result("a", "again")) is False
    assert len(journal) == 4
    journal.finish(IDS)
    journal.close()
    assert written(out) == IDS
    assert list(out.parent.iterdir()) == [out]


async def test_a_later_run_goes_on_from_what_is_there(out: Path) -> None:
    journal = Journal.open(out, IDS)
    key = journal.reply_key
    await journal.append(result("b"))
    await journal.append(result("a", ok=False))
    journal.close()
    again = Journal.open(out, IDS)
    assert again.resumed
    assert again.reply_key == key
    assert [again.has(each) for each in IDS] == [True, True, False, False]
    assert again.outcomes == {"completed": 1, "failed": 1}
    for each in ("d", "c"):
        await again.append(result(each))
    again.finish(IDS)
    again.close()
    assert written(out) == IDS
    # Once more, with jobs more: those that are there are not done again.
    more = Journal.open(out, [*IDS, "e"])
    assert len(more) == 4
    await more.append(result("e"))
    more.finish(["e", *IDS])
    more.close()
    assert written(out) == ["e", *IDS]


@pytest.mark.parametrize("cut", range(1, 200, 13))
async def test_a_half_written_last_line_is_dropped(out: Path, cut: int) -> None:
    journal = Journal.open(out, IDS)
    await journal.append(result("a"))
    await journal.append(result("b", "x" * 100))
    journal.close()
    whole = part_of(out).read_bytes()
    part_of(out).write_bytes(whole[:-cut])
    again = Journal.open(out, IDS)
    assert again.has("a")
    assert not again.has("b")
    await again.append(result("b"))
    await again.append(result("c"))
    await again.append(result("d"))
    again.finish(IDS)
    again.close()
    assert written(out) == IDS


@pytest.mark.parametrize("left", [b"", b'{"type":"submission","reply_'])
def test_a_run_that_died_at_its_first_line_left_nothing(out: Path, left: bytes) -> None:
    part_of(out).write_bytes(left)
    journal = Journal.open(out, IDS)
    assert not journal.resumed
    assert journal.drop_if_needless()
    journal.close()
    assert list(out.parent.iterdir()) == []


async def test_damage_within_is_counted_and_done_again(out: Path) -> None:
    journal = Journal.open(out, IDS)
    await journal.append(result("a"))
    journal.close()
    with part_of(out).open("ab") as part:
        part.write(b"\x00\x00garbage\n")
    again = Journal.open(out, IDS)
    assert again.damaged == 1
    await again.append(result("b"))
    again.close()
    third = Journal.open(out, IDS)
    assert third.has("b")
    third.close()


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("results.jsonl", b'{"name": "my novel"}\n', "is no file of results"),
        ("results.jsonl", b"Once upon a time\n", "is no file of results"),
        ("results.jsonl.part", b"Once upon a time\n", "no journal of results"),
        ("results.jsonl.part", b"Once upon a time", "no journal of results"),
    ],
)
def test_somebody_elses_file_is_left_alone(out: Path, name: str, content: bytes, why: str) -> None:
    path = out.with_name(name)
    path.write_bytes(content)
    with pytest.raises(NotOurs, match=why):
        Journal.open(out, IDS)
    assert path.read_bytes() == content
    assert list(out.parent.iterdir()) == [path]


async def test_blank_lines_in_an_earlier_file_are_passed_over(out: Path) -> None:
    journal = Journal.open(out, IDS[:2])
    await asyncio.gather(*(journal.append(result(each)) for each in IDS[:2]))
    journal.finish(IDS[:2])
    journal.close()
    add_blank_lines(out)
    again = Journal.open(out, IDS)
    assert [again.has(each) for each in IDS] == [True, True, False, False]
    await asyncio.gather(*(again.append(result(each)) for each in IDS[2:]))
    again.finish(IDS)
    again.close()
    assert written(out) == IDS


def test_a_full_disk_at_the_first_line_leaves_nothing(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(submit_journal.os, "fsync", full)
    with pytest.raises(CantWrite, match=r"can't write .*results.jsonl.part: No space left"):
        Journal.open(out, IDS)
    assert list(out.parent.iterdir()) == []


async def test_a_journal_is_dropped_only_where_nobody_would_miss_it(out: Path) -> None:
    unused = Journal.open(out, IDS)
    assert unused.drop_if_needless()
    unused.close()
    assert not part_of(out).exists()

    published = Journal.open(out, IDS)
    key = published.reply_key
    published.keep()
    assert not published.drop_if_needless()
    published.close()

    later = Journal.open(out, IDS)  # its own run publishes nothing, but the first one did
    assert (later.resumed, later.reply_key) == (True, key)
    assert not later.drop_if_needless()
    later.close()
    part_of(out).unlink()

    with_result = Journal.open(out, IDS)
    await with_result.append(result("a"))
    assert not with_result.drop_if_needless()
    with_result.close()
    assert part_of(out).exists()


async def test_results_of_other_jobs_are_not_written_over(out: Path) -> None:
    journal = Journal.open(out, IDS)
    for each in IDS:
        await journal.append(result(each))
    journal.finish(IDS)
    journal.close()
    with pytest.raises(NotOurs, match="2 jobs that the input doesn't have, c for one"):
        Journal.open(out, ["a", "b", "x"])
    assert written(out) == IDS


def test_two_processes_cant_write_the_same_results(out: Path) -> None:
    journal = Journal.open(out, IDS)
    code = (
        "import sys; from pathlib import Path; "
        "from sluicegate.ops.submit_journal import Journal; Journal.open(Path(sys.argv[1]), [])"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, str(out)], capture_output=True, text=True, check=False
    )
    assert "Busy: another process is writing" in other.stderr
    with pytest.raises(Busy):
        Journal.open(out, IDS)
    journal.close()
    Journal.open(out, IDS).close()


async def test_a_full_disk_leaves_no_half_line(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.open(out, IDS)
    await journal.append(result("a"))
    sync = os.fsync

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(submit_journal.os, "fsync", full)
    outcomes = await asyncio.gather(
        *(journal.append(result(each)) for each in ("b", "c")), return_exceptions=True
    )
    assert [type(each) for each in outcomes] == [CantWrite, CantWrite]
    assert not journal.has("b")
    assert f"can't write {part_of(out)}: No space left on device" in str(outcomes[0])
    monkeypatch.setattr(submit_journal.os, "fsync", sync)
    await journal.append(result("d"))
    journal.close()
    again = Journal.open(out, IDS)
    assert [again.has(each) for each in IDS] == [True, False, False, True]
    assert again.damaged == 0
    again.close()


async def test_a_line_that_could_not_be_taken_back_is_taken_back_by_the_next_write(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(out, IDS)

    def broken(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def uncut(_end: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(submit_journal.os, "fsync", broken)
        patch.setattr(journal, "_cut", uncut)
        for job_id in ("a", "b"):
            with pytest.raises(CantWrite, match="Input/output error"):
                await journal.append(result(job_id))
    await journal.append(result("c"))
    journal.close()
    again = Journal.open(out, IDS)
    assert [again.has(each) for each in IDS] == [False, False, True, False]
    assert again.damaged == 0
    again.close()


async def test_a_cancelled_writer_leaves_the_others_sure(out: Path) -> None:
    journal = Journal.open(out, IDS)
    tasks = [asyncio.create_task(journal.append(result(each))) for each in IDS]
    await asyncio.sleep(0)
    tasks[0].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes[1:] == [True, True, True]
    journal.close()
    again = Journal.open(out, IDS)
    assert all(again.has(each) for each in IDS[1:])
    again.close()
