"""Coherence: the law, salad found, text left alone, and what is acted on."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.coherence import Acting, CoherenceGate, CoherenceRules
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.gate import Step
from sluicegate.guards.ngrams import Ngrams, built_in
from sluicegate.guards.pipeline import streaming_gates
from sluicegate.guards.profiles import profile, profile_names

from .gate_law import assert_law, feed, steps

PIECES = ["ab", " c", "abab", "", "жы", "жыab", "中", " word", "\n"]
streams = st.lists(
    st.integers(0, len(PIECES) - 1).map(lambda n: (n, PIECES[n])), min_size=10, max_size=90
)
# Pieces of a vocabulary, as a blind draw would give them.
_DRAWN = (
    " promoting|Ley|icid|enses|(){| HHS|wealth| unre| Aviv|ly|<h|prom| other|world|\tif|s Kau|vern"
    "|illing|ing|Return|(void|ELSE|opath| Xi|};|cephal| +=|route|ifer|preted|Nic|$.get|rowing| McD"
    "|olesc|Pse|udo| Quart|zzo|.map|ilters|arde|UTF| vib|Const|ructor|ously|ibli|ograph|);//|ammer"
)
BLIND = _DRAWN.split("|")
PROSE = (
    "The keeper walked up the narrow stairs and looked out over the grey water. Nobody had come "
    "for a week, and the bread was hard. He lit the lamp, as he did each evening, and wrote the "
    "hour in the book. Then he sat down, took the letter out of his coat and read it once more. "
)


def low() -> CoherenceGate:
    rules = CoherenceRules(
        window=50,
        every=3,
        incoherence=40,
        gibberish=90,
        long_window=80,
        long_gibberish=60,
        broken_words=1,
        script_breaks=2,
        least_score=-1,
    )
    ngrams = Ngrams({"abab": 9, "ab c": 2, " wor": -3, "жab": 5})
    return CoherenceGate(rules, ngrams, lambda text: -2.0 if text.count("word") > 4 else None)


def blind(tokens: int, seed: int = 3) -> list[tuple[int, str]]:
    draw = random.Random(seed)
    return [
        (number, BLIND[number]) for number in (draw.randrange(len(BLIND)) for _ in range(tokens))
    ]


def written(text: str, width: int = 4) -> list[tuple[int, str]]:
    pieces = [text[at : at + width] for at in range(0, len(text), width)]
    return [(hash(piece) % 50_000, piece) for piece in pieces]


@settings(max_examples=200, deadline=None)
@given(before=streams, then=streams, data=st.data())
def test_the_law(
    before: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    assert_law(low, before, data.draw(st.integers(0, len(before))), then)


@settings(deadline=None)
@given(before=streams, then=streams, data=st.data())
def test_the_law_of_what_is_acted_on(
    before: list[tuple[int, str]], then: list[tuple[int, str]], data: st.DataObject
) -> None:
    def acting() -> Acting:
        return Acting(low(), findings=3, span=20)

    assert_law(acting, before, data.draw(st.integers(0, len(before))), then)


@pytest.mark.parametrize("name", ["chat", "code", "summary", "creative", "data", "ocr"])
def test_salad_is_found_and_its_onset_with_it(name: str) -> None:
    good = written(PROSE)
    gates = streaming_gates(profile(name), vocabulary_size=50_000)
    found = [one for one in feed(gates, steps([*good, *blind(120)])) if one]
    assert Flaw.GIBBERISH in {one.flaw for one in found} <= {Flaw.GIBBERISH, Flaw.INCOHERENT}
    for one in found:
        sure = one.flaw is Flaw.GIBBERISH
        assert one.level is (Level.TEXT if sure else Level.COHERENCE)
        assert one.score >= one.threshold
    first = found[0]
    # By the look before or after it.
    assert abs(first.tokens[0] - len(good)) <= 16
    assert first.tokens[1] - len(good) <= 64


def test_a_stronger_limit_finds_sooner_what_a_longer_window_is_surer_of() -> None:
    stream = steps(blind(60))
    both = CoherenceRules(window=50, every=1, incoherence=100, gibberish=300, long_gibberish=300)
    found = [one for one in feed(CoherenceGate(both, built_in()), stream) if one]
    assert {one.threshold for one in found} == {100, 300}
    assert all((one.threshold == 300) == (one.flaw is Flaw.GIBBERISH) for one in found)
    long = CoherenceRules(window=50, every=1, long_window=120, long_gibberish=300)
    later = [one for one in feed(CoherenceGate(long, built_in()), stream) if one]
    assert {one.flaw for one in later} == {Flaw.GIBBERISH}
    assert later[0].chars[1] >= 120 > found[0].chars[1]


def test_what_comes_again_and_again_is_none() -> None:
    stream = steps(blind(6) * 20)
    text = "".join(step.text for step in stream)
    assert 100 * built_in().total(text) > 400 * len(text)
    gate = CoherenceGate(CoherenceRules(window=150, every=4, gibberish=400), built_in())
    assert not any(feed(gate, stream))


# Whole words without grammar.
NOUNS = (
    "kettle wagon orchard pencil tunnel violin harvest lantern pocket engine meadow saddle basket "
    "compass feather hammer island jacket ladder magnet needle oyster pillow quarry ribbon shovel "
    "thunder umbrella valley walnut barrel cottage diamond elbow fountain glacier helmet insect"
)
LISTS = {
    "blanks": NOUNS,
    "commas": NOUNS.replace(" ", ", "),
    "numbers": "".join(f"{n}. {noun}\n" for n, noun in enumerate(NOUNS.split(), 1)),
    "bullets": "".join(f"- {noun}\n" for noun in NOUNS.split()),
    "capitals": NOUNS.title(),
    "hashtags": "".join(f"#{noun} " for noun in NOUNS.split()),
    "seed": (
        "Wallet: gravity machine north sort system female filter attitude volume fold club stay "
        "feature office ecology stable narrow fog cabin tonight exile mystery unable pulse jungle"
    ),
    "search words": (
        "cheap flights madrid hostel offers winter weekend cottage rental airport parking discount "
        "train ticket refund city guide museum entrance price compare insurance family beach resort"
    ),
    "ladder": (
        "warm ward card cord cold; lead load goad gold; hide side site size; milk mile male mall "
        "ball; rain ruin; walk talk tall tale tape; boat boot root room roam; fish fist mist most"
    ),
    "kinds": (
        "Tools: hammer saw drill wrench chisel plane file. Fruit: plum pear cherry melon grape fig "
        "lemon. Weather: storm rain hail snow frost wind fog. Rooms: kitchen cellar attic hall bath"
    ),
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_of_words_is_no_salad(kind: str) -> None:
    text = LISTS[kind] + "\n"
    for times in (1, 2):
        gates = streaming_gates(profile("chat"), vocabulary_size=50_000)
        assert not any(feed(gates, steps(written(text * times, 3))))


def test_such_a_list_is_told_from_salad_by_its_words_alone() -> None:
    stream = steps(written(NOUNS, 3))
    alone = profile("chat", {"broken_words": 0})
    assert any(feed(streaming_gates(alone, vocabulary_size=50_000), stream))


def test_words_that_are_broken_are_found_without_any_mark_or_capital() -> None:
    draw = random.Random(5)
    halves = [noun[at:] for noun in NOUNS.split() for at in (0, 3)]
    text = " ".join(draw.choice(halves) + draw.choice(halves)[1:] for _ in range(60))
    gates = streaming_gates(profile("chat"), vocabulary_size=50_000)
    found = [one for one in feed(gates, steps(written(text, 3))) if one]
    assert Flaw.GIBBERISH in {one.flaw for one in found}


def test_text_is_left_alone() -> None:
    for name in profile_names():
        gates = streaming_gates(profile(name), vocabulary_size=50_000)
        assert not any(feed(gates, steps(written(PROSE + PROSE.replace("e", "é") + PROSE.upper()))))


def test_off_lets_salad_be() -> None:
    gates = streaming_gates(profile("off"), vocabulary_size=50_000)
    assert not any(feed(gates, steps(blind(200))))


def test_a_splice_stays_found_while_it_is_in_the_window() -> None:
    other = "смотритель поднялся по узкой лестнице и долго смотрел на серую холодную воду залива "
    prose = PROSE[: PROSE.index("wrote the hour")]
    text = prose + other * 2
    alone = profile("chat", {"script_switch_words": 0})
    gates = streaming_gates(alone, vocabulary_size=50_000)
    found = [one for one in feed(gates, steps(written(text))) if one]
    assert len(found) >= 3
    assert {one.flaw for one in found} == {Flaw.SCRIPT_BREAK}
    assert text[found[0].chars[0] :].startswith("смотритель")
    assert found[0].tokens[0] == len(prose) // 4


def test_a_language_model_of_ones_own() -> None:
    asked: list[str] = []

    def score(text: str) -> float:
        asked.append(text)
        return -3.5 if "zebra" in text else -1.0

    gate = CoherenceGate(CoherenceRules(window=60, every=4, least_score=-3.0), built_in(), score)
    stream = steps(written(PROSE[:120] + "zebra zebra zebra " * 3))
    found = [one for one in feed(gate, stream) if one]
    assert found
    assert (found[0].flaw, found[0].score, found[0].threshold) == (Flaw.INCOHERENT, 3.5, 3.0)
    assert all(len(text) >= 60 for text in asked)


class Notes:
    """Finds something likely at the given positions, something certain at the other ones."""

    name = "notes"

    def __init__(self, likely: set[int], certain: set[int]) -> None:
        self._likely, self._certain = likely, certain

    def feed(self, step: Step) -> Finding | None:
        if step.position not in self._likely | self._certain:
            return None
        level = Level.TEXT if step.position in self._certain else Level.COHERENCE
        return Finding(
            gate=self.name,
            level=level,
            flaw=Flaw.LOOP if level is Level.TEXT else Flaw.INCOHERENT,
            tokens=(step.position, step.position + 1),
            chars=(step.offset, step.offset),
            score=1,
            threshold=1,
        )

    def truncate(self, n_tokens: int) -> None:
        """Nothing to forget."""


@pytest.mark.parametrize(
    ("likely", "certain", "acted"),
    [
        ({7, 15}, set[int](), []),
        ({7, 15, 23, 31}, set[int](), [23, 31]),
        ({7, 15, 71, 72}, set[int](), [72]),
        ({7, 15, 71}, set[int](), []),
        ({7}, {3, 9}, [3, 9]),
    ],
)
def test_what_is_acted_on(likely: set[int], certain: set[int], acted: list[int]) -> None:
    gate = Acting(Notes(likely, certain), findings=3, span=64)
    found = [one for one in feed(gate, steps([(1, "a")] * 100)) if one]
    assert [one.tokens[0] for one in found] == acted


def test_what_was_cut_off_does_not_count() -> None:
    gate = Acting(Notes({7, 15, 23}, set()), findings=3, span=64)
    stream = steps([(1, "a")] * 24)
    feed(gate, stream[:20])
    gate.truncate(12)
    assert not any(feed(gate, stream[16:24]))
