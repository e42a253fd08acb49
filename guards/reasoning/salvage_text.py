"""Whether a text that stands behind a marker of finality is a whole answer."""

from bisect import bisect_right
from typing import Final

import regex

from .finality import finality

_FENCE: Final = regex.compile(r"^[ \t]*+(`{3,}+|~{3,}+)([^\n]*+)", regex.MULTILINE)
_PARAGRAPHS: Final = regex.compile(r"\n[ \t\r]*+\n")
_SIGNS: Final = regex.compile(r"[()\[\]{}（）「」『』【】《》“”]")
_OPENING: Final = "([{（「『【《“"
_TICKS: Final = regex.compile(r"`++")
_MATHS: Final = regex.compile(r"\\(?:begin|end)\{|\\[\[\]()]")
_ENDS: Final = (".", "!", "。", "！", "．", "।", "۔", ".”", "!”", "。”", "**", "__", "`", "$", "}")
_ENDS_BEHIND: Final = " \t\r\n)）”\"'»」』*_"
QUESTION: Final = ("?", "？", "؟", ";")
_SENTENCE_ENDS: Final = (".", "!", "?", "。", "！", "？", "．", "।", "۔", "؟")
_TRAILING: Final = ("...", "…", "。。。", "..")
_LIST: Final = regex.compile(r"[ \t]*+(?:[-*•]|\d{1,3}[.)])[ \t]")
_NUMBER: Final = regex.compile(
    r"[-+−±~≈$€£¥₹]?[ \t]?\p{Nd}[\p{Nd}.,:/ ^*×eE+\-−]*+"
    r"[ \t]?(?:%|°|\p{Sc}|[\p{L}²³/°]{1,12})?[.。]?"
)
_VALUE: Final = regex.compile(
    r"\$[^$\n]{1,2000}+\$|\$\$[^$]{1,2000}+\$\$|\\boxed\{[^\n]{1,2000}\}|\\\[.{1,2000}\\\]"
    r"|\\\([^\n]{1,2000}\\\)|`[^`\n]{1,2000}+`|\*\*[^*\n]{1,200}+\*\*[.。]?",
    regex.DOTALL,
)
_WORDS: Final = 6
_SHORT: Final = 60  # characters


def fences(text: str) -> list[tuple[int, int]]:
    """Where fenced blocks begin and end, in characters; -1 where the last one is still open."""
    blocks: list[tuple[int, int]] = []
    mark, start = "", 0
    for found in _FENCE.finditer(text):
        run, rest = found[1], found[2]
        if not mark:
            if run[0] == "~" or "`" not in rest:
                mark, start = run, found.start()
        elif run[0] == mark[0] and len(run) >= len(mark) and not rest.strip():
            blocks.append((start, found.end()))
            mark = ""
    return [*blocks, (start, -1)] if mark else blocks


def is_inside(at: int, blocks: list[tuple[int, int]]) -> bool:
    """Whether a place is in one of the blocks."""
    index = bisect_right(blocks, at, key=lambda block: block[0]) - 1
    return index >= 0 and (blocks[index][1] < 0 or at < blocks[index][1])


def is_spoken(text: str) -> bool:
    """Whether the text is something said to somebody: a few sentences that end as such, a question
    too, without doubt or plan, and nothing open."""
    words = finality()
    if words.doubt.search(text) or words.start.match(text) or fences(text) or _is_open(text):
        return False
    return text.rstrip(_ENDS_BEHIND).endswith(_SENTENCE_ENDS)


def is_value(text: str) -> bool:
    """Whether the text is one number or one formula, piece of code or emphasised phrase, closed."""
    return _NUMBER.fullmatch(text) is not None or (
        len(text) <= 2_100 and _VALUE.fullmatch(text) is not None and not _is_open(text)
    )


def is_whole(answer: str, *, one: bool, closed: bool) -> bool:
    """Whether the text ends as an answer ends: nothing open, no question, no doubt, no plan.

    `one`: it must be one paragraph, what follows would be something else. `closed`: it is known to
    be complete, so it needs no full stop.
    """
    blocks = fences(answer)
    if blocks and blocks[-1][1] < 0:
        return False
    prose = _outside(answer, blocks)
    words = finality()
    if words.doubt.search(prose) or words.start.match(prose) or _is_open(prose):
        return False
    if one and _PARAGRAPHS.search(prose.strip()):
        return False
    if prose.rstrip(" \t\r\n*_\"'”»)）」』").endswith((*QUESTION, *_TRAILING)):
        return False
    return _is_ended(answer, blocks) or _is_short(answer) or (closed and _is_plain(answer))


def _is_ended(answer: str, blocks: list[tuple[int, int]]) -> bool:
    if blocks and blocks[-1][1] == len(answer):
        return True
    if answer.endswith((*_ENDS, "\\]", "\\)")) or answer.rstrip(_ENDS_BEHIND).endswith(_ENDS):
        return True
    last = answer.rpartition("\n")[2].strip()
    if _NUMBER.fullmatch(last):
        return True
    is_row = last.startswith("|") and last.endswith("|")
    return is_row or (_LIST.match(last) is not None and _is_plain(last))


def _is_short(answer: str) -> bool:
    """A name, a word, a few of them, and none of those that nothing ends with."""
    return (
        "\n" not in answer
        and len(answer) <= _SHORT
        and len(answer.split()) <= _WORDS
        and _is_plain(answer)
    )


def _is_plain(answer: str) -> bool:
    last = answer[-1]
    if not (last.isalnum() or last in "%°)]}\"'”»」』*_`" or regex.match(r"\p{M}", last)):
        return False
    return len(answer.split()) == 1 or finality().dangling.search(answer) is None


def _is_open(text: str) -> bool:
    """Whether a bracket, code span, emphasis or formula is still open."""
    depth = 0
    for found in _SIGNS.finditer(text):
        if found[0] in _OPENING:
            depth += 1
        elif depth:
            depth -= 1  # a closing one alone numbers a list
    ticks = 0
    for found in _TICKS.finditer(text):
        run = len(found[0])
        ticks = run if not ticks else 0 if run == ticks else ticks
    maths = 0
    for found in _MATHS.finditer(text):
        maths += 1 if found[0][1] in "b[(" else -1
    return bool(depth or ticks or maths or text.count("**") % 2 or text.count("$$") % 2)


def _outside(text: str, blocks: list[tuple[int, int]]) -> str:
    """The text without its fenced blocks."""
    parts: list[str] = []
    at = 0
    for start, end in blocks:
        parts.append(text[at:start])
        at = end
    return "".join([*parts, text[at:]])
