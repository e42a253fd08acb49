"""From what a tool gave back, or raised, to what the model is told: text that is whole Unicode, no
longer than a result may be, with a fingerprint of all of it."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ...guards.signatures import fingerprint
from ...schemas.errors import tame
from ...schemas.limits import MAX_TOOL_RESULT_CHARS
from ...schemas.tools import ToolResult, ToolStatus

# More than this is an error and no text to be cut: it costs memory several times over.
MAX_WHOLE_BYTES: Final = 64 * 1024 * 1024
MAX_ERROR_CHARS: Final = 2_000
_NOT_TEXT: Final = re.compile("[\x00\ud800-\udfff]")


def returned(value: Any, volatile: Sequence[str]) -> ToolResult:
    """The result of a tool that gave `value` back. Text goes as it is, anything else as JSON by
    msgspec (NaN and infinities become null). NUL and half surrogate pairs become U+FFFD.

    An error where JSON has no word for the value, or where it is over 64 MiB. Never raises.
    """
    if isinstance(value, str):
        text = str.__str__(value)
    else:
        try:
            text = msgspec.json.encode(value).decode()
        except RecursionError:
            return failed(f"it returned {_type(value)} nested too deeply for JSON", volatile)
        except MemoryError:
            return failed("it returned more than fits into memory", volatile)
        except Exception as error:
            why = tame(said(error), MAX_ERROR_CHARS)
            return failed(
                f"it returned {_type(value)}, which can't be said in JSON: {why}", volatile
            )
    # No character has less than one byte: the cheap test comes first.
    if len(text) > MAX_WHOLE_BYTES:
        return failed(
            f"it returned {len(text):,} characters, more than {MAX_WHOLE_BYTES:,}: ask for less",
            volatile,
        )
    text = _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    content, whole_chars = cut(text)
    return ToolResult(
        status=ToolStatus.OK,
        content=content,
        whole_chars=whole_chars,
        fingerprint=fingerprint(text, volatile),
    )


def raised(error: BaseException, volatile: Sequence[str]) -> ToolResult:
    """The result of a tool that raised: type and message, without a traceback."""
    match error:
        case SystemExit():
            return failed(f"it ended itself (SystemExit: {_code(error)})", volatile)
        case KeyboardInterrupt():
            return failed("it was interrupted (KeyboardInterrupt)", volatile)
        case _:
            return failed(said(error), volatile)


def failed(
    why: str, volatile: Sequence[str] = (), status: ToolStatus = ToolStatus.ERROR, **more: Any
) -> ToolResult:
    """A result that is no success. `why` may be anybody's text: it is cut and tamed."""
    content = "\n".join(tame(line, MAX_ERROR_CHARS) for line in why[:MAX_ERROR_CHARS].splitlines())
    return ToolResult(
        status=status, content=content, fingerprint=fingerprint(content, volatile), **more
    )


def cut(text: str) -> tuple[str, int | None]:
    """The text, short enough for a result and with a note where it was cut; and how many characters
    it had in that case."""
    whole = len(text)
    if whole <= MAX_TOOL_RESULT_CHARS:
        return text, None
    longest = _note(whole, whole)
    kept = MAX_TOOL_RESULT_CHARS - len(longest)
    return text[:kept] + _note(kept, whole), whole


def said(error: BaseException) -> str:
    """Type and message of an error; its message may itself fail."""
    try:
        message = str(error)
    except Exception:
        message = "(its message can't be shown)"
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def _note(kept: int, whole: int) -> str:
    return f"\n[cut short: these are the first {kept:,} of {whole:,} characters]"


def _type(value: Any) -> str:
    return f"a value of type {type(value).__name__}"


def _code(error: SystemExit) -> str:
    try:
        return str(error.code)
    except Exception:
        return "?"
