"""Fresh drafts for an attempt: of the reasoning, and of the answer."""

from collections.abc import Callable

from ..guards.gate import Gate
from ..guards.pipeline import Pipeline, block_gates
from ..guards.reasoning.again import AgainGate
from ..guards.reasoning.guard import reasoning_gates
from ..rollback import CheckpointStack, checkpoint_interval
from ..schemas import GenerationJob
from .draft import Draft
from .engine import Engine, EngineInfo
from .gating import JobGating
from .release import Release, Releaser
from .stop_strings import StopStrings
from .thinking import Thinking
from .transcript import Transcript

MakeGates = Callable[[JobGating, EngineInfo, GenerationJob], Pipeline]


class Drafts:
    """Makes them. `gates` gives those of an answer; each draft sends to its own release."""

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

    def reasoning(self, base: tuple[int, ...], lead: str, thinking: Thinking) -> Draft:
        """What is thought behind the accepted tokens `base`. `lead`: text that came with the start
        tag."""
        tags = thinking.tags
        transcript = Transcript(
            lambda: self._engine.detokenizer((*self._prompt, *base)),
            StopStrings(() if tags.by_id else (tags.end,)),
            stop_ids=tags.end_ids if tags.by_id else (),
            lead=lead,
        )
        info, profile = self._engine.info, self._rules.profile
        watched = thinking.wanted.mode != "off"
        gates = block_gates(
            profile,
            vocabulary_size=info.vocabulary_size,
            denied=info.denied,
            outside=not info.sentinels,
            guard=reasoning_gates(profile, thinking.wanted.cap, thinking.noted)
            if watched
            else None,
        )
        return self._draft(transcript, gates, self._release_reasoning)

    def answer(
        self,
        base: tuple[int, ...],
        lead: str,
        thinking: Thinking | None,
        *,
        spent: int,
        first: bool,
    ) -> Draft:
        """What is said behind `base`, of which `spent` count towards `min_tokens`. `first`: it may
        yet turn out to begin with reasoning."""
        sampling = self._job.sampling
        transcript = Transcript(
            lambda: self._engine.detokenizer((*self._prompt, *base)),
            StopStrings(sampling.stop, max(0, sampling.min_tokens - spent)),
            lead=lead,
        )
        gates = self._gates(self._rules, self._engine.info, self._job)
        if thinking is not None:
            tags = thinking.tags
            again: Gate = AgainGate(
                tags.start,
                tags.end,
                tags.start_ids,
                tags.end_ids,
                by_id=tags.by_id,
                cut=first or thinking.closed_by_us,
            )
            gates = Pipeline([again, gates], thinking.noted)
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
