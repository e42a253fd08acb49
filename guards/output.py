"""The whole output, judged when it ends: the light part of level 5.

Only prose counts as repetitive. Rows of a table, lines of code and short items of a list are alike
because they must be, and a refrain comes twice because it is one. So a sentence counts from its
third time on, and only where it is long enough to be one.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import regex

from ..schemas import FinishReason
from .coherence import PER, varies
from .exempt import SpanReader, Spans
from .finding import Finding, Flaw, Level
from .ngrams import built_in, stand_ins
from .profiles import Profile
from .words import broken

# A character of UTF-8 has four bytes at most; three tokens of it may wait for the last.
_UNFINISHED: Final = 3
# Fenced code, closed or not.
_FENCED: Final = regex.compile(r"^(`{3,}|~{3,}).*?(?:^\1|\Z)", regex.DOTALL | regex.MULTILINE)
# What ends a sentence, in scripts that have such a thing. A full stop inside a word ends none.
_END: Final = regex.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s|$)|[。！？।॥؟۔։။]+|\n")
# Of a line: cells, statements, markup, keys with values.
_NO_PROSE: Final = regex.compile(r"[|{}<>;=\\\t]|::|//|^\s*[\"'\w.-]+\s*[:=]\s*\S+$|\d\s+\d")
_MARKER: Final = regex.compile(r"^[\s>#*+•\-–—\d.)(]+")
# Letters of a sentence, words where the script has blanks between them.
_LETTERS: Final = 24
_DENSE_LETTERS: Final = 10
_DENSE: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)
_LETTER: Final = regex.compile(r"\p{L}")
# With less prose, one sentence said three times is a third of it.
_PROSE: Final = 400
_TIMES: Final = 2
# With fewer characters nothing is gibberish.
_WORDS: Final = 40


def judge_output(
    profile: Profile,
    text: str,
    *,
    tokens: int,
    pending: int,
    finish_reason: FinishReason,
    structured: bool,
    exempt: Spans = (),
) -> Finding | None:
    """What is wrong with a text that has ended, the gravest first; None: nothing that shows.

    `tokens` accepted, `pending`: how many of them at the end brought no text, the one that ended it
    not counted. `structured`: held to a grammar, so that length and repetition are the grammar's
    business unless the profile says otherwise. `exempt`: spans that are no prose; words and
    repetition are judged by what stands outside of them, held to a grammar or not. A text that was
    cut off (`length`) may end in half a character, one that ended by itself may not.
    """
    prose = SpanReader(exempt).outside(text) if exempt else [text]
    held = structured and not exempt and not profile.structured_text_gates
    flaws = _flaws(profile, text, pending, finish_reason, () if held else prose)
    for flaw, score, threshold, detail in flaws:
        return Finding(
            gate="output",
            level=Level.OUTPUT,
            flaw=flaw,
            tokens=(_onset(profile, flaw, text, tokens, pending), tokens),
            chars=(_start(profile, flaw, text), len(text)),
            score=score,
            threshold=threshold,
            detail=detail,
        )
    return None


def _start(profile: Profile, flaw: Flaw, text: str) -> int:
    """The first character of what was judged."""
    return max(0, len(text) - profile.coherence_window) if flaw is Flaw.GIBBERISH else 0


def _onset(profile: Profile, flaw: Flaw, text: str, tokens: int, pending: int) -> int:
    """The first token that must go: all of them where the whole text is what is wrong."""
    if flaw in (Flaw.EMPTY_ANSWER, Flaw.REPETITIVE):
        return 0
    if flaw is Flaw.GIBBERISH:
        # Where that is in tokens is not known here: as far as in characters.
        return tokens * _start(profile, flaw, text) // len(text)
    return tokens - pending if flaw is Flaw.UNFINISHED_CHARACTER else tokens


def _flaws(
    profile: Profile,
    text: str,
    pending: int,
    finish_reason: FinishReason,
    prose: Sequence[str],
) -> Iterator[tuple[Flaw, float, float, str]]:
    if finish_reason == "repetition":
        yield Flaw.ENGINE_REPETITION, 1, 1, "the engine stopped on a repetition"
    if finish_reason == "abort":
        yield Flaw.ENGINE_ABORT, 1, 1, "the engine aborted the request"
    said = text.strip()
    if profile.min_length and not said:
        yield Flaw.EMPTY_ANSWER, 0, 1, "no text, or nothing but blanks"
    if finish_reason == "stop" and text and 0 < pending <= _UNFINISHED:
        detail = f"the last {pending} tokens are part of a character"
        yield Flaw.UNFINISHED_CHARACTER, pending, 1, detail
    if not prose:
        return
    if len(said) < profile.min_length:
        yield Flaw.TOO_SHORT, len(said), profile.min_length, f"{len(said)} characters"
    limit, score = _gibberish(profile, prose[-1])
    if limit and score >= limit:
        yield Flaw.GIBBERISH, score, limit, "the end is token salad"
    limit = profile.max_repetition_ratio
    if limit and (ratio := repetition_ratio("\n".join(prose))) > limit:
        yield Flaw.REPETITIVE, ratio, limit, "sentences said three times and more"


def _gibberish(profile: Profile, text: str) -> tuple[float, float]:
    """The limit for the end of the text, and its score. The gate looks every few tokens, and only
    once there is a window full: this is its last look. What chance does to a score goes with the
    root of the length, so a short text must be further off. (0, 0): off, or nothing to speak of."""
    window = profile.coherence_window
    end = text[-window:]
    if len(end) < _WORDS:
        return 0.0, 0.0
    limit = profile.gibberish * math.sqrt(window / len(end))
    ngrams = built_in()
    score = PER * ngrams.total(stand_ins(end)) / len(end)
    if score < limit or not varies(ngrams, end, limit) or broken(end) < profile.broken_words:
        return 0.0, 0.0
    return limit, score


def repetition_ratio(text: str) -> float:
    """Which share of the prose, in characters, is sentences that were there twice before. 0 where
    there is too little prose to say."""
    if len(text) < _PROSE:
        return 0.0
    seen: Counter[str] = Counter()
    prose = repeated = 0
    for line in _FENCED.sub("\n", text).split("\n"):
        if _NO_PROSE.search(line):
            continue
        for sentence in _END.split(_MARKER.sub("", line)):
            words = " ".join(sentence.split()).casefold()
            if not _is_sentence(words):
                continue
            prose += len(words)
            seen[words] += 1
            if seen[words] > _TIMES:
                repeated += len(words)
    return repeated / prose if prose >= _PROSE else 0.0


def _is_sentence(words: str) -> bool:
    letters = len(_LETTER.findall(words))
    if letters < _DENSE_LETTERS or 2 * letters < len(words):
        return False
    return letters >= _LETTERS or bool(_DENSE.match(words))
