"""The transcript: text from tokens, cut and grown again, and stop strings over every seam."""

from hypothesis import given
from hypothesis import strategies as st
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.stop_strings import StopStrings
from sluicegate.worker.transcript import Transcript

ENGINE = ScriptedEngine()


def transcript(stop: tuple[str, ...] = (), min_tokens: int = 0) -> Transcript:
    return Transcript(lambda: ENGINE.detokenizer(()), StopStrings(stop, min_tokens))


def grown(text: bytes, stop: tuple[str, ...] = (), min_tokens: int = 0) -> Transcript:
    made = transcript(stop, min_tokens)
    for byte in text:
        made.add(byte)
        if made.stopped:
            break
    return made


@given(st.text(max_size=40), st.data())
def test_cut_and_grown_again_it_is_as_if_it_had_never_been_more(
    text: str, data: st.DataObject
) -> None:
    raw = text.encode()
    cut = data.draw(st.integers(0, len(raw)))
    more = data.draw(st.text(max_size=20)).encode()
    once = grown(raw)
    once.truncate(cut)
    steps = [once.add(byte) for byte in more]
    fresh = grown(raw[:cut])
    assert steps == [fresh.add(byte) for byte in more]
    assert once.text == fresh.text
    assert once.pending == fresh.pending
    assert once.tokens == fresh.tokens


@given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_a_slice_is_that_of_the_text(text: str, one: int, other: int) -> None:
    made = grown(text.encode())
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    assert made.slice(start, end) == text[start:end]


def test_half_a_character_is_pending_and_no_place_to_cut() -> None:
    made = grown("aé".encode()[:2])
    assert made.text == "a"
    assert made.pending == 1
    assert [made.is_whole(count) for count in range(3)] == [True, True, False]


@given(
    st.text(alphabet="ab.", max_size=24),
    st.lists(st.text(alphabet="ab.", min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(0, 8),
)
def test_the_first_stop_string_that_is_completed_ends_the_text(
    text: str, stops: list[str], min_tokens: int
) -> None:
    made = grown(text.encode(), tuple(stops), min_tokens)
    # By definition: the end of the earliest one that ends behind the first `min_tokens` letters.
    ends = [
        (end, end - len(stop))
        for stop in stops
        for end in range(len(stop), len(text) + 1)
        if text[end - len(stop) : end] == stop and end > min_tokens
    ]
    if not ends:
        assert not made.stopped
        assert made.text == text
        return
    first = min(end for end, _ in ends)
    assert made.stopped
    assert made.text in {text[:start] for end, start in ends if end == first}


def test_what_may_become_a_stop_string_is_undecided() -> None:
    made = grown(b"hello", ("stop",))
    assert made.undecided == 2
    made = grown(b"hello stop", ("stop",))
    assert made.undecided == made.characters == 6


def test_a_cut_takes_a_stop_back() -> None:
    made = grown(b"one stop", ("stop",))
    made.truncate(6)
    assert not made.stopped
    assert made.text == "one st"
    for byte in b"ay":
        made.add(byte)
    assert made.text == "one stay"
