"""What makes two calls of a tool the same call, and two results the same result.

A call's key is its tool and the canonical JSON of its arguments: in whatever order they come, in
whatever form of Unicode, and 1 is 1.0 but not true. A result's fingerprint is of all that came
back, less what `watchdog_noise` knows to be noise and the fields of which its tool says that they
change without meaning.
"""

import json
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, cast

import regex

from ..schemas.agents import CallSample
from ..schemas.tools import ToolCall, ToolSpec, ToolStatus
from .similarity import asked_for, terms
from .stop_words import NEGATIONS, STOP_WORDS, UNSPACED_NEGATIONS
from .watchdog_noise import (
    FLOAT,
    is_nod,
    is_nothing,
    without_noise,
    without_noise_in_json,
    without_noise_in_question,
    without_noise_in_text,
)

# Bytes of a hash, shown as twice as many digits: two different calls of a job never meet.
_DIGEST: Final = 12
# Levels of arguments that are told apart; no message has more than 32.
_DEEPEST: Final = 64
# Of the words of a call.
_WORDS: Final = 32
LONG: Final = "#"
"""Begins, in the words of a call, what stands for a long value."""
ASKED: Final = "?"
"""Begins there what is asked for: who, when, where, why, how many."""
_WORD_CHARS: Final = 40
# Longer values are no questions but matter, and matter is the same or is not; in characters.
_QUESTION_CHARS: Final = 200
# Longer results are cleared of noise only where their tool names fields: that takes a second for 10
# MB.
_READ: Final = 1024 * 1024
# A result tells something, if it is so long in characters, or has so many terms and denies nothing:
# "ok" and "no documents match your query" are what many different calls bring.
_TELLING: Final = 400
_TELLING_TERMS: Final = 4
_TELLS: Final = "+"
_NODS: Final = "-"
NOTHING: Final = "nothing"
"""The fingerprint of a page on which there is nothing, whichever it is."""
# Arguments whose short texts are matter, and no question.
_MATTER: Final = frozenset(
    {"text", "content", "body", "review", "sentence", "comment", "passage", "paragraph", "message"}
)

# A question has words, set apart by blanks or in a script that sets none. Within it what has a
# symbol or a digit is a name, a path, a number, code.
_QUESTION: Final = regex.compile(
    r"\S\s++\S|[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]{5}"
)
_NAME: Final = regex.compile(r"[^\p{L}\p{M}\s.,;:?!'\"’‘“”«»()、。，？！：；「」・¿¡·…-]|\w[._:]\w")
_DENSE: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)
_EDGES: Final = ".,;:?!'\"’‘“”«»()、。，？！：；「」・¿¡·…"
_WORD: Final = regex.compile(
    r"[\p{Han}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]|[\p{Hiragana}\p{Katakana}ー]{1,2}"
    r"|(?:(?![\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])[\p{L}\p{M}\p{N}])++"
)
_LETTERS: Final = regex.compile(r"[\p{L}\p{M}]++")
# Moments, names without meaning and durations, as programs write them.
_STAMP: Final = regex.compile(
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d++)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d++)?+\b"
    r"|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
    r"|\b\d++(?:\.\d++)?+ ?(?:ns|µs|us|ms|s|sec|seconds|minutes)\b"
)


def call_key(name: str, arguments: Mapping[str, Any], loop_key: Sequence[str] | None = None) -> str:
    """A hash of a call's tool and arguments, or of those arguments alone that `loop_key` names: 24
    hexadecimal digits. Time is proportional to the arguments."""
    said = _canonical(_chosen(arguments, loop_key), 0)
    return _digest(json.dumps([name, said], ensure_ascii=True, separators=(",", ":")))


def argument_words(
    arguments: Mapping[str, Any], loop_key: Sequence[str] | None = None
) -> tuple[str, ...]:
    """What a call asks, in words: those of its short texts, folded, without stop words, in order,
    each once, 32 at most; `?when` where it asks for that. `name=value` stands for a value that is
    no question but a number, a name, a path, code, or long: of two calls that ask the same these
    are equal. Empty where there are too many to compare."""
    words: dict[str, None] = {}
    exact: set[str] = set()
    stack: list[tuple[str, Any, int]] = [("", _chosen(arguments, loop_key), 0)]
    while stack:
        name, value, depth = stack.pop()
        if isinstance(value, Mapping) and depth <= _DEEPEST:
            items = cast("Mapping[Any, Any]", value).items()
            stack.extend((str(key), item, depth + 1) for key, item in sorted(items, key=_by_key))
        elif isinstance(value, list | tuple) and depth <= _DEEPEST:
            stack.extend((name, item, depth + 1) for item in cast("list[Any]", value))
        elif isinstance(value, str) and name not in _MATTER and _is_question(value):
            words.update((ASKED + kind, None) for kind in asked_for(value))
            for word, is_name in _words(without_noise_in_question(value)):
                if is_name:
                    exact.add(f"={word}")
                else:
                    words[word] = None
        elif value is not None:
            exact.add(_exact(name, value))
        if len(words) + len(exact) > _WORDS:
            return ()
    return (*sorted(exact), *words)


def fingerprint(content: str, volatile: Sequence[str] = ()) -> str:
    """A hash of a result, whole but for its noise: 24 hexadecimal digits, a `+` where it tells
    something, not "ok" nor "nothing found", and a `-` where it says no more than "ok".

    JSON is taken in canonical form, without the fields that `volatile` names, at any depth. Of
    other text `name: value` and `name=value` go, and where any field is volatile, so do all
    moments, UUIDs and durations; else only what `watchdog_noise` knows. Beyond 1 MiB only results
    with volatile fields are read. Time is proportional to the result: a second for 10 MB of JSON,
    30 ms where it needn't be read.
    """
    text = _canonical_json(content, frozenset(volatile))
    if text is None:
        text = _without(content, volatile) if volatile else content
        text = without_noise_in_text(text) if len(text) <= _READ else text
    mark = _TELLS if _is_telling(text) else _NODS if is_nod(text) else ""
    return _digest(text) + mark


