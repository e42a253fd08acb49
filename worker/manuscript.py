"""What an attempt has written: the reasoning, where the model thinks first, and then the answer.

The two are drafts of their own, one after the other, each with its text, gates and checkpoints;
what stands before the running one is its base. A job's text is the answer alone.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from ..guards.finding import Finding, Flaw
from ..guards.reasoning.tags import Tags
from ..schemas import GenerationJob, Sampling
from ..schemas.lineage import Channel
from ..schemas.progress import DraftState, Thought
from .draft import Draft
from .drafts import Drafts
from .engine import Engine
from .gating import JobGating
from .thinking import Thinking, wanted

# Line breaks between an end tag and the answer, in tokens; with more, they are the answer.
_SEAM: Final = 8
# Tokens that the beginning of an end tag may take, beyond its own: blanks have some of their own.
_SPARE: Final = 2
# Longer than this, an answer is generated again sooner than put in: the event loop waits for it.
_SALVAGED: Final = 8_000


class Turn(Enum):
    """What an accepted token can mean for the request that it came from."""

    # The answer begins, and with it the grammar that constrains it: in a request of its own.
    GRAMMAR = auto()


class Place(NamedTuple):
    """Where a manuscript stands between reasoning and answer: the tokens before the running draft,
    and what `Manuscript` knows of the seam."""

    base: int
    inserted: int
    may_open: bool
    at_seam: bool
    settled_by: int | None
    seam: int
    swallowed: str


class Manuscript:
    """Grows token by token, changes from reasoning to answer, and can be cut back."""

    def __init__(
        self,
        job: GenerationJob,
        engine: Engine,
        rules: JobGating,
        prompt: tuple[int, ...],
        drafts: Drafts,
    ) -> None:
        self._job = job
        self._engine = engine
        self._rules = rules
        self._prompt = prompt
        self._drafts = drafts
        self.thinking = self._thinking()
        # Accepted tokens before the running draft's, and how many of them we put in ourselves, less
        # those that they replace.
        self.base: tuple[int, ...] = ()
        self._inserted = 0
        # Whether the output may begin with reasoning; and whether line breaks behind the end tag
        # may come. Settled by the draft's token of that number, and open again without it.
        self._may_open = self.thinking is not None
        self._at_seam = False
        self._settled_by: int | None = None
        self._seam = 0
        # What was taken for the answer, and turned out to be more thought.
        self.swallowed = ""
        # That the cap was passed, by what may be the end tag.
        self._capped: Finding | None = None
        self.draft = self._answer("")
        if self.thinking is not None:
            self._begin(self.thinking)

    @property
    def in_block(self) -> bool:
        """Whether the running draft is the reasoning."""
        return self.thinking is not None and self.thinking.draft is self.draft

    @property
    def channel(self) -> Channel:
        """Of the running draft."""
        return "reasoning" if self.in_block else "content"

    @property
    def constrained(self) -> bool:
        """Whether what comes now is held to a grammar: the answer is, and it must have begun."""
        asked = self._job.sampling.structured_output is not None
        return asked and not self.in_block and not self._may_open

    @property
    def capped(self) -> Finding | None:
        """That the cap was passed by what has not become the end tag."""
        capped = self._capped
        return capped if capped is not None and capped.tokens[0] < len(self.draft) else None

    @property
    def tokens(self) -> tuple[int, ...]:
        """All that was accepted."""
        return (*self.base, *self.draft.transcript.tokens)

    @property
    def length(self) -> int:
        """How many that are."""
        return len(self.base) + len(self.draft)

    @property
    def spent(self) -> int:
        """How many of them count against the job's `max_tokens`."""
        return self.length - self._inserted

    @property
    def said(self) -> int:
        """How many of them count towards the job's `min_tokens`: a request that begins with the
        answer owes it all of them."""
        thinking = self.thinking
        return self.spent if thinking is None or self.in_block else len(self.draft)

    @property
    def unthinkable(self) -> dict[int, float]:
        """The logit bias that keeps a model from thinking again after its reasoning was closed for
        it, where one token would do that; a gate sees to the rest."""
        thinking = self.thinking
        if thinking is None or not thinking.closed_by_us or self.in_block:
            return {}
        start = thinking.tags.start_ids
        return {start[0]: -100.0} if thinking.tags.by_id and len(start) == 1 else {}

    @property
    def awaits_grammar(self) -> bool:
        """Whether the answer is to be held to a grammar that has not begun: it may yet turn out to
        be reasoning, which is held to none."""
        return self._job.sampling.structured_output is not None and self._may_open

    @property
    def answer(self) -> str:
        """The answer, so far."""
        return "" if self.in_block else self.draft.transcript.text

    @property
    def stop_string(self) -> str | None:
        """The stop string that ended the answer."""
        return None if self.in_block else self.draft.transcript.stop_string

    @property
    def shown(self) -> int:
        """How many characters of the answer a client has seen."""
        return 0 if self.in_block else self.draft.releaser.sent

    def accept(
        self, token_id: int, parameters: Sampling, seeds: tuple[int, ...], logprob: float | None
    ) -> Finding | Turn | None:
        """One more token: what a gate finds, if one does, or what it means for the request."""
        if self._settled_by is not None and len(self.draft) < self._settled_by:
            self._settled_by = None
        # What is thought and what is said are told apart before anything of it is sent.
        self.draft.held = self._is_unsettled
        finding = self.draft.accept(token_id, parameters, seeds, logprob)
        if self.thinking is None:
            return finding
        if self.in_block:
            return self._think(self.thinking, finding)
        if self._may_open and self._settled_by is None:
            return self._open_or_answer(self.thinking, finding)
        if self._at_seam and self._settled_by is None:
            self._pass_seam()
        return finding

    @property
    def _is_unsettled(self) -> bool:
        if self.in_block:
            return len(self.draft) <= self._opening
        return (self._may_open or self._at_seam) and self._settled_by is None

    @property
    def _opening(self) -> int:
        """Tokens within which a block's start tag may come once more, behind that of the prompt."""
        return len(self.thinking.tags.start_ids) + _SPARE if self.thinking is not None else 0

    def begin_grammar(self) -> int:
        """The output is not going to be reasoning: throw away what of it came without its grammar.
        How many tokens that were."""
        self._may_open = False
        return self.draft.cut(0)

    def trim(self) -> int:
        """Go back to where another can go on: to a whole character, to the cap where it was passed
        by what may be an end tag, and to the beginning of what a grammar holds, which can't be
        entered in the middle. How many tokens of the engine's that costs."""
        if self.constrained:
            return self.draft.cut(0)
        dropped = 0
        if (capped := self.capped) is not None:
            dropped = self.draft.cut(max(capped.tokens[0], self.draft.releaser.floor))
        return dropped + self.draft.trim()

    @property
    def place(self) -> Place:
        """Where it stands between reasoning and answer."""
        return Place(
            base=len(self.base),
            inserted=self._inserted,
            may_open=self._may_open,
            at_seam=self._at_seam,
            settled_by=self._settled_by,
            seam=self._seam,
            swallowed=self.swallowed,
        )

    async def restore(
        self, tokens: tuple[int, ...], place: Place, draft: DraftState, thought: Thought | None
    ) -> None:
        """Become the manuscript that had these tokens and was in this state. O(tokens)."""
        thinking, sampling = self.thinking, self._job.sampling
        open_block = False
        if thinking is not None and thought is not None:
            thinking.restore(thought, tokens)
            thinking.draft = None
            open_block = thinking.is_open
            if thinking.ended != "not_opened" and not open_block:
                thinking.draft = self._drafts.reasoning(thinking.base, thought.draft.lead, thinking)
                said = tokens[thought.start : thought.start + thought.tokens]
                await thinking.draft.restore(said, thought.draft, sampling)
        self.base, self._inserted = tokens[: place.base], place.inserted
        self._may_open, self._capped = place.may_open, None
        self._at_seam, self._seam = place.at_seam, place.seam
        self._settled_by, self.swallowed = place.settled_by, place.swallowed
        if thinking is not None and open_block:
            self.draft = self._drafts.reasoning(self.base, draft.lead, thinking)
            thinking.open(self.base, self.draft)
        else:
            self.draft = self._answer(draft.lead)
        await self.draft.restore(tokens[place.base :], draft, sampling)

    def swallow(self, end: int) -> bool:
        """The model has ended its reasoning a second time, behind `end` characters: what it said
        before was thought, too. False where a client has seen some of it, where it did so before,
        and where it said nothing."""
        said = self.draft.transcript.text[:end]
        if self.draft.releaser.sent or self.swallowed or not said.strip():
            return False
        self.swallowed = said
        self._start_answer(self.tokens)
        return True

    def close_reasoning(self, text: str, dropped: int, now: float) -> None:
        """The draft is reasoning that was cut: close it for the model, and begin the answer. `text`
        is all that was thought, `dropped` tokens of it were thrown away."""
        thinking = self.thinking
        assert thinking is not None  # noqa: S101  there was something to cut
        thinking.cut(text, dropped, now)
        self.draft.releaser.finish()
        finished = thinking.ended_itself and thinking.cuts == 1
        in_mid_thought = len(self.draft) > 0 and not finished
        closing = self._engine.encode(thinking.closing(in_mid_thought=in_mid_thought))
        self._inserted = len(closing)
        self._start_answer((*self.tokens, *closing))

    def reopen(self) -> int:
        """Back to the reasoning, the answer thrown away: how many tokens of it the engine made."""
        thinking = self.thinking
        assert thinking is not None and thinking.draft is not None  # noqa: S101, PT018
        between = len(self.base) - self._inserted - len(thinking.base) - thinking.tokens
        dropped = self.draft.cut(0) + between
        # A token that was half thought, half tag goes, what was shown of it stays.
        thinking.whole = max(thinking.whole, thinking.text, key=len)
        thinking.draft.cut(thinking.tokens)
        self.base, self.draft, self._inserted = thinking.base, thinking.draft, 0
        self.swallowed = ""
        thinking.ended = "open"
        return dropped

    def salvage(self, answer: str, parameters: Sampling, seeds: tuple[int, ...]) -> bool:
        """Put in the answer that stands complete in the reasoning, up to a stop string in it; False
        where there is no room for it."""
        for stop in self._job.sampling.stop:
            answer = answer.partition(stop)[0]
        ids = self._engine.encode(answer) if len(answer) <= _SALVAGED else ()
        if not answer.strip() or not 0 < len(ids) <= self._job.sampling.max_tokens - self.spent:
            return False
        self.draft.held = True
        self.draft.guide(ids, parameters, seeds)
        # Letters may have become a special token, such as a tag.
        if self.draft.transcript.text.strip() != answer.strip():
            self.draft.cut(0)
            return False
        return True

    def _thinking(self) -> Thinking | None:
        info = self._engine.info
        if info.tags is None:
            return None
        wrap_up = self._rules.wrap_up
        asked = self._job.reasoning
        # What closes the block must fit as well.
        closing = self._engine.encode(f"{info.tags.end}{asked.wrap_up or wrap_up}\n\n\n\n\n")
        context = info.max_model_len - len(self._prompt) - len(closing)
        ruled = wanted(
            asked,
            self._rules.profile,
            wrap_up=wrap_up,
            room=min(self._job.sampling.max_tokens, context),
        )
        return Thinking(info.tags, ruled)

    def _begin(self, thinking: Thinking) -> None:
        """Open the block where the prompt does, and close it again where nothing may be thought."""
        info, tags = self._engine.info, thinking.tags
        opened = info.always_thinks or tags.opened_by(self._prompt, self._pieces)
        if thinking.wanted.cap or not thinking.cuts_in:
            if opened:
                self._start_block(thinking, (), "")
            return
        thinking.closed_by_us = True
        if not opened and tags.closed_by(self._prompt, self._pieces):
            self._start_answer(())
            return
        start = "" if opened else tags.start
        closing = self._engine.encode(start + thinking.closing(in_mid_thought=False))
        if len(self._prompt) + len(closing) < info.max_model_len:
            self._inserted = len(closing)
            self._start_answer(closing)

    def _pieces(self, token_ids: Sequence[int]) -> list[str]:
        detokenizer = self._engine.detokenizer(())
        return [detokenizer.step(token) for token in token_ids]

    def _think(self, thinking: Thinking, finding: Finding | None) -> Finding | Turn | None:
        transcript = self.draft.transcript
        if transcript.stopped:
            return self._close(thinking)
        begins = len(self.draft) <= self._opening and not self.draft.releaser.sent
        if begins and self._is_start_again(thinking.tags):
            self._start_block(thinking, self.tokens, "")
            return None
        if finding is None or finding.flaw is not Flaw.REASONING_CAP:
            self._capped = None
            return finding
        # A model that closes its block at the cap is not cut: it is seen to the end of its tag.
        capped, self._capped = self.capped or finding, None
        if self._may_close(thinking.tags, capped):
            self._capped = capped
            return None
        return capped

    def _close(self, thinking: Thinking) -> Turn | None:
        """The model has ended its reasoning."""
        capped = self.capped
        thinking.close(capped.tokens[0] if capped is not None else None)
        transcript = self.draft.transcript
        self.draft.releaser.finish(len(thinking.text))
        rest = transcript.rest.lstrip("\r\n")
        if not rest or self._job.sampling.structured_output is None:
            self._start_answer(self.tokens, rest)
        else:
            # The grammar begins with the answer's first character, and that has come: so the end
            # tag is put in by itself.
            tag = self._engine.encode(thinking.tags.end)
            before = (*self.base, *transcript.tokens[: thinking.tokens])
            self._inserted = len(tag) - (len(transcript.tokens) - thinking.tokens)
            self._start_answer((*before, *tag))
        return Turn.GRAMMAR if self.constrained else None

    def _is_start_again(self, tags: Tags) -> bool:
        """Whether a start tag is all there is in the block: some models repeat that of the
        prompt."""
        transcript = self.draft.transcript
        if tags.by_id:
            size = len(tags.start_ids)
            before = transcript.slice(0, transcript.offset(max(0, len(self.draft) - size)))
            return tuple(transcript.tokens[-size:]) == tags.start_ids and not before.strip()
        return transcript.text.strip() == tags.start

    def _may_close(self, tags: Tags, cap: Finding) -> bool:
        """Whether what came behind the cap may be the beginning of the end tag."""
        transcript, place = self.draft.transcript, cap.tokens[0]
        if tags.by_id:
            over = tuple(transcript.tokens[place:])
            return over == tags.end_ids[: len(over)]
        if len(self.draft) - place > len(tags.end_ids) + _SPARE:
            return False
        return tags.end.startswith(
            transcript.slice(transcript.offset(place), transcript.characters)
        )

    def _open_or_answer(self, thinking: Thinking, finding: Finding | None) -> Finding | Turn | None:
        transcript = self.draft.transcript
        said = transcript.text
        if finding is not None and finding.flaw is Flaw.REASONING_AGAIN:
            before = said[: finding.chars[0]]
            if not before.strip():
                tag = thinking.tags.start
                behind = "" if thinking.tags.by_id else said.lstrip()[len(tag) :]
                self._start_block(thinking, self.tokens, behind)
                return None
        if thinking.tags.may_open(said, tuple(transcript.tokens)):
            return finding
        self._settled_by = len(self.draft)
        if self._job.sampling.structured_output is None:
            return finding
        self._may_open = False
        return Turn.GRAMMAR

    def _pass_seam(self) -> None:
        """Line breaks behind the end tag are neither reasoning nor answer."""
        said = self.draft.transcript.text
        if said and not said.strip("\r\n") and self._seam < _SEAM:
            seam = self._seam + len(self.draft)
            self._start_answer(self.tokens)
            self._seam = seam
        elif said:
            self._settled_by = len(self.draft)

    def _start_block(self, thinking: Thinking, base: tuple[int, ...], lead: str) -> None:
        self._may_open = False
        self._capped = None
        self.base = base
        self.draft = self._drafts.reasoning(base, lead, thinking)
        thinking.open(base, self.draft)

    def _start_answer(self, base: tuple[int, ...], lead: str = "") -> None:
        self.base = base
        self._at_seam = not lead
        self._seam = 0
        self._may_open = False
        self._settled_by = None
        self._capped = None
        self.draft = self._answer(lead)

    def _answer(self, lead: str) -> Draft:
        spent = len(self.base) - self._inserted
        return self._drafts.answer(
            self.base, lead, self.thinking, spent=spent, first=self._may_open
        )
