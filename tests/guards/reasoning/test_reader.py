"""Reasoning is parted into sentences, in any script and however it comes in tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.reasoning.marks import frame_of, items_of, size_of
from sluicegate.guards.reasoning.memory import Forms, Told, Vocabulary, forms_of
from sluicegate.guards.reasoning.reader import EVERY, Reader, Sentence

from ..gate_law import steps


class Listener:
    """A judge that only listens."""

    def __init__(self) -> None:
        self.heard: list[Sentence] = []

    def read(self, sentence: Sentence) -> None:
        self.heard.append(sentence)

    def forget(self) -> None:
        self.heard.pop()


def read(parts: list[str], memory: int = 100) -> list[Sentence]:
    listener = Listener()
    reader = Reader([listener], memory)
    # A few tokens at a time are looked at: fill the last ones up.
    parts = parts + [""] * (-len(parts) % EVERY)
    for step in steps([(1, part) for part in parts]):
        reader.steps.append(step)
        if len(reader.steps) % EVERY == 0:
            reader.look(len(reader.steps) - EVERY)
    return listener.heard


def texts(parts: list[str]) -> list[str]:
    return [sentence.text for sentence in read(parts)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Wait. Is it so? Yes! Go on\n", ["wait.", "is it so?", "yes!", "go on"]),
        ("It is 3.14 and v1.2.3 here. \n", ["it is 3.14 and v1.2.3 here."]),
        ('He said "no." Then he left.\n', ['he said "no."', "then he left."]),
        ("不对。再看一遍！好\n", ["不对。", "再看一遍！", "好"]),
        ("नहीं। फिर देखो। ", ["नहीं।", "फिर देखो।"]),
        ("لماذا؟ لا أدري. \n", ["لماذا؟", "لا أدري."]),
        ("1. Look\n2. See\n", ["1. look", "2. see"]),
        ("Hm...  so\tbe it\n", ["hm...", "so be it"]),
        # A board is one thing, together with what is said of it.
        ("# . #\n. # .\n\nStuck here.\n", ["# . # . # . stuck here."]),
    ],
)
def test_where_sentences_end(text: str, sentences: list[str]) -> None:
    assert texts(list(text)) == sentences


@given(
    text=st.text("ab. \n。,1", max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=20),
)
def test_blank_tokens_change_nothing(text: str, cuts: list[int]) -> None:
    # A tokenizer has tokens without text, where a character takes several.
    plain = list(text)
    gaps = list(text)
    for cut in sorted(cuts, reverse=True):
        gaps.insert(min(cut, len(gaps)), "")
    assert "".join(texts(plain)).startswith("".join(texts(gaps))) or (
        "".join(texts(gaps)).startswith("".join(texts(plain)))
    )


def test_what_never_ends_is_read_by_its_clauses() -> None:
    clause = ["so", " I", " look", " at", " the", " items", ","]
    heard = texts(clause * 30)
    assert heard
    assert set(heard) == {"so i look at the items,"}


def test_thai_has_blanks_for_that() -> None:
    heard = texts(list("งั้นลองคิดดูอีกครั้ง ") * 20)
    assert set(heard) == {"งั้นลองคิดดูอีกครั้ง"}


def test_what_never_ends_and_has_no_clauses_is_read_all_the_same() -> None:
    heard = read([" word"] * 500)
    assert sum(sentence.end - sentence.start for sentence in heard) > 300


def test_numbers_without_end_are_read_too() -> None:
    heard = read([" 7"] * 600)
    assert sum(sentence.end - sentence.start for sentence in heard) >= 256


def test_what_is_new_is_counted_once_and_again_when_it_was_long_ago() -> None:
    heard = read(["one", " two", " two", ".", " one", " three", ".", " one", "\n"], memory=4)
    assert [sentence.fresh for sentence in heard] == [2, 1, 0]
    far = ["one", "\n", *[f" of{number}\n" for number in range(9)], "one", "\n"]
    assert [sentence.fresh for sentence in read(far, memory=8)] == [1, 2, *[1] * 8, 1]
    assert [sentence.fresh for sentence in read(far)][-1] == 0


def test_how_much_a_sentence_tells() -> None:
    parts = ["No", ".", " In", " q1", " go", " on", ".", " In", " q2", " go", " on", ".", " Look"]
    heard = read([*parts, " at", " it", ".", " \n"])
    assert [sentence.telling for sentence in heard] == [0.25, 1.0, 0.07, 1.0]
    assert [sentence.symbolic for sentence in heard] == [False, True, True, False]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("n=17: 3,500 is 3.5k", ("n", "17", "3,500", "is", "3.5", "k")),
        ("straße über", ("straße", "über")),
        ("हिन्दी में", ("हिन्दी", "में")),
        ("再看一遍 ok", ("再看", "看一", "一遍", "ok")),
        ("不", ("不",)),
        ("ครับผม", ("ครับ", "รับผ", "ับผม")),
        ("١٢ кошек", ("١٢", "кошек")),
        ("— …", ()),
    ],
)
def test_words_and_numbers(text: str, items: tuple[str, ...]) -> None:
    assert items_of(text) == items


def test_the_form_of_a_sentence() -> None:
    assert frame_of(items_of("in q1 read a, go to q2")) == frame_of(
        items_of("in q0 read b, go to q0")
    )
    assert frame_of(("move", "disc", "3")) != frame_of(("take", "disc", "3"))


@given(
    first=st.lists(st.lists(st.sampled_from("abcd"), max_size=4), max_size=20),
    keep=st.integers(0, 20),
    then=st.lists(st.lists(st.sampled_from("abcd"), max_size=4), max_size=20),
    memory=st.integers(1, 12),
)
def test_memories_keep_the_law(
    first: list[list[str]], keep: int, then: list[list[str]], memory: int
) -> None:
    vocabulary, told = Vocabulary(memory), Told(memory)
    for at, items in enumerate(first):
        vocabulary.add(tuple(items))
        told.add("".join(items), at)
    for _ in first[keep:]:
        vocabulary.forget()
        told.forget()
    kept = first[:keep]
    fresh_vocabulary, fresh_told = Vocabulary(memory), Told(memory)
    for at, items in enumerate(kept):
        fresh_vocabulary.add(tuple(items))
        fresh_told.add("".join(items), at)
    for at, items in enumerate(then, len(kept)):
        assert vocabulary.add(tuple(items)) == fresh_vocabulary.add(tuple(items))
        assert told.add("".join(items), at) == fresh_told.add("".join(items), at)


def test_how_often_and_how_far_back() -> None:
    told = Told(10)
    assert [told.add("a", at) for at in (0, 3, 7, 40)] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 4, 7),
        (0, 0, 0),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("try anna on monday.", "try ben on monday."),
        ("letter 3 is c.", "letter 4 is d."),
        ("把小安放在周一试试。", "把小波放在周一试试。"),
        ("アンナを月曜日に置いてみる。", "ボブを月曜日に置いてみる。"),
        ("บุญมีเป็นเท็จ", "อนันต์เป็นเท็จ"),
        ("상태 q1에서 a를 읽는다.", "상태 q2에서 a를 읽는다."),
    ],
)
def test_steps_of_a_search_are_of_one_form(one: str, other: str) -> None:
    heard = read(list(f"{one}\n{other}\nTake this, for a change.\n{one}\n{one}\n"), memory=400)
    telling = [sentence.telling for sentence in heard if sentence.told[0]]
    assert telling in ([0.1, 0.1], [0.07, 0.07])


@given(
    frames=st.lists(st.lists(st.sampled_from("abc"), max_size=4), max_size=20),
    keep=st.integers(0, 20),
)
def test_forms_keep_the_law(frames: list[list[str]], keep: int) -> None:
    forms, fresh = Forms(6), Forms(6)
    seen: list[tuple[list[int], int, bool]] = [
        (forms_of("", tuple(frame), 1), place, place % 3 > 0) for place, frame in enumerate(frames)
    ]
    for keys, at, new in seen:
        forms.add(keys, at, new=new)
    for _ in seen[keep:]:
        forms.forget()
    for keys, at, new in seen[:keep]:
        fresh.add(keys, at, new=new)
    assert [forms.add(keys, at + keep, new=new) for keys, at, new in seen] == [
        fresh.add(keys, at + keep, new=new) for keys, at, new in seen
    ]


def test_forms_are_forgotten() -> None:
    forms = Forms(100)
    keys = forms_of("", ("try", "ben"), 1)
    # Of two generations, until the younger is as old as the memory, too.
    places = (0, 10, 50, 120, 240, 1_000, 2_000)
    assert [forms.add(keys, at, new=True) for at in places] == [1, 2, 3, 4, 2, 2, 2]


def test_the_size_of_a_text_does_not_hang_on_its_language() -> None:
    texts = (
        "Then what Anna says is true, and that is a contradiction.",
        "Тогда то, что говорит Анна, истина, и это противоречие.",
        "那么安娜说的话是真的,这样就产生了矛盾。",
        "するとアンナの発言は真となり、これは矛盾である。",
        "그러면 안나의 말은 참이고 이것은 모순이다.",
        "ดังนั้นคำพูดของแอนนาเป็นจริง ซึ่งขัดแย้งกัน",
    )
    sizes = [size_of(text) for text in texts]
    assert max(sizes) < 2.5 * min(sizes)
