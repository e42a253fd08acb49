"""Lengths of a text: in characters (code points), words, and tokens of the engine's."""

from typing import Final, Literal

import regex

from ...schemas import CheckRecord, Flaw, Rules
from .records import evidence, passed, rejected
from .subject import Subject

Unit = Literal["characters", "words", "tokens"]
# By the rules of Unicode (UAX 29) where they need no dictionary: what letters, marks and digits
# make, an apostrophe, a point or a hyphen within it being part of it; of Chinese and of hiragana
# each character. Thai, Lao, Khmer and Burmese set no blanks: five characters count as one word.
_WORD: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}]"
    r"|[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]{1,5}+"
    r"|[[\p{L}\p{M}\p{N}]--[\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]++"
    r"(?:['’.,\-‐‑][[\p{L}\p{M}\p{N}]--[\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]++)*+",
    regex.VERSION1,
)


def count_words(text: str) -> int:
    """How many words the text has."""
    return sum(1 for _ in _WORD.finditer(text))


def check_length(check: str, subject: Subject, rules: Rules) -> list[CheckRecord]:
    """Whether the text is as long as the rules want, in each unit that they have a limit in."""
    counts = {"characters": lambda: len(subject.text), "tokens": lambda: subject.tokens}
    counts["words"] = lambda: count_words(subject.text)
    records: list[CheckRecord] = []
    for unit in ("characters", "words", "tokens"):
        least: int = getattr(rules, f"min_{unit}")
        most: int = getattr(rules, f"max_{unit}")
        if least or most:
            records.append(_judge(check, subject.text, unit, counts[unit](), least, most))
    return records


def _judge(check: str, text: str, unit: Unit, count: int, least: int, most: int) -> CheckRecord:
    if count < least:
        flaw, limit, said = Flaw.TOO_SHORT, least, "at least"
    elif most and count > most:
        flaw, limit, said = Flaw.TOO_LONG, most, "at most"
    else:
        return passed(check, count, least or most)
    return rejected(
        check,
        flaw,
        f"the text has {count:,} {unit}, {said} {limit:,} are wanted",
        score=count,
        threshold=limit,
        evidence=[evidence(text, 0, len(text))],
    )
