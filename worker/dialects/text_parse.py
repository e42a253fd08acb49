"""What a model said in plain text, split strictly into thoughts, calls, and the answer.

A label counts at the beginning of a line, in capitals or not, bold as in Markdown or not: `Final
Answer: 42`, `**Final Answer:** 42`, `**Final Answer**: 42`, `**Final Answer: 42**`. What stands
between two labels is the first one's. A tool's name may stand in backticks, quotes, or bold: no
tool has such in its name. Nothing else is forgiven, and a text without a label is no answer. All of
it runs in time linear in the text.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, Literal, NamedTuple

import regex

from ...schemas import FinishReason, ParseFailure
from ...schemas.errors import tame
from ...schemas.limits import MAX_DETAIL, MAX_QUOTE_CHARS, MAX_TOOL_CALLS
from .arguments import Unreadable, call_of, read_json
from .dialect import Asked, Parsed

Kind = Literal["truncated", "malformed", "nothing", "mixed"]


class Label(Enum):
    """What a part of the text is."""

    THOUGHT = "thought"
    INPUT = "input"
    ACTION = "action"
    ANSWER = "answer"
    OBSERVATION = "observation"


class Part(NamedTuple):
    """A label and what stands behind it, up to the next one. None: what stands before the first."""

    label: Label | None
    text: str


class _Failed(Exception):
    def __init__(self, failure: ParseFailure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


# Letters of ASCII only: a look-alike is no label.
_LABEL: Final = regex.compile(
    r"^[ \t\r]*+(?P<bold>\*\*[ \t]*+)?"
    r"(?:(?P<thought>thought)|(?P<input>action[ \t]++input)|(?P<action>action)"
    r"|(?P<answer>final[ \t]++answer)|(?P<observation>observation(?:[ \t]*+\([^)\n]{0,200}+\))?))"
    r"[ \t]*+(?(bold)(?:\*\*[ \t]*+:|:(?:[ \t]*+\*\*)?)|:)",
    regex.IGNORECASE | regex.ASCII | regex.MULTILINE,
)
_BOLD: Final = "**"
_AROUND: Final = ((_BOLD, _BOLD), ("`", "`"), ('"', '"'), ("'", "'"), ("\u201c", "\u201d"))
CUT: Final = frozenset[FinishReason]({"length", "abort", "repetition"})
_FORM: Final = (
    "give Action and Action Input on lines of their own, the input as one JSON object, or a "
    "Final Answer"
)


def parts(text: str) -> list[Part]:
    """The text by its labels."""
    found: list[Part] = []
    label: Label | None = None
    start, bold = 0, False
    for match in _LABEL.finditer(text):
        found.append(_part(label, text[start : match.start()], bold=bold))
        label, start = Label(match.lastgroup), match.end()
        bold = match["bold"] is not None and match[0].count(_BOLD) < 2
    found.append(_part(label, text[start:], bold=bold))
    return found


def _part(label: Label | None, text: str, *, bold: bool) -> Part:
    """`bold`: the label was opened as bold, and where that closes, if at all, is in the text."""
    said = text.strip()
    if not bold or _BOLD not in said:
        return Part(label, text)
    inner = said.removesuffix(_BOLD)
    whole = inner != said and _BOLD not in inner
    return Part(label, inner if whole else f"{_BOLD}{said}")


def parse(text: str, finish_reason: FinishReason | None) -> Parsed:
    """Calls, or an answer, or a failure. Whatever the text is, it never raises. An answer that was
    cut off is none; calls that were whole by then stand.

    What a model makes up as a tool's answer is believed in no case: the whole is "mixed". A label
    of it alone, at the very end, is where a stop string came too late, and is left away.
    """
    some = parts(text)
    if len(some) > 1 and some[-1].label is Label.OBSERVATION and not some[-1].text.strip():
        del some[-1]
    prose = "\n".join(filter(None, (part.text.strip() for part in some if _is_prose(part))))
    cut = finish_reason in CUT
    try:
        calls, answers = tuple(_calls(some, cut=cut)), _answers(some)
        _require_one(some, calls, answers)
    except _Failed as error:
        return Parsed(prose=prose, failure=error.failure)
    if answers and cut:
        detail = "the Final Answer was cut off before its end; give a shorter one"
        return Parsed(prose=prose, failure=failure("truncated", detail, answers[0]))
    if answers:
        return Parsed(prose=prose, answer=answers[0])
    if calls:
        return Parsed(prose=prose, calls=calls)
    kind: Kind = "truncated" if cut else "nothing"
    neither = failure(kind, f"there is no call and no answer: {_FORM}", text)
    return Parsed(prose=prose, failure=neither)


def answer_of(text: str) -> str:
    """The words of a final answer in which nothing may be called: what the model says is its
    answer, or, where it says nothing so, all that is no call."""
    some = parts(text)
    answers = _answers(some)
    if answers:
        return answers[-1]
    return "\n\n".join(filter(None, (part.text.strip() for part in some if _is_prose(part))))


def _is_prose(part: Part) -> bool:
    return part.label is None or part.label is Label.THOUGHT


def _answers(some: list[Part]) -> list[str]:
    return [said for part in some if part.label is Label.ANSWER and (said := part.text.strip())]


def _calls(some: list[Part], *, cut: bool) -> Iterator[Asked]:
    action: Part | None = None
    for number, part in enumerate(some):
        last = cut and number == len(some) - 1
        if action is not None and part.label is not Label.INPUT:
            raise _Failed(failure("malformed", "an Action without an Action Input", action.text))
        if part.label is Label.INPUT:
            if action is None:
                raise _Failed(failure("malformed", "an Action Input without an Action", part.text))
            yield _call(action.text, part.text, cut=last)
            action = None
        elif part.label is Label.ACTION:
            action = part
    if action is not None:
        kind: Kind = "truncated" if cut else "malformed"
        raise _Failed(failure(kind, "an Action without an Action Input", action.text))


def _call(action: str, said: str, *, cut: bool) -> Asked:
    try:
        return call_of(_bare(action), read_json(said))
    except Unreadable as error:
        # Behind a whole value, too, the text was cut off before it could be seen what was to come.
        kind: Kind = "truncated" if cut else "malformed"
        raise _Failed(failure(kind, f"the Action Input: {error}", said)) from None


def _bare(action: str) -> str:
    """A tool's name without what stands around it: a pair, and one more inside."""
    name = action.strip()
    for _ in range(2):
        for opener, closer in _AROUND:
            inner = name.removeprefix(opener).removesuffix(closer)
            around = f"{opener}{inner}{closer}" == name
            if around and opener not in inner and closer not in inner:
                name = inner.strip()
                break
    return name


