"""Bad texts of the heavy set that break what was asked for: JSON, fences, the job's rules."""

import random
import re

from ...schemas import Rules
from .heavy_fault import LEAST_ANSWER, LEAST_TEXT, Bad, english, instead_of
from .heavy_good import fenced, words_of
from .heavy_json import broken, misfit, schema, written
from .heavy_material import Answer, Material, pick
from .line import Line


def no_json(_made_of: Material, draw: random.Random) -> Bad | None:
    """JSON is asked for, and this is nearly JSON."""
    text, onset = broken(draw)
    rules = Rules(json_schema=schema()) if draw.random() < 0.3 else Rules(json=True)
    return Bad(text, onset, "data", rules=rules, source="made.heavy")


def no_fit(_made_of: Material, draw: random.Random) -> Bad | None:
    """JSON that is not as its schema says."""
    made, key = misfit(draw)
    text = written(made, draw)
    rules = Rules(json_schema=schema())
    return Bad(text, max(text.find(f'"{key}"'), 0), "data", rules=rules, source="made.heavy")


def unclosed(made_of: Material, draw: random.Random) -> Bad | None:
    """A code block that is opened and not closed."""
    line: Line | None = pick(
        draw, (one for one in made_of.documents if one.kind.startswith("code:"))
    )
    text = fenced(line, draw) if line is not None else None
    if line is None or text is None:
        return None
    at = text.rfind("\n```")
    text = text[:at] if draw.random() < 0.7 else text[:at] + text[at + 4 :]
    return Bad(text, text.find("```"), source=line.source)


def cut_off(made_of: Material, draw: random.Random) -> Bad | None:
    """Ended by the limit on tokens, in the middle of a sentence."""
    if made_of.cut and draw.random() < 0.7:
        pair = draw.choice(made_of.cut)
        task = pair.task
        return Bad(pair.text, len(pair.text), task.profile, task.prompt, finish_reason="length")
    one = english(made_of, draw, LEAST_TEXT)
    if one is None:
        return None
    text = one.text[: draw.randint(len(one.text) // 2, len(one.text) - 40)].rstrip(" .!?\n*-|:")
    return instead_of(one, text, len(text), end="length")


def missing(made_of: Material, draw: random.Random) -> Bad | None:
    """What it must say it does not say."""
    one: Answer | None = pick(draw, made_of.answers)
    other: Answer | None = pick(draw, made_of.answers)
    if one is None or other is None:
        return None
    low = one.text.lower()
    strange = [word for word in words_of(other.text) if word.lower() not in low]
    if not strange:
        return None
    wanted = [draw.choice(strange), *words_of(one.text)[: draw.randint(0, 2)]]
    draw.shuffle(wanted)
    return instead_of(one, one.text, 0, Rules(must_include=tuple(wanted)))


def forbidden(made_of: Material, draw: random.Random) -> Bad | None:
    """What it must not say it says."""
    one: Answer | None = pick(draw, made_of.answers)
    word = pick(draw, words_of(one.text)) if one is not None else None
    if one is None or word is None:
        return None
    rules = Rules(must_not_include=("lorem ipsum", word.swapcase()))
    return instead_of(one, one.text, one.text.find(word), rules)


def pattern(made_of: Material, draw: random.Random) -> Bad | None:
    """A pattern that should be there is not, or one that should not is."""
    one = english(made_of, draw, LEAST_ANSWER)
    if one is None:
        return None
    wanted = draw.choice((r"\b[A-Z]{2}-\d{5}\b", r"(?m)^Answer: ", r"https://\S+\.example"))
    if draw.random() < 0.5 and not re.search(wanted, one.text):
        return instead_of(one, one.text, 0, Rules(must_match=(wanted,)))
    found = re.search(r"(?i)\bthe \w{4,}", one.text)
    if found is None:
        return None
    return instead_of(one, one.text, found.start(), Rules(must_not_match=(r"(?i)\bthe \w{4,}",)))


def too_short(made_of: Material, draw: random.Random) -> Bad | None:
    """Less than the rules ask for."""
    one: Answer | None = pick(draw, made_of.answers)
    if one is None:
        return None
    words = len(one.text.split())
    by_words = Rules(min_words=words + draw.randint(3, 300))
    rules = draw.choice((by_words, Rules(min_characters=len(one.text) + draw.randint(10, 1500))))
    return instead_of(one, one.text, len(one.text), rules)


def too_long(made_of: Material, draw: random.Random) -> Bad | None:
    """More than the rules allow."""
    one: Answer | None = pick(draw, made_of.answers)
    if one is None or len(words := one.text.split()) < 20:
        return None
    most = draw.randint(5, len(words) - 5)
    rules = draw.choice((Rules(max_words=most), Rules(max_characters=len(one.text) * 2 // 3)))
    return instead_of(one, one.text, len(one.text) * 2 // 3, rules)
