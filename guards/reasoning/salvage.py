"""An answer that stands complete in reasoning, so that it need not be generated again.

A wrong one would be delivered as the answer, and a missed one only costs that the answer is
generated; so whatever leaves a doubt is none. Free text must stand behind an explicit marker of
finality at the very end; where the reasoning was cut, what stands there may be half an answer, so
it must have closed itself (`\\boxed{…}`, a tag), be a plain value on a line of its own, or come
round again word for word.

A text that the model ended inside the block and that is "plainly" the answer itself is not told
from a thought that was broken off: no rule was found that holds in any language. What tells them
apart is the model: one that has nothing to add once the block is closed had answered before.
"""

from collections.abc import Iterator
from typing import Final

import regex
from msgspec import Struct

from ...schemas import StructuredOutput
from ..checks.patterns import pattern_problem
from .finality import PLACEHOLDER, TAGS, finality
from .salvage_json import last_value
from .salvage_text import QUESTION, fences, is_inside, is_spoken, is_value, is_whole

_LEAD: Final = 300  # characters that are looked at before an answer, and behind it
_BOX: Final = "\\boxed{"
_BOX_LENGTH: Final = 2_000
_BOXES: Final = 3  # that are tried, from the last
_PATTERN_SECONDS: Final = 0.2
_TEXT: Final = 100_000  # characters of one answer
_SPOKEN: Final = 1_500
_CLOSED: Final = regex.compile(r"</(?:answer|final_answer|final)>")
_SET_IN: Final = " \t\r\n*_`\"'“”„«»「」『』$"
_MATHS: Final = regex.compile(r"(?:\\[A-Za-z]++|[^\p{L}:]|(?<!\p{L})\p{L}{1,2}(?!\p{L}))*=[\s$]*+")


class _Final(Struct, frozen=True):
    """What stands behind a marker of finality at the end.

    `closed`: it is known not to go on: it closed itself, came round again (`again`), or the model
    ended there. `line`: it is behind its label on one line, which ended. `on_line`: it began on
    its label's line, `labelled` behind one at all. `box`: it is one.
    """

    text: str
    closed: bool
    line: bool = False
    on_line: bool = False
    again: bool = False
    box: bool = False
    labelled: bool = False


def complete_answer(
    reasoning: str, structured: StructuredOutput | None, *, ended: bool
) -> str | None:
    """The answer that the reasoning ends with, or None where there is a doubt.

    `ended`: the model ended its text there, else it was cut. Of `structured` output the answer must
    satisfy what is asked; a grammar is never held against it. What comes back is a part of the
    reasoning, without tags and blanks around it. Takes time linear in the reasoning, and a schema
    or pattern at most a second; so don't call it on an event loop.
    """
    if structured is not None and structured.json_schema is not None:
        return last_value(reasoning, structured.json_schema)
    if structured is not None and structured.grammar is not None:
        return None
    finals = _finals(reasoning, ended=ended)
    if structured is None:
        return next((one.text for one in finals if _is_free(one)), None)
    for one in finals:
        if one.closed or one.line:
            answer = _constrained(_bare(one), structured)
            if answer is not None:
                return answer
    return None


def spoken_answer(reasoning: str) -> str | None:
    """The whole of what a model said, where it ended its text inside the block and then, with the
    block closed, had nothing to add: a model that skipped its thinking has put its answer there.
    None where it is too long for that, or does not end as an answer does."""
    said = reasoning.strip()
    if not said or len(said) > _SPOKEN or TAGS.search(said) or not is_spoken(said):
        return None
    return said


def _is_free(one: _Final) -> bool:
    if one.box:
        return True
    if TAGS.search(one.text) or PLACEHOLDER.fullmatch(one.text):
        return False
    if not one.closed:
        return one.line and is_value(one.text)
    return is_whole(one.text, one=one.on_line or one.again, closed=one.again or not one.labelled)


def _constrained(candidates: list[str], structured: StructuredOutput) -> str | None:
    """The first that satisfies a choice or a pattern."""
    if structured.choice is not None:
        return next((one for one in candidates if one in structured.choice), None)
    pattern = structured.regex
    if pattern is None or pattern_problem(pattern) is not None:
        return None
    try:
        compiled = regex.compile(pattern, cache_pattern=False)
        for one in candidates:
            if one and compiled.fullmatch(one, timeout=_PATTERN_SECONDS):
                return one
    except (TimeoutError, MemoryError):
        return None
    return None


def _bare(one: _Final) -> list[str]:
    """An answer as it stands, without what it is set in, and without the full stop behind it."""
    text = one.text[len(_BOX) : -1].strip() if one.box else one.text
    if TAGS.search(text):
        return []
    bare = text.strip(_SET_IN)
    return [text, bare, bare.rstrip(".。।").strip(_SET_IN)]


def _finals(text: str, *, ended: bool) -> Iterator[_Final]:
    """What the reasoning ends with, behind each kind of marker."""
    blocks = fences(text)
    if blocks and blocks[-1][1] < 0:
        return  # an open fence: what is behind it is part of a draft
    for found in (_tagged(text), _marked(text, blocks, ended=ended), _boxed(text)):
        if found is not None and len(found.text) <= _TEXT:
            yield found


def _tagged(text: str) -> _Final | None:
    """The content of the last `<answer>…</answer>`, if nothing follows."""
    end = max((found.end() for found in _CLOSED.finditer(text)), default=-1)
    if end < 0 or not _is_end(text, end):
        return None
    closing = text.rindex("</", 0, end)
    opening = text.rfind("<" + text[closing + 2 : end], 0, closing)
    line = text.rfind("\n", 0, max(0, opening)) + 1
    if opening < 0 or text[line:opening].strip(" \t>*_#") or _is_hedged(text, line, opening):
        return None
    answer = text[text.index(">", opening) + 1 : closing].strip()
    if not answer:
        return None
    return _Final(answer, closed=True)


