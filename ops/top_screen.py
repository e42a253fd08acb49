"""A terminal that is painted over and over, and is as it was when that ends."""

import asyncio
import logging
import os
import signal
import sys
import termios
import tty
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from .top_render import Line

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = "\x1b[0m\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_REST: Final = "\x1b[J"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_QUIT: Final = b"qQ\x03\x04"


def is_painted() -> bool:
    """Whether standard output is a terminal that can be painted, and not one that only scrolls."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


class Keys:
    """What the user wants: to quit, or a new picture, because the size changed."""

    def __init__(self) -> None:
        self.quit = asyncio.Event()
        self.again = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return after so many seconds, or earlier where there is something to do."""
        waits = [asyncio.ensure_future(each.wait()) for each in (self.quit, self.again)]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        self.again.clear()


@contextmanager
def listening(keys: Keys) -> Generator[None]:
    """While it lasts, `q` and the signals that end a program ask to quit. Needs a running loop."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, keys.quit.set)
    loop.add_signal_handler(signal.SIGWINCH, keys.again.set)
    try:
        with _keyboard(loop, keys):
            yield
    finally:
        for number in (*_SIGNALS, signal.SIGWINCH):
            loop.remove_signal_handler(number)


@contextmanager
def _keyboard(loop: asyncio.AbstractEventLoop, keys: Keys) -> Generator[None]:
    """Keys one by one, not shown; where there is no keyboard, none."""
    if not sys.stdin.isatty():
        yield
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        _without_pauses(number)
        loop.add_reader(number, _pressed, number, keys)
        yield
    finally:
        loop.remove_reader(number)
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(number, termios.TCSADRAIN, before)


def _without_pauses(number: int) -> None:
    """Ctrl-S would hold up the painting, Ctrl-Z would leave a painted terminal to the shell."""
    now: list[Any] = termios.tcgetattr(number)
    now[0] &= ~termios.IXON
    now[6][termios.VSUSP] = b"\x00"
    termios.tcsetattr(number, termios.TCSANOW, now)


def _pressed(number: int, keys: Keys) -> None:
    try:
        pressed = os.read(number, 1024)
    except BlockingIOError:
        return
    except OSError:
        pressed = b""
    if not pressed or any(key in _QUIT for key in pressed):
        keys.quit.set()
    else:
        keys.again.set()


@contextmanager
def painted() -> Generator[None]:
    """The terminal's other screen, without a cursor."""
    with _unspoilt():
        _write(_ENTER)
        try:
            yield
        finally:
            with suppress(OSError):
                _write(_LEAVE)


@contextmanager
def _unspoilt() -> Generator[None]:
    """Inside, no line of a log comes between what is painted; one that goes elsewhere stays."""
    if not sys.stderr.isatty():
        yield
        return
    # Without any handler, warnings go to standard error.
    silence = logging.NullHandler()
    logging.getLogger().addHandler(silence)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(silence)


def paint(lines: Sequence[Line], *, colour: bool) -> None:
    """Show the lines, no more of them than the terminal has, over what was there."""
    text = f"{_CLEAR_LINE}\r\n".join(each.painted() if colour else each.text for each in lines)
    _write(f"{_HOME}{text}{_CLEAR_LINE}{_CLEAR_REST}")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def size() -> tuple[int, int]:
    """Columns and lines of the terminal; 80 by 24 where it doesn't say."""
    try:
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return 80, 24
    return columns or 80, lines or 24
