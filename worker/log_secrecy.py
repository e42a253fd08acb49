"""Log lines without anybody's words, where the configuration keeps texts out of logs.

What a line was given to say is hidden unless it can be told to be harmless: a number, a word of
ours or a name without white space, an error about the broker or the settings. Of an exception its
kind and place stay, and not its message, which may quote what was at fault.
"""

import logging
import re
import traceback
from collections.abc import Iterator
from typing import Any, Final, cast

# Names of workers, queues, tools, ids, addresses, versions; and what is said of trips.
_HARMLESS_TEXT: Final = re.compile(
    r"[\w.:/@*+#<>=,()\[\]-]{0,200}|give up| to token \d+, \d+ wasted|not opened"
    r"| \(\w+ by \w+, \w+\)"
)
# Errors that quote no job, by name: the engine's processes load this and not the broker's client.
_HARMLESS: Final = frozenset(
    {"BrokerError", "ConfigError", "LookLost", "ResultTimeout", "SomebodyLooks"}
)
# What these say is of our own making, or the broker's; no job comes near them.
_OWN: Final = frozenset(
    f"sluicegate.{name}"
    for name in (
        "producer.connection",
        "producer.subscription",
        "worker.agent.service",
        "worker.checker",
        "worker.frame",
        "worker.service",
        "worker.standing",
        "worker.tools.registry",
        "worker.vllm_loading",
    )
)
# What tools print is passed on line by line: each line is somebody's words.
_NEVER: Final = frozenset({"sluicegate.worker.tools.process"})


def hidden(record: logging.LogRecord) -> logging.LogRecord:
    """The record, its texts replaced by how long they are. A copy, where there is anything."""
    if record.name in _OWN:
        return record
    copy = logging.makeLogRecord(record.__dict__)
    if not record.name.startswith("sluicegate."):
        # Others' may be finished sentences, made of whatever was at hand.
        copy.msg, copy.args = _length(record.getMessage()), ()
    elif isinstance(record.args, tuple):
        copy.args = tuple(_shown(record.name, each) for each in record.args)
    return copy


def without_messages(error: BaseException) -> str:
    """Where an exception came from, and what it came from, without what any of them says."""
    return "\n".join(_told(error, set())).rstrip()


def _told(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _told(before, seen)
        yield "which led to:"
    yield "".join(traceback.format_tb(error.__traceback__)).rstrip()
    yield f"{type(error).__name__}: {_length(str(error))}"
    if isinstance(error, BaseExceptionGroup):
        for each in cast("BaseExceptionGroup[Any]", error).exceptions:
            if id(each) not in seen:
                yield from _told(each, seen)


def _shown(logger: str, value: object) -> object:
    """What of an argument of a line may be said."""
    match value:
        case None | int() | float():
            return value
        case BaseException() if any(
            each.__name__ in _HARMLESS and each.__module__.startswith("sluicegate.")
            for each in type(value).__mro__
        ):
            return value
        case BaseException():
            return f"{type(value).__name__} {_length(str(value))}"
        case _:
            text = str(value)
            harmless = logger not in _NEVER and _HARMLESS_TEXT.fullmatch(text)
            return text if harmless else _length(text)


def _length(text: str) -> str:
    return f"[redacted: {len(text)} characters]"
