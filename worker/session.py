"""GenerationSession: one attempt at one job, on any engine, with no broker in sight.

It is the one place where tokens, gates, policy and engine meet. An attempt is a sequence of
segments; each is one request to the engine that goes on from the tokens accepted so far. A gate
that trips ends a segment, the policy says how far to go back and what to change, and the next
segment goes on from there, until the text is accepted or the attempt is given up.
"""

import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from ..guards.engine_gates import Ban, EngineGates, signal_of
from ..guards.finding import Finding
from ..guards.output import judge_output
from ..guards.pipeline import Pipeline, streaming_gates
from ..rollback import (
    Action,
    Changes,
    CheckpointStack,
    GiveUp,
    Note,
    Rollback,
    Situation,
    Trip,
    attempt_seed,
    checkpoint_interval,
    decide,
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
    Sampling,
    SegmentRecord,
    Timings,
    TripRecord,
    Usage,
)
from ..schemas.errors import tame
from ..schemas.limits import MAX_KEPT_TEXT, MAX_QUOTE_CHARS, MAX_SEGMENTS, MAX_TRIPS
from . import trips
from .draft import Draft
from .effective import effective
from .endings import Answered, Ending, EngineLost, Faulted, GaveUp, Refused, Report
from .engine import Engine, EngineDead, EngineError, EngineInfo, Piece, Segment
from .gating import Gating, JobGating
from .release import Release, Releaser
from .stop_strings import StopStrings
from .transcript import Transcript

# More of a prompt than this no check reads.
_PROMPT_TOKENS_SHOWN: Final = 2_000

Clock = Callable[[], float]
MakeGates = Callable[[JobGating, EngineInfo, GenerationJob], Pipeline]


class _Plan(Struct, frozen=True, kw_only=True):
    """The next segment: how to sample, for how many tokens (0: to the end of the text)."""

    sampling: Sampling
    seed: int
    tokens: int = 0
    fresh_cache: bool = False


def own_gates(gating: JobGating, info: EngineInfo, job: GenerationJob) -> Pipeline:
    """The gates that a job's profile asks for."""
    return streaming_gates(
        gating.profile,
        vocabulary_size=info.vocabulary_size,
        denied=info.denied,
        structured=job.sampling.structured_output is not None,
        outside=not info.sentinels,
    )


