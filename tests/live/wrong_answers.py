"""What an engine that is made to fail says in place of its answer: nothing that a streaming gate
would stop, each wrong in one way that a check of the whole text must find."""

from typing import Any, Final

from msgspec import Struct
from sluicegate.schemas import Flaw, GenerationJob, Rules, Sampling

# Room for the longest of these texts.
_CALM: Final = Sampling(temperature=0.3, max_tokens=256)
_BEES: Final = "Explain in three sentences what bees do in a garden."

BREAD: Final = (
    "To bake a simple loaf of bread you need flour, water, salt and yeast. Mix the flour with the "
    "salt, dissolve the yeast in warm water, and stir everything together until you have a soft "
    "dough. Knead the dough for about ten minutes, then let it rest in a warm place until it has "
    "doubled in size. Finally shape it into a loaf and bake it in a hot oven for half an hour."
)
_WHAT: Final = (
    "Bees are among the most useful visitors of a garden. They fly from flower to flower to "
    "collect nectar and pollen, and some of the pollen sticks to their hairy bodies. When they "
    "land on the next flower, a little of it falls off, and the plant can make seeds and fruit."
)
_WHY: Final = (
    "Without bees many fruits and vegetables would not grow at all. That is why gardeners plant "
    "flowers that bloom at different times of the year, so that the bees always find something "
    "to eat. A garden full of bees is a garden that is in good health."
)
_HOW: Final = (
    "You can help them by leaving a corner of the garden wild, by putting out a shallow dish of "
    "water on hot days, and by using no poison against insects. The bees will thank you with "
    "more apples, more berries and more flowers every summer."
)
GERMAN: Final = (
    "Bienen gehören zu den nützlichsten Besuchern eines Gartens. Sie fliegen von Blüte zu Blüte, "
    "um Nektar und Pollen zu sammeln, und dabei bleibt ein Teil des Pollens an ihrem Körper "
    "hängen. So bestäuben sie die Pflanzen, und aus den Blüten werden im Sommer Früchte. Ohne "
    "Bienen gäbe es kaum Äpfel, Kirschen oder Beeren."
)
_GERMAN_PARAGRAPH: Final = GERMAN.partition(" So bestäuben")[0]
# Words that there are, in an order that means nothing.
SALAD: Final = (
    "Nearly committee the underneath purple seventeen walked although cupboard democracy sleeping "
    "towards never. Between invoice gravity singing plus the tomorrow and harbour quickly elbow "
    "parliament. Salt window because forgive ankle triangle merger of swimming upon yesterday. "
    "Grammar kettle slowly whose orbit lemon although mortgage wherever trumpet."
)
PERSON: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


class Case(Struct, frozen=True, kw_only=True):
    """A job, what is said in place of its answer, the check that must find it, and where: `place`
    stands in the evidence; "" where it is all of the text."""

    job: GenerationJob
    wrong: str
    check: str
    flaw: Flaw
    place: str = ""


def _middle(paragraph: str) -> str:
    return f"{_WHAT}\n\n{_WHY}\n\n{paragraph}\n\n{_HOW}"


def _case(name: str, prompt: str, wrong: str, check: str, flaw: Flaw, **more: Any) -> Case:
    """The id is fixed, so the seeds are."""
    job = GenerationJob(
        id=f"live-{name}",
        prompt=prompt,
        sampling=_CALM,
        checks="block",
        rules=more.pop("rules", Rules()),
        max_attempts=4,
        metadata={"case": name},
    )
    return Case(job=job, wrong=wrong, check=check, flaw=flaw, **more)


ANOTHER_PROMPT: Final = _case(
    "another-prompt",
    "What is the capital of France, and what is it known for?",
    BREAD,
    "relevance",
    Flaw.IRRELEVANT,
)
ANOTHER_LANGUAGE: Final = _case(
    "another-language",
    _BEES,
    GERMAN,
    "language_other",
    Flaw.WRONG_LANGUAGE,
    rules=Rules(language="en"),
)
A_FOREIGN_PARAGRAPH: Final = _case(
    "a-foreign-paragraph",
    _BEES,
    _middle(_GERMAN_PARAGRAPH),
    "language_passage",
    Flaw.WRONG_LANGUAGE,
    rules=Rules(language="en"),
    place="Nektar und Pollen",
)
A_ROTTEN_PARAGRAPH: Final = _case(
    "a-rotten-paragraph",
    _BEES,
    _middle(SALAD),
    "perplexity_window",
    Flaw.HIGH_PERPLEXITY,
    place="harbour quickly elbow",
)
NO_JSON: Final = _case(
    "no-json",
    "Make up a person, and give their name and age as JSON.",
    'Here you are: {"name": "Anna", "age": 31, and she lives in a small house by the sea.',
    "json",
    Flaw.INVALID_JSON,
    rules=Rules(json_schema=PERSON),
    place="Here you are",
)
ANOTHER_SCHEMA: Final = _case(
    "another-schema",
    "Make up a person, and give their name and age as JSON.",
    '{"name": "Anna", "years": 31}',
    "json",
    Flaw.SCHEMA_MISMATCH,
    rules=Rules(json_schema=PERSON),
)
A_WORD_IS_MISSING: Final = _case(
    "a-word-is-missing",
    "What is the capital of France?",
    "The capital of France is a large and beautiful city on both banks of the river Seine.",
    "must_include",
    Flaw.MISSING_TEXT,
    rules=Rules(must_include=("Paris",)),
)

CASES: Final = (
    *(ANOTHER_PROMPT, ANOTHER_LANGUAGE, A_FOREIGN_PARAGRAPH, A_ROTTEN_PARAGRAPH),
    *(NO_JSON, ANOTHER_SCHEMA, A_WORD_IS_MISSING),
)
# A grammar holds the engine to JSON on a retry, so that fault can't last.
LASTING: Final = tuple(case for case in CASES if case.check != "json")
