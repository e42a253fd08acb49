"""What a model's own form of calls looks like from outside: its marks, and strict splitting by
them. No parser of vLLM's is as strict: it takes a call that was cut off for text, drops the good
calls beside a bad one, and leaves away what stands behind."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

import regex

from ...guards.exempt import SpanReader
from ...schemas import FinishReason
from ...schemas.limits import MAX_TOOL_CALLS
from .arguments import Unreadable, call_of, read_json
from .bare_call import is_bare_call
from .dialect import Asked, Parsed
from .text_parse import CUT, Kind, failure

# What closes the JSON inside of a call belongs to the arguments, not to the mark behind them.
_JSON_ENDS: Final = "}] \t\r\n"
# Markup of calls in the forms that models have, and near to them; none of it is an answer. Other
# words that begin with "tool", such as <tooltip>, are not.
_KNOWN: Final = (
    r"</?(?:tool_calls?|tool_response|function_calls?|invoke)\b[^<>\n]{0,80}+>"
    r"|</?(?:function|parameter)=[^<>\n]{0,80}+>"
    r"|<[|｜][^|｜<>\n]{1,40}+[|｜]>|\[/?TOOL_[A-Z]{1,20}+\]"
)
_NEAR: Final = (
    r"(?:(?:tools?|function|parameter)\b[^<>\n]{0,80}+>"
    r"|(?:tools?(?:[_.-][\w.-]{0,40}+|call?s?|uses?|responses?|results?|outputs?))"
    r"(?:[\s/=][^<>\n]{0,80}+)?>)"
)
# Of the latter, what opens behind a word is code, such as list<tool_id>, and no markup.
_MARKUP: Final = regex.compile(rf"{_KNOWN}|(?:</|(?<!\w)<){_NEAR}", regex.IGNORECASE)
_ANY_MARKUP: Final = regex.compile(rf"{_KNOWN}|</?{_NEAR}", regex.IGNORECASE)
# Where a parser keeps what opens and closes its calls, if it has no grammar.
_ATTRIBUTES: Final = (
    ("tool_call_start_token", "tool_call_end_token"),
    ("tool_calls_start_token", "tool_calls_end_token"),
)


class Marks(NamedTuple):
    """What opens a call, and in pairs what opens and what closes one. Both may be unknown."""

    openers: tuple[str, ...] = ()
    spans: tuple[tuple[str, str], ...] = ()


class Read(NamedTuple):
    """A call as a parser gives it: `arguments` is JSON."""

    id: str
    name: str
    arguments: str


class _Failed(Exception):
    def __init__(self, kind: Kind, detail: str, quote: str) -> None:
        super().__init__(detail)
        self.kind: Kind = kind
        self.quote = quote


def marks_of(tag: dict[str, Any] | None, parser: object) -> Marks:
    """By the structural tag for calls in free text, or else by the parser's own attributes."""
    if tag is not None:
        pairs = list(dict.fromkeys(_pairs(tag.get("format"))))
        if pairs:
            openers = tuple(dict.fromkeys(opener for opener, _ in pairs))
            # A mark that is a bracket of JSON closes nothing: arguments are full of them.
            spans = tuple(pair for pair in pairs if pair[1].strip(_JSON_ENDS))
            return Marks(openers, spans)
    for names in _ATTRIBUTES:
        start, end = (getattr(parser, name, None) for name in names)
        if isinstance(start, str) and start and isinstance(end, str) and end:
            return Marks((start,), ((start, end),))
    return Marks()


def _pairs(form: Any) -> Iterator[tuple[str, str]]:
    """Of the outermost tags: inside of those, others are arguments."""
    if not isinstance(form, dict):
        return
    own = cast("dict[str, Any]", form)
    if own.get("type") == "triggered_tags":
        for trigger in own["triggers"]:
            for tag in own["tags"]:
                if tag["begin"].startswith(trigger) or trigger.startswith(tag["begin"]):
                    yield trigger.strip(), _mark(tag["end"])
        return
    if own.get("type") == "tag" and isinstance(own.get("begin"), str):
        yield own["begin"].strip(), _mark(own.get("end"))
        return
    for key in ("elements", "tags", "content"):
        inner = own.get(key)
        for one in cast("list[Any]", inner) if isinstance(inner, list) else [inner]:
            yield from _pairs(one)


def _mark(end: Any) -> str:
    texts = cast("list[Any]", end) if isinstance(end, list) else [end]
    text = next((one for one in texts if isinstance(one, str)), "").strip()
    return text.lstrip(_JSON_ENDS) or text