def _require_one(some: list[Part], calls: tuple[Asked, ...], answers: list[str]) -> None:
    labels = [part.label for part in some]
    if Label.OBSERVATION in labels:
        made_up = some[labels.index(Label.OBSERVATION)].text
        detail = "an Observation that no tool gave; end with the last Action Input"
        raise _Failed(failure("mixed", detail, made_up))
    if calls and Label.ANSWER in labels:
        answer = some[labels.index(Label.ANSWER)].text
        detail = "both calls and a Final Answer: give one of them"
        raise _Failed(failure("mixed", detail, answer))
    if len(answers) > 1:
        raise _Failed(failure("mixed", "more than one Final Answer", answers[1]))
    if answers and labels[-1] is not Label.ANSWER:
        raise _Failed(failure("mixed", "there is more behind the Final Answer", some[-1].text))
    if len(calls) > MAX_TOOL_CALLS:
        detail = f"{len(calls)} calls at once, where {MAX_TOOL_CALLS} may be"
        raise _Failed(failure("malformed", detail, ""))


def failure(kind: Kind, detail: str, quote: str) -> ParseFailure:
    """A failure within its limits, fit for a log."""
    return ParseFailure(
        kind=kind,
        detail=tame(" ".join(detail.split()), MAX_DETAIL),
        quote=tame(" ".join(quote.split()), MAX_QUOTE_CHARS),
    )
