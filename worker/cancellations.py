"""Which jobs were called off, as far as this service knows. State only: no broker here."""

from collections import OrderedDict
from datetime import datetime
from typing import Final

from ..schemas import CancelJob

_REMEMBERED: Final = 100_000


class Cancellations:
    """The cancellations heard of, the newest `remember` of them: about 200 bytes each."""

    def __init__(self, remember: int = _REMEMBERED) -> None:
        self._remember = remember
        self._heard: OrderedDict[str, datetime] = OrderedDict()

    def __len__(self) -> int:
        return len(self._heard)

    def __repr__(self) -> str:
        return f"<Cancellations: {len(self)} remembered>"

    def hear(self, message: CancelJob, now: datetime | None = None) -> None:
        """Remember one. `now`: the time where it is heard as it is said, which counts if it is
        later, for the clock of who said it may be behind."""
        at = max(message.at, now) if now is not None else message.at
        known = self._heard.pop(message.job_id, at)
        self._heard[message.job_id] = max(at, known)
        while len(self._heard) > self._remember:
            self._heard.popitem(last=False)

    def covers(self, job_id: str, enqueued_at: datetime | None) -> bool:
        """Whether a job is called off. One that was published after its id was called off is
        another, such as a dead letter that was sent back."""
        at = self._heard.get(job_id)
        return at is not None and (enqueued_at is None or enqueued_at <= at)
