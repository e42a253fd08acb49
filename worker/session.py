"""GenerationSession: one attempt at one job, on any engine, with no broker in sight.

It is the one place where tokens, gates, policy and engine meet. An attempt is a sequence of
segments; each is one request to the engine that goes on from the tokens accepted so far. A gate
that trips ends a segment, the policy says how far to go back and what to change, and the next
segment goes on from there, until the text is accepted or the attempt is given up. Where the model
thinks first, reasoning that leads nowhere is cut and closed, and the next segment is the answer.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec.structs import replace

from ..guards.engine_gates import signal_of
from ..guards.finding import Finding, Flaw, Level
from ..guards.output import judge_output
from ..guards.pipeline import Pipeline, streaming_gates
from ..guards.reasoning.salvage import complete_answer, spoken_answer
from ..rollback import (
    Action,
    GiveUp,
    Note,
    Rollback,
    attempt_seed,
    derive_seed,
    differences,
    mutate,
    standing_bans,
)
from ..schemas import (
    AttemptRecord,
    FinishReason,
    GenerationJob,
    InvalidMessage,
    Progress,
    SegmentRecord,
    Timings,
)
from ..schemas.errors import tame
from . import trips
from .accounts import MONOTONIC, Accounts, Clock
from .decisions import Decisions
from .drafts import Drafts, MakeGates
from .effective import effective
from .endings import Answered, Ending, EngineLost, Faulted, GaveUp, Interrupted, Refused, Report
from .engine import Engine, EngineDead, EngineError, EngineInfo, Piece
from .gating import Gating, JobGating
from .manuscript import Manuscript, Turn
from .records import Run, record
from .release import Release
from .requests import Plan, request
from .resuming import Now, State, Unfit, plan_of, resume, snapshot
from .thinking import Thinking

log = logging.getLogger(__name__)

# More of a prompt than this no check reads.
_PROMPT_TOKENS_SHOWN: Final = 2_000


def own_gates(gating: JobGating, info: EngineInfo, job: GenerationJob) -> Pipeline:
    """The gates on the answer that a job's profile asks for."""
    return streaming_gates(
        gating.profile,
        vocabulary_size=info.vocabulary_size,
        denied=info.denied,
        structured=job.sampling.structured_output is not None,
        outside=not info.sentinels,
        exempt=job.exempt,
    )


class _Work(NamedTuple):
    """What rules the attempt, what it has written, and what was decided about that."""

    rules: JobGating
    written: Manuscript
    decisions: Decisions


