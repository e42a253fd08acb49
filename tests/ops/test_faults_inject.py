"""What an injection comes to, and how it is shown."""

import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from sluicegate.guards.reasoning.tags import make_tags
from sluicegate.ops.cli import main
from sluicegate.ops.cmd_demo import FAULTS
from sluicegate.ops.faults import CannotInject, Fault, Order, Orders, Vocabulary, order
from sluicegate.ops.inject import (
    Injection,
    Raw,
    Saved,
    gated_of,
    inject,
    job_for,
    run_raw,
    saved,
    thinking_job,
)
from sluicegate.ops.inject_judge import found_after, is_clean, surviving
from sluicegate.ops.inject_view import lines, verdict
from sluicegate.ops.side_by_side import columns
from sluicegate.schemas import (
    AttemptRecord,
    Flaw,
    GenerationJob,
    Level,
    ReasoningRecord,
    SegmentRecord,
    Timings,
    TripRecord,
    Usage,
)
from sluicegate.worker.endings import Answered, Ending, GaveUp, Report
from sluicegate.worker.engine import EngineInfo, Segment
from sluicegate.worker.gating import Gating
from sluicegate.worker.scripted import ScriptedEngine

NAN = Order(kind=Fault.NAN, at=24, length=4)
LOOP = Order(kind=Fault.LOOP, at=10, length=1000, ids=(1, 2), text=" over and over")
THOUGHT = Order(kind=Fault.REASONING_LOOP, at=24, length=1000, ids=(1, 2), text=" Hmm, no.")
TAGS = make_tags("<think>", "</think>", lambda text: list(text.encode()), ())


def segment(start: int, tokens: int) -> SegmentRecord:
    return SegmentRecord(seed=1, start=start, prompt_tokens=9 + start, tokens=tokens, engine_s=0.5)


def trip(
    number: int,
    tokens: tuple[int, int],
    kept: int,
    action: Any = "rollback",
    channel: Any = "content",
) -> TripRecord:
    return TripRecord(
        channel=channel,
        segment=number,
        gate="logits",
        level=Level.LOGITS,
        flaw=Flaw.NON_FINITE_LOGITS,
        tokens=tokens,
        chars=(0, 0),
        score=1,
        threshold=0,
        action=action,
        kept=kept,
    )


def report(
    segments: tuple[SegmentRecord, ...],
    trips: tuple[TripRecord, ...] = (),
    text: str = "fine",
    ending: Ending | None = None,
    reasoning: str | None = None,
) -> Report:
    return Report(
        ending=ending or Answered("stop"),
        text=text,
        reasoning=reasoning,
        record=AttemptRecord(
            attempt=1,
            worker="w",
            started_at=datetime.now(UTC),
            segments=segments,
            trips=trips,
            usage=Usage(wasted_tokens=6),
        ),
        timings=Timings(engine_s=1.5),
    )


def test_the_command_offers_every_fault() -> None:
    assert tuple(Fault) == FAULTS


