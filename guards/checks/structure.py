"""Structure: JSON where it was asked for, closed code fences, an end that is one. Time and memory
are proportional to the text; a schema has its own limit of time."""

from typing import Any, Final

import regex

from ...schemas import CheckRecord, Flaw
from .json_schema import BadSchema, fits
from .json_text import NotJson, fenced, parse, place
from .records import SWITCHED_OFF, evidence, failed, passed, rejected, skipped
from .subject import Subject
from .thresholds import Thresholds

_JSON: Final = "json"
_FENCES: Final = "fences"
_CUT_OFF: Final = "cut_off"
# How much is shown around a place where JSON goes wrong, in characters.
_AROUND: Final = 40
# A line that opens or closes a block: indented as list items are, quoted as in a reply. Behind
# backticks comes no other backtick, or it is code within a line.
_FENCE_LINE: Final = regex.compile(
    r"^[ \t>]*+(?:[-*+]|\d{1,3}[.)])?[ \t]*+(?P<fence>`{3,}+(?!.*`)|~{3,}+)[ \t]*+(?P<info>.*)$",
    regex.MULTILINE,
)
_SOMETHING: Final = regex.compile(r"\S")
# From so many columns on a line is indented code, unless it stands in a list.
_INDENTED: Final = 4
# More of them, and no word behind, are no fence.
_MARKS: Final = 5
# What closes a sentence or a line that is none: a table row, a rule, a heading; the last word of a
# list item may be its end.
_ENDED: Final = regex.compile(r"[.!?…:;|。！？；：।॥؟۔։።။៕>)\]}\-=_*~`]\Z")
_CLOSING: Final = regex.compile(r"[\"'”’»」』*_)\]\s]+\Z")
_LIST_ITEM: Final = regex.compile(r"^\s*(?:[-*+•#|>]|\d{1,3}[.)])")
# Scripts whose sentences end without a sign.
_NO_SIGN: Final = regex.compile(r"[\p{Thai}\p{Lao}\p{Khmer}\p{Tibetan}]\Z")