class GenerationSession:
    """Runs an attempt to its end. `release(offset, text)` gets text that won't be taken back, and
    `release_reasoning` what the model thinks before it. A job with progress is gone on with from
    there; `on_start_over` is told why where that can't be."""

    def __init__(  # noqa: PLR0913 - who runs it, by what rules, and who is told
        self,
        job: GenerationJob,
        engine: Engine,
        *,
        worker: str,
        nonce: str,
        gating: Gating | None = None,
        release: Release | None = None,
        release_reasoning: Release | None = None,
        clock: Clock = MONOTONIC,
        gates: MakeGates = own_gates,
        on_start_over: Callable[[str], None] | None = None,
    ) -> None:
        # As this attempt runs it, and as it was asked.
        self._job = effective(job)
        self._asked = job
        self._engine = engine
        self._worker = worker
        self._nonce = nonce
        self._gating = gating or Gating()
        self._release = release
        self._release_reasoning = release_reasoning
        self._clock = clock
        self._make_gates = gates
        self._accounts = Accounts(clock)
        self._info: EngineInfo | None = None
        self._started_at = datetime.now(UTC)
        self._prompt: tuple[int, ...] = ()
        self._manuscript: Manuscript | None = None
        self._seeds: tuple[int, ...] = ()
        # Where the running segment began, in tokens.
        self._start = 0
        self._on_start_over = on_start_over
        # What it went on from, and the parts of the attempt, once they are in place.
        self._resumed: Progress | None = None
        self._work: _Work | None = None
        # The request that runs, what is decided about it, and by what it ended.
        self._plan = Plan(sampling=self._job.sampling, seed=0)
        self._over: Answered | Action | None = None
        self._finish: FinishReason | None = None

    async def run(self) -> Ending:
        """Generate until the text is done or can't be. What the job or the engine did wrong comes
        back as an ending, never as an exception."""
        try:
            rules = self._gating.of(self._job)
            self._info = self._engine.info
            self._prompt = await self._engine.prompt_token_ids(self._job)
            self._accounts.begin()
            work = await self._resume(rules) or self._fresh(rules)
            self._manuscript = work.written
            self._work = work
            return await self._attempt(work)
        except InvalidMessage as error:
            return Refused(error)
        except EngineDead as error:
            return EngineLost(tame(str(error)))
        except EngineError as error:
            return Faulted(tame(str(error)))
        finally:
            self._accounts.end()

    def _fresh(self, rules: JobGating) -> _Work:
        """The parts of the attempt, with nothing written yet."""
        drafts = Drafts(
            self._job,
            self._engine,
            rules,
            self._prompt,
            gates=self._make_gates,
            release=self._release,
            release_reasoning=self._release_reasoning,
        )
        written = Manuscript(self._job, self._engine, rules, self._prompt, drafts)
        decisions = Decisions(
            rules,
            written,
            self._accounts,
            self._clock,
            greedy=self._job.sampling.temperature == 0,
        )
        self._plan = Plan(sampling=self._job.sampling, seed=self._derived_seed())
        return _Work(rules, written, decisions)

    async def _resume(self, rules: JobGating) -> _Work | None:
        """The parts as another worker had them; None where there is nothing to go on from."""
        progress = self._job.progress
        if progress is None:
            return None
        work = self._fresh(rules)
        state = State(self._job, self._engine.info, self._prompt, *work[1:], self._accounts)
        try:
            await resume(progress, state)
        except Unfit as why:
            log.warning("the attempt starts over, for what was written of it is of no use: %s", why)
            if self._on_start_over is not None:
                self._on_start_over(str(why))
            return None
        self._resumed, self._started_at = progress, progress.started_at
        self._seeds = tuple(segment.seed for segment in progress.spent.segments)
        self._plan = plan_of(progress, self._job)
        log.info("going on from %d tokens of another worker's", progress.kept)
        return work

    def report(self, ending: Ending, queued_s: float | None) -> Report:
        """What happened, up to now. Fit to be called after `run` was cancelled, too."""
        # First of all: what can't be handed on is no part of the text.
        interrupted = isinstance(ending, Interrupted) and ending.trusted
        progress = self._progress(queued_s) if interrupted else None
        written = self._manuscript
        text = written.answer if written is not None else ""
        thinking = written.thinking if written is not None else None
        return Report(
            ending=ending,
            text=text,
            reasoning=thinking.said() or None if thinking is not None else None,
            stop_string=written.stop_string if written is not None else None,
            prompt=self._prompt_text() if isinstance(ending, Answered) else "",
            record=self._record(ending),
            timings=Timings(
                queued_s=queued_s,
                first_token_s=self._accounts.first_token_s,
                engine_s=self._accounts.engine_s,
            ),
            resumed=self._resumed,
            progress=progress,
        )

    def _progress(self, queued_s: float | None) -> Progress | None:
        """What the next worker can go on from; None where that is no more than this one did, or
        where nothing can."""
        work, over, finish = self._work, self._over, self._finish
        self._over = self._finish = None
        before = self._resumed.spent.produced if self._resumed is not None else 0
        if work is None or self._accounts.produced <= before or isinstance(over, GiveUp):
            return None
        coming = self._coming(over, work.written)
        if over is None and finish == "stop":
            # The token that ended the text is no part of it, and will come again.
            self._accounts.drop(1)
        times = 1 + (self._resumed.times if self._resumed is not None else 0)
        now = Now(
            times=times,
            started_at=self._started_at,
            at=datetime.now(UTC),
            queued_s=queued_s,
        )
        state = State(self._job, self._engine.info, self._prompt, *work[1:], self._accounts)
        return snapshot(state, coming, now)

    def _coming(self, over: Answered | Action | None, written: Manuscript) -> Plan:
        """The request that would have come next, or the rest of the one that runs."""
        plan, sampling = self._plan, self._job.sampling
        if isinstance(over, Rollback):
            return self._changed(over, written, seed=plan.seed)
        left = plan.tokens - (written.length - self._start)
        if over is None and (not plan.tokens or left > 0):
            return replace(plan, tokens=max(0, left) if plan.tokens else 0)
        return Plan(sampling=sampling, seed=plan.seed)

    def _prompt_text(self) -> str:
        """The end of a prompt that the job has as token ids, where the checker will look at it."""
        if self._asked.checks == "off" or self._asked.prompt_token_ids is None:
            return ""
        detokenizer = self._engine.detokenizer(())
        return "".join(map(detokenizer.step, self._prompt[-_PROMPT_TOKENS_SHOWN:]))

    def _record(self, ending: Ending) -> AttemptRecord:
        return record(
            self._asked,
            self._job,
            self._info,
            ending,
            self._accounts,
            self._manuscript,
            Run(
                self._worker,
                self._started_at,
                len(self._prompt),
                self._resumed.kept if self._resumed is not None else 0,
            ),
        )

    async def _attempt(self, work: _Work) -> Ending:
        sampling, written = self._job.sampling, work.written
        while True:
            plan = self._plan
            over = await self._segment(plan, work)
            if isinstance(over, GiveUp):
                over = self._from_less_reasoning(over, work)
            self._over = over
            if isinstance(over, Rollback) and over.changes.close:
                over = await self._salvaged(work) or over
            if isinstance(over, Answered):
                written.draft.releaser.finish()
                return over
            if isinstance(over, GiveUp):
                found = work.decisions.last
                return GaveUp(
                    tame(over.detail),
                    over.engine_fault,
                    flaw=found.flaw if found is not None else None,
                    found_by=found.gate if found is not None else "",
                )
            # After a change that was for some tokens only, and after a note that ended the
            # engine's request: on as the job asked.
            self._plan = (
                self._changed(over, written, seed=plan.seed)
                if isinstance(over, Rollback)
                else Plan(sampling=sampling, seed=plan.seed)
            )
            self._over = None

    async def _segment(self, plan: Plan, work: _Work) -> Answered | Action | None:
        """One request to the engine: an accepted text, what is to be done about a finding, or None
        where the plan's tokens are up."""
        rules, written = work.rules, work.written
        self._start = start = written.length
        left = self._left(written)
        self._finish = None
        if not written.in_block and written.draft.transcript.stopped:
            # Whoever wrote it could not say so any more.
            return self._judge("stop", work, beyond=0)
        if left <= 0 or self._is_full(start):
            return self._judge("length", work, beyond=0)
        segment = request(
            self._job,
            plan,
            rules.profile,
            self._prompt,
            written,
            bans=standing_bans(work.decisions.trips),
            number=self._accounts.requests,
            nonce=self._nonce,
        )
        self._seeds = (*self._seeds, plan.seed)
        accounts = self._accounts
        accounts.begin_segment()
        cached = 0
        finish: FinishReason | None = None
        over: Answered | Action | None = None
        try:
            async with aclosing(self._engine.stream(segment)) as pieces:
                async for piece in pieces:
                    cached = max(cached, piece.cached_tokens)
                    self._finish = finish = piece.finish_reason
                    if written.thinking is not None and piece.token_ids:
                        prompt_tokens = len(segment.prompt_token_ids)
                        written.thinking.resume(self._clock(), prompt_tokens, cached)
                    self._over = over = self._take(piece, plan, work)
                    written.draft.releaser.send()
                    if over is not None or finish is not None:
                        break
        finally:
            asked = SegmentRecord(
                seed=plan.seed,
                start=start,
                parameters=differences(self._job.sampling, plan.sampling),
                fresh_cache=plan.fresh_cache,
                prompt_tokens=len(segment.prompt_token_ids),
                cached_tokens=cached,
            )
            accounts.end_segment(asked, finish)
        if over is not None:
            return over
        if finish is None:
            raise EngineError("the engine ended the request without a reason")
        if finish == "length" and written.length - start == plan.tokens < left:
            return None
        return self._judge(finish, work, beyond=int(finish == "stop"))

    def _derived_seed(self) -> int:
        seed = attempt_seed(self._job.id, self._job.sampling.seed, self._job.attempt)
        return derive_seed(seed, self._accounts.rollbacks + self._accounts.cuts)

    def _left(self, written: Manuscript) -> int:
        return self._job.sampling.max_tokens - written.spent

    def _is_full(self, start: int) -> bool:
        """Whether the model's context has no room for a token more."""
        return start > 0 and len(self._prompt) + start >= self._engine.info.max_model_len

    def _take(self, piece: Piece, plan: Plan, work: _Work) -> Answered | Action | None:
        """Accept a piece's tokens one by one, up to the first that changes the course."""
        rules, written, decisions = work
        ids = piece.token_ids
        self._accounts.take(len(ids))
        # What ends a text is no part of it.
        last = ids[-1] if ids and piece.finish_reason == "stop" else None
        count = len(ids) - (last is not None)
        for index in range(count):
            logprob = piece.logprobs[index] if index < len(piece.logprobs) else None
            found = written.accept(ids[index], plan.sampling, self._seeds, logprob)
            beyond = len(ids) - index - 1
            if isinstance(found, Turn):
                self._accounts.waste(written.begin_grammar() + beyond)
                return Note(counts=False)
            if found is not None:
                action = self._answer(found, work, beyond=beyond)
                if not isinstance(action, Note):
                    return action
            if not written.in_block and written.draft.transcript.stopped:
                self._accounts.waste(beyond)
                return self._judge("stop", work, beyond=0)
        signal = signal_of(last, self._engine.info.sentinels) if last is not None else None
        if signal is None:
            return None
        draft = written.draft
        finding = trips.from_signal(
            signal,
            rules.profile,
            len(draft),
            draft.transcript.characters,
            accepted=written.length,
        )
        action = decisions.act(finding, beyond=1)
        nowhere = written.constrained or written.length == self._start
        if isinstance(action, Note) and nowhere:
            # The request is over. A grammar can't go on in the middle, and going on where nothing
            # was said would find the same for ever.
            return GiveUp(
                detail=f"{finding.flaw.value} at token {len(draft)}: nothing can be said there",
                engine_fault=True,
            )
        return action

    def _answer(self, finding: Finding, work: _Work, *, beyond: int) -> Action:
        """What is done about what a gate found."""
        written, decisions = work.written, work.decisions
        thinking = written.thinking
        if finding.level is not Level.REASONING or thinking is None:
            return decisions.act(finding, beyond=beyond)
        if not thinking.cuts_in:
            return self._let_be(finding, thinking, decisions)
        if finding.flaw is Flaw.REASONING_END_AGAIN and written.swallow(finding.chars[0]):
            thinking.find(finding)
            decisions.note(finding, Note())
            return Note()
        return decisions.act(finding, beyond=beyond)

    def _let_be(self, finding: Finding, thinking: Thinking, decisions: Decisions) -> Note:
        """Reasoning that is not cut: what is wrong with it is written down at most, and once."""
        if thinking.wanted.mode == "observe" and finding.flaw not in thinking.noted:
            thinking.find(finding)
            decisions.note(finding, Note(counts=False))
        # From here on it is not told any more, so that other flaws are.
        thinking.noted.add(finding.flaw)
        return Note(counts=False)

    def _judge(self, finish: FinishReason, work: _Work, *, beyond: int) -> Answered | Action:
        """The text has ended: accept it, or act on what is wrong with the whole. `beyond`: whether
        a token ended it that is no part of it."""
        written, decisions = work.written, work.decisions
        thinking = written.thinking
        if written.awaits_grammar:
            self._accounts.waste(written.begin_grammar() + beyond)
            return Note(counts=False)
        if thinking is not None and written.in_block and finish != "abort":
            unclosed = written.capped or thinking.unclosed(finish)
            if thinking.cuts_in:
                return decisions.act(unclosed, beyond=beyond)
            self._let_be(unclosed, thinking, decisions)
            # There is no answer, and nothing is to be cut: what was thought stays as it is.
            return decisions.give_up(unclosed, f"the mode is {thinking.wanted.mode}", beyond=beyond)
        finding = self._flaw(finish, work)
        if finding is None:
            return Answered(finish)
        if finding.flaw is Flaw.EMPTY_ANSWER and written.swallowed:
            # What was taken for thought was all there was to say.
            answered = self._taken(written.swallowed, work)
            if answered is not None:
                self._accounts.waste(beyond)
                return answered
        action = decisions.act(finding, beyond=beyond)
        return action if isinstance(action, Rollback | GiveUp) else Answered(finish)

    def _flaw(self, finish: FinishReason, work: _Work) -> Finding | None:
        """What is wrong with the whole answer."""
        rules, written = work.rules, work.written
        return judge_output(
            rules.profile,
            written.answer,
            tokens=len(written.draft),
            pending=written.draft.transcript.pending,
            finish_reason=finish,
            structured=written.constrained,
            exempt=self._job.exempt,
        )

    async def _salvaged(self, work: _Work) -> Answered | None:
        """The answer that stands complete in the reasoning that was just closed, if one does."""
        written = work.written
        thinking = written.thinking
        if thinking is None:
            return None
        asked = self._job.sampling.structured_output
        thought, ended = thinking.whole, thinking.ended_itself
        # In a thread: it reads all of the reasoning.
        answer = await asyncio.to_thread(complete_answer, thought, asked, ended=ended)
        return self._taken(answer, work)

    def _taken(self, answer: str | None, work: _Work) -> Answered | None:
        """Take an answer from the reasoning, unless there is none, or something wrong with it."""
        written = work.written
        if answer is None or written.thinking is None or written.shown:
            return None
        self._accounts.waste(written.draft.cut(0))
        if not written.salvage(answer, self._job.sampling, self._seeds):
            return None
        if self._flaw("stop", work) is not None:
            written.draft.cut(0)
            return None
        written.thinking.ended = "salvaged"
        written.draft.held = False
        return Answered("stop")

    def _from_less_reasoning(self, given_up: GiveUp, work: _Work) -> Answered | Action:
        """Where no answer came from the reasoning, and nobody has seen any of one, or the reasoning
        itself could not be mended: the next step of the ladder that shortens what the answer is
        made from."""
        written, decisions = work.written, work.decisions
        thinking, found = written.thinking, decisions.last
        if thinking is None or found is None or written.shown or given_up.engine_fault:
            return given_up
        if not thinking.is_to_blame(found):
            return given_up
        if found.flaw is Flaw.EMPTY_ANSWER and thinking.ended_itself and not written.constrained:
            answered = self._taken(spoken_answer(thinking.whole), work)
            if answered is not None:
                return answered
        ended, place = thinking.ended, found.tokens[0]
        if not written.in_block:
            self._accounts.waste(written.reopen())
            place = len(written.draft)
        why = f"no answer came from the reasoning: {found.flaw}"
        no_answer = thinking.found(Flaw.REASONING_NO_ANSWER, why, place)
        action = decisions.act(no_answer, beyond=0)
        if not isinstance(action, Rollback):
            thinking.ended = ended
        return action

    def _changed(self, action: Rollback, written: Manuscript, *, seed: int) -> Plan:
        """The segment after a rollback."""
        changes = action.changes
        if changes.reseed:
            seed = self._derived_seed()
        changed = mutate(self._job.sampling, changes)
        if changes.guide:
            room = max(0, self._left(written) - 1)
            guide = self._engine.encode(changes.guide)[:room]
            written.draft.guide(guide, changed, self._seeds)
        return Plan(
            sampling=changed,
            seed=seed,
            # A grammar begins anew with each segment, so its text must come from a single one.
            tokens=0 if written.constrained else changes.tokens,
            fresh_cache=action.fresh_cache,
        )
