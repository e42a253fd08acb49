"""Language: the answer is in the one that was declared, or that a long prompt plainly is in.

Two scores, both probabilities by the detector, 0 to 1: of the whole text being in another language,
and of the worst passage. Languages that it mistakes for one another count as one. Time is
proportional to the text, of which at most the first 200,000 characters are judged.
"""

from collections.abc import Iterator
from typing import Final

import regex
from msgspec import Struct

from ...schemas import CheckRecord, Evidence, Flaw
from .detector import blanked, detect, letters
from .language_names import KNOWN, code_of, mentions, mentions_other, near
from .records import SWITCHED_OFF, evidence, passed, rejected, skipped
from .subject import Subject
from .thresholds import Thresholds

WHOLE: Final = "language_other"
PASSAGE: Final = "language_passage"
_MOST: Final = 200_000
_PROMPT: Final = 20_000
# Letters of the shortest instruction, and the probability from which it is in another language.
_FEW: Final = 8
_RATHER: Final = 0.5
# Characters of a line that may be an instruction about what follows, or stands before.
_LINE: Final = 80
# Letters between the ends of two passages: this part of their size.
_STEPS: Final = 3
# A passage is made of these: sentences, or lines.
_SENTENCE: Final = regex.compile(r"[^\n.!?。！？।؟።]*+(?:[.!?。！？।؟።]++|\n|\Z)")
# Of a sentence: its words, what parts its clauses, and scripts that set no blanks, whose words
# can't be counted.
_WORD: Final = regex.compile(r"\p{L}[\p{L}\p{M}\p{N}'’\-]*+")
_CLAUSE: Final = regex.compile(r"[,;:|–—•·/()]|\s-\s")
_UNSPACED: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
)
# Words a clause of a sentence has on average. Lists of names have fewer, and what is named may be
# in any language: "Kraków: obwarzanek. Pasta: tagliatelle al ragù, ravioli."
_CLAUSE_WORDS: Final = 3.5
# What is quoted may be in any language.
_QUOTED: Final = regex.compile(
    r"^[ \t]*+>.*$|“[^“”]*+”|«[^«»]*+»|„[^„“”]*+[“”]|「[^「」]*+」|\"[^\"\n]*+\"", regex.MULTILINE
)


class Passage(Struct, frozen=True):
    """A part of the text, in characters, with the language it is in for all the detector knows."""

    start: int
    end: int
    language: str
    probability: float


def expected(subject: Subject, thresholds: Thresholds) -> str | None:
    """The language that the answer should be in: declared, or that of a long prompt that says
    nothing of languages or of translating. None: nobody can say."""
    if subject.rules.language is not None:
        return code_of(subject.rules.language)
    # What is to be read by a machine has few words, in whatever language the data are.
    if not thresholds.language_prompt_min or subject.structured or subject.rules.asks_for_json:
        return None
    # What is asked stands at either end.
    prompt = subject.prompt
    if len(prompt) > 2 * _PROMPT:
        prompt = f"{prompt[:_PROMPT]}\n{prompt[-_PROMPT:]}"
    plain = blanked(prompt)
    if letters(plain) < thresholds.language_prompt_letters or mentions().search(prompt):
        return None
    found = detect(plain)
    language = next(iter(found), "")
    sure = found.get(language, 0.0) >= thresholds.language_prompt_min
    # "Summarise this:" and then a page in another language: nobody knows which one is wanted.
    return language if sure and not _mixed(plain, language) else None


def _mixed(plain: str, language: str) -> bool:
    """Whether a sentence is rather in another language, or a short first or last line is likelier
    in another: of a few words the detector is never sure."""
    sentences = (found[0] for found in _SENTENCE.finditer(plain))
    if any(_is_other(each, language) for each in sentences):
        return True
    ends = [line for line in plain.splitlines() if letters(line)]
    likeliest = (next(iter(detect(line)), "") for line in (ends[0], ends[-1]) if len(line) < _LINE)
    return any(each not in near(language) for each in likeliest)