def check_json(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """Whether the text is the JSON that the rules, or the structured output, want."""
    schema = _schema(subject)
    if schema is None and not subject.rules.json:
        return skipped(_JSON, "no JSON is asked for")
    text, start = subject.text, 0
    if thresholds.fenced_json and (span := fenced(text)) is not None:
        text, start = text[span[0] : span[1]], span[0]
    try:
        value = parse(text, depth=thresholds.json_depth)
    except NotJson as error:
        at = start + error.at
        around = max(0, at - _AROUND), min(len(subject.text), at + _AROUND)
        detail = f"the text is no JSON: {error.what} at character {at}"
        return rejected(
            _JSON, Flaw.INVALID_JSON, detail, evidence=[evidence(subject.text, *around)]
        )
    if schema is None:
        return passed(_JSON)
    parts = 1 + sum(text.count(sign) for sign in ",[{:")
    try:
        found = fits(schema, value, seconds=thresholds.schema_seconds, parts=parts)
    except BadSchema as error:
        return failed(_JSON, str(error))
    if found is None:
        return passed(_JSON)
    what, path = found
    span = place(text, path)
    where = "".join(f"[{step!r}]" for step in path) or "the whole"
    return rejected(
        _JSON,
        Flaw.SCHEMA_MISMATCH,
        f"the JSON does not fit the schema at {where[-100:]}: {what}",
        evidence=[evidence(subject.text, start + span[0], start + span[1])],
    )


def _schema(subject: Subject) -> dict[str, Any] | None:
    """The schema of the rules, which speak of the text, before that of the engine's grammar."""
    if subject.rules.json_schema is not None or subject.structured is None:
        return subject.rules.json_schema
    return subject.structured.json_schema


def check_fences(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """Whether every block of code is closed, where the text ended by itself."""
    if not thresholds.unclosed_fences:
        return skipped(_FENCES, SWITCHED_OFF)
    if subject.finish_reason != "stop":
        return skipped(_FENCES, "the text was cut off, whatever was open then")
    if subject.stop:
        return skipped(_FENCES, "a stop string may have ended it")
    if _open_fence(subject.prompt) is not None:
        return skipped(_FENCES, "the prompt leaves a block of code open")
    at = _open_fence(subject.text)
    if at is None:
        return passed(_FENCES)
    return rejected(
        _FENCES,
        Flaw.UNCLOSED_FENCE,
        f"the block of code that begins at character {at} is never closed",
        evidence=[evidence(subject.text, at, len(subject.text))],
    )


def _open_fence(text: str) -> int | None:
    """Where the block begins that is open at the end; None where there is none in one of the ways
    to read fences: by CommonMark, in a list or not, or with marks that are only shown; or as models
    nest them, a fence with a word behind it opening a block within a block."""
    if "```" not in text and "~~~" not in text:
        return None
    lines = list(_FENCE_LINE.finditer(text))
    flat = _read_flat(text, lines)
    others = (
        lambda: _read_nested(text, lines),
        lambda: _read_flat(text, [found for found in lines if not _is_indented(found[0])]),
        lambda: _read_flat(text, [found for found in lines if not _stands_alone(text, found)]),
    )
    return None if flat is None or any(read() is None for read in others) else flat


def _read_flat(text: str, lines: list[regex.Match[str]]) -> int | None:
    """Where the last block begins, if it is open, where blocks hold no others."""
    opened: regex.Match[str] | None = None
    for found in lines:
        if opened is None:
            opened = None if _is_underline(text, found) else found
        elif not found["info"].strip() and _closes(found["fence"], opened["fence"]):
            opened = None
    return None if opened is None else opened.start("fence")


def _read_nested(text: str, lines: list[regex.Match[str]]) -> int | None:
    """Where the innermost block begins that is open at the end."""
    opened: list[regex.Match[str]] = []
    for found in lines:
        has_info = bool(found["info"].strip())
        if opened and not has_info and _closes(found["fence"], opened[-1]["fence"]):
            opened.pop()
        elif not _is_underline(text, found) and (not opened or has_info):
            opened.append(found)
    return opened[-1].start("fence") if opened else None


def _is_indented(line: str) -> bool:
    wide = line.expandtabs(_INDENTED)
    return len(wide) - len(wide.lstrip()) >= _INDENTED


def _stands_alone(text: str, found: regex.Match[str]) -> bool:
    """Whether a line of marks has no word, a blank line before and behind it, and something behind
    that: a block does not begin so, but whoever shows the marks writes them so."""
    if found["info"].strip() or not found.start():
        return False
    end, start = found.start() - 1, found.end() + 1
    above = text[text.rfind("\n", 0, end) + 1 : end]
    stop = text.find("\n", start)
    below = text[start : stop if stop >= 0 else len(text)]
    return not above.strip() and not below.strip() and _SOMETHING.search(text, start) is not None


def _is_underline(text: str, found: regex.Match[str]) -> bool:
    """Whether a line of marks underlines a heading, as in reStructuredText, or is a rule: a block
    of code begins with few of them, and tildes not right below words."""
    fence = found["fence"]
    if found["info"].strip():
        return False
    end = max(0, found.start() - 1)
    above = text[text.rfind("\n", 0, end) + 1 : end].strip()
    return len(fence) > _MARKS or (fence[0] == "~" and bool(above))


def _closes(fence: str, opened: str) -> bool:
    return fence[0] == opened[0] and len(fence) >= len(opened)


def check_cut_off(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """Whether a text that met its limit of tokens should not have: by the job's rules, or because
    it ends in the middle of a sentence."""
    if subject.rules.complete and subject.finish_reason != "stop":
        return _cut_off(subject, "it met max_tokens, and the rules want it complete")
    if not thresholds.cut_off:
        return skipped(_CUT_OFF, SWITCHED_OFF)
    if subject.finish_reason != "length":
        return passed(_CUT_OFF)
    if subject.tokens < thresholds.cut_off_tokens:
        return skipped(_CUT_OFF, "so short a text was meant to be cut")
    text = subject.text.rstrip()
    if not text or _is_ended(text):
        return passed(_CUT_OFF)
    detail = f"the text met its limit of {subject.tokens} tokens in the middle of a sentence"
    return _cut_off(subject, detail, thresholds.cut_off_tokens)


def _cut_off(subject: Subject, detail: str, threshold: float | None = None) -> CheckRecord:
    end = len(subject.text.rstrip())
    return rejected(
        _CUT_OFF,
        Flaw.CUT_OFF,
        detail,
        score=subject.tokens,
        threshold=threshold,
        evidence=[evidence(subject.text, max(0, end - 100), end)],
    )


def _is_ended(text: str) -> bool:
    if _ENDED.search(text, len(text) - 1) or _NO_SIGN.search(text, len(text) - 1):
        return True
    # Of what follows the last sentence, signs that close it are no part.
    closed = _CLOSING.sub("", text[-20:])
    if closed and _ENDED.search(closed):
        return True
    return _LIST_ITEM.match(text[text.rfind("\n") + 1 :]) is not None
