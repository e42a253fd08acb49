"""Good texts of the heavy set: answers to their prompts, documents, and rules that are kept."""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from ...schemas import Rules
from .heavy_json import order, schema, written
from .heavy_line import HeavyLine
from .heavy_material import Answer, Material, language_code
from .line import Line, thinned
from .passages import sentences

# How many documents of a class: those of the first kinds more than of the others.
_MOST: Final = {"prose:documents": 150, "language": 3, "markup": 30}
_MOST_OTHERS: Final = 8
_JSON, _FENCED, _RULES = 80, 60, 120
_LEAST_WORD: Final = 6  # characters of a word that a rule is about
_NOT_ENGLISH: Final = ("code", "json")
_OPENINGS: Final = (
    "Here is the code:",
    "Sure! This does it:",
    "You can write it like this:",
    "Save this as a file and run it.",
)

SeedOf = Callable[[str], random.Random]


def good_lines(made_of: Material, seed_of: SeedOf, scale: float) -> list[HeavyLine]:
    """All of them, each with the rules that it keeps."""

    def some(number: int) -> int:
        return max(2, round(number * scale))

    lines = [
        good_answer(one, f"pair:{one.kind}:{number}") for number, one in enumerate(made_of.answers)
    ]
    lines += _documents(made_of.documents, seed_of("heavy:documents"), scale)
    lines += _json(made_of.documents, seed_of("heavy:json"), some(_JSON))
    lines += _fenced(made_of.documents, seed_of("heavy:fenced"), some(_FENCED))
    return lines + _kept_rules(made_of, seed_of("heavy:rules"), some(_RULES))


def good_answer(one: Answer, name: str, rules: Rules | None = None) -> HeavyLine:
    """A line of an answer and its prompt."""
    return HeavyLine(
        id=name,
        text=one.text,
        label="good",
        kind=f"pair:{one.kind}",
        profile=one.profile,
        prompt=one.prompt,
        rules=rules or Rules(),
        source="SmolLM2-135M-Instruct",
    )


def words_of(text: str) -> list[str]:
    """The longer words, each once, in order."""
    found = dict.fromkeys(word.strip(".,;:!?\"'()*") for word in text.split())
    return [word for word in found if len(word) >= _LEAST_WORD and word.isalpha()]


def fenced(line: Line, draw: random.Random) -> str | None:
    """The line's code in a block, with words around it; None where it has a fence of its own."""
    if "```" in line.text:
        return None
    name = line.kind.removeprefix("code:")
    after = draw.choice(("", "\n\nChange the names as you like.", "\n\nThat is all."))
    return f"{draw.choice(_OPENINGS)}\n\n```{name}\n{line.text}\n```{after}"


def _documents(documents: Sequence[Line], draw: random.Random, scale: float) -> list[HeavyLine]:
    by_class: dict[str, list[Line]] = {}
    for line in documents:
        by_class.setdefault(line.kind, []).append(line)
    lines: list[HeavyLine] = []
    for kind, some in sorted(by_class.items()):
        most = _MOST.get(kind) or _MOST.get(kind.partition(":")[0], _MOST_OTHERS)
        lines += [
            _document(line, f"heavy:{line.id}", Rules(language=language_code(line)))
            for line in thinned(some, max(1, round(most * scale)), draw)
        ]
    return lines


def _document(line: Line, name: str, rules: Rules) -> HeavyLine:
    return HeavyLine(
        id=name,
        text=line.text,
        label="good",
        kind=line.kind,
        profile=line.profile,
        prompt=line.prompt,
        rules=rules,
        source=line.source,
    )


def _json(documents: Iterable[Line], draw: random.Random, number: int) -> list[HeavyLine]:
    """Half of them documents of any form, half of one that a schema describes."""
    valid = [line for line in documents if line.kind == "data:json" and _is_json(line.text)]
    lines = [
        _document(line, f"json:{line.id}", Rules(json=True))
        for line in thinned(valid, number // 2, draw)
    ]
    rules = Rules(json_schema=schema())
    for one in range(number - len(lines)):
        text = written(order(draw), draw)
        lines.append(_made(f"json:schema:{one}", "json:schema", "data", text, rules))
    return lines


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _made(name: str, kind: str, profile: str, text: str, rules: Rules) -> HeavyLine:
    return HeavyLine(
        id=name,
        text=text,
        label="good",
        kind=kind,
        profile=profile,
        rules=rules,
        source="made.heavy",
    )


def _fenced(documents: Sequence[Line], draw: random.Random, number: int) -> list[HeavyLine]:
    code = [line for line in documents if line.kind.startswith("code:")]
    lines: list[HeavyLine] = []
    for line in draw.sample(code, min(number, len(code))):
        text = fenced(line, draw)
        if text is not None:
            lines.append(_made(f"fenced:{line.id}", "fenced", "chat", text, Rules()))
    return lines


def _kept_rules(made_of: Material, draw: random.Random, number: int) -> list[HeavyLine]:
    lines: list[HeavyLine] = []
    answers = [one for one in made_of.answers if len(words_of(one.text)) >= 8]
    for at, one in enumerate(draw.sample(answers, min(number, len(answers)))):
        rules = _fulfilled(one, [other.text for other in made_of.answers], draw)
        lines.append(msgspec.structs.replace(good_answer(one, f"rules:{at}", rules), kind="rules"))
    return lines


def _fulfilled(one: Answer, others: Sequence[str], draw: random.Random) -> Rules:
    """Rules that the answer keeps, among them such as the bad ones break."""
    text, low = one.text, one.text.lower()
    strange = [word for word in words_of(draw.choice(others)) if word.lower() not in low]
    words, own = len(text.split()), words_of(text)
    return Rules(
        must_include=tuple(word.swapcase() for word in draw.sample(own, 2)),
        must_not_include=tuple(strange[:2]),
        must_match=(r"[A-Za-z]{3}",) if draw.random() < 0.5 else (),
        must_not_match=(r"\d{4}-\d\d-\d\d",) if "-" not in text else (),
        min_words=draw.randint(0, words),
        max_words=words + draw.randint(0, 40),
        max_characters=len(text) + draw.randint(0, 200),
        language="en" if len(sentences(text)) >= 4 and one.kind not in _NOT_ENGLISH else None,
    )
