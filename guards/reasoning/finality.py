"""The words of finality, doubt and planning, from `salvage.toml`, as patterns.

All of them run in time linear in the text: what repeats is possessive or counted.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

import regex
from msgspec import Struct

# What a label is set in: emphasis, headings, quotations, brackets of East Asia.
_BEFORE: Final = r"^[ \t]{0,3}+[#*_【「《][ \t#*_【「《]{0,11}+|^[ \t]{0,3}+"
_AFTER: Final = r"[*_】」》]{0,4}+[ \t]{0,8}+(?:[:：][*_】」》]{0,4}+[ \t]*+|(?=[\r\n])|\Z)"
_FLAGS: Final = regex.IGNORECASE | regex.MULTILINE
_APOSTROPHES: Final = r"['’]"
# A text that quotes what a template or a model's protocol is made of is no answer.
TAGS: Final = regex.compile(
    r"</?\s*(?:answer|final_answer|final|think|thinking|thought|reasoning|reflection|solution|result"
    r"|output|response|tool_call|scratchpad)\b|<[|｜]|[|｜]>|\[/?(?:THINK|INST|ANSWER)\]|\ufffd",
    regex.IGNORECASE,
)
PLACEHOLDER: Final = regex.compile(
    r"[\W_]*+"
    r"|[<\[{(]*(?:(?:your|the|my|final|insert|put|actual|correct|short|exact)[\s_-]+)*"
    r"(?:answer|response|result|output|value|text|number|letter|string|integer|expression|content"
    r"|choice|option|solution|here|name|n/a|none|null|placeholder|x|xx|xxx|antwort|réponse|respuesta"
    r"|resposta|risposta|ответ|答案|答え|답|الجواب|उत्तर)(?:[\s_-]+(?:here|goes here))?"
    r"[>\]})]*[.!…]*",
    regex.IGNORECASE,
)


class Finality(Struct, frozen=True):
    """The patterns. `marker`: a label on its line, group `weak` where questions have it, too;
    `lead` ends at an answer; `closing` is all that may stand behind one; `doubt`, `start`, `hedge`,
    and `dangling` are as the table says."""

    marker: regex.Pattern[str]
    lead: regex.Pattern[str]
    closing: regex.Pattern[str]
    closer: regex.Pattern[str]
    doubt: regex.Pattern[str]
    start: regex.Pattern[str]
    hedge: regex.Pattern[str]
    dangling: regex.Pattern[str]


@cache
def finality() -> Finality:
    """The patterns, made once (some 50 ms)."""
    text = (files(__package__ or "") / "salvage.toml").read_text(encoding="utf-8")
    tables = list(cast("dict[str, dict[str, Any]]", tomllib.loads(text)).values())
    closers = _any(tables, "closer")
    loose = r"[\s*_`~$\\)\]]*+[.。!！।]?[\s*_`~$\\)\]]*+"
    return Finality(
        marker=regex.compile(
            f"(?:{_BEFORE})(?:{_any(tables, 'final')}|(?P<weak>{_any(tables, 'answer')})){_AFTER}",
            _FLAGS,
        ),
        lead=regex.compile(rf"(?:{_bounded(tables, 'lead', end='')})[\s:：*_$`\\(\[]*+\Z", _FLAGS),
        closing=regex.compile(rf"{loose}(?:(?:{closers}){loose})*+\Z", _FLAGS),
        closer=regex.compile(rf"\n\s*+(?:{closers})[.!。！।]?\s*+\Z", _FLAGS),
        doubt=regex.compile(_bounded(tables, "doubt"), _FLAGS),
        start=regex.compile(rf"[\W_]*+(?:{_bounded(tables, 'start')})", _FLAGS),
        hedge=regex.compile(_bounded(tables, "hedge"), _FLAGS),
        dangling=regex.compile(rf"(?:{_bounded(tables, 'open', end='')})\Z", _FLAGS),
    )


def _any(tables: list[dict[str, Any]], key: str) -> str:
    """Any of the phrases of all languages, the longest first."""
    phrases = {phrase for table in tables for phrase in table[key]}
    return "|".join(_phrase(phrase) for phrase in sorted(phrases, key=lambda one: (-len(one), one)))


def _bounded(tables: list[dict[str, Any]], key: str, end: str = r"(?!\w)") -> str:
    """Any of the phrases, as whole words where the language sets words apart."""
    words = _any([table for table in tables if table["words"]], key)
    parts = _any([table for table in tables if not table["words"]], key)
    return rf"(?<!\w)(?:{words}){end}|(?:{parts})"


def _phrase(phrase: str) -> str:
    return r"[ \t]++".join(
        regex.escape(word, special_only=True).replace("'", _APOSTROPHES)
        for word in phrase.split(" ")
    )
