"""Whether a text answers its prompt: how much likelier the prompt makes it, or how like each other
they are under an embedding model.

The first is pointwise mutual information a token (as in Li et al., "A Diversity-Promoting Objective
Function for Neural Conversation Models", 2016): log likelihood behind the prompt, less behind an
empty one, mean over the first tokens, in nats. A token counts as at most half a nat less likely: a
refusal, or a better writer than the scoring model, is full of words that it did not expect, while
an answer to this prompt is known by those that it did.

It is judged only where it can be: English prose that the scoring model follows, behind an English
prompt of some length. The model knows too little of anything else to see what a prompt has to do
with it, and behind a short prompt ("name ideas", "go on") everything is as likely as before.
"""

import math
from typing import Final

from ...schemas import CheckRecord, Flaw
from .english import english
from .prose import lines
from .records import SWITCHED_OFF, evidence, passed, rejected, skipped
from .scores import TextScores
from .subject import Subject
from .thresholds import Thresholds

RELEVANCE: Final = "relevance"
SIMILARITY: Final = "relevance_similarity"
# Nats that a token loses at most. Of 120 right answers of the embedded model and 17 by hand,
# refusals among them, the worst is still better than 88% and 94% of answers of either kind held
# against another prompt; without this bound, than 66% and 41%.
_LOSS: Final = 0.5
# Tokens of the text: a "yes" may answer anything.
_LEAST: Final = 24
# Letters of the prompt: "plan my Saturday" says nothing of what comes.
_PROMPT: Final = 24
# The least share of common English words in prompt and in text.
_ENGLISH: Final = 0.15
# The least share of prose in the text, of characters that are not blank.
_PROSE: Final = 0.7
# The most surprise, in nats a token without the prompt, of a text that the model follows: verse,
# wit and quick talk have more, and gain little by any prompt.
_FOLLOWED: Final = 4.0
# Of prompt and text so many characters are looked at, of the prompt the last ones.
_MOST: Final = 4_000
# Letters of prompt and text for the embedding model.
_ASKED: Final = 12
_LETTERS: Final = 40


def check_relevance(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """By the likelihood."""
    return _check(
        RELEVANCE,
        subject,
        thresholds,
        thresholds.relevance_min,
        "the prompt makes this answer no likelier than no prompt does: it answers another one",
    )


def check_similarity(subject: Subject, thresholds: Thresholds) -> CheckRecord:
    """By the embedding model."""
    return _check(
        SIMILARITY,
        subject,
        thresholds,
        thresholds.relevance_similarity_min,
        "prompt and answer are about different things",
    )


def measures(subject: Subject, _thresholds: Thresholds) -> dict[str, float]:
    """Both, by the names of their checks, as far as they can say something."""
    scores = subject.scores
    if scores is None or _letters(subject.prompt) < _ASKED:
        return {}
    found: dict[str, float] = {}
    if _is_judged(subject, scores):
        pairs = zip(scores.given_prompt, scores.logprobs, strict=False)
        gains = [max(-_LOSS, given - alone) for given, alone in pairs]
        found[RELEVANCE] = math.fsum(gains) / len(gains)
    if scores.similarity is not None and _letters(subject.text) >= _LETTERS:
        found[SIMILARITY] = scores.similarity
    return found


def _is_judged(subject: Subject, scores: TextScores) -> bool:
    """Whether the likelihood can tell anything."""
    count = min(len(scores.given_prompt), len(scores.logprobs))
    prompt, text = subject.prompt[-_MOST:], subject.text[:_MOST]
    return (
        count >= _LEAST
        and -math.fsum(scores.logprobs[:count]) <= _FOLLOWED * count
        and _letters(prompt) >= _PROMPT
        and english(prompt) >= _ENGLISH
        and english(text) >= _ENGLISH
        and _prose(text) >= _PROSE
    )


def _prose(text: str) -> float:
    """The share of prose in a text, of characters that are not blank."""
    prose = sum(_dense(text[line.start : line.end]) for line in lines(text))
    return prose / max(1, _dense(text))


def _dense(text: str) -> int:
    return sum(map(len, text.split()))


def _check(
    name: str, subject: Subject, thresholds: Thresholds, limit: float, detail: str
) -> CheckRecord:
    if not limit:
        return skipped(name, SWITCHED_OFF)
    score = measures(subject, thresholds).get(name)
    if score is None:
        return skipped(name, "no scores, or prompt or text too short, or such that nothing shows")
    if score >= limit:
        return passed(name, score, limit)
    return rejected(
        name,
        Flaw.IRRELEVANT,
        detail,
        score=score,
        threshold=limit,
        evidence=[evidence(subject.text, 0, len(subject.text))],
    )


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))
