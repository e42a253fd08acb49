"""Which fault comes when, and to whom: drawn from a seed, before anything runs."""

import random
from collections.abc import Sequence
from typing import Final, Literal, get_args

from msgspec import Struct

Fault = Literal[
    "broker killed",
    "broker restarted",
    "disk alarm",
    "memory alarm",
    "queue deleted and declared",
    "connections cut",
    "network stalled",
    "stalled towards the broker",
    "stalled towards the client",
    "half open",
    "confirmation lost",
    "settlement lost",
    "SIGKILL",
    "SIGTERM",
    "clock set back",
    "clock set forward",
]
FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)
# What is done to the broker, and so to everyone.
OF_ALL: Final[frozenset[Fault]] = frozenset(
    {"broker killed", "broker restarted", "disk alarm", "memory alarm"}
)
# The backend has no drain and no clock of ours.
OF_SERVICES: Final[frozenset[Fault]] = frozenset({"SIGTERM", "clock set back", "clock set forward"})
# They lie in wait for something that comes with the work.
AT_ONCE: Final[frozenset[Fault]] = frozenset({"confirmation lost", "settlement lost"})
# A queue whose messages an operator can see the end of: see `faults.Injector`.
DELETED: Final = ("checks", "new_agents", "jobs_batch")
LENGTHS_S: Final[dict[Fault, tuple[float, float]]] = {
    "broker killed": (0.2, 1.5),
    "disk alarm": (0.5, 2.5),
    "memory alarm": (0.5, 2.5),
    "queue deleted and declared": (0.1, 1.0),
    "network stalled": (0.5, 7.0),
    "stalled towards the broker": (0.5, 7.0),
    "stalled towards the client": (0.5, 7.0),
    "half open": (0.1, 0.5),
    "clock set back": (0.5, 2.5),
    "clock set forward": (0.5, 2.5),
    "SIGKILL": (0.0, 1.0),
    "SIGTERM": (0.0, 0.5),
}


class Step(Struct, frozen=True, kw_only=True):
    """One fault: to whom (a process, a queue, or "" for the broker), after how many seconds of
    work, and for how long."""

    fault: Fault
    target: str
    after_s: float
    length_s: float


def steps(seed: int, count: int, parties: Sequence[str], faults: Sequence[Fault]) -> list[Step]:
    """`count` steps. Each fault comes before any of them comes again; each party has its turn of
    those that are done to one, workers first."""
    draw = random.Random(f"schedule:{seed}")
    order: list[Fault] = []
    while len(order) < count:
        order += draw.sample(list(faults), len(faults))
    turns: dict[Fault, list[str]] = {}
    return [
        Step(
            fault=fault,
            target=_target(draw, fault, parties, turns),
            after_s=0.0 if fault in AT_ONCE else round(draw.uniform(0.1, 0.5), 2),
            length_s=round(draw.uniform(*LENGTHS_S.get(fault, (0.0, 0.0))), 2),
        )
        for fault in order[:count]
    ]


def _target(
    draw: random.Random, fault: Fault, parties: Sequence[str], turns: dict[Fault, list[str]]
) -> str:
    if fault in OF_ALL:
        return ""
    if fault == "queue deleted and declared":
        wanted = [*DELETED] if any(each.startswith("agent") for each in parties) else ["checks"]
    else:
        wanted = [each for each in parties if not (each == "backend" and fault in OF_SERVICES)]
    if not turns.get(fault):
        # Workers first: they hold most. From the end of the list.
        turns[fault] = sorted(
            draw.sample(wanted, len(wanted)), key=lambda each: each.startswith("worker")
        )
    return turns[fault].pop()
