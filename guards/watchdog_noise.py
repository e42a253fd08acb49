"""What of a call and of its result says nothing: a nonce, a request's id, the moment it was made.

Nothing that may be meant is noise. An id is what is asked for, and so is a moment of the day; a
moment with seconds that are not zero is of a machine's clock. Several rows of a list are matter,
and a time in them is theirs.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

import regex

from .similarity import terms
from .stop_words import NEGATIONS

# --- arguments, by name: small letters, words set apart by `_`


def _named(words: str) -> frozenset[str]:
    return frozenset(words.split())


_REQUEST: Final = _named(
    "nonce salt request_id req_id requestid client_request_id trace_id traceid span_id traceparent "
    "correlation_id idempotency_key call_id tool_call_id invocation_id cache_buster cachebuster"
)
_TRIES: Final = _named(
    "attempt attempts attempt_number attempt_no retry retries retry_count retry_number try tries "
    "try_number rand random unique_id"
)
# More of the same answer is the same answer.
_LIMITS: Final = _named(
    "limit max_results num_results result_limit top_k topk top_n page_size pagesize per_page "
    "timeout timeout_s timeout_ms timeout_seconds"
)
_PAGES: Final = _named(
    "page page_number page_no page_index pagenumber offset skip start_index cursor page_token "
    "pagetoken next_token next_page"
)
_CLOCK: Final = _named(
    "ts timestamp time now sent_at requested_at called_at current_time client_time request_time"
)
_SEEDS: Final = _named("seed random_seed rng_seed")
_QUERY: Final = _named("q query question search search_query keywords prompt")
# Of these a page is a part, and the next one may have what this one has not.
_PAGED: Final = _named("file path pdf doc document url book image scan")
# The last word of a name that says what is asked for.
_THINGS: Final = _named(
    "id ids sha sha1 sha256 md5 hash digest commit rev revision checksum cursor token key ref etag "
    "address account wallet tx txid file path object blob image session job run build node block "
    "branch tag version order customer user doc document contract case ticket item from to start "
    "end since until before after date day when at begin due departure arrival"
)
# Of a moment in a result: that of an event, not of the answer.
_EVENTS: Final = _named(
    "start starts end ends begin begins due date day when departure arrival from to until since "
    "deadline scheduled created published expires birth"
)

# --- fields of results, by name
_FIELDS_OF_REQUESTS: Final = _REQUEST | _named(
    "response_id result_id search_id query_id execution_id took took_ms elapsed elapsed_ms "
    "elapsed_s elapsed_seconds elapsed_time query_time query_time_ms processing_time "
    "processing_time_ms"
)
# Of a result as a whole; `order_id` is of a thing.
_IDS: Final = _named("id uuid guid")
_FIELDS_OF_MOMENTS: Final = _named(
    "timestamp ts as_of server_time generated_at fetched_at retrieved_at checked_at observed_at "
    "now current_time"
)

_CAMEL: Final = regex.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UUID: Final = regex.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_HEX: Final = regex.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{14,}|(?=.*\d)(?=.*[A-F])[0-9A-F]{14,}")
# With seconds, or parts of one.
_MACHINE: Final = (
    r"(?:\b\d{4}-\d\d-\d\d[T ]|\b)\d\d:\d\d:(?!00(?:[.,]0+)?(?![\d.,]*[1-9]))\d\d(?:[.,]\d++)?"
    r"(?:Z\b|[+-]\d\d:?\d\d\b)?"
)
_MOMENT: Final = regex.compile(_MACHINE)
_DATED: Final = regex.compile(rf"(?=\d{{4}}-){_MACHINE}")
_SAYS: Final = regex.compile(r"[\p{L}\p{N}]")
_FILE: Final = regex.compile(r"(?:\S*/)?\S+\.[A-Za-z]\w{1,4}")
_IN_TEXT: Final = regex.compile(
    rf"{_MACHINE}|{_UUID.pattern}"
    r"|\b(?i:took|elapsed|in|after)[ :=]++\d++(?:\.\d++)? ?(?:ns|µs|us|ms)\b"
    r"|\b(?i:took|elapsed)[ :=]++\d++(?:\.\d++)? ?(?:s|sec|seconds)\b"
    r"|\bin \d++\.\d++ ?(?:s|sec|seconds)\b"
)
_IN_QUESTION: Final = regex.compile(
    rf"{_MACHINE}|{_UUID.pattern}|\(?\b(?i:try|attempt|retry)\b[ #:]{{0,3}}\d++\)?"
)
_FIELD_IN_TEXT: Final = regex.compile(
    r"(?<![\w-])(x-request-id|request[_-]?id|trace[_-]?id|span[_-]?id|correlation[_-]?id|nonce"
    r"|elapsed(?:_ms|_s|_seconds)?|took(?:_ms)?)[\"']?\s*+[:=]\s*+[^\s,;]++",
    regex.IGNORECASE,
)
_DAY_S: Final = (1_000_000_000, 4_000_000_000)

FLOAT: Final = "\0float"
"""Stands before the digits of a number that may be none of a double's."""

# --- results that are no more than a nod
_NODS: Final = _named(
    "ok okay done yes true null success successful succeeded slept sleep sleeping waited wait "
    "waiting awake woke resumed continue status result message state s sec secs second seconds ms "
    "minute minutes acknowledged ack"
)
_NOD_CHARS: Final = 80
_NOTHING_CHARS: Final = 120
_NOTHING_JSON: Final = 10_000
_WAITS: Final = _named("sleep wait pause delay timer")