@pytest.mark.parametrize(
    "arguments",
    [
        ("--inject", "gremlins"),
        ("--inject", "nan", "--engine", "scripted"),
        ("--seed", "3"),
        ("--at", "3"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["demo", *arguments])
    assert result.exit_code == 2, result.output
    assert "--inject" in result.output


def test_the_help_names_every_fault() -> None:
    output = CliRunner().invoke(main, ["demo", "--help"]).output
    assert all(f"  {kind} " in output for kind in Fault)


def test_a_finding_counts_from_the_first_struck_token() -> None:
    assert found_after([], NAN) is None
    assert found_after([trip(0, (20, 24), 20)], NAN) is None
    assert found_after([trip(0, (20, 24), 20), trip(1, (24, 25), 0)], NAN) == 1
    assert found_after([trip(0, (20, 28), 20)], NAN) == 4


def test_a_loop_in_the_reasoning_is_found_when_it_is_cut() -> None:
    suspicion = trip(0, (24, 90), 0, "note", "reasoning")
    cut = trip(0, (24, 121), 24, "cut", "reasoning")
    # Tokens of the answer are counted from its own beginning.
    of_the_answer = trip(1, (30, 60), 30)
    assert found_after([suspicion, of_the_answer], THOUGHT) is None
    assert found_after([suspicion, cut, of_the_answer], THOUGHT) == 97
    assert found_after([cut], LOOP) is None


@pytest.mark.parametrize(
    ("trips", "left"),
    [
        ((trip(0, (24, 121), 24, "cut", "reasoning"),), 0),
        # Its first turn, of two tokens, is a thought.
        ((trip(0, (26, 121), 26, "cut", "reasoning"),), 0),
        ((trip(0, (31, 121), 31, "cut", "reasoning"),), 5),
        # A second cut goes deeper; a rollback in the answer is another matter.
        (
            (
                trip(0, (31, 121), 31, "cut", "reasoning"),
                trip(1, (15, 31), 15, "cut", "reasoning"),
            ),
            0,
        ),
        ((trip(0, (31, 121), 31, "cut", "reasoning"), trip(1, (3, 4), 3)), 5),
        ((trip(0, (24, 121), 0, "note", "reasoning"),), 95),
    ],
)
def test_struck_thoughts_are_followed_through_the_cuts(
    trips: tuple[TripRecord, ...], left: int
) -> None:
    found = report((segment(0, 121), segment(60, 50)), trips, reasoning="A thought.")
    assert surviving(found, THOUGHT) == left
    assert is_clean(found, THOUGHT) == (left == 0)


@pytest.mark.parametrize(
    ("reasoning", "text", "clean"),
    [
        ("Light is bent. Hmm, no.", "It is bent.", True),
        ("Light is bent. Hmm, no. Hmm, no.", "It is bent.", False),
        ("Light is bent.", "Hmm, no. Hmm, no. It is bent.", False),
        ("Light is bent.", " \n", False),
        (None, "It is bent.", True),
    ],
)
def test_behind_a_loop_in_the_reasoning_there_is_an_answer_without_it(
    reasoning: str | None, text: str, clean: bool
) -> None:
    found = report((segment(0, 9),), text=text, reasoning=reasoning)
    assert is_clean(found, THOUGHT) is clean


@pytest.mark.parametrize(
    ("segments", "trips", "left"),
    [
        # Not found: all four of it, or as many as the text had room for.
        ((segment(0, 90),), (), 4),
        ((segment(0, 26),), (), 2),
        ((segment(0, 20),), (), 0),
        # Cut before it, in the middle of it, behind it.
        ((segment(0, 25), segment(24, 50)), (trip(0, (24, 25), 24),), 0),
        ((segment(0, 27), segment(26, 50)), (trip(0, (26, 27), 26),), 2),
        ((segment(0, 60), segment(40, 50)), (trip(0, (40, 60), 40),), 4),
        # A note takes nothing away, a later rollback does.
        ((segment(0, 60), segment(9, 50)), (trip(0, (24, 25), 0, "note"),), 4),
        ((segment(0, 60), segment(60, 9), segment(5, 9)), (trip(1, (5, 69), 5),), 0),
        # The fault happened once: what later segments bring is their own.
        ((segment(0, 25), segment(0, 90)), (trip(0, (24, 25), 0),), 0),
        # The first segment ended before it was struck.
        ((segment(0, 20), segment(10, 90)), (trip(0, (12, 20), 10),), 4),
    ],
)
def test_struck_tokens_are_followed_through_the_rollbacks(
    segments: tuple[SegmentRecord, ...], trips: tuple[TripRecord, ...], left: int
) -> None:
    found = report(segments, trips)
    assert surviving(found, NAN) == left
    assert is_clean(found, NAN) == (left == 0)


def test_a_persistent_fault_is_in_every_segment() -> None:
    again = structs.replace(NAN, persistent=True)
    found = report((segment(0, 25), segment(0, 90)), (trip(0, (24, 25), 0),))
    assert surviving(found, again) == 4


def test_an_attempt_that_was_given_up_is_not_clean() -> None:
    assert not is_clean(report((segment(0, 9),), ending=GaveUp("enough")), NAN)


@pytest.mark.parametrize(
    ("ordered", "text", "clean"),
    [
        (LOOP, "We went over and over it.", True),
        (LOOP, "We went over and over over and over it.", False),
        (Order(kind=Fault.MOJIBAKE, at=90, length=4), "cafÃ© crÃ¨me", False),
        (Order(kind=Fault.MOJIBAKE, at=90, length=4), "café crème", True),
        (Order(kind=Fault.LANGUAGE, at=90, length=4, text=" Погода"), "the word Погода", False),
        (Order(kind=Fault.LANGUAGE, at=90, length=4, text=" Погода"), "по", True),
    ],
)
def test_the_text_itself_is_looked_at_as_well(ordered: Order, text: str, clean: bool) -> None:
    assert is_clean(report((segment(0, 9),), text=text), ordered) is clean


async def test_both_runs_on_an_engine() -> None:
    """The scripted engine's tokens are bytes, and it does not do what is ordered: its script does,
    where no gates were asked for, as on the plain engine."""
    phrase = " round and round"
    words = Vocabulary(encode=lambda text: list(text.encode()), silent=(), denied=())
    ordered = structs.replace(
        order(Fault.LOOP, words, at=4, length=64), ids=tuple(phrase.encode()), text=phrase
    )

    def script(asked: Segment, prompt: str) -> str:
        return "It is" + phrase * 4 + " it goes" if asked.gates is None else f"It is {prompt}"

    engine = ScriptedEngine(script)
    await engine.open()
    said: list[str] = []
    job = job_for(ordered, "one", prompt="fine.")
    found = await inject(engine, Orders(), ordered, job, said.append)
    await engine.close()
    assert found.raw.text == "It is" + phrase * 4 + " it goes"
    assert found.raw.span == (4, 68)
    assert found.gated.text == "It is fine."
    assert (found.gated.outcome, found.gated.surviving) == ("completed", 7)
    assert found.found_after_tokens is None
    assert not found.ok
    assert len(said) == 3


class ThinkingEngine(ScriptedEngine):
    """Its outputs may have a block of reasoning."""

    @property
    def info(self) -> EngineInfo:
        return structs.replace(super().info, tags=TAGS)


PHRASE = " Wait, let me check that again."
MUSING = "Light enters a drop, and is bent."
ANSWER = "A rainbow forms where light is bent by drops of rain."


def going_round(asked: Segment, _prompt: str) -> str:
    """A model that goes round in its reasoning, and answers where that is closed for it."""
    said = bytes(asked.prompt_token_ids[len(asked.prompt_token_ids) - asked.carried :]).decode()
    return said + ANSWER if "</think>" in said else MUSING + PHRASE * 99


async def test_a_loop_in_the_reasoning_on_an_engine() -> None:
    """The script does what is ordered, to both runs alike."""
    words = Vocabulary(encode=lambda text: list(text.encode()), silent=(), denied=())
    ordered = structs.replace(
        order(Fault.REASONING_LOOP, words, at=len(MUSING)),
        ids=tuple(PHRASE.encode()),
        text=PHRASE,
    )
    engine = ThinkingEngine(going_round)
    await engine.open()
    job = await thinking_job(engine, ordered, "one")
    assert bytes(job.prompt_token_ids or ()).decode().endswith("<think>\n")
    found = await inject(engine, Orders(), ordered, job, lambda _: None, Gating(wrap_up="Enough."))
    await engine.close()
    raw, gated = found.raw, found.gated
    assert raw.text == ""
    assert raw.reasoning == (MUSING + PHRASE * 99)[: job.sampling.max_tokens]
    assert raw.span[0] == len(MUSING + PHRASE)
    assert (raw.reasoning or "")[slice(*raw.span)].startswith(PHRASE * 9)
    # Whoever thinks a thing once has thought it: where the second turn begins is the cut. The last
    # character of the first one stands before the loop as well.
    assert (gated.reasoning, gated.text) == ((MUSING + PHRASE)[:-1], ANSWER)
    assert (gated.outcome, gated.surviving, found.clean, found.ok) == ("completed", 0, True, True)
    assert gated.reasoning_record is not None
    assert (gated.reasoning_record.cuts, gated.reasoning_record.ended) == (1, "cut")
    assert found.found_after_tokens is not None
    assert found.saved is not None
    spent = sum(each.tokens for each in gated.segments)
    assert found.saved.tokens == len(raw.token_ids) - spent > 0


async def test_a_plain_engine_that_gets_to_an_answer_has_one() -> None:
    engine = ThinkingEngine(lambda _asked, _prompt: "I think.</think>So it is.")
    await engine.open()
    job = await thinking_job(engine, THOUGHT, "one")
    raw = await run_raw(engine, THOUGHT, job, "one.raw")
    await engine.close()
    assert (raw.reasoning, raw.text) == ("I think.", "So it is.")


async def test_an_engine_without_tags_cannot_have_it() -> None:
    engine = ScriptedEngine()
    await engine.open()
    with pytest.raises(CannotInject, match="reasoning_start"):
        await thinking_job(engine, THOUGHT, "one")
    await engine.close()


class OpeningEngine(ThinkingEngine):
    """Its chat template opens the block."""

    async def prompt_token_ids(self, job: GenerationJob) -> tuple[int, ...]:
        asked = await super().prompt_token_ids(job)
        return (*asked, *b"<think>\n") if job.prompt_token_ids is None else asked


async def test_a_prompt_that_opens_the_block_itself_is_left_as_it_is() -> None:
    engine = OpeningEngine()
    await engine.open()
    job = await thinking_job(engine, THOUGHT, "one")
    await engine.close()
    assert bytes(job.prompt_token_ids or ()).decode().count("<think>") == 1


def shown(**changes: Any) -> Injection:
    gated = gated_of(
        report(
            (segment(0, 25), segment(0, 60)),
            (trip(0, (24, 25), 0),),
            text="A good text.",
        ),
        NAN,
    )
    made = Injection(
        kind=Fault.NAN,
        seed=0,
        at=24,
        length=4,
        raw=Raw(text="A bad text", token_ids=(1,) * 90, onset=24, span=(2, 5)),
        gated=gated,
        found_after_tokens=1,
        clean=True,
    )
    return structs.replace(made, **changes)


def test_it_is_shown_side_by_side_with_the_timeline_and_the_verdict() -> None:
    text = "\n".join(lines(shown(), width=100, colour=False))
    assert "A ⟦bad⟧ text" in text
    assert "A good text." in text
    assert "non_finite_logits by logits (level 1)" in text
    assert "kept 0" in text
    assert "found with its token number 1; nothing of it is in the text" in text
    silent = Raw(text="A text", token_ids=(1,) * 90, onset=24, span=(2, 2))
    assert "⟦(4 tokens without text)⟧" in "\n".join(
        lines(shown(raw=silent), width=100, colour=False)
    )


def test_reasoning_and_answers_are_shown_with_what_was_saved() -> None:
    cut = trip(0, (24, 121), 24, "cut", "reasoning")
    found = report(
        (segment(0, 121), segment(60, 29)), (cut,), text="It is bent.", reasoning="I think."
    )
    raw = Raw(
        text="",
        reasoning="I think." + " Hmm, no." * 200,
        token_ids=(1,) * 600,
        onset=24,
        span=(8, 1808),
        engine_s=6.0,
    )
    gated = gated_of(found, THOUGHT)
    made = shown(
        kind=Fault.REASONING_LOOP,
        length=1000,
        raw=raw,
        gated=gated,
        found_after_tokens=97,
        saved=saved(raw, gated),
    )
    text = "\n".join(lines(made, width=100, colour=False))
    assert "I think.⟦ Hmm, no." in text
    # The whole of it would fill the terminal.
    assert "characters…]" in text
    assert len(text.splitlines()) < 60
    head = next(line for line in text.splitlines() if "no answer" in line)
    assert head.split("│")[1].strip() == "answer:"
    assert "It is bent." in text
    assert "kept 24" in text
    assert "nothing of it is in what the answer was made from" in text
    assert "Saved: 450 of 600 tokens and 4.50 of 6.00 s." in text
    assert "4.0 times the tokens and 4.0 times the time, for no answer." in text
    record = ReasoningRecord(mode="cut", effort="low", cap=768, tokens=26, cuts=1, ended="cut")
    kept = structs.replace(made, gated=structs.replace(gated, reasoning_record=record))
    assert "of it only the first turn" in verdict(kept)
    assert "cap 768 tokens" in "\n".join(lines(kept, width=100, colour=False))
    less = structs.replace(made, clean=False, gated=structs.replace(gated, text=" "))
    assert "there is no answer" in verdict(less)


def test_what_took_more_saved_less_than_nothing() -> None:
    raw = Raw(text="So.", reasoning="I think.", token_ids=(1,) * 30, onset=9, span=(1, 2))
    gated = gated_of(report((segment(0, 40),)), THOUGHT)
    assert saved(raw, gated) == Saved(tokens=-10, seconds=-1.5, token_ratio=0.75, time_ratio=0.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"found_after_tokens": None}, "was not found"),
        ({"raw": Raw(text="A", token_ids=(1,), onset=1, span=(1, 1))}, "no fault struck"),
        ({"clean": False}, "still looks like it"),
    ],
)
def test_the_verdict_says_what_went_wrong(changes: dict[str, Any], words: str) -> None:
    assert words in verdict(shown(**changes))


