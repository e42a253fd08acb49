"""What a waiting user sees."""

import io

import pytest
from sluicegate.ops.submit_progress import Progress, counted, line


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("done", "failed", "fresh", "bar", "text"),
    [
        (0, 0, 0, False, "0 of 50 done"),
        (10, 0, 10, False, "10 of 50 done, 0.5/s, about 1 min 20 s left"),
        (50, 2, 40, False, "50 of 50 done, 2 not completed"),
        (25, 0, 0, True, "[############............] 25 of 50 done"),
    ],
)
def test_a_line(done: int, failed: int, fresh: int, bar: bool, text: str) -> None:
    assert line(done, 50, failed=failed, fresh=fresh, elapsed_s=20, bar=bar) == text


def test_one_is_singular() -> None:
    assert [counted(n, "line") for n in (0, 1, 2)] == ["0 lines", "1 line", "2 lines"]


def test_an_empty_file_is_done() -> None:
    assert line(0, 0, failed=0, fresh=0, elapsed_s=0, bar=True).startswith("[####")


def test_lines_now_and_then_where_nobody_looks() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress(100, 0, stream, clock=clock)
    for _ in range(50):
        clock.now += 0.5
        progress.arrived(ok=True)
    progress.end()
    assert stream.getvalue().splitlines() == [
        "20 of 100 done, 2.0/s, about 40 s left",
        "40 of 100 done, 2.0/s, about 30 s left",
    ]


def test_a_bar_on_a_terminal_and_a_clean_end() -> None:
    clock, stream = Clock(), Terminal()
    progress = Progress(2, 0, stream, clock=clock)
    clock.now += 1
    progress.arrived(ok=False)
    progress.note("the queue is full")
    progress.note("the queue is full")
    progress.end()
    text = stream.getvalue()
    assert text.count("the queue is full") == 1
    assert "[############............] 1 of 2 done, 1 not completed" in text
    assert text.replace("\r\x1b[K", "\n").splitlines()[-1] == "the queue is full"


def test_silence_is_remarked_on_once() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress(2, 0, stream, clock=clock)
    for _ in range(300):
        clock.now += 1
        progress.show()
    assert stream.getvalue().count("is a worker running?") == 1
    assert progress.quiet_s == 300
