"""The jobs of the proof, and which of them go wrong: the same for every contender. Pure."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from sluicegate.ops.faults import IN_REASONING, Fault, Order, Vocabulary, order
from sluicegate.schemas import GenerationJob, Rules, Sampling

# Faults of the engine, and two of the answer as a whole, which only a check of it can find.
WRONG_ANSWER: Final = "wrong-answer"
WRONG_LANGUAGE: Final = "wrong-language"
ENGINE_KINDS: Final = tuple(kind.value for kind in Fault if kind not in IN_REASONING)
WHOLE_KINDS: Final = (WRONG_ANSWER, WRONG_LANGUAGE)
KINDS: Final = (*ENGINE_KINDS, *WHOLE_KINDS)

# Of ten jobs, so many with at most so many tokens; one more has its text checked.
_LENGTHS: Final = (32, 32, 32, 32, 32, 64, 64, 64, 160)
_CHECKED_TOKENS: Final = 128
# A loop is one where there is room to go round; a passage in another script stands out where the
# text has shown its own; a salad is one where it is longer than a few words.
_NEEDS: Final = {Fault.LOOP.value: 160, Fault.LANGUAGE.value: 64, Fault.SALAD.value: 64}
# Where it strikes, in tokens of the answer.
_PLACES: Final = {Fault.LANGUAGE.value: (24, 32), Fault.LOOP.value: (8, 24)}
_PLACE: Final = (8, 20)

_FORMS: Final = (
    "Explain in simple words what {} is.",
    "Write a short paragraph about {}.",
    "Why does {} matter? Answer in a few sentences.",
    "Tell a child about {}.",
    "Describe {} to somebody who has never heard of it.",
    "What should everybody know about {}?",
)
_TOPICS: Final = (
    *("a rainbow", "a lighthouse", "inflation", "the life of a butterfly", "a bicycle"),
    *("the history of paper", "autumn", "good teaching", "a market in the morning", "vaccination"),
    *("the game of chess", "the water cycle", "a long journey", "baking bread", "the salt sea"),
    *("the solar system", "a healthy breakfast", "sleep", "the moon", "an earthquake", "honey"),
    *("a public library", "the heart", "glass", "wind power", "a river", "friendship", "the piano"),
    *("gardening", "a railway station", "snow", "the alphabet", "a volcano", "tea", "the internet"),
    *("photography", "a forest", "money", "the Olympic Games", "electricity"),
)
# What even a small model knows.
_CAPITALS: Final = (
    *(("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid"), ("Germany", "Berlin")),
    *(("Japan", "Tokyo"), ("England", "London"), ("Egypt", "Cairo"), ("Russia", "Moscow")),
)
_NO_CAPITAL: Final = (
    "It is a large and beautiful city on both banks of a river, known for its museums, its "
    "markets and its food, and many people from all over the world come to see it."
)
_NO_ENGLISH: Final = (
    "{} ist eine der schönsten Städte der Welt und liegt an beiden Ufern eines großen Flusses. "
    "Viele Menschen kommen jedes Jahr dorthin, um die alten Kirchen, die Museen und die Märkte zu "
    "sehen, und am Abend sitzen sie in den Gärten und trinken Wein mit ihren Freunden."
)


class Task(Struct, frozen=True, kw_only=True):
    """One job, and the fault that is to strike it: `kind` from the answer's token `at` on. Where
    `word` is set, the answer must have it, must be English, and is checked."""

    number: int
    prompt: str
    max_tokens: int
    temperature: float
    seed: int
    word: str = ""
    kind: str = ""
    at: int = 0
    fault_seed: int = 0

    def job(self, job_id: str) -> GenerationJob:
        """The job, under an id of its own."""
        sampling = Sampling(
            temperature=self.temperature, top_p=0.95, max_tokens=self.max_tokens, seed=self.seed
        )
        if not self.word:
            return GenerationJob(id=job_id, prompt=self.prompt, sampling=sampling)
        rules = Rules(must_include=(self.word,), language="en")
        return GenerationJob(
            id=job_id, prompt=self.prompt, sampling=sampling, checks="block", rules=rules
        )

    def obeys(self, text: str) -> bool:
        """Whether the text keeps to the rule about the word, for which no check is asked."""
        return self.word.lower() in text.lower()


class Maker(NamedTuple):
    """What it takes to order a fault: the model's tokens, and what ends a text."""

    vocabulary: Vocabulary
    end: int

    def order(self, task: Task) -> Order | None:
        """The task's fault; None where it has none."""
        if not task.kind:
            return None
        if task.kind not in WHOLE_KINDS:
            kind = Fault(task.kind)
            return order(kind, self.vocabulary, at=task.at, seed=task.fault_seed)
        text = _NO_CAPITAL if task.kind == WRONG_ANSWER else _NO_ENGLISH.format(task.word)
        ids = (*self.vocabulary.encode(text), self.end)
        return Order(kind=Fault.LANGUAGE, at=0, length=len(ids), ids=ids, text=text)


def tasks(count: int, rate: float, seed: int) -> list[Task]:
    """So many jobs, `rate` of them (0 to 1, rounded to whole jobs) with a fault, all kinds in turn.
    A fault that needs room, or a check, gets a job that has it."""
    draw = random.Random(seed)
    struck = sorted(draw.sample(range(count), round(count * rate)))
    kinds = _kinds(draw, len(struck))
    return [
        _task(number, kinds.get(struck.index(number), "") if number in set(struck) else "", draw)
        for number in range(count)
    ]


def _kinds(draw: random.Random, count: int) -> dict[int, str]:
    """Each kind as often as the others, in a seeded order."""
    found: list[str] = []
    while len(found) < count:
        found += draw.sample(KINDS, len(KINDS))
    return dict(enumerate(found[:count]))


def _task(number: int, kind: str, draw: random.Random) -> Task:
    turn = draw.randrange(len(_LENGTHS) + 1)
    low, high = _PLACES.get(kind, _PLACE)
    at, fault_seed = draw.randint(low, high), draw.randrange(1_000_000)
    seed = draw.randrange(2**31)
    checked = kind in WHOLE_KINDS or (not kind and turn == len(_LENGTHS))
    country, capital = draw.choice(_CAPITALS)
    prompt = draw.choice(_FORMS).format(draw.choice(_TOPICS))
    if checked:
        return Task(
            number=number,
            prompt=f"What is the capital of {country}? Say something about that city.",
            max_tokens=_CHECKED_TOKENS,
            temperature=0.2,
            seed=seed,
            word=capital,
            kind=kind,
            fault_seed=fault_seed,
        )
    room = _LENGTHS[turn % len(_LENGTHS)]
    return Task(
        number=number,
        prompt=prompt,
        max_tokens=max(room, _NEEDS.get(kind, 0)),
        temperature=0.7,
        seed=seed,
        kind=kind,
        at=at if kind else 0,
        fault_seed=fault_seed if kind else 0,
    )


def batches(work: Sequence[Task], size: int) -> Iterable[Sequence[Task]]:
    """The jobs in runs of at most `size`."""
    return (work[first : first + size] for first in range(0, len(work), size))


Say = Callable[[str], None]