def bounded(form: Any) -> Any:
    """A structural tag in which white space between the tokens of JSON is bounded: a favourite
    place to loop for ever."""
    if isinstance(form, list):
        return [bounded(one) for one in cast("list[Any]", form)]
    if not isinstance(form, dict):
        return form
    own = cast("dict[str, Any]", form)
    if own.get("type") == "json_schema" and "json_schema" in own:
        return own | ({"max_whitespace_cnt": 1} if "max_whitespace_cnt" in own else {})
    return {key: bounded(value) for key, value in own.items()}


def defused(text: str) -> str:
    """A text from outside in which nothing is markup of calls: it could end a result, and make up a
    call, or another's result."""
    return _ANY_MARKUP.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


def prose_of(text: str, marks: Marks) -> str:
    """What is said outside of calls, without markup, and without calls in other markup or none."""
    outside = SpanReader(marks.spans).outside(text) if marks.spans else [text]
    said = (
        "".join(part for part in _MARKUP.split(piece) if not is_bare_call(part)).strip()
        for piece in outside
    )
    return "\n\n".join(piece for piece in said if piece)


def read(
    text: str,
    finish_reason: FinishReason | None,
    marks: Marks,
    parse: Callable[[str], Sequence[Read]],
) -> Parsed:
    """Calls, an answer, or a failure. `parse` may raise whatever it likes. Calls count where each
    of them can be read, and nothing stands behind the last. A text that was cut off is no answer:
    it may have been about to call. Nor is a call without its marks, or with others."""
    prose = prose_of(text, marks)
    cut = finish_reason in CUT
    try:
        calls = _calls(text, marks, parse, cut=cut)
    except _Failed as error:
        return Parsed(prose=prose, failure=failure(error.kind, str(error), error.quote))
    if calls:
        return Parsed(prose=prose, calls=calls)
    if cut:
        told = failure("truncated", "it was cut off before it called or answered", text[-200:])
        return Parsed(prose=prose, failure=told)
    if not text.strip():
        return Parsed(failure=failure("nothing", "there is no call and no answer", text))
    if is_bare_call(text):
        detail = "a call without the marks of one; give it in the form for calls, or an answer"
        return Parsed(failure=failure("malformed", detail, text))
    return Parsed(prose=prose, answer=text.strip())


def _calls(
    text: str, marks: Marks, parse: Callable[[str], Sequence[Read]], *, cut: bool
) -> tuple[Asked, ...]:
    pieces = SpanReader(marks.spans).split(text) if marks.spans else [text]
    if len(pieces) % 2 == 0:
        raise _Failed("truncated" if cut else "malformed", "a call that does not close", pieces[-1])
    for inside in pieces[1::2]:
        _require_readable(inside)
    for outside in pieces[::2]:
        if found := _MARKUP.search(outside) or next(_stray(outside, marks), None):
            quote = outside[found.start() :] if not isinstance(found, str) else found
            raise _Failed("malformed", "markup of calls, and no call that can be read", quote)
    try:
        came = parse(text)
    except Exception as error:  # a parser is the model's own program and may raise anything
        raise _Failed("malformed", f"the call can't be read: {error}", text) from error
    opened = any(opener in text for opener in marks.openers)
    if len(came) < max(len(pieces) // 2, int(opened)):
        raise _Failed("malformed", "a call that can't be read", text)
    if len(came) > MAX_TOOL_CALLS:
        detail = f"{len(came)} calls at once, where {MAX_TOOL_CALLS} may be"
        raise _Failed("malformed", detail, "")
    if came and len(pieces) > 1 and pieces[-1].strip():
        raise _Failed("mixed", "there is more behind the call; end with it", pieces[-1])
    return tuple(map(_call, came))


def _require_readable(inside: str) -> None:
    """The parser's own reading takes the last of two equal keys, and NaN."""
    if inside.strip()[:1] not in ("{", "["):
        return
    try:
        read_json(inside)
    except Unreadable as error:
        raise _Failed("malformed", f"the call: {error}", inside) from None


def _stray(text: str, marks: Marks) -> Iterator[str]:
    for pair in marks.spans:
        yield from (mark for mark in pair if mark in text)


def _call(call: Read) -> Asked:
    try:
        return call_of(call.name, read_json(call.arguments), call.id)
    except Unreadable as error:
        raise _Failed("malformed", f"the arguments: {error}", call.arguments) from None
