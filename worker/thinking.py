"""The reasoning of one attempt: what is asked of it, where its block stands, what became of it."""

from typing import Final, Literal

from msgspec import Struct

from ..guards.finding import Finding, Flaw, Level
from ..guards.profiles import Profile
from ..guards.reasoning.guard import reasoning_cap
from ..guards.reasoning.tags import Tags
from ..schemas import FinishReason, Reasoning, ReasoningRecord, Usage
from ..schemas.lineage import MAX_KEPT_TEXT
from ..schemas.progress import DraftState, Thought
from ..schemas.reasoning import Effort, ReasoningMode
from .draft import Draft

# What less reasoning can do something about in an answer, even where nothing was cut before.
_NO_ANSWER: Final = frozenset(
    {Flaw.EMPTY_ANSWER, Flaw.REASONING_AGAIN, Flaw.REASONING_END_AGAIN, Flaw.REASONING_NO_ANSWER}
)
Ended = Literal["not_opened", "closed", "cut", "salvaged", "open"]


class Wanted(Struct, frozen=True, kw_only=True):
    """What rules the reasoning of one attempt. `cap`: how many tokens it may have, at most what
    leaves the answer its share."""

    mode: ReasoningMode
    effort: Effort
    cap: int
    wrap_up: str


def wanted(asked: Reasoning, profile: Profile, *, wrap_up: str, room: int) -> Wanted:
    """`asked` by the job, over what its profile says. `room`: tokens for reasoning and answer."""
    effort: Effort = profile.reasoning_effort if asked.effort is None else asked.effort  # type: ignore[assignment]  a choice that the profile has checked
    most = max(0, int(room * (1 - profile.reasoning_answer_share)))
    return Wanted(
        mode=asked.mode or profile.reasoning_mode,  # type: ignore[arg-type]  as above
        effort=effort,
        cap=min(reasoning_cap(profile, effort), most),
        wrap_up=wrap_up if asked.wrap_up is None else asked.wrap_up,
    )


