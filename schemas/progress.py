"""Progress: what an attempt had written when it was handed back, for the next worker to go on from.

Written by the system. All of it is the state of one attempt between two tokens: the tokens, how
they are parted into reasoning and answer, what a client has seen, what was decided, what was spent.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .checks import checked
from .errors import InvalidMessage
from .flaws import Flaw, Level
from .limits import (
    MAX_ATTEMPT_NUMBER,
    MAX_HANDOVERS,
    MAX_PROGRESS_CHARS,
    MAX_PROGRESS_TOKENS,
    MAX_SEED,
    MAX_SEGMENTS,
    MAX_TRIPS,
)
from .lineage import SegmentRecord, TripRecord
from .measures import Count, Name, Seconds
from .reasons import Reason
from .sampling import Sampling, TokenId
from .timestamps import Timestamp

Written = Annotated[str, Meta(max_length=MAX_PROGRESS_CHARS)]
Places = Annotated[tuple[Count, ...], Meta(max_length=MAX_PROGRESS_TOKENS)]
# Of a trip. What was found in a text before this one lies far below its beginning.
Place = Annotated[int, Meta(ge=-(10**13), le=10**9)]


def _require(told: bool, field: str, detail: str) -> None:
    if not told:
        raise InvalidMessage(Reason.INVALID_FIELD, field, detail)


class DraftState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one text, the reasoning or the answer, what its tokens don't tell.

    `lead`: what the token before its first one brought of it. `guides`: which of its tokens were
    put in by us. A client has seen `sent` characters, and nothing before token `floor` may change.
    """

    lead: Written = ""
    guides: Places = ()
    floor: Count = 0
    sent: Count = 0

    def require_within(self, tokens: int, field: str) -> None:
        """Raise InvalidMessage where it is about more than so many tokens."""
        _require(self.floor <= tokens, f"{field}.floor", f"is beyond the {tokens} tokens")
        rising = all(low < high for low, high in zip(self.guides, self.guides[1:], strict=False))
        inside = not self.guides or self.guides[-1] < tokens
        _require(rising and inside, f"{field}.guides", f"must rise, and lie within {tokens} tokens")


