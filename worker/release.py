"""What a streaming client may see: text that can't be taken back."""

from collections.abc import Callable

from .transcript import Transcript

Release = Callable[[int, str], None]


class Releaser:
    """Sends text on once it is `hold_back` tokens old and no gate follows it as a possible fault.
    What was sent is the floor that no rollback goes below."""

    def __init__(self, transcript: Transcript, release: Release | None, hold_back: int) -> None:
        self._transcript = transcript
        self._release = release
        self._hold_back = hold_back
        # In characters.
        self.sent = 0
        # In tokens; the text up to there is whole.
        self.floor = 0

    @property
    def streams(self) -> bool:
        """Whether somebody waits for text."""
        return self._release is not None

    def advance(self, suspected: Callable[[], int | None]) -> None:
        """Raise the floor, after each token, so that where it stands at a finding depends on the
        tokens alone and not on how many came at once. `suspected`: from which token on a gate may
        yet complain; asked only where somebody waits for text."""
        if self._release is None:
            return
        floor = len(self._transcript) - self._hold_back
        if floor > self.floor and (place := suspected()) is not None:
            floor = min(floor, place)
        # What may be a stop string may yet be no text.
        floor = min(floor, self._transcript.whole_before(self._transcript.undecided))
        if floor > self.floor and self._transcript.is_whole(floor):
            self.floor = floor

    def send(self) -> None:
        """Send the text up to the floor, but for what may be the start of a stop string."""
        if self._release is None:
            return
        maybe_stop = self._transcript.undecided
        self._send_to(min(self._transcript.offset(self.floor), maybe_stop))

    def restore(self, floor: int, sent: int) -> None:
        """So much was sent before by others."""
        self.floor, self.sent = floor, sent

    def finish(self, end: int | None = None) -> None:
        """Send all that is left, up to a character: the text was accepted."""
        self._send_to(self._transcript.characters if end is None else end)

    def _send_to(self, end: int) -> None:
        if self._release is not None and end > self.sent:
            self._release(self.sent, self._transcript.slice(self.sent, end))
            self.sent = end
