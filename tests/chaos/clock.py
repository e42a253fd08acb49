"""A wall clock that jumps, for a service in a process of its own.

What it shows is shifted: `time.time`, and `datetime.now` in every module of ours. Monotonic clocks
go on as they are, as they do where an operator or NTP sets the time.
"""

import os
import signal
import sys
import time
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

JUMP_S: Final = 3_600.0
# No service has a use of its own for these.
BACK: Final = signal.SIGRTMIN
FORWARD: Final = signal.SIGRTMAX
# On standard error, each time: another handler of the signal would keep it from happening.
SAID: Final = "the clock is set"

_real_time = time.time
_shift_s = 0.0


class _Kind(type):
    """What is a datetime is one by this name, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, datetime)


class ShiftedDatetime(datetime, metaclass=_Kind):
    """Stands where modules say `datetime`; what it makes are ordinary ones."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        """The time that the shifted clock shows."""
        return datetime.now(tz) + timedelta(seconds=_shift_s)


def _shifted_time() -> float:
    return _real_time() + _shift_s


def jump(seconds: float) -> None:
    """Set the clock forward, or back."""
    global _shift_s  # noqa: PLW0603  there is one clock
    _shift_s += seconds


def install() -> None:
    """Give every module that is loaded by now the clock that can be set: by `BACK` one hour back,
    by `FORWARD` one forward."""
    time.time = _shifted_time
    for name, module in tuple(sys.modules.items()):
        ours = name.startswith("sluicegate.") and not name.startswith("sluicegate.ops")
        if ours and getattr(module, "datetime", None) is datetime:
            setattr(module, "datetime", ShiftedDatetime)  # noqa: B010  a name of another module
    signal.signal(BACK, _on_signal)
    signal.signal(FORWARD, _on_signal)


def _on_signal(number: int, frame: object) -> None:
    jump(-JUMP_S if number == BACK else JUMP_S)
    os.write(2, f"{SAID}, {_shift_s:+g} s off\n".encode())
