"""Honest reasoning that says few different things: searches and runs over few states. The split
"dev"."""

from collections import deque
from collections.abc import Callable
from itertools import permutations, product
from typing import Final

from .reasoning_bank import Voice
from .reasoning_drafts import drafts_of

State = tuple[int, int]


def jugs(voice: Voice) -> str:
    """Two jugs and a wanted amount, breadth first."""
    draw = voice.draw
    a, b, wanted = draw.choice(((5, 3, 4), (7, 4, 5), (8, 5, 6), (7, 3, 5), (9, 4, 6), (5, 2, 1)))
    moves: tuple[Callable[[int, int], State], ...] = (
        lambda _, y: (a, y),
        lambda x, _: (x, b),
        lambda _, y: (0, y),
        lambda x, _: (x, 0),
        lambda x, y: (x - min(x, b - y), y + min(x, b - y)),
        lambda x, y: (x + min(y, a - x), y - min(y, a - x)),
    )
    names = voice.list("moves")
    seen: set[State] = {(0, 0)}
    waiting = deque([(0, 0)])
    lines = [voice.say("jugs", "intro", a=a, b=b, k=wanted)]
    while waiting and len(lines) < 90:
        x, y = waiting.popleft()
        lines.append(voice.say("jugs", "state", x=x, y=y))
        for name, move in zip(names, moves, strict=True):
            new = move(x, y)
            if new == (x, y):
                continue
            lines.append(
                voice.say("jugs", "seen" if new in seen else "new", m=name, x=new[0], y=new[1])
            )
            if new not in seen:
                seen.add(new)
                waiting.append(new)
            if wanted in new:
                lines.append(voice.say("jugs", "end", k=wanted, x=new[0], y=new[1]))
                return voice.trace(lines)
    return voice.trace(lines)


_FORMULAS: Final[tuple[tuple[str, Callable[[bool, bool, bool, bool], bool]], ...]] = (
    ("(P ∧ Q) → R", lambda p, q, r, _: not (p and q) or r),
    ("P → (Q → R)", lambda p, q, r, _: not p or (not q or r)),
    ("(P ∨ Q) ∧ ¬R", lambda p, q, r, _: (p or q) and not r),
    ("¬(P ∧ Q) ∨ S", lambda p, q, _, s: not (p and q) or s),
    ("(P → S) ∧ (Q → S)", lambda p, q, _, s: (not p or s) and (not q or s)),
    ("(P ∨ Q) → S", lambda p, q, _, s: not (p or q) or s),
    ("(P ↔ Q) ∨ R", lambda p, q, r, _: (p == q) or r),
)


def truth(voice: Voice) -> str:
    """Two formulas compared row by row of a truth table."""
    (one, first), (two, second) = voice.draw.sample(_FORMULAS, 2)
    named = [name for name in "PQRS" if name in one or name in two]
    yes, no = voice.list("truths")
    lines = [voice.say("truth", "intro", f=one, g=two)]
    differ = 0
    rows = list(product((True, False), repeat=len(named)))
    for row in rows:
        values = dict(zip(named, row, strict=True))
        at = [values.get(name, False) for name in "PQRS"]
        f, g = first(*at), second(*at)
        said = ", ".join(f"{name} {yes if value else no}" for name, value in values.items())
        differ += f != g
        slots = {"row": said, "f": yes if f else no, "g": yes if g else no}
        lines.append(voice.say("truth", "same" if f == g else "differ", **slots))
    lines.append(voice.say("truth", "end", k=differ, n=len(rows)))
    return voice.trace(lines)


def seats(voice: Voice) -> str:
    """All orders of four people, held against what each of them wants."""
    draw = voice.draw
    people = draw.sample(("Anna", "Ben", "Clara", "David", "Emil", "Fatma"), 4)
    a, b, c, d = draw.sample(people, 4)
    lines = [voice.say("seats", "intro", people=people, a=a, b=b, c=c, d=d)]
    found: list[str] = []
    for order in permutations(people):
        said = "–".join(order)
        slots = {"o": said, "a": a, "b": b, "c": c, "d": d}
        if abs(order.index(a) - order.index(b)) == 1:
            lines.append(voice.say("seats", "beside", **slots))
        elif order.index(c) > order.index(d):
            lines.append(voice.say("seats", "behind", **slots))
        else:
            found.append(said)
            lines.append(voice.say("seats", "yes", **slots))
    lines.append(voice.say("seats", "end", found="; ".join(found), k=len(found)))
    return voice.trace(lines)


def bubble(voice: Voice) -> str:
    """A list sorted by exchanges of neighbours."""
    draw = voice.draw
    values = draw.sample(range(1, draw.choice((10, 60))), draw.randint(5, 8))
    lines = [voice.say("bubble", "intro", row=values)]
    for turn in range(1, len(values)):
        swapped = False
        for at in range(len(values) - turn):
            x, y = values[at], values[at + 1]
            if x > y:
                values[at], values[at + 1] = y, x
                swapped = True
            lines.append(voice.say("bubble", "swap" if x > y else "keep", x=x, y=y))
        lines.append(voice.say("bubble", "turn", i=turn, row=values))
        if not swapped:
            break
    lines.append(voice.say("bubble", "end", row=values))
    return voice.trace(lines)


# Different steps of a run of an automaton, at least.
_STEPS: Final = 6


def _steps(table: dict[tuple[str, str], str], word: str) -> set[tuple[str, str]]:
    """The different steps of a run."""
    state, steps = "q0", set[tuple[str, str]]()
    for letter in word:
        steps.add((state, letter))
        state = table[state, letter]
    return steps


def automaton(voice: Voice) -> str:
    """A word read by a machine of four states."""
    draw = voice.draw
    while True:
        table = {(s, c): f"q{draw.randrange(4)}" for s in ("q0", "q1", "q2", "q3") for c in "ab"}
        word = "".join(draw.choices("ab", k=draw.randint(12, 30)))
        # One that stays where it is says the same to the end, and nobody could tell that from a
        # loop.
        if len(_steps(table, word)) >= _STEPS:
            break
    accepting = draw.choice(("q1", "q2", "q3"))
    rules = "; ".join(f"{s} {c} → {to}" for (s, c), to in table.items())
    lines = [voice.say("automaton", "intro", w=word, rules=rules, q=accepting)]
    state = "q0"
    for at, letter in enumerate(word):
        new = table[state, letter]
        slots = {"s": state, "c": letter, "t": new, "rest": word[at + 1 :] or "ε"}
        lines.append(voice.say("automaton", "step", **slots))
        state = new
    lines.append(voice.say("automaton", "yes" if state == accepting else "no", s=state))
    return voice.trace(lines)


def drafts(voice: Voice) -> str:
    """A function drafted, tried, and drafted again."""
    return drafts_of(voice, "dev")


SEARCHES = (jugs, truth, seats, bubble, automaton, drafts)
