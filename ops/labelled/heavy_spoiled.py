"""Bad texts of the heavy set that are wrong as texts, whatever the rules."""

import random
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from ...schemas import Rules
from .heavy_fault import LEAST_ANSWER, LEAST_TEXT, Bad, english, good_text, instead_of, split
from .heavy_material import LATIN, Answer, Material, pick, related
from .passages import prose, sentences
from .repeats import loop_start

_ROTTEN_WORDS: Final = (30, 70)
_SOUND_WORDS: Final = 8  # behind it
_LEAST_LETTERS: Final = 250
_SWITCHED: Final = (300, 600)  # characters
_LEAST_BLOCK: Final = 120
_LOOP: Final = 60  # tokens
_LEAST_WORD: Final = 4  # characters of one that tells what a task is about
_DECLARED: Final = ("de", "fr", "es", "it", "nl", "pl", "fi", "tr", "ru", "ja")


def irrelevant(made_of: Material, draw: random.Random) -> Bad | None:
    """The answer to another prompt, about something else."""
    asked: Answer | None = pick(draw, made_of.answers)
    given: Answer | None = pick(draw, made_of.answers)
    if (
        asked is None
        or given is None
        or len(given.text) < LEAST_ANSWER
        or asked.subject == given.subject
    ):
        return None
    about = [word for word in asked.subject.lower().split() if len(word) >= _LEAST_WORD]
    if any(word.rstrip("s") in given.text.lower() for word in about):
        return None
    return instead_of(asked, given.text, 0)


def _rotten(made_of: Material, draw: random.Random, passage: str) -> Bad | None:
    base = good_text(made_of, draw)
    parts = split(base.text, draw) if base is not None else None
    if base is None or parts is None:
        return None
    head, rest = parts
    gap = "\n\n" if head.endswith("\n") else " "
    return base._replace(text=f"{head}{passage}{gap}{rest}", onset=len(head))


def salad(made_of: Material, draw: random.Random) -> Bad | None:
    """The words of a passage in another order."""
    base = good_text(made_of, draw)
    parts = split(base.text, draw) if base is not None else None
    if base is None or parts is None:
        return None
    head, rest = parts
    words = list(re.finditer(r"\S+", rest))
    number = draw.randint(*_ROTTEN_WORDS)
    if len(words) < number + _SOUND_WORDS:
        return None
    mixed = [word[0] for word in words[:number]]
    draw.shuffle(mixed)
    return base._replace(
        text=f"{head}{' '.join(mixed)}{rest[words[number - 1].end() :]}", onset=len(head)
    )


def noise(made_of: Material, draw: random.Random) -> Bad | None:
    """A passage by a model with noise in its weights."""
    passage = pick(draw, made_of.rot)
    return None if passage is None else _rotten(made_of, draw, passage)


def random_tokens(made_of: Material, draw: random.Random) -> Bad | None:
    """Words and parts of words, drawn evenly from the vocabulary."""
    passage = "".join(draw.choices(made_of.words, k=draw.randint(*_ROTTEN_WORDS))).strip()
    return _rotten(made_of, draw, passage)


def other_language(made_of: Material, draw: random.Random) -> Bad | None:
    """A language is declared, and the text is in another."""
    if draw.random() < 0.5:
        one = english(made_of, draw, _LEAST_LETTERS + 50)
        rules = Rules(language=draw.choice(_DECLARED))
        return None if one is None else instead_of(one, one.text, 0, rules)
    code: str | None = pick(draw, sorted(made_of.languages))
    declared = draw.choice(("en", *_DECLARED))
    if code is None or code == declared or related(code, declared):
        return None
    line = draw.choice(made_of.languages[code])
    if sum(map(str.isalpha, line.text)) < _LEAST_LETTERS:
        return None
    rules = Rules(language=declared)
    return Bad(line.text, 0, line.profile, rules=rules, source=line.source)


def switched(made_of: Material, draw: random.Random) -> Bad | None:
    """In the middle a passage in another language of the same script, that nobody announced."""
    codes = sorted(LATIN & made_of.languages.keys())
    own, other = pick(draw, codes), pick(draw, codes)
    if own is None or own == other or related(own, other):
        return None
    one = english(made_of, draw, LEAST_TEXT) if draw.random() < 0.5 else None
    if one is not None:
        own, base = "en", instead_of(one, one.text, None)
    else:
        line = draw.choice(made_of.languages[own])
        base = Bad(line.text, None, line.profile, source=line.source)
    parts = split(base.text, draw)
    passage = draw.choice(made_of.languages[other]).text[: draw.randint(*_SWITCHED)]
    if parts is None or own == other or len(passage) < _SWITCHED[0]:
        return None
    head, rest = parts
    passage = passage.rpartition(" ")[0]
    rules = Rules(language=own)
    return base._replace(text=f"{head}{passage} {rest}", onset=len(head), rules=rules)


