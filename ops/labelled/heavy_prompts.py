"""What the model is asked for the heavy set: many kinds of tasks on many subjects."""

import random
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from .words import TOPICS

_MORE: Final = """
ants, apples, aqueducts, astronauts, avalanches, beaches, beetles, board games, bones,
butterflies, camels, candles, carpets, castles, caves, cheese, chocolate, city parks, clocks,
clouds, coffee, comets, compasses, crocodiles, dams, deserts, dinosaurs, dreams, drums, electric
cars, elephants, fairy tales, ferries, fireworks, flags, folk music, forests, frogs, glaciers,
glass, gold, guitars, hedgehogs, honey, hospitals, hurricanes, islands, kites, lakes, lightning,
magnets, maps, markets, mirrors, money, mountains, museums, mushrooms, night trains, olive oil,
opera, orchards, owls, paper, penguins, pianos, pirates, planets, pottery, pumpkins, pyramids,
rainbows, rice, robots, rockets, roses, salt, sea turtles, shoes, silk, ski lifts, snow, soap,
spiders, stamps, submarines, telescopes, theatres, tomatoes, tunnels, vaccines, violins,
waterfalls, windmills, wolves
"""
SUBJECTS: Final = (*TOPICS, *(topic.strip() for topic in _MORE.split(",")))

# Kind of task, the profile that is right for it, and the words; {} is the subject or the passage.
_TASKS: Final = (
    ("explain", "chat", "Explain {} to a ten-year-old."),
    ("explain", "chat", "What should everybody know about {}?"),
    ("explain", "chat", "Explain in two paragraphs why people are interested in {}."),
    ("list", "chat", "Give me five tips about {}."),
    ("list", "chat", "List seven facts about {}."),
    ("list", "chat", "What are the advantages and disadvantages of {}?"),
    ("list", "chat", "Make a Markdown table with facts about {}."),
    ("code", "code", "Write a Python function that has to do with {} and explain it."),
    ("code", "code", "Write a JavaScript class for a program about {}."),
    ("code", "code", "Write an SQL table for data about {} and a query on it."),
    ("letter", "chat", "Write a friendly e-mail to a customer about {}."),
    ("letter", "chat", "Write a letter to the mayor about {}."),
    ("story", "creative", "Write a short story about {}."),
    ("story", "creative", "Write a fairy tale about {}."),
    ("story", "creative", "Write a dialogue of two friends who talk about {}."),
    ("advice", "chat", "I know nothing about {}. What should I do first?"),
    ("advice", "chat", "What mistakes do beginners make with {}?"),
    ("fact", "chat", "In one sentence, what is interesting about {}?"),
    ("fact", "chat", "Define the following in one short paragraph: {}."),
    ("json", "data", "Write a JSON object with title, year and tags about {}. Only JSON, please."),
    ("translate", "chat", "Translate into French: Yesterday I read a long book about {}."),
    ("translate", "chat", "Translate into Spanish: My sister knows everything about {}."),
    ("translate", "chat", "Translate into German: Tomorrow we will learn more about {}."),
)
_PASSAGE_TASKS: Final = (
    ("summary", "summary", "Summarise this in two sentences:\n\n{}"),
    ("summary", "summary", "What is the main point of this text?\n\n{}"),
    ("summary", "summary", "Rewrite this in simpler words:\n\n{}"),
)
_PASSAGES: Final = 0.12  # of all tasks
_GREEDY: Final = 0.27


class Task(Struct, frozen=True, kw_only=True):
    """What is asked. `subject` is what it is about; for a given passage, its first words."""

    kind: str
    profile: str
    subject: str
    prompt: str
    greedy: bool


def tasks(draw: random.Random, number: int, passages: Sequence[str]) -> list[Task]:
    """So many tasks, none twice: each words with each subject, and some on the given passages."""
    pairs = [(words, subject) for words in _TASKS for subject in SUBJECTS]
    given = draw.sample(list(passages), min(len(passages), round(number * _PASSAGES)))
    asked = draw.sample(pairs, min(len(pairs), number - len(given)))
    asked += [(draw.choice(_PASSAGE_TASKS), passage) for passage in given]
    draw.shuffle(asked)
    return [
        Task(
            kind=kind,
            profile=profile,
            subject=" ".join(subject.split()[:6]),
            prompt=words.format(subject),
            greedy=draw.random() < _GREEDY,
        )
        for (kind, profile, words), subject in asked
    ]