TEXTS = st.text(max_size=300)


def _width(line: str) -> int:
    narrow = sum(unicodedata.category(c) not in ("Mn", "Me") for c in line)
    return narrow + sum(unicodedata.east_asian_width(c) in "WF" for c in line)


@given(TEXTS, TEXTS, st.integers(50, 160), st.data())
def test_no_line_is_too_wide_and_no_character_reaches_the_terminal_that_it_would_obey(
    left: str, right: str, width: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(left)))
    end = data.draw(st.integers(start, len(left)))
    for line in columns(left, right, marked=(start, end), width=width, colour=False):
        assert _width(line) <= width
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs") for c in line)


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=12), max_size=40))
def test_words_are_kept(words: list[str]) -> None:
    text = " ".join(words)
    found = columns(text, text, marked=(0, 0), width=60, colour=False)
    cells = [line.split("│") for line in found]
    assert " ".join(left for left, _ in cells).split() == words
    assert " ".join(right for _, right in cells).split() == words


@given(st.integers(0, 40), st.integers(0, 3000), st.integers(0, 40), st.integers(50, 160))
def test_of_much_that_is_marked_both_ends_are_shown(
    before: int, marked: int, after: int, width: int
) -> None:
    left = "x" * before + "y" * marked + "z" * after
    text = "".join(
        line.split("│")[0].rstrip()
        for line in columns(left, "", marked=(before, before + marked), width=width, colour=False)
    )
    assert (text.count("x"), text.count("z")) == (before, after)
    assert text.count("y") == (marked if marked <= 600 else 560)
    assert ("…" in text) == (marked > 600)


def test_colour_marks_the_span_alone() -> None:
    (line,) = columns("ab", "c", marked=(1, 2), width=60, colour=True)
    assert "\x1b[31m\x1b[1mb\x1b[0m" in line
    assert line.startswith("a\x1b")