def check_whole(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """Whether the text as a whole is in another language than the expected one."""
    limit = thresholds.language_other_max
    language = expected(subject, thresholds) if limit else None
    if language is None or language not in KNOWN:
        return skipped(WHOLE, _why_not(language, limit))
    text = subject.text[:_MOST]
    if letters(prose := blanked(text)) < thresholds.language_letters:
        return skipped(WHOLE, f"fewer than {thresholds.language_letters} letters of prose")
    if _is_list(prose):
        return skipped(WHOLE, "a list of names, which may be in any language")
    other, score = another(prose, language)
    if score <= limit:
        return passed(WHOLE, score, limit)
    return rejected(
        WHOLE,
        Flaw.WRONG_LANGUAGE,
        f"the text is in {other}, not in {language}",
        score=score,
        threshold=limit,
        evidence=[evidence(subject.text, 0, len(text))],
    )


def check_passages(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """Whether a passage of the text, not quoted, is in another language than the declared one."""
    limit = thresholds.language_passage_max
    # A guess about the whole text is none about each of its parts.
    language = subject.rules.language if limit else None
    language = None if language is None else code_of(language)
    if language is None or language not in KNOWN:
        return skipped(PASSAGE, _why_not(language, limit))
    if mentions_other(language).search(subject.prompt[-_PROMPT:]):
        return skipped(PASSAGE, "the prompt speaks of another language")
    text = subject.text[:_MOST]
    size = thresholds.language_passage_letters
    if letters(_unquoted(text)) < size:
        return skipped(PASSAGE, f"fewer than {size} letters of prose")
    found = list(passages(text, language, size))
    score = max((each.probability for each in found), default=0.0)
    if score <= limit:
        return passed(PASSAGE, score, limit)
    bad = [
        _fitted(text, each, language)
        for each in merged(each for each in found if each.probability > limit)
    ]
    return rejected(
        PASSAGE,
        Flaw.WRONG_LANGUAGE,
        f"a passage is in {bad[0].language}, in a text in {language}",
        score=score,
        threshold=limit,
        evidence=_evidence(subject.text, bad),
    )


def measures(subject: Subject, thresholds: Thresholds) -> dict[str, float]:
    """Both scores by the names of their checks, where a language is declared and known."""
    language = code_of(subject.rules.language or "")
    text = subject.text[:_MOST]
    scores: dict[str, float] = {}
    if language not in KNOWN:
        return scores
    prose = blanked(text)
    if letters(prose) >= thresholds.language_letters and not _is_list(prose):
        scores[WHOLE] = another(prose, language)[1]
    found = passages(text, language, thresholds.language_passage_letters)
    if worst := max((each.probability for each in found), default=0.0):
        scores[PASSAGE] = worst
    return scores


def another(prose: str, language: str) -> tuple[str, float]:
    """The likeliest language that is not the one, nor one that it is mistaken for, and its
    probability."""
    fine = near(language)
    others = ((code, p) for code, p in detect(prose).items() if code not in fine)
    return max(others, key=lambda other: other[1], default=("", 0.0))


def passages(text: str, language: str, size: int) -> Iterator[Passage]:
    """Overlapping stretches of sentences, of `size` letters or little more, with the likeliest
    language other than the text's; none that is a list of names."""
    for start, end in _stretches(prose := _unquoted(text), size):
        blank = len(prose[start:end]) - len(prose[start:end].lstrip())
        if not _is_list(prose[start:end]):
            yield Passage(start + blank, end, *another(prose[start:end], language))


def merged(found: Iterator[Passage]) -> list[Passage]:
    """Passages that overlap, made one; of a pair the surer language counts."""
    made: list[Passage] = []
    for each in found:
        if not made or each.start > made[-1].end:
            made.append(each)
            continue
        surer = max(made[-1], each, key=lambda one: one.probability)
        made[-1] = Passage(made[-1].start, each.end, surer.language, surer.probability)
    return made


def _fitted(text: str, passage: Passage, language: str) -> Passage:
    """From the first to the last sentence within that is in another language, and on over those
    next to them."""
    sentences = [found.span() for found in _SENTENCE.finditer(text) if found[0].strip()]
    within = [
        (first, last)
        for first, last in sentences
        if first < passage.end and passage.start < last and _is_other(text[first:last], language)
    ]
    if not within:
        return passage
    start, end = within[0][0], within[-1][1]
    for first, last in (each for each in sentences if each[0] >= end):
        if not _is_other(text[first:last], language):
            break
        end = last
    for first, last in (each for each in reversed(sentences) if each[1] <= start):
        if not _is_other(text[first:last], language):
            break
        start = first
    start = end - len(text[start:end].lstrip())
    end = start + len(text[start:end].rstrip())
    return Passage(start, end, passage.language, passage.probability)


def _is_other(sentence: str, language: str) -> bool:
    return letters(sentence) >= _FEW and another(sentence, language)[1] > _RATHER


def _stretches(prose: str, size: int) -> Iterator[tuple[int, int]]:
    """Places of overlapping stretches, cut where sentences end, in order of their ends."""
    cuts, counts = [0], [0]
    for found in _SENTENCE.finditer(prose):
        if count := letters(found[0]):
            cuts.append(found.end())
            counts.append(counts[-1] + count)
    start = last = 0
    for end in range(1, len(cuts)):
        # The shortest that ends here; of those that are nearly the same, one.
        while counts[end] - counts[start + 1] >= size:
            start += 1
        long_enough = counts[end] - counts[start] >= size
        if long_enough and (counts[end] - last >= size // _STEPS or end == len(cuts) - 1):
            last = counts[end]
            yield cuts[start], cuts[end]


def _unquoted(text: str) -> str:
    return _QUOTED.sub(lambda found: " " * len(found[0]), blanked(text))


def _is_list(prose: str) -> bool:
    """Whether less than half of the letters are in sentences."""
    parts = [found[0] for found in _SENTENCE.finditer(prose)]
    return 2 * sum(letters(part) for part in parts if _is_sentence(part)) < letters(prose)


def _is_sentence(text: str) -> bool:
    """Whether it is no list of names."""
    if _UNSPACED.search(text):
        return True
    words = len(_WORD.findall(text))
    clauses = 1 + len(_CLAUSE.findall(text.strip().rstrip(",;:")))
    return words >= _CLAUSE_WORDS * clauses


def _evidence(text: str, bad: list[Passage]) -> list[Evidence]:
    return [evidence(text, each.start, each.end) for each in bad]


def _why_not(language: str | None, limit: float) -> str:
    if not limit:
        return SWITCHED_OFF
    if language is None:
        return "no language is declared, nor plain from the prompt"
    return f"unknown language: {language} is none that the detector knows"