class GenerationSession:
    """Runs an attempt to its end. `release(offset, text)` gets text that won't be taken back."""

    def __init__(
        self,
        job: GenerationJob,
        engine: Engine,
        *,
        worker: str,
        nonce: str,
        gating: Gating | None = None,
        release: Release | None = None,
        clock: Clock = time.monotonic,
        gates: MakeGates = own_gates,
    ) -> None:
        # As this attempt runs it, and as it was asked.
        self._job = effective(job)
        self._asked = job
        self._engine = engine
        self._worker = worker
        self._nonce = nonce
        self._gating = gating or Gating()
        self._release = release
        self._clock = clock
        self._make_gates = gates
        self._info: EngineInfo | None = None
        self._started_at = datetime.now(UTC)
        self._began: float | None = None
        self._first_token_s: float | None = None
        self._ended: float | None = None
        self._prompt: tuple[int, ...] = ()
        self._draft: Draft | None = None
        self._seeds: tuple[int, ...] = ()
        self._segments: list[SegmentRecord] = []
        # How many requests there were; the running one's, or last one's, number, and where it began
        # in tokens.
        self._requests = 0
        self._segment_number = 0
        self._start = 0
        self._trips: list[Trip] = []
        self._records: list[TripRecord] = []
        self._last: Finding | None = None
        self._rollbacks = 0
        self._produced = 0
        self._wasted = 0
        self._lost_s = 0.0
        # When the running segment began, and how many tokens had been produced by then.
        self._segment_began = (0.0, 0)

    async def run(self) -> Ending:
        """Generate until the text is done or can't be. What the job or the engine did wrong comes
        back as an ending, never as an exception."""
        try:
            rules = self._gating.of(self._job)
            self._info = self._engine.info
            self._prompt = await self._engine.prompt_token_ids(self._job)
            self._began = self._clock()
            draft = self._begin(rules)
            return await self._attempt(rules, draft)
        except InvalidMessage as error:
            return Refused(error)
        except EngineDead as error:
            return EngineLost(tame(str(error)))
        except EngineError as error:
            return Faulted(tame(str(error)))
        finally:
            self._ended = self._clock()

    def report(self, ending: Ending, queued_s: float | None) -> Report:
        """What happened, up to now. Fit to be called after `run` was cancelled, too."""
        ended = self._ended if self._ended is not None else self._clock()
        text = self._draft.transcript.text if self._draft is not None else ""
        return Report(
            ending=ending,
            text=text,
            prompt=self._prompt_text() if isinstance(ending, Answered) else "",
            record=self._record(ending, text),
            timings=Timings(
                queued_s=queued_s,
                first_token_s=self._first_token_s,
                engine_s=ended - self._began if self._began is not None else 0.0,
            ),
        )

    def _prompt_text(self) -> str:
        """The end of a prompt that the job has as token ids, where the checker will look at it."""
        if self._asked.checks == "off" or self._asked.prompt_token_ids is None:
            return ""
        detokenizer = self._engine.detokenizer(())
        return "".join(map(detokenizer.step, self._prompt[-_PROMPT_TOKENS_SHOWN:]))

    def _record(self, ending: Ending, text: str) -> AttemptRecord:
        accepted = isinstance(ending, Answered)
        gave_up = ending if isinstance(ending, GaveUp) else None
        mutation = self._asked.mutation
        return AttemptRecord(
            attempt=self._job.attempt,
            worker=self._worker,
            model=self._info.model if self._info is not None else "",
            engine=self._info.version if self._info is not None else "",
            started_at=self._started_at,
            ended_at=datetime.now(UTC),
            parameters=differences(self._asked.sampling, self._job.sampling),
            instruction=mutation.instruction if mutation is not None else "",
            segments=tuple(self._segments),
            trips=tuple(self._records),
            usage=Usage(
                prompt_tokens=len(self._prompt),
                cached_tokens=self._segments[0].cached_tokens if self._segments else 0,
                completion_tokens=self._produced - self._wasted,
                wasted_tokens=self._wasted,
            ),
            finish_reason=ending.finish_reason if isinstance(ending, Answered) else None,
            flaw=gave_up.flaw if gave_up is not None else None,
            found_by=gave_up.found_by if gave_up is not None else "",
            detail=tame(getattr(ending, "detail", "")),
            text="" if accepted else text[:MAX_KEPT_TEXT],
            text_chars=0 if accepted else len(text),
        )

    def _begin(self, rules: JobGating) -> Draft:
        sampling = self._job.sampling
        profile = rules.profile
        transcript = Transcript(
            lambda: self._engine.detokenizer(self._prompt),
            StopStrings(sampling.stop, sampling.min_tokens),
        )
        self._draft = Draft(
            transcript,
            self._make_gates(rules, self._engine.info, self._job),
            CheckpointStack(
                checkpoint_interval(sampling.max_tokens, profile.checkpoint_interval), sampling
            ),
            Releaser(transcript, self._release, profile.hold_back_tokens),
        )
        return self._draft

    async def _attempt(self, rules: JobGating, draft: Draft) -> Ending:
        sampling = self._job.sampling
        plan = _Plan(sampling=sampling, seed=self._derived_seed())
        while True:
            over = await self._segment(plan, rules, draft)
            if isinstance(over, Answered):
                draft.releaser.finish()
                return over
            if isinstance(over, GiveUp):
                found = self._last
                return GaveUp(
                    tame(over.detail),
                    over.engine_fault,
                    flaw=found.flaw if found is not None else None,
                    found_by=found.gate if found is not None else "",
                )
            # After a change that was for some tokens only, and after a note that ended the
            # engine's request: on as the job asked.
            plan = (
                self._changed(over, seed=plan.seed)
                if isinstance(over, Rollback)
                else _Plan(sampling=sampling, seed=plan.seed)
            )

    async def _segment(
        self, plan: _Plan, rules: JobGating, draft: Draft
    ) -> Answered | Action | None:
        """One request to the engine: an accepted text, what is to be done about a finding, or None
        where the plan's tokens are up."""
        self._start = start = len(draft)
        if self._left(start) <= 0 or self._is_full(start):
            return self._judge("length", rules, draft, beyond=0)
        segment = self._request(plan, rules, start)
        self._segment_number = self._requests
        self._seeds = (*self._seeds, plan.seed)
        began, produced = self._segment_began = self._clock(), self._produced
        cached = 0
        finish: FinishReason | None = None
        over: Answered | Action | None = None
        try:
            async with aclosing(self._engine.stream(segment)) as pieces:
                async for piece in pieces:
                    cached = max(cached, piece.cached_tokens)
                    finish = piece.finish_reason
                    over = self._take(piece, plan, rules, draft)
                    draft.releaser.send()
                    if over is not None or finish is not None:
                        break
        finally:
            self._requests += 1
            if len(self._segments) < MAX_SEGMENTS:
                self._segments.append(
                    SegmentRecord(
                        seed=plan.seed,
                        start=start,
                        parameters=differences(self._job.sampling, plan.sampling),
                        fresh_cache=plan.fresh_cache,
                        prompt_tokens=len(segment.prompt_token_ids),
                        cached_tokens=cached,
                        tokens=self._produced - produced,
                        engine_s=self._clock() - began,
                        finish_reason=finish,
                    )
                )
        if over is not None:
            return over
        if finish is None:
            raise EngineError("the engine ended the request without a reason")
        if finish == "length" and len(draft) - start == plan.tokens < self._left(start):
            return None
        return self._judge(finish, rules, draft, beyond=int(finish == "stop"))

    def _request(self, plan: _Plan, rules: JobGating, start: int) -> Segment:
        sampling = self._job.sampling
        left = self._left(start)
        limit = min(left, plan.tokens or left)
        accepted = self._draft.transcript.tokens if self._draft is not None else []
        bans = tuple(
            Ban(place - start, token)
            for place, token in standing_bans(self._trips)
            if place >= start
        )
        return Segment(
            request_id=f"{self._job.id}:{self._job.attempt}:{self._nonce}:{self._requests}",
            prompt_token_ids=(*self._prompt, *accepted),
            sampling=msgspec.structs.replace(
                plan.sampling,
                max_tokens=limit,
                min_tokens=max(0, min(limit, sampling.min_tokens - start)),
            ),
            seed=plan.seed,
            carried=start,
            gates=self._engine_gates(rules, start, bans),
            fresh_cache=plan.fresh_cache,
        )

    def _engine_gates(self, rules: JobGating, start: int, bans: tuple[Ban, ...]) -> EngineGates:
        gates = rules.profile.engine_gates(start, self._job.sampling.max_tokens)
        if self._is_constrained and not rules.profile.structured_text_gates:
            # How sure the model is of a text is a matter of level 4; a grammar leaves it no choice.
            gates = msgspec.structs.replace(gates, confidence_window=0)
        return msgspec.structs.replace(gates, bans=bans)

    @property
    def _is_constrained(self) -> bool:
        return self._job.sampling.structured_output is not None

    def _derived_seed(self) -> int:
        seed = attempt_seed(self._job.id, self._job.sampling.seed, self._job.attempt)
        return derive_seed(seed, self._rollbacks)

    def _left(self, start: int) -> int:
        return self._job.sampling.max_tokens - start

    def _is_full(self, start: int) -> bool:
        """Whether the model's context has no room for a token more."""
        return start > 0 and len(self._prompt) + start >= self._engine.info.max_model_len

    def _take(
        self, piece: Piece, plan: _Plan, rules: JobGating, draft: Draft
    ) -> Answered | Action | None:
        """Accept a piece's tokens one by one, up to the first that changes the course."""
        ids = piece.token_ids
        if ids and self._first_token_s is None and self._began is not None:
            self._first_token_s = self._clock() - self._began
        self._produced += len(ids)
        # What ends a text is no part of it.
        last = ids[-1] if ids and piece.finish_reason == "stop" else None
        count = len(ids) - (last is not None)
        for index in range(count):
            logprob = piece.logprobs[index] if index < len(piece.logprobs) else None
            finding = draft.accept(ids[index], plan.sampling, self._seeds, logprob)
            if finding is not None:
                action = self._act(finding, rules, draft, beyond=len(ids) - index - 1)
                if not isinstance(action, Note):
                    return action
            if draft.transcript.stopped:
                self._wasted += len(ids) - index - 1
                return self._judge("stop", rules, draft, beyond=0)
        signal = signal_of(last, self._engine.info.sentinels) if last is not None else None
        if signal is None:
            return None
        finding = trips.from_signal(signal, rules.profile, len(draft), draft.transcript.characters)
        action = self._act(finding, rules, draft, beyond=1)
        if isinstance(action, Note) and (self._is_constrained or len(draft) == self._start):
            # The request is over. A grammar can't go on in the middle, and going on where nothing
            # was said would find the same for ever.
            return GiveUp(
                detail=f"{finding.flaw.value} at token {len(draft)}: nothing can be said there",
                engine_fault=True,
            )
        return action

    def _judge(
        self, finish: FinishReason, rules: JobGating, draft: Draft, *, beyond: int
    ) -> Answered | Action:
        """The text has ended: accept it, or act on what is wrong with the whole. `beyond`: whether
        a token ended it that is no part of it."""
        finding = judge_output(
            rules.profile,
            draft.transcript.text,
            tokens=len(draft),
            pending=draft.transcript.pending,
            finish_reason=finish,
            structured=self._is_constrained,
        )
        if finding is None:
            return Answered(finish)
        action = self._act(finding, rules, draft, beyond=beyond)
        return action if isinstance(action, Rollback | GiveUp) else Answered(finish)

    def _act(self, finding: Finding, rules: JobGating, draft: Draft, *, beyond: int) -> Action:
        """Decide about a finding, and go back if that is the decision. `beyond`: tokens of the
        engine's that come after it."""
        tokens = len(draft)
        self._last = finding
        quote = draft.transcript.text[slice(*finding.chars)][:MAX_QUOTE_CHARS]
        action = decide(
            finding,
            Situation(
                tokens=tokens,
                checkpoints=draft.checkpoints,
                budgets=rules.budgets,
                floor=draft.releaser.floor,
                trips=self._trips,
                rollbacks=self._rollbacks,
                wasted=self._wasted + beyond,
                seconds=self._lost_s,
                greedy=self._job.sampling.temperature == 0,
                constrained=self._is_constrained,
                findings=rules.profile.coherence_findings,
                within=rules.profile.coherence_span,
            ),
            rules.table,
        )
        # What ended the engine's request is no part of any text.
        sentinel = beyond if finding.gate == "logits" else 0
        if isinstance(action, Note) and not action.counts:
            self._wasted += sentinel
            return action
        wasted = 0
        banned: int | None = None
        if isinstance(action, Rollback):
            if action.changes.ban and action.keep < tokens:
                banned = draft.transcript.tokens[action.keep]
            wasted = draft.cut(action.keep) + beyond
            self._rollbacks += 1
            self._lost_s += self._seconds_for(wasted)
        elif isinstance(action, GiveUp):
            wasted = beyond
        else:
            wasted = sentinel
        self._wasted += wasted
        self._trips.append(Trip(finding=finding, action=action, tokens=tokens, banned=banned))
        if len(self._records) < MAX_TRIPS:
            self._records.append(
                trips.record(
                    finding,
                    action,
                    segment=self._segment_number,
                    wasted=wasted,
                    banned=banned,
                    quote=quote,
                )
            )
        return action

    def _seconds_for(self, tokens: int) -> float:
        """What so many tokens have cost, at the pace of the running segment."""
        began, produced = self._segment_began
        return (self._clock() - began) * tokens / max(tokens, self._produced - produced)

    def _changed(self, action: Rollback, *, seed: int) -> _Plan:
        """The segment after a rollback."""
        sampling = self._job.sampling
        changes: Changes = action.changes
        if changes.reseed:
            seed = self._derived_seed()
        changed = mutate(sampling, changes)
        if changes.guide and self._draft is not None:
            room = max(0, self._left(len(self._draft)) - 1)
            guide = self._engine.encode(changes.guide)[:room]
            self._draft.guide(guide, changed, self._seeds)
        return _Plan(
            sampling=changed,
            seed=seed,
            # A grammar begins anew with each segment, so its text must come from a single one.
            tokens=0 if self._is_constrained else changes.tokens,
            fresh_cache=action.fresh_cache,
        )
