"""Rollback in the session, on the scripted engine: what a client sees, what is written down."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.engine_gates import Signal
from sluicegate.rollback import attempt_seed, derive_seed
from sluicegate.schemas import (
    Flaw,
    GenerationJob,
    InvalidMessage,
    Reason,
    Sampling,
    StructuredOutput,
)
from sluicegate.worker.endings import Answered, Ending, GaveUp, Refused, Report
from sluicegate.worker.engine import EngineInfo, Segment
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.session import GenerationSession

GOOD = "The quick brown fox jumps over the lazy dog, and nobody minds. " * 3
BAD = "\x00"

Script = Callable[[Segment, str], str]


async def run(
    script: Script, *, chunk: int = 3, stream: bool = False, **job: object
) -> tuple[Ending, Report, list[tuple[int, str]]]:
    engine = ScriptedEngine(script, chunk=chunk)
    await engine.open()
    released: list[tuple[int, str]] = []
    session = GenerationSession(
        GenerationJob(**{"id": "job", "prompt": "go", **job}),  # pyright: ignore[reportArgumentType]
        engine,
        worker="w",
        nonce="n",
        release=(lambda offset, text: released.append((offset, text))) if stream else None,
    )
    ending = await session.run()
    return ending, session.report(ending, None), released


def struck_once(at: int, fault: str = BAD) -> Script:
    """A fault in the first segment only: transient."""
    segments = 0

    def script(segment: Segment, _prompt: str) -> str:
        nonlocal segments
        segments += 1
        return GOOD[:at] + fault + GOOD[at:] if segments == 1 else GOOD

    return script


async def test_a_fault_that_passes_is_cut_out_and_the_text_goes_on() -> None:
    ending, report, _ = await run(struck_once(80))
    assert ending == Answered("stop")
    assert report.text == GOOD
    (trip,) = report.record.trips
    assert trip.flaw is Flaw.DENIED_CHARACTER
    assert trip.action == "rollback"
    assert trip.segment == 0
    assert trip.chars == (80, 81)
    first, *rest = report.record.segments
    assert (first.start, rest[0].start) == (0, trip.kept)
    assert rest[0].prompt_tokens == first.prompt_tokens + trip.kept
    assert trip.wasted == first.tokens - trip.kept
    assert report.usage.wasted_tokens == trip.wasted
    assert report.usage.completion_tokens == len(GOOD) + 1
    assert report.usage.prompt_tokens == 2
    assert sum(each.tokens for each in report.record.segments) == len(GOOD) + 1 + trip.wasted


async def test_what_changes_is_written_down_and_goes_back_to_the_jobs_own() -> None:
    seen: list[Segment] = []
    inner = struck_once(80)

    def script(segment: Segment, prompt: str) -> str:
        seen.append(segment)
        return inner(segment, prompt)

    _, report, _ = await run(script, sampling=Sampling(temperature=0.5, seed=9))
    first, changed, *rest = seen
    assert changed.sampling.temperature != first.sampling.temperature or (
        changed.sampling.repetition_penalty != first.sampling.repetition_penalty
    )
    assert report.record.segments[1].parameters
    assert rest[-1].sampling.temperature == 0.5
    assert not report.record.segments[-1].parameters
    assert [each.sampling.max_tokens for each in (first, rest[-1])] == [
        512,
        512 - rest[-1].carried,
    ]


async def test_after_a_change_for_some_tokens_the_text_goes_on_to_its_limit() -> None:
    for limit in range(82, 140):
        ending, report, _ = await run(struck_once(80), sampling=Sampling(max_tokens=limit))
        assert ending == Answered("length"), limit
        assert report.text == GOOD[:limit]


async def test_a_fault_that_stays_ends_the_attempt_with_its_reason() -> None:
    def script(segment: Segment, _prompt: str) -> str:
        return GOOD[: segment.carried + 40] + BAD

    ending, report, _ = await run(script)
    assert isinstance(ending, GaveUp)
    assert ending.detail
    assert report.record.trips[-1].action == "give_up"
    assert {trip.action for trip in report.record.trips[:-1]} == {"rollback"}
    # What could not be mended is kept as evidence.
    assert report.text.endswith(BAD)


async def test_the_same_job_twice_has_the_same_story() -> None:
    reports = [(await run(struck_once(80), stream=True))[1] for _ in range(2)]
    one, other = ([(s.seed, s.start, s.parameters) for s in r.record.segments] for r in reports)
    assert one == other
    assert reports[0].record.trips == reports[1].record.trips
    seed = attempt_seed("job", None, 1)
    assert {reports[0].record.segments[i].seed for i in range(2)} <= {seed, derive_seed(seed, 1)}


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, len(GOOD)), chunk=st.integers(1, 20), fault=st.integers(0, 2))
async def test_no_client_ever_sees_a_retracted_character(at: int, chunk: int, fault: int) -> None:
    script = struck_once(at, (BAD, "x" * 130, "tick tock " * 30)[fault])
    ending, report, released = await run(script, chunk=chunk, stream=True)
    assert ending == Answered("stop")
    seen = ""
    for offset, text in released:
        assert offset == len(seen)
        seen += text
    assert seen == report.text
    if fault < 2:
        assert report.text == GOOD


async def test_text_is_held_back_and_then_sent() -> None:
    # Nothing in it comes again: a gate that follows a possible loop holds back more.
    text = " ".join(str(number) for number in range(100, 150))
    _, report, released = await run(lambda _segment, _prompt: text, chunk=1, stream=True)
    assert "".join(text for _, text in released) == report.text == text
    assert len(released) > 100
    assert len(released[-1][1]) <= 40


async def test_a_stop_string_over_the_seam_still_stops() -> None:
    stop = GOOD[76:84]
    _, report, released = await run(struck_once(80), stream=True, sampling=Sampling(stop=(stop,)))
    assert report.text == GOOD[:76].partition(stop)[0]
    assert "".join(text for _, text in released) == report.text


async def test_max_tokens_counts_over_the_seam() -> None:
    ending, report, _ = await run(struck_once(30), sampling=Sampling(max_tokens=100))
    assert ending == Answered("length")
    assert report.text == GOOD[:100]


async def test_profiles_and_thresholds_that_there_are_not_are_refused() -> None:
    wrong: tuple[tuple[str, object], ...] = (
        ("profile", "chatty"),
        ("gates", {"character_rum": 1}),
    )
    for name, value in wrong:
        field = f"$.{name}"
        ending, _, _ = await run(struck_once(3), chunk=3, stream=False, **{name: value})
        assert isinstance(ending, Refused)
        assert isinstance(ending.error, InvalidMessage)
        assert (ending.error.reason, ending.error.field) == (Reason.UNSUPPORTED, field)


async def test_a_jobs_own_threshold_rules() -> None:
    script = struck_once(80, "x" * 130)
    _, touched, _ = await run(script)
    assert touched.record.trips
    script = struck_once(80, "x" * 130)
    _, left_alone, _ = await run(script, gates={"character_run": 0, "loop_copies": 0})
    assert not left_alone.record.trips
    assert left_alone.text == GOOD[:80] + "x" * 130 + GOOD[80:]


class Speaking(ScriptedEngine):
    """As if a plug-in ran in it: once, at a place, it forces a sentinel."""

    def __init__(self, signal: Signal, at: int) -> None:
        super().__init__(lambda _segment, _prompt: GOOD, chunk=2)
        self._signal = signal
        self._at = at
        self.segments: list[Segment] = []
        self._info = EngineInfo(
            model="speaking",
            max_model_len=4096,
            vocabulary_size=256,
            denied=frozenset(range(257, 262)),
            sentinels=tuple(range(257, 262)),
        )

    async def stream(self, segment: Segment):  # noqa: ANN201
        self.segments.append(segment)
        first = len(self.segments) == 1
        sent = 0
        async for piece in super().stream(segment):
            sent += len(piece.token_ids)
            if first and sent > self._at:
                sentinel = self.info.sentinels[self._signal]
                yield type(piece)(token_ids=(sentinel,), finish_reason="stop")
                return
            yield piece


async def test_what_the_plug_in_says_is_a_finding() -> None:
    for signal, flaw in (
        (Signal.NON_FINITE, Flaw.NON_FINITE_LOGITS),
        (Signal.UNIFORM, Flaw.UNIFORM_LOGITS),
        (Signal.LOW_CONFIDENCE, Flaw.LOW_CONFIDENCE),
    ):
        engine = Speaking(signal, 60)
        await engine.open()
        session = GenerationSession(GenerationJob(prompt="go"), engine, worker="w", nonce="n")
        ending = await session.run()
        report = session.report(ending, None)
        assert ending == Answered("stop")
        assert report.text == GOOD
        (trip,) = report.record.trips
        assert (trip.flaw, trip.action) == (flaw, "rollback")
        assert trip.wasted == 60 + 1 - trip.kept
        again = engine.segments[1]
        # A numeric fault may have poisoned what is cached: from the prompt, and read none of it.
        assert again.fresh_cache == (signal is not Signal.LOW_CONFIDENCE)
        assert (again.carried == 0) == (signal is not Signal.LOW_CONFIDENCE)


class Doubtful(Speaking):
    """Says at the same place, or after every few tokens, that it lost its confidence."""

    def __init__(self, every: int, times: int) -> None:
        super().__init__(Signal.LOST_CONFIDENCE, every)
        self._times = times

    async def stream(self, segment: Segment):  # noqa: ANN201
        self.segments.append(segment)
        sent = 0
        async for piece in ScriptedEngine.stream(self, segment):
            sent += len(piece.token_ids)
            if len(self.segments) <= self._times and sent > self._at:
                sentinel = self.info.sentinels[Signal.LOST_CONFIDENCE]
                yield type(piece)(token_ids=(sentinel,), finish_reason="stop")
                return
            yield piece


async def told(engine: ScriptedEngine, **job: object) -> tuple[Ending, Report]:
    await engine.open()
    session = GenerationSession(
        GenerationJob(**{"prompt": "go", **job}),  # pyright: ignore[reportArgumentType]
        engine,
        worker="w",
        nonce="n",
    )
    ending = await session.run()
    return ending, session.report(ending, None)


async def test_a_doubt_is_noted_and_the_text_goes_on() -> None:
    ending, report = await told(Doubtful(100, 1))
    assert ending == Answered("stop")
    assert report.text == GOOD
    assert [trip.action for trip in report.record.trips] == ["note"]
    assert report.usage.completion_tokens == len(GOOD) + 1
    assert report.usage.wasted_tokens == 1


async def test_the_same_doubt_with_nothing_said_in_between_ends() -> None:
    ending, report = await told(Doubtful(0, 10**9))
    assert isinstance(ending, GaveUp)
    assert len(report.record.segments) < 50


async def test_a_grammar_is_never_resumed_in_the_middle() -> None:
    engine = Doubtful(40, 1)
    sampling = Sampling(structured_output=StructuredOutput(json_schema={"type": "object"}))
    ending, _ = await told(engine, sampling=sampling)
    assert all(segment.carried == 0 for segment in engine.segments)
    # It is not asked of a text that a grammar holds.
    assert {each.gates.confidence_window for each in engine.segments if each.gates} == {0}
    assert isinstance(ending, Answered | GaveUp)


async def test_a_text_that_fills_the_context_after_a_rollback_is_an_answer() -> None:
    whole = GOOD + GOOD
    seen = 0

    def script(_segment: Segment, _prompt: str) -> str:
        nonlocal seen
        seen += 1
        return whole[:60] + BAD if seen == 1 else whole

    for room in range(61, 100):
        seen = 0
        engine = ScriptedEngine(script, chunk=1, max_model_len=2 + room)
        ending, report = await told(engine)
        assert ending == Answered("length"), room
        assert report.text == whole[:room]


async def test_what_ended_a_text_that_was_thrown_away_is_wasted() -> None:
    seen = 0

    def script(_segment: Segment, _prompt: str) -> str:
        nonlocal seen
        seen += 1
        return "  " if seen == 1 else GOOD

    ending, report = await told(ScriptedEngine(script))
    assert ending == Answered("stop")
    assert report.usage.completion_tokens == len(GOOD) + 1
    assert [trip.segment for trip in report.record.trips] == [0]
    assert report.usage.wasted_tokens == 3


async def test_what_a_gate_followed_is_not_sent_when_it_is_found() -> None:
    """At that step nothing is suspected any more: it is known."""
    sound = "It was a bright cold day in April, and the clocks were striking thirteen. " * 2 + "So"
    seen = 0

    def script(_segment: Segment, _prompt: str) -> str:
        nonlocal seen
        seen += 1
        return f"{sound} я и он не были там" if seen == 1 else f"{sound} it was."

    _, report, released = await run(
        script, chunk=1, stream=True, gates={"hold_back_tokens": 3, "loop_copies": 0}
    )
    assert [trip.flaw for trip in report.record.trips] == [Flaw.SCRIPT_SWITCH]
    assert report.text == f"{sound} it was."
    assert "".join(piece for _, piece in released) == report.text
