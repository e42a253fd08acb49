"""JSON for the heavy set: documents with their schema, and the ways in which they break."""

import json
import random
from collections.abc import Callable
from typing import Any, Final

from .words import ADJECTIVES, NAMES, PLACES, THINGS

_STATES: Final = ("open", "waiting", "done")


def schema() -> dict[str, Any]:
    """Of a work order."""
    part = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer", "minimum": 1},
        },
        "required": ["name", "count"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "customer": {"type": "string"},
            "city": {"type": ["string", "null"]},
            "state": {"enum": list(_STATES)},
            "weight": {"type": "number"},
            "urgent": {"type": "boolean"},
            "parts": {"type": "array", "items": part, "minItems": 1},
        },
        "required": ["id", "customer", "state", "parts"],
        "additionalProperties": False,
    }


def order(draw: random.Random) -> dict[str, Any]:
    """A work order that fits the schema."""
    made: dict[str, Any] = {
        "id": draw.randint(1, 99_999),
        "customer": draw.choice(NAMES),
        "state": draw.choice(_STATES),
        "parts": [
            {
                "name": f"{draw.choice(ADJECTIVES)} {draw.choice(THINGS)}",
                "count": draw.randint(1, 40),
            }
            for _ in range(draw.randint(1, 6))
        ],
    }
    more: dict[str, Any] = {
        "city": draw.choice((None, draw.choice(PLACES))),
        "weight": round(draw.random() * 90, 2),
        "urgent": draw.random() < 0.5,
    }
    return made | {name: more[name] for name in draw.sample(sorted(more), draw.randint(0, 3))}


def written(value: Any, draw: random.Random) -> str:
    """As a model writes it, on one line or on many."""
    return json.dumps(value, indent=draw.choice((None, 2, 4)), ensure_ascii=False)


def misfit(draw: random.Random) -> tuple[dict[str, Any], str]:
    """A work order that does not fit the schema, and the key where."""
    made = order(draw)
    part: dict[str, Any] = made["parts"][0]
    changes: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("customer", lambda: made.pop("customer")),
        ("parts", lambda: made.pop("parts")),
        ("id", lambda: made.update(id=str(made["id"]))),
        ("state", lambda: made.update(state="unknown")),
        ("parts", lambda: made.update(parts=[])),
        ("comment", lambda: made.update(comment="as agreed")),
        ("count", lambda: part.update(count=0)),
        ("count", lambda: part.update(count="three")),
        ("name", lambda: part.pop("name")),
        ("colour", lambda: part.update(colour="red")),
        ("city", lambda: made.update(city={"name": "Oslo"})),
    )
    key, change = draw.choice(changes)
    change()
    return made, key


def broken(draw: random.Random) -> tuple[str, int]:
    """Text that is nearly JSON, and the character that a reader stops at."""
    while True:
        text = written(order(draw), draw)
        at = draw.randint(len(text) * 3 // 5, len(text) - 2)
        spoil: tuple[Callable[[], str], ...] = (
            lambda text=text, at=at: text[:at],
            lambda text=text: text[:-1],
            lambda text=text: text.replace('"', "'"),
            lambda text=text: f"{text[:-1].rstrip()},{text[-1]}",
            lambda text=text: text.replace('"customer"', "customer", 1),
            lambda text=text: text.replace(": ", " ", 1),
            lambda text=text: text.replace(", ", " ", 1) if ", " in text else text[:-1],
            lambda text=text: text.replace("true", "True").replace("null", "None"),
            lambda text=text: text.replace('",', '", // see above\n', 1),
            lambda text=text: f"Sure, here is the JSON:\n\n{text}",
            lambda text=text: f"{text}\n\nI hope this helps!",
            lambda text=text: f"{text}\n{text}",
        )
        bad = draw.choice(spoil)()
        try:
            json.loads(bad)
        except json.JSONDecodeError as error:
            return bad, min(error.pos, len(bad))
