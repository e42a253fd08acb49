"""What runs, and what was settled a while ago: so that one attempt is never two requests."""

from collections import OrderedDict
from typing import Final, Generic, Protocol, TypeVar

from .publications import Settlement

Key = tuple[str, int]

# In bytes. Thousands of usual answers: enough to outlive any redelivery.
_REMEMBERED: Final = 20_000_000


class Keyed(Protocol):
    """What can be looked up by (job id, attempt)."""

    @property
    def key(self) -> Key: ...


T = TypeVar("T", bound=Keyed)


class Registry(Generic[T]):
    """Attempts, or their candidates, by (job id, attempt). Memory is bounded: running ones by the
    slots, settled ones by what they hold, the oldest forgotten first."""

    def __init__(self, remember: int = _REMEMBERED) -> None:
        self._running: dict[Key, T] = {}
        self._settled: OrderedDict[Key, Settlement] = OrderedDict()
        self._remember = remember
        self._weight = 0

    def __len__(self) -> int:
        return len(self._running)

    def __repr__(self) -> str:
        return f"<Registry {len(self._running)} running, {len(self._settled)} settled>"

    def running(self, key: Key) -> T | None:
        """The attempt, if it runs here."""
        return self._running.get(key)

    def settled(self, key: Key) -> Settlement | None:
        """What the attempt came to, if it was settled here not long ago."""
        return self._settled.get(key)

    def all_running(self) -> list[T]:
        """A copy, fit to be walked while attempts end."""
        return list(self._running.values())

    def begin(self, attempt: T) -> None:
        """An attempt starts."""
        self._running[attempt.key] = attempt

    def remember(self, key: Key, settlement: Settlement) -> None:
        """A duplicate from now on gets this answer."""
        self._forget(key)
        self._settled[key] = settlement
        self._weight += settlement.weight
        while self._weight > self._remember and len(self._settled) > 1:
            self._forget(next(iter(self._settled)))

    def end(self, attempt: T) -> None:
        """An attempt is over."""
        if self._running.get(attempt.key) is attempt:
            del self._running[attempt.key]

    def _forget(self, key: Key) -> None:
        settlement = self._settled.pop(key, None)
        if settlement is not None:
            self._weight -= settlement.weight
