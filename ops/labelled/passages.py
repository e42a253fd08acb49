"""Texts in parts: paragraphs and sentences, and where to cut one."""

import re
from collections.abc import Iterable
from typing import Final

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'“A-ZÄÖÜÉÀÁ])")
_WHOLE: Final = re.compile(r"(?<![\d\s])[.!?][\"'”)]?(?=\s|\Z)|(?<=\|)\n|(?<=[;{}])\n")
_FENCE: Final = "```"
_LETTERS: Final = 0.9  # of prose, with its blanks


def paragraphs(text: str) -> list[str]:
    """Between blank lines."""
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def sentences(text: str) -> list[str]:
    """Those of prose, roughly: an end mark, a blank, a capital."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def prose(texts: Iterable[str]) -> list[str]:
    """The paragraphs that are plain prose, each on one line."""
    found: list[str] = []
    for text in texts:
        for part in paragraphs(text):
            line = " ".join(part.split())
            plain = sum(one.isalpha() or one in " ,." for one in line)
            if line.endswith(".") and line[0].isupper() and plain >= _LETTERS * len(line):
                found.append(line)
    return found


def ended(text: str) -> str:
    """The text up to its last whole sentence, row or statement, an open code block closed. Empty
    where there is none."""
    ends = [found.end() for found in _WHOLE.finditer(text)]
    whole = text[: ends[-1]].rstrip() if ends else ""
    return f"{whole}\n{_FENCE}" if whole.count(_FENCE) % 2 else whole
