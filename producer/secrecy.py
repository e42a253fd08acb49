"""What of texts is kept where others may look: in dead letters and in events. One place, through
which every dead letter goes on its way to the broker."""

from typing import Final, Literal

import msgspec
from msgspec import structs

from ..schemas import DeadLetter, JobEvent, Lineage
from ..schemas.limits import MAX_OUTCOME_BYTES
from ..schemas.redacted import Mark, marker, redacted_event, redacted_letter
from .sealing import SealingKey

KeepTexts = Literal["full", "redacted", "encrypted"]


class Secrecy:
    """`hides`: texts stay out of dead letters, events and logs; with a key they are sealed in the
    letters besides. Made once for a service or a producer."""

    def __init__(
        self, keep: KeepTexts = "full", *, mark: Mark | None = None, key: SealingKey | None = None
    ) -> None:
        if (keep == "encrypted") != (key is not None):
            raise ValueError("a key belongs to encrypted texts, and they need one")
        self.hides: Final = keep != "full"
        self._mark = mark or marker()
        self._key = key

    def __repr__(self) -> str:
        return (
            f"<Secrecy {'full' if not self.hides else 'redacted' if not self._key else 'sealed'}>"
        )

    def letter(self, letter: DeadLetter) -> DeadLetter:
        """The letter as it is published. One that was hidden already stays as it is.

        Sealed, it must still fit the limit of an outcome: where it does not, its lineage is left
        out of what is sealed; where that does not help either, it is redacted. O(size).
        """
        if not self.hides or letter.texts != "full":
            return letter
        hidden = redacted_letter(letter, self._mark)
        if self._key is None:
            return hidden
        for whole in (letter, _without_lineage(letter)):
            sealed = structs.replace(hidden, texts="encrypted", sealed=self._key.seal(whole))
            if len(msgspec.json.encode(sealed)) <= MAX_OUTCOME_BYTES:
                return sealed
        return hidden

    def event(self, event: JobEvent) -> JobEvent:
        """The event as it is published."""
        return redacted_event(event, self._mark) if self.hides else event


def _without_lineage(letter: DeadLetter) -> DeadLetter:
    job, result = letter.job, letter.result
    return structs.replace(
        letter,
        job=job and structs.replace(job, lineage=Lineage(), progress=None),
        result=result and structs.replace(result, lineage=Lineage()),
    )


OPEN: Final = Secrecy()
"""Everything is kept as it is."""
