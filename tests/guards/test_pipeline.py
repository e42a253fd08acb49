"""The gates of a profile together: the law, the first finding, and what profiles let be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.gate import Step
from sluicegate.guards.pipeline import Pipeline, streaming_gates
from sluicegate.guards.profiles import BadProfile, Profile, profile, profile_names

from .gate_law import assert_law, feed, steps

# Low enough that short random streams trip every gate.
LOW = {
    "silent_tokens": 3,
    "character_run": 6,
    "line_run": 9,
    "word_run": 4,
    "marker_run": 3,
    "mojibake": 2,
    "loop_copies": 3,
    "loop_tokens": 6,
    "loop_characters": 6,
    "long_loop_tokens": 12,
    "fill_run": 9,
}
# The gates of a window as well.
COHERENT = {
    "coherence_window": 50,
    "coherence_every": 8,
    "incoherence": 30.0,
    "script_breaks": 1,
    "novelty_window": 12,
    "min_novelty": 0.9,
}
PIECES = ["a", "aa", "word", "-", "", "Ã©", "\x07", "\ufffd", "<s>", "<pad", ">", "é", "\n", "☃"]
streams = st.lists(
    st.integers(-1, len(PIECES)).map(lambda n: (n, PIECES[n % len(PIECES)])), max_size=60
)


def low(**more: float) -> Pipeline:
    thresholds = LOW | {"incoherence": 0, "script_breaks": 0} | more
    return streaming_gates(profile("chat", thresholds), vocabulary_size=len(PIECES), denied={13})


def lowest() -> Pipeline:
    return low(**COHERENT)


def first(text: str, name: str, width: int = 4) -> Finding | None:
    gates = streaming_gates(profile(name), vocabulary_size=1 << 32)
    ids: dict[str, int] = {}
    cut = [text[start : start + width] for start in range(0, len(text), width)]
    stream = [(ids.setdefault(piece, len(ids)), piece) for piece in cut]
    return next((found for found in feed(gates, steps(stream)) if found), None)


@settings(max_examples=300, deadline=None)
@given(before=streams, then=streams, data=st.data())
def test_the_law(
    before: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    fresh = data.draw(st.sampled_from([low, lowest]))
    assert_law(fresh, before, data.draw(st.integers(0, len(before))), then)


@settings(deadline=None)
@given(data=st.data())
def test_the_law_over_many_cuts(data: st.DataObject) -> None:
    gates = low()
    kept: list[tuple[int, str]] = []
    for _ in range(5):
        more = data.draw(streams)
        feed(gates, steps([*kept, *more])[len(kept) :])
        kept = [*kept, *more]
        kept = kept[: data.draw(st.integers(0, len(kept)))]
        gates.truncate(len(kept))
    tail = data.draw(streams)
    whole = steps([*kept, *tail])
    assert feed(gates, whole[len(kept) :]) == feed(low(), whole)[len(kept) :]


@pytest.mark.parametrize(
    ("stream", "flaw"),
    [
        ([(99, "a")], Flaw.ID_OUT_OF_RANGE),
        ([(13, "☃")], Flaw.DENIED_TOKEN),
        ([(1, "")] * 3, Flaw.SILENT_TOKENS),
        ([(1, "\x07"), (2, "\x07")], Flaw.CONTROL_CHARACTER),
        ([(1, "dÃ©jÃ©")], Flaw.MOJIBAKE),
        ([(1, "\0")], Flaw.DENIED_CHARACTER),
        ([(n, "!") for n in range(6)], Flaw.CHARACTER_RUN),
        ([(1, "word")] * 4, Flaw.WORD_RUN),
        ([(1, "<s><pad><unk>")], Flaw.MARKER_RUN),
        ([(1, "x"), (2, "y"), (3, "z")] * 4, Flaw.LOOP),
    ],
)
def test_every_gate_is_in_it(stream: list[tuple[int, str]], flaw: Flaw) -> None:
    found = [one for one in feed(low(), steps(stream)) if one]
    assert found
    assert found[0].flaw is flaw


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("code", "char zero[] = " + "A" * 700),
        ("code", "\ue0a0 \ue0b0 \ue0b2 \uf113 icons of a prompt"),
        ("data", "A" * 600 + "=="),
        ("data", "0, " * 300),
        ("ocr", "Page 1\n\f\n\ue0a0 \ue0b0 \ue0b2 \uf113 of a form" + "." * 200),
        ("creative", "A" + "a" * 150 + "h!"),
        ("off", "!" * 5000 + "\x07" * 9 + "\ufffd" * 9),
    ],
)
def test_what_a_profile_lets_be(name: str, text: str) -> None:
    assert first(text, name) is None
    assert first(text, "chat") is not None


def test_colours_for_a_terminal_are_text_everywhere() -> None:
    for name in profile_names():
        assert (
            first("\x1b[1;31merror:\x1b[0m no such file \x1b[2m(os error 2)\x1b[0m", name) is None
        )


def test_off_still_minds_the_ids() -> None:
    gates = streaming_gates(profile("off"), vocabulary_size=10, denied={3})
    found = feed(gates, steps([(1, ""), (3, ""), (10, "")]))
    assert [one and one.flaw for one in found] == [None, Flaw.DENIED_TOKEN, Flaw.ID_OUT_OF_RANGE]


class Says:
    """A gate that always finds something of its level."""

    name = "says"

    def __init__(self, level: Level, flaw: Flaw) -> None:
        self.level, self.flaw = level, flaw
        self.fed = 0

    def feed(self, step: Step) -> Finding | None:
        self.fed += 1
        return Finding(
            gate=self.name,
            level=self.level,
            flaw=self.flaw,
            tokens=(step.position, step.position + 1),
            chars=(step.offset, step.offset),
            score=1,
            threshold=1,
        )

    def truncate(self, n_tokens: int) -> None:
        self.fed = n_tokens


def test_a_certain_fault_goes_before_a_likely_one_and_all_are_fed() -> None:
    likely, loop = Says(Level.COHERENCE, Flaw.INCOHERENT), Says(Level.TEXT, Flaw.LOOP)
    denied = Says(Level.TOKEN, Flaw.DENIED_TOKEN)
    found = Pipeline([likely, loop, denied]).feed(Step(1, "a", 0, 0))
    assert found is not None
    # Among certain ones the first gate's counts.
    assert found.flaw is Flaw.LOOP
    assert (likely.fed, loop.fed, denied.fed) == (1, 1, 1)


def test_what_is_followed_is_told_before_it_trips_and_forgotten_when_it_breaks() -> None:
    gates = streaming_gates(profile("chat"), vocabulary_size=1 << 32)
    begin = [(n, f" w{n}") for n in range(5)]
    unit = [(100 + n, f" u{n}") for n in range(7)]
    stream = steps([*begin, *unit * 20])
    for step in stream[: 5 + 7 + 15]:
        assert gates.feed(step) is None
        assert gates.suspected() is None
    assert gates.feed(stream[27]) is None
    assert gates.suspected() == 5
    tripped = next(found for found in map(gates.feed, stream[28:]) if found)
    assert tripped.tokens[0] == 5
    gates.truncate(40)
    assert gates.suspected() == 5
    assert gates.feed(steps([(9999, " other")], stream[:40])[0]) is None
    assert gates.suspected() is None


@pytest.mark.parametrize(
    ("stream", "place"),
    [
        ([(1, "a"), *[(2, "!!")] * 8], 1),
        ([(1, "word")] * 16, 0),
        ([(1, "ab"), (2, "\x07"), (3, "cd")], 1),
        ([(1, "ab"), (2, "\x07"), (3, "cd" * 120)], None),
        ([(1, "a"), *[(2, "!!")] * 7], None),
    ],
)
def test_what_each_gate_follows(stream: list[tuple[int, str]], place: int | None) -> None:
    gates = streaming_gates(profile("chat"), vocabulary_size=10)
    assert not any(feed(gates, steps(stream)))
    assert gates.suspected() == place


def test_what_is_switched_off_is_not_followed() -> None:
    gates = streaming_gates(profile("off"), vocabulary_size=10)
    feed(gates, steps([(1, "word")] * 50 + [(2, "\x07")] + [(3, "!")] * 50))
    assert gates.suspected() is None


def test_structured_output_is_judged_by_its_ids() -> None:
    stream = steps([(1, "!")] * 150 + [(77, "")])
    exempt = streaming_gates(profile("chat"), vocabulary_size=10, structured=True)
    found = [one for one in feed(exempt, stream) if one]
    assert [one.flaw for one in found] == [Flaw.ID_OUT_OF_RANGE]
    asked = streaming_gates(
        profile("chat", {"structured_text_gates": 1}), vocabulary_size=10, structured=True
    )
    assert any(one.flaw is Flaw.CHARACTER_RUN for one in feed(asked, stream) if one)


def test_from_outside_the_logprob_is_judged_too() -> None:
    step = Step(1, "a", 0, 0, float("nan"))
    assert streaming_gates(profile("off"), vocabulary_size=10).feed(step) is None
    found = streaming_gates(profile("off"), vocabulary_size=10, outside=True).feed(step)
    assert found is not None
    assert found.flaw is Flaw.NON_FINITE_LOGITS


@pytest.mark.parametrize("off", ["loop_tokens", "loop_copies"])
def test_a_loop_rule_of_zero_is_off(off: str) -> None:
    loop = [(n, f" w{n}") for n in range(9)] * 60
    for key, other in ((off, f"long_{off}"), (f"long_{off}", off)):
        one = streaming_gates(profile("chat", {key: 0}), vocabulary_size=10)
        assert any(feed(one, steps(loop)))
        none = streaming_gates(profile("chat", {key: 0, other: 0}), vocabulary_size=10)
        assert not any(feed(none, steps(loop)))


def test_a_run_with_a_low_limit_is_followed_from_half_of_it_on() -> None:
    gates = streaming_gates(profile("chat", {"word_run": 6}), vocabulary_size=10)
    stream = steps([(1, "a"), *[(2, " word")] * 6])
    places: list[int | None] = []
    for step in stream[:-1]:
        assert gates.feed(step) is None
        places.append(gates.suspected())
    assert places == [None, None, None, 1, 1, 1]
    assert gates.feed(stream[-1])


NUMBERS = [name for name, kind in Profile.__annotations__.items() if kind in (int, float)]


@settings(max_examples=200, deadline=None)
@given(
    said=st.dictionaries(
        st.sampled_from(NUMBERS), st.sampled_from([0, 1, 2, 50, 1000]), max_size=6
    ),
    stream=streams,
)
def test_thresholds_that_are_allowed_are_safe(
    said: dict[str, int], stream: list[tuple[int, str]]
) -> None:
    allowed: dict[str, int] = {}
    for key, value in said.items():
        try:
            profile("chat", {key: value})
        except BadProfile:
            continue
        allowed[key] = value
    gates = streaming_gates(profile("chat", allowed), vocabulary_size=len(PIECES))
    for step in steps(stream * 3):
        found = gates.feed(step)
        place = gates.suspected()
        assert place is None or 0 <= place <= step.position
        assert found is None or 0 <= found.tokens[0] < found.tokens[1] == step.position + 1
