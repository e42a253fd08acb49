"""Faults done to good texts: what a wrong tokenizer, wrong bytes or a foreign text leave behind."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from .line import Line

# A fault shorter than this is one that nobody would see.
_LEAST_FAULT: Final = 100  # characters
_TRIES: Final = 40
_LONGEST: Final = 700  # characters of good text kept before and after


class Spoiled(NamedTuple):
    """A text with a fault from character `onset` on; the ids where the text does not show it."""

    text: str
    onset: int
    token_ids: list[int] | None = None


class Given(NamedTuple):
    """What the makers of faults draw from: a good line, other good ones, a tokenizer."""

    line: Line
    others: Sequence[Line]
    draw: random.Random
    tokenizer: Any


Fault = Callable[[Given], Spoiled | None]


def _cut(given: Given) -> tuple[str, str]:
    """The good text up to the place of the fault, at a blank where there is one, and the rest."""
    text = given.line.text
    at = given.draw.randint(len(text) // 5, max(len(text) // 2, len(text) // 5))
    blank = text.find(" ", at)
    at = blank + 1 if 0 <= blank < len(text) - _LEAST_FAULT else at
    return text[max(0, at - _LONGEST) : at], text[at : at + _LONGEST]


def mojibake(given: Given) -> Spoiled | None:
    """The rest was UTF-8 and is read as Latin-1 or Windows-1252."""
    head, rest = _cut(given)
    codec = given.draw.choice(("latin-1", "cp1252"))
    broken = rest.encode().decode(codec, errors="replace").replace("\ufffd", "")
    onset = next((n for n, (a, b) in enumerate(zip(rest, broken, strict=False)) if a != b), None)
    # In a text that is nearly all ASCII it is a flaw, not garbage.
    if onset is None or sum(one > "\x7f" for one in rest) < max(12, len(rest) // 25):
        return None
    return Spoiled(head + broken, len(head) + onset)


def controls(given: Given) -> Spoiled | None:
    """Every few characters a control character."""
    head, rest = _cut(given)
    bad = [chr(one) for one in (*range(1, 9), 11, *range(14, 27), *range(28, 32), *range(127, 160))]
    every = given.draw.randint(2, 12)
    broken = "".join(
        one + (given.draw.choice(bad) if n % every == 0 else "") for n, one in enumerate(rest)
    )
    return Spoiled(head + broken, len(head) + 1)


def broken_bytes(given: Given) -> Spoiled | None:
    """Bytes lost on the way: U+FFFD wherever a character is cut."""
    head, rest = _cut(given)
    every = given.draw.randint(3, 9)
    raw = bytearray()
    for n, one in enumerate(rest):
        raw += one.encode()
        if n % every == 0:
            raw.append(given.draw.choice((0xFF, 0xC3, 0xE2, 0x80, 0xBF)))
    broken = raw.decode(errors="replace")
    onset = broken.find("\ufffd")
    return Spoiled(head + broken, len(head) + onset) if broken.count("\ufffd") >= 5 else None


def symbol_run(given: Given) -> Spoiled | None:
    """One token to the end of the budget: what NaN logits look like where token 0 has a text."""
    head, _ = _cut(given)
    one: int = given.draw.choice(given.tokenizer.encode('!?*#G/"'))
    return _with_ids(given, head, [one] * given.draw.randint(1100, 2000))


def _shifted(ids: Sequence[int], size: int, draw: random.Random) -> list[int]:
    by = draw.randint(500, size - 500)
    return [3 + (one + by) % (size - 3) for one in ids]


def _permuted(ids: Sequence[int], size: int, draw: random.Random) -> list[int]:
    drawn: dict[int, int] = {}
    return [drawn.setdefault(one, draw.randrange(17, size)) for one in ids]


def wrong_tokenizer(given: Given) -> Spoiled | None:
    """The rest decoded by another vocabulary: every id means something else."""
    head, rest = _cut(given)
    size = len(given.tokenizer.tokenizer)
    ids = given.tokenizer.encode(rest)[:160]
    other = given.draw.choice((_shifted, _permuted))(ids, size, given.draw)
    return _with_ids(given, head, other) if len(other) >= 24 else None


def special_run(given: Given) -> Spoiled | None:
    """Special tokens side by side; they have no text."""
    head, _ = _cut(given)
    specials: list[int] = given.tokenizer.tokenizer.all_special_ids
    # Those that end a text stop the engine: they can't come in a run.
    free = [one for one in specials if one not in given.tokenizer.stop_ids]
    chosen = given.draw.choices(free, k=1 + given.draw.randrange(3))
    return _with_ids(given, head, given.draw.choices(chosen, k=given.draw.randint(12, 60)))


def out_of_range(given: Given) -> Spoiled | None:
    """Ids that the vocabulary does not have."""
    head, rest = _cut(given)
    size: int = given.tokenizer.vocabulary_size
    wrong = [size + given.draw.randrange(3000) for _ in range(given.draw.randint(1, 8))]
    return _with_ids(given, head, [*wrong, *given.tokenizer.encode(rest)])


def nan_rows(given: Given) -> Spoiled | None:
    """The sampler on NaN logits: token 0 from here on, whatever the prompt."""
    head, _ = _cut(given)
    return _with_ids(given, head, [0] * given.draw.randint(4, 40))


def markers(given: Given) -> Spoiled | None:
    """Special tokens spelled out, again and again."""
    head, _ = _cut(given)
    chosen = given.draw.choice(
        (
            ["<|im_start|>", "<|im_end|>"],
            ["<pad>"],
            ["[PAD]"],
            ["<unk>"],
            ["<|endoftext|>"],
            ["<unused12>", "<unused7>"],
            ["</s>", "<s>"],
        )
    )
    run = "".join(given.draw.choices(chosen, k=given.draw.randint(120, 240)))
    return Spoiled(head + run, len(head))


def loop(given: Given) -> Spoiled | None:
    """A passage said over and over to the end."""
    head, rest = _cut(given)
    words = rest.split(" ")
    size = given.draw.choice((1, 2, 4, 8, 16, 32))
    unit = " ".join(words[:size]).strip()
    if not 4 <= len(unit) <= 400:
        return None
    copies = max(30, 1600 // len(unit) + 1)
    joint = "\n" if "\n" in unit else " "
    # The loop begins where the unit is said a second time.
    return Spoiled(head + joint.join([unit] * copies), len(head) + len(unit))


def foreign_script(given: Given) -> Spoiled | None:
    """In the middle of it a passage in another script."""
    return _spliced(given, lambda own, other: not own & other)


def foreign_language(given: Given) -> Spoiled | None:
    """In the middle of it a passage in a language of the same script that is no relation."""
    if _family(given.line) not in ("germanic", "romance"):
        return None
    far = [one for one in given.others if _family(one) == "far"]
    return _spliced(given._replace(others=far), lambda own, other: own == other)


_FAMILIES: Final = {
    "germanic": "en en_gb en_au de nl sv da nb is af",
    "romance": "fr es it pt pt_br ro ca gl",
    "far": "fi hu et tr az uz tk eu cy ga gd pl cs sk sl hr lt lv sq id ms sw vi mi br tet",
}


def _family(line: Line) -> str | None:
    if line.kind.startswith(("prose:", "model")):
        return "germanic"
    own = line.kind.removeprefix("language:")
    return next((name for name, some in _FAMILIES.items() if own in some.split()), None)


def _scripts(text: str) -> frozenset[str]:
    """Roughly: blocks of 128 code points, all of Latin as one, all of CJK as one."""
    found = {_script(one) for one in text if one.isalpha()}
    counts = {one: sum(_script(c) == one for c in text if c.isalpha()) for one in found}
    total = sum(counts.values()) or 1
    return frozenset(one for one, count in counts.items() if count / total > 0.15)


def _script(one: str) -> str:
    code = ord(one)
    if code < 0x250 or 0x1E00 <= code < 0x1F00:
        return "latin"
    if 0x3040 <= code < 0xA000 or 0xAC00 <= code < 0xD7B0:
        return "east-asian"
    return f"block {code >> 8}"


def _spliced(
    given: Given, fits: Callable[[frozenset[str], frozenset[str]], bool]
) -> Spoiled | None:
    head, rest = _cut(given)
    own = _scripts(given.line.text)
    for _ in range(_TRIES if given.others else 0):
        other = given.draw.choice(given.others)
        passage = other.text[: given.draw.randint(160, 500)]
        if other.kind != given.line.kind and fits(own, _scripts(passage)):
            # Mid-sentence, no quotation, no colon: nobody meant it.
            return Spoiled(f"{head}{passage} {rest}", len(head))
    return None


def _with_ids(given: Given, head: str, ids: list[int]) -> Spoiled:
    own = given.tokenizer.encode(head)
    text = "".join(step.text for step in given.tokenizer.steps([*own, *ids]))
    return Spoiled(text, len(head), [*own, *ids])


def _in_prose(line: Line) -> bool:
    return line.kind.startswith(("language:", "prose:", "model"))


def _anywhere(line: Line) -> bool:
    return len(line.text) > 300


# Class, maker, which good lines it is done to, and how many.
FAULTS: Final[tuple[tuple[str, Fault, Callable[[Line], bool], int], ...]] = (
    ("mojibake", mojibake, _in_prose, 100),
    ("controls", controls, _anywhere, 80),
    ("replacement", broken_bytes, _anywhere, 60),
    ("nan:symbols", symbol_run, _anywhere, 60),
    ("nan:rows", nan_rows, _anywhere, 40),
    ("wrong-tokenizer", wrong_tokenizer, _anywhere, 120),
    ("special", special_run, _anywhere, 60),
    ("special:spelled", markers, _anywhere, 50),
    ("out-of-range", out_of_range, _anywhere, 40),
    ("loop:made", loop, _in_prose, 100),
    ("splice:script", foreign_script, _in_prose, 80),
    ("splice:language", foreign_language, _in_prose, 80),
)


def spoiled_texts(
    lines: Sequence[Line],
    tokenizer: Any,
    seed_of: Callable[[str], random.Random],
    scale: float,
) -> list[Line]:
    """Every fault on lines drawn for it. A line that a fault can't be seen in is passed over."""
    made: list[Line] = []
    languages = [one for one in lines if one.kind.startswith("language:")]
    for kind, fault, fits, number in FAULTS:
        draw = seed_of(kind)
        fitting = [one for one in lines if fits(one) and len(one.text) > 2 * _LEAST_FAULT]
        draw.shuffle(fitting)
        wanted = max(2, round(number * scale))
        for line in fitting:
            if wanted == 0:
                break
            done = fault(Given(line, languages, draw, tokenizer))
            if done is None or (len(done.text) - done.onset < 1 and done.token_ids is None):
                continue
            wanted -= 1
            made.append(
                Line(
                    id=f"{kind}:{line.id}",
                    text=done.text,
                    label="bad",
                    kind=kind,
                    profile=line.profile,
                    onset=done.onset,
                    token_ids=done.token_ids,
                    source=line.source,
                )
            )
    return made


def counts(lines: Sequence[Line]) -> Mapping[str, int]:
    """How many of each class."""
    found: dict[str, int] = {}
    for line in lines:
        found[line.kind] = found.get(line.kind, 0) + 1
    return dict(sorted(found.items()))
