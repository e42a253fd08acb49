"""What an attempt has spent, and the records of what happened in it."""

import time
from collections.abc import Callable
from typing import Final

from ..guards.finding import Finding
from ..rollback import Action
from ..schemas import FinishReason, SegmentRecord, TripRecord
from ..schemas.limits import MAX_QUOTE_CHARS, MAX_SEGMENTS, MAX_TRIPS
from ..schemas.lineage import Channel
from ..schemas.progress import Costs
from . import trips

Clock = Callable[[], float]
MONOTONIC: Final[Clock] = time.monotonic


class Accounts:
    """Tokens and seconds, counted as they are spent. `produced` came from the engine, `wasted` of
    them were thrown away, which took `lost_s` seconds. Records beyond the limits are left out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.segments: list[SegmentRecord] = []
        self.trips: list[TripRecord] = []
        # How many requests there were, and the running or last one's number.
        self.requests = 0
        self._segment = 0
        self.rollbacks = 0
        self.cuts = 0
        self.produced = 0
        self.wasted = 0
        # Of what was wasted, what handing the attempt back cost: at no budget's cost.
        self.dropped = 0
        self.lost_s = 0.0
        # Seconds that the engine had it on other workers, and what was left out there.
        self._before_s = 0.0
        self._left_out = False
        self.first_token_s: float | None = None
        self._began: float | None = None
        self._ended: float | None = None
        # When the running segment began, and how many tokens had been produced by then.
        self._segment_began = (0.0, 0)

    def begin(self) -> None:
        """The prompt is known, and the engine is asked."""
        self._began = self._clock()

    def end(self) -> None:
        """The attempt is over."""
        self._ended = self._clock()

    @property
    def engine_s(self) -> float:
        """Seconds since the engine was asked, and those on the workers before."""
        ended = self._ended if self._ended is not None else self._clock()
        return self._before_s + (ended - self._began if self._began is not None else 0.0)

    def begin_segment(self) -> None:
        """A request goes to the engine."""
        self._segment = self.requests
        self._segment_began = (self._clock(), self.produced)

    def end_segment(self, record: SegmentRecord, finish: FinishReason | None) -> None:
        """It is over. `record` has what was asked; what came of it is put in here."""
        began, produced = self._segment_began
        self.requests += 1
        if len(self.segments) < MAX_SEGMENTS:
            self.segments.append(
                trips.finished(
                    record,
                    tokens=self.produced - produced,
                    engine_s=self._clock() - began,
                    finish=finish,
                )
            )

    def take(self, tokens: int) -> None:
        """So many tokens came from the engine."""
        if tokens and self.first_token_s is None and self._began is not None:
            self.first_token_s = self._clock() - self._began
        self.produced += tokens

    def waste(self, tokens: int) -> None:
        """So many of them are no part of the text."""
        self.wasted += tokens

    def roll_back(self, tokens: int) -> None:
        """A rollback throws so many away, at the price that the running segment had."""
        self.wasted += tokens
        self.rollbacks += 1
        began, produced = self._segment_began
        spent = self._clock() - began
        self.lost_s += spent * tokens / max(tokens, self.produced - produced, 1)

    def cut(self, tokens: int) -> None:
        """So many tokens of reasoning are thrown away: no rollback, and at no budget's cost."""
        self.wasted += tokens
        self.cuts += 1

    def drop(self, tokens: int) -> None:
        """So many tokens are lost by handing the attempt back."""
        self.wasted += tokens
        self.dropped += tokens

    def spent(self, queued_s: float | None) -> Costs:
        """All of it, for the next worker."""
        return Costs(
            requests=self.requests,
            rollbacks=self.rollbacks,
            cuts=self.cuts,
            produced=self.produced,
            wasted=self.wasted,
            dropped=self.dropped,
            lost_s=self.lost_s,
            queued_s=queued_s,
            first_token_s=self.first_token_s,
            engine_s=self.engine_s,
            segments=tuple(self.segments),
            trips=tuple(self.trips),
            records_left_out=self._left_out,
        )

    def restore(self, spent: Costs) -> None:
        """Go on from what other workers spent."""
        self.segments, self.trips = list(spent.segments), list(spent.trips)
        self.requests, self._segment = spent.requests, max(0, spent.requests - 1)
        self.rollbacks, self.cuts = spent.rollbacks, spent.cuts
        self.produced, self.wasted, self.dropped = spent.produced, spent.wasted, spent.dropped
        self.lost_s, self._before_s = spent.lost_s, spent.engine_s
        self.first_token_s, self._left_out = spent.first_token_s, spent.records_left_out

    @property
    def left_out(self) -> bool:
        """Whether some records did not fit the message that they came in."""
        return self._left_out

    def note(
        self,
        finding: Finding,
        action: Action,
        *,
        wasted: int,
        banned: int | None,
        text: str,
        channel: Channel,
    ) -> None:
        """Write down a finding, what stood there in `text`, and what was done about it."""
        if len(self.trips) >= MAX_TRIPS:
            return
        self.trips.append(
            trips.record(
                finding,
                action,
                segment=self._segment,
                wasted=wasted,
                banned=banned,
                quote=text[slice(*finding.chars)][:MAX_QUOTE_CHARS],
                channel=channel,
            )
        )
