"""Texts of an agent job cut short, always the same way and so that it shows."""

from typing import Any, Final

import msgspec

from ...schemas import Round, ToolCall
from ...schemas.errors import tame

MARK: Final = " [... shortened ...] "
# Of what is left, this share is the beginning: it says what a text is, the end what came of it.
_HEAD: Final = 2 / 3

replace = msgspec.structs.replace


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters: beginning and end, with a mark where something is missing."""
    if len(text) <= limit:
        return text
    room = limit - len(MARK)
    if room <= 0:
        return text[:limit]
    head = max(1, int(room * _HEAD))
    tail = room - head
    return f"{text[:head]}{MARK}{text[len(text) - tail :]}"


def one_line(text: str, limit: int) -> str:
    """A quote: beginning and end, on one line, fit for a log and for a list."""
    # A text of megabytes is not worth looking at whole.
    return tame(shortened(" ".join(shortened(text, 8 * limit).split()), limit), limit)


def arguments_line(arguments: dict[str, Any], limit: int) -> str:
    """The arguments of a call as one line of JSON, whatever order they were given in."""
    return one_line(msgspec.json.encode(arguments, order="sorted").decode(), limit)


def shorter_round(
    this: Round,
    *,
    results: int | None = None,
    said: int | None = None,
    prose: int | None = None,
    arguments: int | None = None,
) -> Round:
    """The round with its texts cut to so many characters each; None: left as they are. An open call
    stays whole: it is still to be made."""
    if results is not None or arguments is not None:
        calls = tuple(_shorter_call(call, results, arguments) for call in this.calls)
        if calls != this.calls:
            this = replace(this, calls=calls)
    if said is not None and len(this.said) > said:
        this = replace(this, said=shortened(this.said, said))
    if prose is not None and len(this.prose) > prose:
        this = replace(this, prose=shortened(this.prose, prose))
    return this


def _shorter_call(call: ToolCall, results: int | None, arguments: int | None) -> ToolCall:
    result = call.result
    if result is None:
        return call
    if results is not None and len(result.content) > results:
        whole = result.whole_chars or len(result.content)
        cut = replace(result, content=shortened(result.content, results), whole_chars=whole)
        call = replace(call, result=cut)
    # JSON has at least as many bytes as characters. What was cut once is not cut again: it would
    # be quoted in a quote.
    size = len(msgspec.json.encode(call.arguments)) if arguments is not None else 0
    if arguments is not None and size > arguments:
        return replace(call, arguments=_shorter_arguments(call.arguments, arguments))
    return call


def _shorter_arguments(arguments: dict[str, Any], limit: int) -> dict[str, Any]:
    line = arguments.get("shortened") if len(arguments) == 1 else None
    if isinstance(line, str):
        return {"shortened": shortened(line, limit)}
    return {"shortened": arguments_line(arguments, limit)}
