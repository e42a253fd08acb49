"""How far a submitted file has come: a bar on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable
from typing import Final, TextIO

BAR_CHARS: Final = 24
REDRAW_S: Final = 0.2
LINE_EVERY_S: Final = 10.0
QUIET_S: Final = 60.0


class Progress:
    """Told of each result; `show` is called now and then and decides what is due."""

    def __init__(
        self,
        total: int,
        done: int,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._done = done
        self._at_start = done
        self._failed = 0
        self._stream = stream
        self._terminal = stream.isatty()
        self._clock = clock
        self._began = self._shown = self._news = clock()
        self._drawn = False
        self._hinted = False
        self._noted: dict[str, float] = {}

    @property
    def quiet_s(self) -> float:
        """Seconds since the last result."""
        return self._clock() - self._news

    def arrived(self, *, ok: bool) -> None:
        """One more result."""
        self._done += 1
        self._failed += not ok
        self._news = self._clock()
        self._hinted = False
        self.show()

    def note(self, text: str) -> None:
        """Say something beside the progress; the same thing not again and again."""
        now = self._clock()
        if self._noted.get(text, -LINE_EVERY_S) > now - LINE_EVERY_S:
            return
        self._noted = {text: now}
        self._clear()
        print(text, file=self._stream, flush=True)

    def show(self) -> None:
        """Draw, where it is time to."""
        now = self._clock()
        if now - self._shown >= (REDRAW_S if self._terminal else LINE_EVERY_S):
            self._shown = now
            self._draw(now)
        if self.quiet_s >= QUIET_S and not self._hinted and self._done < self._total:
            self._hinted = True
            self.note(f"no result for {QUIET_S:.0f} s: is a worker running?")

    def end(self) -> None:
        """Leave the terminal clean."""
        self._clear()

    def _draw(self, now: float) -> None:
        text = line(
            self._done,
            self._total,
            failed=self._failed,
            fresh=self._done - self._at_start,
            elapsed_s=now - self._began,
            bar=self._terminal,
        )
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)
            self._drawn = True
        else:
            print(text, file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._drawn = False


def counted(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def line(done: int, total: int, *, failed: int, fresh: int, elapsed_s: float, bar: bool) -> str:
    """One line of progress. `fresh` of the `done` are of this run and tell the rate."""
    share = done / total if total else 1.0
    filled = int(share * BAR_CHARS)
    drawn = f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}] " if bar else ""
    text = f"{drawn}{done} of {total} done"
    if failed:
        text += f", {failed} not completed"
    if fresh and elapsed_s > 0 and done < total:
        rate = fresh / elapsed_s
        text += f", {rate:.1f}/s, about {_duration((total - done) / rate)} left"
    return text


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
