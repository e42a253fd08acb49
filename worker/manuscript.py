"""What an attempt has written: the reasoning, where the model thinks first, and then the answer.

The two are drafts of their own, one after the other, each with its text, gates and checkpoints;
what stands before the running one is its base. A job's text is the answer alone.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto

from ..guards.finding import Finding, Flaw
from ..guards.gate import Gate
from ..guards.pipeline import Pipeline, block_gates
from ..guards.reasoning.again import AgainGate
from ..guards.reasoning.guard import reasoning_gates
from ..guards.reasoning.tags import Tags
from ..rollback import CheckpointStack, checkpoint_interval
from ..schemas import GenerationJob, Sampling
from ..schemas.lineage import Channel
from .draft import Draft
from .engine import Engine, EngineInfo
from .gating import JobGating
from .release import Release, Releaser
from .stop_strings import StopStrings
from .thinking import Thinking, wanted
from .transcript import Transcript

MakeGates = Callable[[JobGating, EngineInfo, GenerationJob], Pipeline]


class Turn(Enum):
    """What an accepted token can mean for the request that it came from."""

    # The answer begins, and with it the grammar that constrains it: in a request of its own.
    GRAMMAR = auto()


class Manuscript:
    """Grows token by token, changes from reasoning to answer, and can be cut back."""

    def __init__(
        self,
        job: GenerationJob,
        engine: Engine,
        rules: JobGating,
        prompt: tuple[int, ...],
        *,
        gates: MakeGates,
        release: Release | None,
        release_reasoning: Release | None,
    ) -> None:
        self._job = job
        self._engine = engine
        self._rules = rules
        self._prompt = prompt
        self._gates = gates
        self._release = release
        self._release_reasoning = release_reasoning
        self.thinking = self._thinking()
        # Accepted tokens before the running draft's, and how many of them we put in ourselves.
        self.base: tuple[int, ...] = ()
        self._inserted = 0
        # Whether the output may begin with reasoning; and whether line breaks behind the end tag
        # may come. Settled by the draft's token of that number, and open again without it.
        self._may_open = self.thinking is not None
        self._at_seam = False
        self._settled_by: int | None = None
        # That the cap was passed, by what may be the end tag.
        self._capped: Finding | None = None
        self.draft = self._answer_draft()
        if self.thinking is not None:
            self._begin(self.thinking)

    @property
    def in_block(self) -> bool:
        """Whether the running draft is the reasoning."""
        return self.thinking is not None and self.thinking.is_open

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
    def unthinkable(self) -> dict[int, float]:
        """The logit bias that keeps a model from thinking again after its reasoning was cut, where
        one token would do that; a gate sees to the rest."""
        thinking = self.thinking
        if thinking is None or not thinking.cuts or self.in_block or not thinking.tags.by_id:
            return {}
        tags = (thinking.tags.start_ids, thinking.tags.end_ids)
        return {tag[0]: -100.0 for tag in tags if len(tag) == 1}

    @property
    def answer(self) -> str:
        """The answer, so far."""
        return "" if self.in_block else self.draft.transcript.text

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
        finding = self.draft.accept(token_id, parameters, seeds, logprob)
        if self.thinking is None:
            return finding
        if self.thinking.is_open:
            return self._think(self.thinking, finding)
        if self._may_open and self._settled_by is None:
            return self._open_or_answer(self.thinking, finding)
        if self._at_seam and self._settled_by is None:
            self._pass_seam()
        return finding

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
        dropped = self.draft.cut(0)
        thinking.draft.cut(thinking.tokens)
        self.base, self.draft, self._inserted = thinking.base, thinking.draft, 0
        thinking.ended = "open"
        return dropped

    def salvage(self, answer: str, parameters: Sampling, seeds: tuple[int, ...]) -> bool:
        """Put in the answer that stands complete in the reasoning; False where there is no room."""
        ids = self._engine.encode(answer)
        if len(ids) > self._job.sampling.max_tokens - self.spent:
            return False
        self.draft.guide(ids, parameters, seeds)
        return True

    def _thinking(self) -> Thinking | None:
        info = self._engine.info
        if info.tags is None:
            return None
        context = info.max_model_len - len(self._prompt)
        ruled = wanted(
            self._job.reasoning,
            self._rules.profile,
            wrap_up=self._rules.wrap_up,
            room=min(self._job.sampling.max_tokens, context),
        )
        return Thinking(info.tags, ruled)

    def _begin(self, thinking: Thinking) -> None:
        """Open the block where the prompt does, and close it again where nothing may be thought."""
        info, tags = self._engine.info, thinking.tags
        opened = info.always_thinks or tags.opened_by(self._prompt, self._text_of)
        if not thinking.wanted.cap and thinking.cuts_in:
            start = "" if opened else tags.start
            closing = self._engine.encode(start + thinking.closing(in_mid_thought=False))
            thinking.skip()
            self._inserted = len(closing)
            self._start_answer(closing)
        elif opened:
            self._start_block(thinking, (), "")

    def _text_of(self, token_ids: Sequence[int]) -> str:
        detokenizer = self._engine.detokenizer(())
        return "".join(map(detokenizer.step, token_ids))

    def _think(self, thinking: Thinking, finding: Finding | None) -> Finding | Turn | None:
        transcript = self.draft.transcript
        if transcript.stopped:
            thinking.close()
            self.draft.releaser.finish()
            rest = transcript.rest.lstrip("\r\n")
            self._start_answer(self.tokens, rest)
            return Turn.GRAMMAR if self.constrained else None
        if finding is None or finding.flaw is not Flaw.REASONING_CAP:
            self._capped = None
            return finding
        # A model that closes its block at the cap is not cut: it is seen to the end of its tag.
        capped, self._capped = self._capped or finding, None
        if self._may_close(thinking.tags, capped):
            self._capped = capped
            return None
        return capped

    def _may_close(self, tags: Tags, cap: Finding) -> bool:
        """Whether what came behind the cap may be the beginning of the end tag."""
        transcript = self.draft.transcript
        if tags.by_id:
            over = tuple(transcript.tokens[cap.tokens[0] :])
            return over == tags.end_ids[: len(over)]
        over = transcript.slice(transcript.offset(cap.tokens[0]), transcript.characters)
        return tags.end.startswith(over.lstrip())

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
        if said and not said.strip("\r\n"):
            self._start_answer(self.tokens)
        elif said:
            self._settled_by = len(self.draft)

    def _start_block(self, thinking: Thinking, base: tuple[int, ...], lead: str) -> None:
        tags = thinking.tags
        transcript = Transcript(
            lambda: self._engine.detokenizer((*self._prompt, *base)),
            StopStrings(() if tags.by_id else (tags.end,)),
            stop_ids=tags.end_ids if tags.by_id else (),
            lead=lead,
        )
        self._may_open = False
        self.base = base
        self.draft = self._draft(transcript, self._block_gates(thinking), self._release_reasoning)
        thinking.open(base, self.draft)

    def _block_gates(self, thinking: Thinking) -> Pipeline:
        info, profile = self._engine.info, self._rules.profile
        watched = thinking.wanted.mode != "off"
        return block_gates(
            profile,
            vocabulary_size=info.vocabulary_size,
            denied=info.denied,
            outside=not info.sentinels,
            guard=reasoning_gates(profile, thinking.wanted.cap) if watched else None,
        )

    def _start_answer(self, base: tuple[int, ...], lead: str = "") -> None:
        self.base = base
        self._at_seam = not lead
        self._may_open = False
        self._settled_by = None
        self.draft = self._answer_draft(lead)

    def _answer_draft(self, lead: str = "") -> Draft:
        sampling, base = self._job.sampling, self.base
        transcript = Transcript(
            lambda: self._engine.detokenizer((*self._prompt, *base)),
            StopStrings(sampling.stop, max(0, sampling.min_tokens - len(base) + self._inserted)),
            lead=lead,
        )
        gates = self._gates(self._rules, self._engine.info, self._job)
        thinking = self.thinking
        if thinking is not None:
            tags = thinking.tags
            again: Gate = AgainGate(
                tags.start,
                tags.end,
                tags.start_ids,
                tags.end_ids,
                by_id=tags.by_id,
                cut=self._may_open or thinking.cuts > 0,
            )
            gates = Pipeline([again, gates])
        return self._draft(transcript, gates, self._release)

    def _draft(self, transcript: Transcript, gates: Pipeline, release: Release | None) -> Draft:
        sampling, profile = self._job.sampling, self._rules.profile
        interval = checkpoint_interval(sampling.max_tokens, profile.checkpoint_interval)
        return Draft(
            transcript,
            gates,
            CheckpointStack(interval, sampling),
            Releaser(transcript, release, profile.hold_back_tokens),
        )
