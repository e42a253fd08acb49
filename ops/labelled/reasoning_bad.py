"""Reasoning that begins well and then goes in circles."""

import random
from collections.abc import Callable, Iterator
from itertools import cycle as endless
from typing import Final, NamedTuple

from .reasoning_bank import Voice

# A loop is so many tokens long: none of them is ended by a cap before it could be found.
_LEAST: Final = 800
_MOST: Final = 2500
_ROUNDS: Final = 5
# Tokens of a passage of honest reasoning that is said again and again.
_PASSAGE: Final = (60, 400)

Rounds = Iterator[str]
Honest = Callable[[Voice, tuple[int, int]], str]
Count = Callable[[str], int]


class Loop(NamedTuple):
    """A kind of loop: its class, what says its rounds without end, and its share of a set."""

    kind: str
    rounds: Callable[[Voice, Honest], Rounds]
    share: float


class Looped(NamedTuple):
    """A text, the character where the second round of its loop begins, and a round's tokens."""

    text: str
    onset: int
    unit: int


def looping(voice: Voice, loop: Loop, honest: Honest, count: Count) -> Looped:
    """A good beginning, and then the loop."""
    begin = honest(voice, (200, 1500)) + voice.draw.choice(("\n\n", "\n", voice.space))
    rounds = loop.rounds(voice, honest)
    said = [begin, next(rounds)]
    onset = sum(map(len, said))
    wanted = voice.draw.randint(_LEAST, _MOST)
    again: list[str] = []
    tokens = 0
    while tokens < wanted or len(again) < _ROUNDS:
        some = [next(rounds) for _ in range(max(1, len(again) // 4))]
        again += some
        tokens += count("".join(some))
    return Looped("".join(said + again), onset, max(1, count(said[1])))


def _values(draw: random.Random) -> dict[str, str]:
    """Numbers to be of two minds about."""
    whole = draw.randint(3, 240)
    near = (f"{whole}.{draw.randint(1, 9)}", str(whole), str(whole + draw.randint(1, 9)))
    return dict(zip("abc", draw.sample(near, 3), strict=True))


def _dither(voice: Voice, number: int) -> list[str]:
    values = _values(voice.draw)
    sentences = voice.list("dither")
    return [one.format(**values) for one in voice.draw.sample(sentences, number)]


def word(voice: Voice, _: Honest) -> Rounds:
    """One word or so, for ever."""
    entry = [one for one in voice.raw("words").split("|") if one]
    return endless([voice.draw.choice(entry)])


def sentence(voice: Voice, _: Honest) -> Rounds:
    """The same one to three sentences."""
    gap = voice.draw.choice((voice.space, "\n", "\n\n"))
    return endless([voice.space.join(_dither(voice, voice.draw.randint(1, 3))) + gap])


def paragraph(voice: Voice, _: Honest) -> Rounds:
    """The same paragraph."""
    says = _dither(voice, voice.draw.randint(5, 9)) + _paraphrase(voice)
    says = says[: voice.draw.randint(5, len(says))]
    return endless([voice.space.join(says) + "\n\n"])


def passage(voice: Voice, honest: Honest) -> Rounds:
    """A calculation done again word for word."""
    return endless([honest(voice, _PASSAGE) + "\n\n"])


def wheel(voice: Voice, _: Honest) -> Rounds:
    """The same sentence about one thing after another; the things come round."""
    gap = voice.draw.choice((voice.space, "\n", "\n\n"))
    template = voice.list("cycle")[0]
    return endless([gap.join([template.format(w=one) for one in voice.list("wheel")] + [""])])


def number_wheel(voice: Voice, _: Honest) -> Rounds:
    """The same sentences about a few numbers that come round."""
    draw = voice.draw
    whole = draw.randint(3, 240)
    numbers = [str(whole + one) for one in draw.sample(range(12), draw.randint(2, 4))]
    sentences = draw.sample(voice.list("dither"), 3)
    said = [
        voice.space.join(sentences).format(a=one, b=numbers[at - 1], c=one)
        for at, one in enumerate(numbers)
    ]
    return endless(["\n".join([*said, ""])])


def shuffled(voice: Voice, _: Honest) -> Rounds:
    """The same sentences in ever another order, each round all of them."""
    says = _dither(voice, voice.draw.randint(5, len(voice.list("dither"))))
    while True:
        voice.draw.shuffle(says)
        yield voice.space.join(says) + voice.space


def drawn(voice: Voice, _: Honest) -> Rounds:
    """The same sentences, drawn by lot after the first round, none twice in a row."""
    says = _dither(voice, voice.draw.randint(5, len(voice.list("dither"))))
    yield voice.space.join(says) + voice.space
    last = says[-1]
    while True:
        last = voice.draw.choice([one for one in says if one != last])
        yield last + voice.space


def reread(voice: Voice, _: Honest) -> Rounds:
    """The task read again, and again."""
    task = voice.draw.choice(voice.list("task"))
    gap = voice.draw.choice((voice.space, "\n\n"))
    while True:
        opening = voice.draw.choice(voice.list("reread"))
        yield voice.space.join((opening, task, voice.draw.choice(voice.list("after")))) + gap


def layout(voice: Voice, _: Honest) -> Rounds:
    """The answer is there; how to write it is asked for ever."""
    value = str(voice.draw.randint(11, 4000))
    says = [one.format(a=value) for one in voice.list("format")]
    gap = voice.draw.choice((voice.space, "\n\n"))
    yield voice.space.join(says) + gap
    while True:
        kept = sorted(voice.draw.sample(range(len(says)), len(says) - voice.draw.randint(0, 3)))
        yield voice.space.join(says[at] for at in kept) + gap


def _paraphrase(voice: Voice) -> list[str]:
    return [voice.draw.choice(voice.list(f"para{at}")) for at in range(1, 5)]


def paraphrase(voice: Voice, _: Honest) -> Rounds:
    """The same thoughts, each time in other words."""
    gap = voice.draw.choice((voice.space, "\n\n"))
    while True:
        yield voice.space.join(_paraphrase(voice)) + gap


def edited(voice: Voice, _: Honest) -> Rounds:
    """The same paragraph, each time with one sentence put another way or an interjection."""
    said = _paraphrase(voice) + _dither(voice, voice.draw.randint(1, 4))
    while True:
        at = voice.draw.randrange(4)
        said[at] = voice.draw.choice(voice.list(f"para{at + 1}"))
        aside = [voice.draw.choice(voice.list("asides"))] if voice.draw.random() < 0.3 else []
        yield voice.space.join([*aside, *said]) + "\n\n"


def intent(voice: Voice, _: Honest) -> Rounds:
    """Announcing the work in place of doing it."""
    gap = voice.draw.choice((voice.space, "\n", "\n\n"))
    while True:
        said = [voice.draw.choice(voice.list(f"intent{at}")) for at in range(1, 4)]
        yield voice.space.join(said) + gap


LOOPS: Final = (
    Loop("loop:word", word, 0.08),
    Loop("loop:sentence", sentence, 0.1),
    Loop("loop:paragraph", paragraph, 0.1),
    Loop("loop:passage", passage, 0.08),
    Loop("loop:wheel", wheel, 0.06),
    Loop("loop:numbers", number_wheel, 0.08),
    Loop("loop:shuffled", shuffled, 0.08),
    Loop("loop:drawn", drawn, 0.08),
    Loop("loop:reread", reread, 0.08),
    Loop("loop:format", layout, 0.08),
    Loop("loop:paraphrase", paraphrase, 0.06),
    Loop("loop:edited", edited, 0.06),
    Loop("loop:intent", intent, 0.06),
)