def tells(mark: str) -> bool:
    """Whether the result with this fingerprint tells so much that two alike are no chance."""
    return mark.endswith(_TELLS)


def nods(mark: str) -> bool:
    """Whether the result with this fingerprint says no more than that something was done."""
    return mark.endswith(_NODS)


def call_sample(
    call: ToolCall, spec: ToolSpec | None, at: datetime, *, noise: bool = False
) -> CallSample:
    """A call as the watchdog sees it; `spec`: None for a tool that there is not. `at`: when it was
    made. An open one has not run. `noise`: arguments that mean nothing are left in."""
    loop_key = spec.loop_key if spec is not None else None
    result = call.result
    found = "" if result is None else result.fingerprint
    if result is not None and not found:
        found = fingerprint(result.content, spec.volatile if spec is not None else ())
    arguments = call.arguments
    changes_state = spec is not None and spec.changes_state
    if loop_key is None and result is not None and not noise:
        nothing = result.status is ToolStatus.OK and is_nothing(result.content)
        acts = changes_state or nods(found)
        telling = tells(found) and not changes_state
        left = without_noise(arguments, acts=acts, telling=telling, nothing=False)
        arguments = without_noise(left, acts=acts, telling=telling, nothing=nothing)
        if len(arguments) < len(left):
            found = NOTHING
    return CallSample(
        tool=call.name,
        key=call_key(call.name, arguments, loop_key),
        fingerprint=found,
        status=ToolStatus.NOT_RUN if result is None else result.status,
        at=at,
        words=argument_words(arguments, loop_key),
        polls=spec is not None and spec.polls,
        changes_state=changes_state,
    )


def _is_telling(text: str) -> bool:
    if len(text) > _TELLING:
        return True
    words = set(_LETTERS.findall(text.casefold()))
    if words & NEGATIONS or any(part in text for part in UNSPACED_NEGATIONS):
        return False
    return len(terms(text)) >= _TELLING_TERMS


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).hexdigest()


def _chosen(arguments: Mapping[str, Any], loop_key: Sequence[str] | None) -> Mapping[str, Any]:
    if loop_key is None:
        return arguments
    return {name: arguments[name] for name in loop_key if name in arguments}


def _canonical(value: Any, depth: int) -> Any:
    """What two equal values have in common, as JSON: an object is its sorted pairs."""
    match value:
        case _ if depth > _DEEPEST:
            said: Any = None
        case str():
            said = unicodedata.normalize("NFC", value)
        case float() if math.isfinite(value):
            said = int(value) if value.is_integer() else value
        case Mapping():
            items = cast("Mapping[Any, Any]", value).items()
            pairs = [[_canonical(str(key), 0), _canonical(item, depth + 1)] for key, item in items]
            said = ["object", *sorted(pairs, key=_by_key)]
        case list() | tuple():
            said = ["array", *(_canonical(item, depth + 1) for item in cast("list[Any]", value))]
        case None | int():
            said = value
        case _:
            said = ["other", type(value).__name__, str(value)]
    return said


def _by_key(pair: Sequence[Any]) -> str:
    return str(pair[0])


def _is_question(value: str) -> bool:
    short = len(value) <= _QUESTION_CHARS and "\n" not in value
    return short and _QUESTION.search(value) is not None


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """The words of a question, and whether each is a name or a number."""
    for piece in unicodedata.normalize("NFC", text).casefold().split():
        if not _DENSE.search(piece) and _NAME.search(piece):
            yield (piece.strip(_EDGES) or piece)[:_WORD_CHARS], True
            continue
        for word in _WORD.findall(piece):
            if word not in STOP_WORDS:
                yield word[:_WORD_CHARS], any(map(str.isdigit, word))


def _exact(name: str, value: Any) -> str:
    said = json.dumps(_canonical(value, 0), ensure_ascii=False)
    if isinstance(value, str) and value.isprintable():
        said = value
    whole = f"{name}={said}"
    return whole if len(whole) <= _WORD_CHARS else f"{name[:12]}={LONG}{_digest(whole)}"


def _canonical_json(content: str, volatile: frozenset[str]) -> str | None:
    """None for what is not JSON, or need not be read as such."""
    if content.lstrip()[:1] not in ("{", "[") or (len(content) > _READ and not volatile):
        return None
    try:
        value = json.loads(content, parse_float=_literal, object_pairs_hook=_leaving_out(volatile))
        value = without_noise_in_json(value) if len(content) <= _READ else value
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    # Too deep, or a number of thousands of digits.
    except (ValueError, RecursionError):
        return None


def _literal(number: str) -> list[str]:
    """Digits that no double has still make two results different."""
    return [FLOAT, number]


def _leaving_out(volatile: frozenset[str]) -> Callable[[list[tuple[str, Any]]], Any]:
    def kept(pairs: list[tuple[str, Any]]) -> Any:
        left = [pair for pair in pairs if pair[0] not in volatile] if volatile else pairs
        fields = dict(left)
        # One name twice is legal, and either value may be the one that is read.
        return fields if len(fields) == len(left) else ["\0pairs", left]

    return kept


def _without(text: str, volatile: Sequence[str]) -> str:
    names = "|".join(map(regex.escape, volatile))
    field = regex.compile(rf"(?<![\w-])({names})[\"']?\s*+[:=][^\n,;]*+", regex.IGNORECASE)
    return _STAMP.sub("#", field.sub(r"\1", text))