def plain(name: str) -> str:
    """A name in small letters, its words set apart by `_`: `request_id` of `X-RequestId`."""
    words = _CAMEL.sub("_", name).replace("-", "_").casefold().strip("_")
    return words.removeprefix("x_")


def waits(tool: str) -> bool:
    """Whether a tool's name says that it lets time pass."""
    return not _WAITS.isdisjoint(plain(tool).split("_"))


def without_noise(
    arguments: Mapping[str, Any], *, acts: bool, telling: bool, nothing: bool
) -> Mapping[str, Any]:
    """The arguments without those that don't change what is asked. `acts`: something was done, and
    a limit may be what was set. `telling`: the result says so much that two alike are no chance,
    and then a value of chance beside a query goes, too. `nothing`: it says that there is nothing
    there, and then it is no matter on which page of a list. Where noise is all that there is, it is
    what is asked for, but a limit is not."""
    asks = any(plain(name) in _QUERY for name in arguments)
    pages = nothing and not any(_is_paged(name, value) for name, value in arguments.items())
    kept: dict[str, Any] = {}
    noise = 0
    for name, value in arguments.items():
        said = plain(name)
        if (said in _LIMITS and not acts) or (said in _PAGES and pages):
            continue
        if _is_noise(said, value, telling=telling, asks=asks):
            noise += 1
            continue
        kept[name] = _without_request(value)
    return kept if kept or not noise else arguments


def without_noise_in_question(text: str) -> str:
    """A question without UUIDs, a machine's moments, and the number of the try."""
    left = _IN_QUESTION.sub(" ", text)
    return left if left.strip() else text


def without_noise_in_text(text: str) -> str:
    """A result without moments of a machine's clock, UUIDs, durations, and the fields of requests;
    as it is, where that is all that it says."""
    left = _IN_TEXT.sub("#", _FIELD_IN_TEXT.sub(r"\1", text))
    return left if _SAYS.search(left) else text


def without_noise_in_json(value: Any) -> Any:
    """The same of JSON, by the names of its fields. In a list of several rows all is kept, and what
    is no object or list of one."""
    left = _cleaned(value)
    return left if left not in ({}, []) else value


def is_nothing(content: str) -> bool:
    """Whether a result says that there is nothing there: an empty list, or a short sentence."""
    text = content.strip()
    if not text or text in ("[]", "{}", "null"):
        return True
    if text[0] in "{[" and len(text) <= _NOTHING_JSON:
        try:
            return _is_empty(json.loads(text))
        except (ValueError, RecursionError):
            return False
    return len(text) <= _NOTHING_CHARS and not NEGATIONS.isdisjoint(text.casefold().split())


def is_nod(text: str) -> bool:
    """Whether a result says no more than that something was done."""
    said = text.strip()
    if not said or len(said) > _NOD_CHARS:
        return not said
    words = terms(said)
    return not words.isdisjoint(_NODS) and all(word in _NODS or word.isdigit() for word in words)


def _without_request(value: Any) -> Any:
    """The value; an object without the ids of requests in it."""
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {name: part for name, part in fields.items() if plain(name) not in _REQUEST}


def _is_noise(name: str, value: Any, *, telling: bool, asks: bool) -> bool:
    if name in _REQUEST or name in _TRIES:
        return True
    if name in _CLOCK and _is_clock(value):
        return True
    if not telling:
        return False
    if name in _SEEDS:
        return True
    is_thing = name.rpartition("_")[2] in _THINGS
    return asks and not is_thing and name not in _QUERY and _is_chance(value)


def _is_paged(name: str, value: Any) -> bool:
    if plain(name).rpartition("_")[2] in _PAGED:
        return True
    return isinstance(value, str) and _FILE.fullmatch(value.strip()) is not None


def _is_clock(value: Any) -> bool:
    if isinstance(value, str) and not value.strip().isdigit():
        return _DATED.fullmatch(value.strip()) is not None
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    least, most = _DAY_S
    if 1_000 * least <= seconds < 1_000 * most:
        seconds /= 1_000
    return least <= seconds < most and seconds % 60 != 0


def _is_chance(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    text = value.strip()
    found = (pattern.fullmatch(text) for pattern in (_UUID, _HEX, _DATED))
    return any(each is not None for each in found)


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {
            name: _cleaned(part)
            for name, part in fields.items()
            if not _is_volatile(plain(name), part)
        }
    if isinstance(value, list):
        rows = cast("list[Any]", value)
        return [_cleaned(rows[0])] if len(rows) == 1 else rows
    return value


def _is_volatile(name: str, value: Any) -> bool:
    if isinstance(value, dict) or (isinstance(value, list) and value[:1] != [FLOAT]):
        return False
    if name in _FIELDS_OF_REQUESTS or name in _FIELDS_OF_MOMENTS:
        return True
    if not isinstance(value, str):
        return name in _CLOCK and isinstance(value, int) and _is_clock(value)
    if _UUID.fullmatch(value):
        return name in _IDS or name.rpartition("_")[2] not in _THINGS
    return _EVENTS.isdisjoint(name.split("_")) and _MOMENT.fullmatch(value) is not None


def _is_empty(value: Any) -> bool:
    """Whether there is an empty list in it, and no list with anything."""
    stack, empty = [value], 0
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            stack.extend(cast("dict[str, Any]", one).values())
        elif isinstance(one, list):
            if one:
                return False
            empty += 1
    return empty > 0
