"""What operators have paused, as far as this service knows. State only: no broker here."""

from collections import OrderedDict
from datetime import datetime
from typing import Final

from ..schemas import Pause, Resume
from ..schemas.control import Target
from ..schemas.services import ServiceKind

# Targets that are paused at once. Ended ones go first.
_REMEMBERED: Final = 1_000


class Pauses:
    """The pauses in force for one service, in the order in which they were said."""

    def __init__(self, service: str, kind: ServiceKind, remember: int = _REMEMBERED) -> None:
        self._ours = {
            Target("all"),
            Target("kind", kind),
            Target("service", service),
        }
        self._remember = remember
        self._said: OrderedDict[Target, Pause] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Pauses: {len(self._said)} known>"

    def hear(self, message: Pause | Resume, now: datetime) -> None:
        """A pause takes the place of the one before it of the same target; what lifts the pause of
        all lifts every one."""
        if isinstance(message, Resume):
            if message.target.scope == "all":
                self._said.clear()
            self._said.pop(message.target, None)
            return
        self._said.pop(message.target, None)
        self._said[message.target] = message
        if len(self._said) > self._remember:
            for target in [each for each, pause in self._said.items() if _is_over(pause, now)]:
                del self._said[target]
        while len(self._said) > self._remember:
            self._said.popitem(last=False)

    def on(self, queue: str, now: datetime) -> Pause | None:
        """The pause that keeps this service from a queue: its own, or the queue's."""
        return self._in_force(self._ours | {Target("queue", queue)}, now)

    def on_service(self, now: datetime) -> Pause | None:
        """The pause that keeps it from all of them."""
        return self._in_force(self._ours, now)

    def all(self, now: datetime) -> tuple[Pause, ...]:
        """Those in force, of any target, in the order in which they were said."""
        return tuple(each for each in self._said.values() if not _is_over(each, now))

    def next_end(self, now: datetime) -> float | None:
        """Seconds until the next one ends by itself; None where none does."""
        ends = [
            (pause.until - now).total_seconds()
            for pause in self._said.values()
            if pause.until is not None and not _is_over(pause, now)
        ]
        return min(ends, default=None)

    def _in_force(self, targets: set[Target], now: datetime) -> Pause | None:
        found = (self._said.get(target) for target in targets)
        in_force = [each for each in found if each is not None and not _is_over(each, now)]
        return min(in_force, key=lambda each: each.at, default=None)


def _is_over(pause: Pause, now: datetime) -> bool:
    return pause.until is not None and pause.until <= now


def told(pause: Pause) -> str:
    """Who paused what, why, and until when: a sentence."""
    target = pause.target
    words = ["paused"]
    if target.scope == "all":
        words.append("(everything)")
    else:
        words.append(f"({target.scope} {target.name})")
    if pause.by:
        words.append(f"by {pause.by}")
    if pause.until is not None:
        words.append(f"until {pause.until.isoformat(timespec='seconds')}")
    sentence = " ".join(words)
    return f"{sentence}: {pause.reason}" if pause.reason else sentence