class Thought(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it stands with the reasoning of a model that has some.

    The block begins behind `start` accepted tokens, and `tokens` of those behind are in it; of
    what was thought `dropped` tokens were thrown away, in `cuts` cuts. `ended`, `flaw`, `gate`,
    `first_answer_token_s` and the two `resumed_` are as in `ReasoningRecord`. `text` is what a
    client may know of it, `whole` all there was before the first cut. `closed_by_us`: nothing may
    be thought any more. `ended_itself`: the model ended its text in there. `noted`: flaws that are
    let be. `draft`: of a block that is over.
    """

    start: Count = 0
    tokens: Count = 0
    draft: DraftState = DraftState()
    ended: Literal["not_opened", "closed", "cut", "salvaged", "open"] = "not_opened"
    text: Written = ""
    whole: Written = ""
    dropped: Count = 0
    cuts: Count = 0
    closed_by_us: bool = False
    ended_itself: bool = False
    noted: Annotated[tuple[Flaw, ...], Meta(max_length=64)] = ()
    flaw: Flaw | None = None
    gate: Annotated[str, Meta(max_length=64)] = ""
    first_answer_token_s: Seconds | None = None
    resumed_prompt_tokens: Count = 0
    resumed_cached_tokens: Count = 0


class Tried(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A finding that later decisions depend on: a rollback that kept `keep` tokens, by rung `rung`
    of the policy's `row`; or a note that counts, where `keep` is null. It was about token `onset`,
    when `tokens` were accepted; `banned` may not come at the cut."""

    level: Level
    flaw: Flaw
    onset: Place
    tokens: Place
    keep: Place | None = None
    row: Annotated[str, Meta(max_length=64)] = ""
    rung: Count = 0
    banned: Count | None = None


class Costs(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the attempt has spent so far, over all workers, and the records of it.

    `produced` tokens came from the engine, `wasted` of them were thrown away, `dropped` of those by
    handing back. `lost_s`: seconds that rollbacks cost. `records_left_out`: there were more than
    fit a message.
    """

    requests: Count = 0
    rollbacks: Count = 0
    cuts: Count = 0
    produced: Count = 0
    wasted: Count = 0
    dropped: Count = 0
    lost_s: Seconds = 0.0
    queued_s: Seconds | None = None
    first_token_s: Seconds | None = None
    engine_s: Seconds = 0.0
    segments: Annotated[tuple[SegmentRecord, ...], Meta(max_length=MAX_SEGMENTS)] = ()
    trips: Annotated[tuple[TripRecord, ...], Meta(max_length=MAX_TRIPS)] = ()
    records_left_out: bool = False

    @checked
    def __post_init__(self) -> None:
        _require(
            self.dropped <= self.wasted <= self.produced,
            "wasted",
            "there are no more wasted tokens than produced ones, nor more dropped than wasted",
        )


class Progress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt that was handed back: what it had written, and how it was to go on.

    `tokens` are all that were accepted, in the ids of `model`, which knows `vocabulary_size` of
    them; `digest` is taken of the prompt's tokens and the texts, so that nobody goes on from them
    to whom they say something else. The first `base` of them stand before the running text, and
    `inserted` of these we put in, less what that replaced. `may_open`, `at_seam`, `settled_by`,
    `seam` and `swallowed` say where a model that reasons stands between thinking and answering;
    `thought` has the reasoning itself.

    The next request has `seed`, and for `sampling_tokens` tokens (0: to the end) the changed
    `sampling`, where there is one. `times`: so often was this attempt handed back, the last time at
    `at`; `seq` is the number of its next event.
    """

    attempt: Annotated[int, Meta(ge=1, le=MAX_ATTEMPT_NUMBER)]
    model: Name
    vocabulary_size: Count
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
    times: Annotated[int, Meta(ge=1, le=MAX_HANDOVERS)] = 1
    started_at: Timestamp
    at: Timestamp
    seq: Count = 0
    tokens: Annotated[tuple[TokenId, ...], Meta(max_length=MAX_PROGRESS_TOKENS)] = ()
    base: Count = 0
    inserted: Annotated[int, Meta(ge=-MAX_PROGRESS_TOKENS, le=MAX_PROGRESS_TOKENS)] = 0
    draft: DraftState = DraftState()
    may_open: bool = False
    at_seam: bool = False
    settled_by: Count | None = None
    seam: Count = 0
    swallowed: Written = ""
    thought: Thought | None = None
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)]
    sampling: Sampling | None = None
    sampling_tokens: Count = 0
    fresh_cache: bool = False
    tried: Annotated[tuple[Tried, ...], Meta(max_length=MAX_TRIPS)] = ()
    spent: Costs = Costs()

    @checked
    def __post_init__(self) -> None:
        count = len(self.tokens)
        _require(self.base <= count, "base", f"is beyond the {count} tokens")
        _require(self.inserted <= self.base, "inserted", f"is more than the base, {self.base}")
        self.draft.require_within(count - self.base, "draft")
        if self.thought is not None:
            self._require_thought(self.thought, count)

    def _require_thought(self, thought: Thought, count: int) -> None:
        end = thought.start + thought.tokens
        if thought.ended == "open":
            fits = thought.start == self.base and end == count
        else:
            fits = end <= self.base
        _require(fits, "thought", f"the block ends at token {end}, beyond what stands before")
        thought.draft.require_within(thought.tokens, "thought.draft")

    @property
    def kept(self) -> int:
        """How many tokens the next worker need not generate: all but what we put in."""
        guides = len(self.draft.guides)
        if self.thought is not None:
            guides += len(self.thought.draft.guides)
        return max(0, len(self.tokens) - self.inserted - guides)

    @property
    def in_block(self) -> bool:
        """Whether the model was thinking."""
        return self.thought is not None and self.thought.ended == "open"
