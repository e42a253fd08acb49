"""How requests are cut for the scoring model: into windows, sentences, rows, and rows into batches.
Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from .scoring import Limits, ScoreRequest, Wants

Span = tuple[int, int]
Encode = Callable[[str], tuple[list[int], list[Span]]]

# Half a character of UTF-16, which no tokenizer takes.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Where a sentence ends: its mark, what closes behind it, and white space; or its line.
_END: Final = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+|[。！？]+[」』”）]*\s*|\n\s*")
# What a forward pass costs besides its tokens, in tokens: 14 with one thread, 28 with two.
PASS: Final = 32
# With fewer tokens a sentence says nothing.
_LEAST_SENTENCE: Final = 4


class Prompts(Struct, frozen=True):
    """Tokens `before` a prompt and `behind` it, where the text begins; and `neutral`, all of it
    without a prompt, never empty."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    neutral: tuple[int, ...]


class Row(Struct, frozen=True):
    """Tokens seen at once, behind the empty prompt (`neutral`) or behind what stands before
    any prompt; scored from `first` on, which is 0 only behind the empty prompt."""

    neutral: bool
    ids: tuple[int, ...]
    first: int


class Cut(Struct, frozen=True):
    """A request in tokens: the characters of those that are kept, and the rows that score them.
    `parts`: each sentence's characters, and its tokens among the kept."""

    chars: tuple[Span, ...]
    alone: tuple[Row, ...]
    given: tuple[Row, ...]
    parts: tuple[tuple[Span, Span], ...]
    sentences: tuple[Row, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """All of them, in the order of the fields."""
        return (*self.alone, *self.given, *self.sentences)


class Window(Struct, frozen=True):
    """Tokens that are seen at once, from `begin` to `end`; scored from `first` on."""

    begin: int
    first: int
    end: int


def clean(text: str) -> str:
    """The text without half surrogate pairs, every character where it was."""
    return _SURROGATE.sub("\ufffd", text)


def windows(length: int, limits: Limits) -> list[Window]:
    """The windows over a text of so many tokens. Every token that is kept is scored in exactly
    one, in order."""
    head = _head(length, limits)
    found = list(_windows(0, head, limits))
    if head < length:
        found += _windows(length - (limits.text - head), length, limits)
    return found


def _head(length: int, limits: Limits) -> int:
    """How many tokens are kept from the beginning on."""
    return length if length <= limits.text else limits.text * 3 // 4


def _windows(first: int, end: int, limits: Limits) -> Iterator[Window]:
    while first < end:
        begin = max(0, first - limits.overlap)
        stop = min(end, begin + limits.window)
        yield Window(begin, first, stop)
        first = stop


def sentences(text: str) -> list[Span]:
    """The sentences of a text with the white space behind them: together they are all of it."""
    ends = [match.end() for match in _END.finditer(text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    return [(begin, end) for begin, end in pairwise([0, *ends]) if begin < end]


def tokens_of(spans: Sequence[Span], chars: Sequence[Span]) -> list[Span]:
    """The tokens of each span, by where a token's last character is: the space before a word is
    often in its token. `chars` of the tokens, ascending; the spans touch each other."""
    found: list[Span] = []
    at = 0
    for _, end in spans:
        first = at
        while at < len(chars) and (chars[at][1] <= end):
            at += 1
        found.append((first, at))
    return found


def batches(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Indices of rows in groups of similar length, each of at most `most` tokens when its rows are
    padded to the longest, or of one row. No group has more padding than a pass of its own costs."""
    groups: list[list[int]] = []
    padding = 0
    for index in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
        # The first of a group is its longest.
        group = groups[-1] if groups else []
        longest = lengths[group[0]] if group else 0
        padding += longest - lengths[index]
        if group and padding <= PASS and longest * (len(group) + 1) <= most:
            group.append(index)
        else:
            groups.append([index])
            padding = 0
    return groups


def cut(
    request: ScoreRequest, wants: Wants, *, limits: Limits, prompts: Prompts, encode: Encode
) -> Cut:
    """The rows of a request. `encode` gives a text's ids and their characters."""
    ids, chars = encode(request.text)
    if not (wants.perplexity or wants.coherence):
        most = limits.given if wants.relevance and request.prompt else 0
        ids, chars = ids[:most], chars[:most]
    seen = windows(len(ids), limits)
    given: list[Row] = []
    if wants.relevance and request.prompt and ids:
        asked = encode(request.prompt)[0][-limits.prompt :]
        before = (*asked, *prompts.behind)
        given = [Row(False, (*before, *ids[: limits.given]), len(before))] if before else []
    parts = list(_parts(request.text, chars[: _head(len(ids), limits)], limits))
    if not wants.coherence:
        parts = []
    return Cut(
        tuple(chars[at] for window in seen for at in range(window.first, window.end)),
        tuple(Row(True, tuple(ids[w.begin : w.end]), w.first - w.begin) for w in seen),
        tuple(given),
        tuple(parts),
        tuple(Row(True, tuple(ids[begin:end]), 0) for _, (begin, end) in parts),
    )


def _parts(text: str, chars: Sequence[Span], limits: Limits) -> Iterator[tuple[Span, Span]]:
    """The sentences to score, each with its first tokens; not the first one, which nothing is
    before."""
    spans = sentences(text)[: limits.sentences + 1]
    for span, (begin, end) in list(zip(spans, tokens_of(spans, chars), strict=True))[1:]:
        stop = min(end, begin + limits.sentence)
        if stop - begin >= _LEAST_SENTENCE:
            yield span, (begin, stop)


def covered(chars: Sequence[Span]) -> int:
    """How many characters the tokens cover: several may be pieces of one."""
    end = count = 0
    for first, last in chars:
        count += max(0, last - max(first, end))
        end = max(end, last)
    return count