def duplicates(made_of: Material, draw: random.Random) -> Bad | None:
    """A paragraph that comes again, word for word or nearly."""
    base = good_text(made_of, draw)
    said = sentences(base.text) if base is not None else []
    size = draw.randint(2, 4)
    if base is None or len(said) < size:
        return None
    start = draw.randint(0, len(said) - size)
    block = " ".join(" ".join(said[start : start + size]).split())
    if len(block) < _LEAST_BLOCK:
        return None
    text = base.text.rstrip()
    again = "\n\n".join(_nearly(block, draw) for _ in range(draw.randint(1, 2)))
    return base._replace(text=f"{text}\n\n{again}", onset=len(text) + 2)


def _nearly(block: str, draw: random.Random) -> str:
    words = block.split()
    for _ in range(draw.choice((0, 0, 1, 2))):
        at = draw.randrange(1, len(words))
        if draw.random() < 0.5:
            words.insert(at, draw.choice(("really", "also", "indeed", "often")))
        else:
            del words[at]
    return " ".join(words)


_LEADS: Final = (
    *("It is important to note that", "Remember that", "Keep in mind that", "As mentioned,"),
    *("Overall,", "In conclusion,", "It is also worth noting that", "Again,", "Ultimately,"),
    *("In short,", "All in all,", "This means that", "One should know that", "Of course,"),
)
_CLAIMS: Final = (
    ("{} play {} role in {}", ("a vital", "a crucial", "a key", "an important"), ("our lives",)),
    ("{} are {} for {}", ("useful", "helpful", "valuable", "good"), ("everybody", "us all")),
    ("people count on {} {}, and {}", ("every day", "all the time"), ("so do we", "rightly so")),
    ("without {} {} would be {}", ("life", "our world", "the day"), ("poorer", "harder")),
)


def drift(made_of: Material, draw: random.Random) -> Bad | None:
    """The same few things said in ever other words."""
    one = english(made_of, draw, LEAST_TEXT)
    if one is None or one.kind == "summary":
        return None
    head = " ".join(sentences(one.text)[:2])
    claims = draw.sample(_CLAIMS, draw.randint(2, 3))
    said: list[str] = []
    for number in range(draw.randint(16, 30)):
        words, first, second = claims[number % len(claims)]
        subject = one.subject if number % 2 else draw.choice((one.subject, "they", "these"))
        claim = words.format(subject, draw.choice(first), draw.choice(second))
        said.append(f"{draw.choice(_LEADS)} {claim}.")
    # The first round says something.
    onset = len(head) + 1 + sum(len(each) + 1 for each in said[: len(claims)])
    return instead_of(one, f"{head} {' '.join(said)}", onset)


def in_circles(made_of: Material, draw: random.Random) -> Bad | None:
    """What the model itself went on and on with."""
    pair = pick(draw, made_of.loops)
    if pair is None:
        return None
    start = loop_start(pair.ids, _LOOP)
    onset = None if start is None else len(pair.text) * start // len(pair.ids)
    return Bad(pair.text, onset, pair.task.profile, pair.task.prompt, finish_reason="length")


def disjointed(made_of: Material, draw: random.Random) -> Bad | None:
    """A sentence of one answer, then one of another, and so on."""
    some: list[Answer] = []
    for _ in range(draw.randint(3, 4)):
        one = english(made_of, draw, LEAST_TEXT)
        if one is not None and all(one.subject != other.subject for other in some):
            some.append(one)
    said = [sentences(" ".join(prose([one.text])))[:5] for one in some]
    if len(some) < 3 or any(len(each) < 2 for each in said):
        return None
    mixed = list(_in_turn(said))
    if len(mixed) < 8:
        return None
    return instead_of(some[0], " ".join(mixed), len(mixed[0]) + 1)


def _in_turn(lists: list[list[str]]) -> Iterator[str]:
    for row in zip_longest(*lists):
        yield from (one for one in row if one is not None)