class Thinking:
    """Where the reasoning block stands. `base` are the accepted tokens before its first one,
    `draft` what was thought, `text` of it what a client may know, once it is over."""

    def __init__(self, tags: Tags, ruled: Wanted) -> None:
        self.tags = tags
        self.wanted = ruled
        self.base: tuple[int, ...] = ()
        self.draft: Draft | None = None
        self.text = ""
        self.ended: Ended = "not_opened"
        self.tokens = 0
        self.dropped = 0
        self.cuts = 0
        # Whether it was closed, if it was, by us: nothing may be thought from there on.
        self.closed_by_us = False
        # All that was thought before the first cut, and whether the model ended its text there.
        self.whole = ""
        self.ended_itself = False
        # Flaws that were written down and let be.
        self.noted: set[Flaw] = set()
        self._first: Finding | None = None
        self._cut_at: float | None = None
        self._first_answer_token_s: float | None = None
        self._resumed = (0, 0)

    @property
    def cuts_in(self) -> bool:
        """Whether what is found is acted on."""
        return self.wanted.mode == "cut"

    @property
    def is_open(self) -> bool:
        """Whether the model is thinking now."""
        return self.ended == "open"

    def open(self, base: tuple[int, ...], draft: Draft) -> None:
        """The block begins behind these tokens."""
        self.base, self.draft, self.ended = base, draft, "open"

    def close(self, capped: int | None) -> None:
        """The model has closed it; behind its cap at token `capped`, if it has, there was nothing
        but what closed it."""
        assert self.draft is not None  # noqa: S101  it is open
        transcript = self.draft.transcript
        end = transcript.characters if capped is None else transcript.offset(capped)
        self.text = transcript.text[:end]
        # A token that is half thought, half tag goes with the tag.
        self.tokens = min(transcript.kept, transcript.whole_before(end))
        self.ended = "closed"

    def find(self, finding: Finding) -> None:
        """Something was found wrong with it."""
        if self._first is None:
            self._first = finding

    def cut(self, text: str, dropped: int, now: float) -> None:
        """It was closed for the model: the draft is what stayed. `text`: all there was before."""
        assert self.draft is not None  # noqa: S101  it was open
        shown = max(self.draft.releaser.sent, self.draft.transcript.characters)
        self.whole = max(self.whole, text, key=len)
        self.text, self.tokens = self.whole[:shown], len(self.draft)
        self.dropped += dropped
        self.cuts += 1
        self.closed_by_us = True
        self.ended = "cut"
        self._cut_at, self._first_answer_token_s = now, None

    def resume(self, now: float, prompt_tokens: int, cached_tokens: int) -> None:
        """The first token behind a cut has come."""
        if self._cut_at is not None and self._first_answer_token_s is None:
            self._first_answer_token_s = now - self._cut_at
            self._resumed = (prompt_tokens, cached_tokens)

    def closing(self, *, in_mid_thought: bool) -> str:
        """What closes a block that the model has not: the wrap-up, if it was in the middle of a
        thought, and its own end tag."""
        wrap_up = self.wanted.wrap_up.replace(self.tags.start, "").replace(self.tags.end, "")
        said = f"\n\n{wrap_up}" if in_mid_thought and wrap_up.strip() else ""
        # Where the tag is a message of several special tokens, the answer follows at once.
        behind = "" if self.tags.by_id and len(self.tags.end_ids) > 1 else "\n\n"
        return f"{said}\n{self.tags.end}{behind}"

    def is_to_blame(self, finding: Finding) -> bool:
        """Whether less reasoning may help against what can't be mended otherwise. After a cut it
        may, whatever is wrong with the answer: a model that was led astray goes on astray."""
        if not self.cuts_in or self.draft is None or finding.level is Level.LOGITS:
            return False
        if self.is_open:
            # Its own ladder has no further step, where it was that.
            return finding.level is not Level.REASONING
        return self.cuts > 0 or finding.flaw in _NO_ANSWER

    def unclosed(self, finish: FinishReason) -> Finding:
        """The finding that the text ended inside the block: what may be the beginning of its end
        tag goes."""
        assert self.draft is not None  # noqa: S101  it is open
        self.ended_itself = finish == "stop"
        transcript = self.draft.transcript
        begun = self.tags.begun_at_end(transcript.text, transcript.tokens)
        if self.tags.by_id:
            place = len(self.draft) - begun
        else:
            place = transcript.whole_before(transcript.characters - begun)
        why = f"the text ended inside the reasoning ({finish})"
        return self.found(Flaw.REASONING_UNCLOSED, why, place)

    def found(self, flaw: Flaw, detail: str, place: int | None = None) -> Finding:
        """A finding in the reasoning, which is open: from its token `place`, or its end, on."""
        assert self.draft is not None  # noqa: S101  it is open
        tokens, transcript = len(self.draft), self.draft.transcript
        onset = tokens if place is None else min(place, tokens)
        return Finding(
            gate="reasoning",
            level=Level.REASONING,
            flaw=flaw,
            tokens=(onset, tokens),
            chars=(transcript.offset(onset), transcript.characters),
            score=1,
            threshold=1,
            detail=detail,
        )

    def said(self) -> str:
        """The reasoning, so far."""
        if self.draft is not None and self.is_open:
            return self.draft.transcript.text
        return self.text

    def thought(self) -> int:
        """How many tokens it has, so far."""
        return len(self.draft) if self.draft is not None and self.is_open else self.tokens

    @property
    def state(self) -> Thought:
        """For the next worker."""
        over = self.draft is not None and not self.is_open
        first = self._first
        return Thought(
            start=len(self.base),
            tokens=self.thought(),
            draft=self.draft.state if self.draft is not None and over else DraftState(),
            ended=self.ended,
            text=self.text,
            whole=self.whole,
            dropped=self.dropped,
            cuts=self.cuts,
            closed_by_us=self.closed_by_us,
            ended_itself=self.ended_itself,
            noted=tuple(sorted(self.noted)),
            flaw=first.flaw if first is not None else None,
            gate=first.gate if first is not None else "",
            first_answer_token_s=self._first_answer_token_s,
            resumed_prompt_tokens=self._resumed[0],
            resumed_cached_tokens=self._resumed[1],
        )

    def restore(self, state: Thought, tokens: tuple[int, ...]) -> None:
        """Become what was in this state; `tokens` are all that were accepted. The draft is for the
        caller to put in."""
        self.base = tokens[: state.start]
        self.ended, self.text, self.whole = state.ended, state.text, state.whole
        self.tokens, self.dropped, self.cuts = state.tokens, state.dropped, state.cuts
        self.closed_by_us, self.ended_itself = state.closed_by_us, state.ended_itself
        self.noted.clear()
        self.noted.update(state.noted)
        self._first_answer_token_s = state.first_answer_token_s
        self._resumed = (state.resumed_prompt_tokens, state.resumed_cached_tokens)
        if state.flaw is not None:
            # Of what was found first only this is asked any more.
            self._first = Finding(
                gate=state.gate,
                level=Level.REASONING,
                flaw=state.flaw,
                tokens=(0, 0),
                chars=(0, 0),
                score=0,
                threshold=0,
            )

    def record(self, usage: Usage, *, accepted: bool) -> ReasoningRecord:
        """For the lineage. The reasoning of a text that was not accepted is kept in it."""
        first = self._first
        return ReasoningRecord(
            mode=self.wanted.mode,
            effort=self.wanted.effort,
            cap=self.wanted.cap,
            tripped=first is not None,
            flaw=first.flaw if first is not None else None,
            gate=first.gate if first is not None else "",
            tokens=self.thought(),
            dropped_tokens=self.dropped,
            cuts=self.cuts,
            ended=self.ended,
            first_answer_token_s=self._first_answer_token_s,
            resumed_prompt_tokens=self._resumed[0],
            resumed_cached_tokens=self._resumed[1],
            usage=usage,
            text="" if accepted else self.said()[:MAX_KEPT_TEXT],
        )