def _marked(text: str, blocks: list[tuple[int, int]], *, ended: bool) -> _Final | None:
    """What stands behind the last line that is, or begins with, a label such as "Final answer"."""
    spans = _markers(text, blocks)
    if not spans:
        return None
    start, end, weak = spans[-1]
    if weak and not ended and len(spans) < 2:
        return None
    body, again = text[end:], False
    if len(spans) > 1:
        before, before_end, _ = spans[-2]
        one = text[before_end:start].strip()
        twice = body.lstrip().startswith(one) or (
            len(spans) > 2 and text[spans[-3][1] : before].strip() == one
        )
        # The loop as it goes on is the loop as it was, as far as it got.
        if one and twice and text.startswith(text[start:], before):
            body, again = text[before_end:start], True
    if not again and _is_quoted(text, spans, weak=weak):
        return None
    if weak and not again and not ended:
        return None
    on_line = bool(body.partition("\n")[0].strip())
    answer = finality().closer.sub("", body.rstrip()).strip()
    if not answer:
        return None
    line = "\n" not in answer and "\n" in body[len(body.rstrip()) :]
    return _Final(
        answer, closed=ended or again, line=line, on_line=on_line, again=again, labelled=True
    )


def _markers(text: str, blocks: list[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    """Labels outside of fences: where each begins, where what it labels begins, and whether
    questions have it, too. One right behind another is one with it."""
    spans: list[tuple[int, int, bool]] = []
    for found in finality().marker.finditer(text):
        if is_inside(found.start(), blocks):
            continue
        start, weak = found.start(), found["weak"] is not None
        if spans and not text[spans[-1][1] : start].strip(" \t\r\n*_"):
            start, weak = spans[-1][0], weak and spans[-1][2]
            spans.pop()
        spans.append((start, found.end(), weak))
    return spans


def _is_quoted(text: str, spans: list[tuple[int, int, bool]], *, weak: bool) -> bool:
    """Whether a label seems to be one that was given: introduced as a form, or behind a question,
    or, if questions have it, too, one of several."""
    start = spans[-1][0]
    above = text[max(0, start - _LEAD) : start].rstrip(' \t\r\n*_"”»')
    return above.endswith((":", "：")) or (weak and (len(spans) > 1 or above.endswith(QUESTION)))


def _boxed(text: str) -> _Final | None:
    """The last `\\boxed{…}`, if it is alone on its line or what a sentence says the answer is."""
    spans = _boxes(text)
    if not spans:
        return None
    start, end = spans[0]
    content = text[start + len(_BOX) : end - 1].strip()
    if PLACEHOLDER.fullmatch(content) or TAGS.search(content) or content.endswith(QUESTION):
        return None
    if not (_is_end(text, end) or _is_loop(text, spans)) or not _is_led(text, start):
        return None
    return _Final(text[start:end], closed=True, box=True)


def _boxes(text: str) -> list[tuple[int, int]]:
    """The last boxes that are closed, the last first."""
    spans: list[tuple[int, int]] = []
    at = len(text)
    for _ in range(_BOXES):
        at = text.rfind(_BOX, 0, at)
        if at < 0:
            break
        if end := _box_end(text, at):
            spans.append((at, end))
    return spans


def _is_led(text: str, start: int) -> bool:
    """Whether what stands in the line before a box says that it is the answer, or nothing."""
    line = max(text.rfind("\n", 0, start) + 1, start - _LEAD)
    lead = text[line:start]
    if lead.strip(" \t\r>*_#$\\([") and not (
        finality().lead.search(lead) or finality().marker.fullmatch(lead) or _MATHS.fullmatch(lead)
    ):
        return False
    return not _is_hedged(text, line, start)


def _box_end(text: str, start: int) -> int:
    """Behind the brace that closes the box, or 0."""
    depth = 0
    end = min(len(text), start + _BOX_LENGTH)
    at = start + len(_BOX) - 1
    while at < end:
        character = text[at]
        if character == "\\":
            at += 1
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if not depth:
                return at + 1
        at += 1
    return 0


def _is_loop(text: str, spans: list[tuple[int, int]]) -> bool:
    """Whether the last of the spans comes round with the same text between, as far as it got, and
    that says nothing against it."""
    if len(spans) < 2:
        return False
    (start, end), (before, before_end) = spans[0], spans[1]
    between = text[before_end:start]
    return (
        text[before:before_end] == text[start:end]
        and not between.partition("\n")[0].strip(" \t\r*_$.。)]\\")
        and text.startswith(text[end:], before_end)
        and not finality().doubt.search(between)
    )


def _is_end(text: str, at: int) -> bool:
    """Whether nothing follows but blanks, closing signs and words."""
    return len(text) - at <= _LEAD and finality().closing.match(text, at) is not None


def _is_hedged(text: str, line: int, end: int | None = None) -> bool:
    """Whether what stands in the line before `end`, or else the line above, says that what follows
    is an example, a format or a supposition."""
    before = text[line:end] if end is not None else ""
    if not before.strip(" \t\r>*_#$\\(["):
        before = text[max(0, line - _LEAD) : line].rstrip().rpartition("\n")[2]
        if not before.endswith((":", "：")):
            return False
    return finality().hedge.search(before) is not None
