"""Honest reasoning on problems that are worked off step by step, computed: the split "held-out"."""

from collections import deque
from itertools import product

from .reasoning_bank import Voice
from .reasoning_drafts import drafts_of


def interest(voice: Voice) -> str:
    """A loan, year by year."""
    draw = voice.draw
    debt, rate, pay = draw.randint(40, 400) * 100, draw.randint(2, 8), draw.randint(20, 60) * 100
    lines = [voice.say("interest", "intro", a=debt, r=rate, p=pay)]
    year = 0
    while debt > 0 and year < 25:
        year += 1
        cost = debt * rate // 100
        before = debt
        debt = debt + cost - pay
        if debt <= 0:
            lines.append(voice.say("interest", "last", y=year, a=before, c=cost, b=before + cost))
            break
        lines.append(voice.say("interest", "year", y=year, a=before, c=cost, p=pay, b=debt))
    key = "end" if debt <= 0 else "open"
    lines.append(voice.say("interest", key, y=year, b=debt))
    return voice.trace(lines)


def lookup(voice: Voice) -> str:
    """Several numbers looked up in one sorted list by halving."""
    draw = voice.draw
    values = sorted(draw.sample(range(1, 400), draw.randint(20, 60)))
    lines = [voice.say("lookup", "intro", row=values, n=len(values))]
    for wanted in draw.sample(values, draw.randint(3, 6)):
        lines.append(voice.say("lookup", "ask", k=wanted))
        lo, hi = 0, len(values) - 1
        while True:
            mid = (lo + hi) // 2
            slots = {"lo": lo, "hi": hi, "mid": mid, "v": values[mid], "k": wanted}
            if values[mid] == wanted:
                lines.append(voice.say("lookup", "hit", **slots))
                break
            lines.append(voice.say("lookup", "low" if values[mid] < wanted else "high", **slots))
            lo, hi = (mid + 1, hi) if values[mid] < wanted else (lo, mid - 1)
    lines.append(voice.say("lookup", "end"))
    return voice.trace(lines)


def factors(voice: Voice) -> str:
    """Trial division."""
    draw = voice.draw
    n = draw.choice((7, 11, 13, 17, 19, 23)) * draw.choice((29, 31, 37, 41, 43, 47, 53, 59, 61))
    n *= draw.choice((1, 1, 2, 3, 5))
    lines = [voice.say("factors", "intro", n=n)]
    left = n
    found: list[int] = []
    for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53):
        if p * p > left:
            break
        if left % p:
            lines.append(voice.say("factors", "no", p=p, n=left, q=left // p, m=left % p))
            continue
        found.append(p)
        lines.append(voice.say("factors", "yes", p=p, n=left, q=left // p))
        left //= p
    found.append(left)
    lines.append(voice.say("factors", "prime", n=left))
    lines.append(voice.say("factors", "end", n=n, found="·".join(map(str, found))))
    return voice.trace(lines)


def tournament(voice: Voice) -> str:
    """Offers compared one after the other, by price and weight; the better one stays."""
    draw = voice.draw
    makers = voice.list("makers")
    offers = [
        (name, draw.randint(200, 900), draw.randint(9, 30) / 10)
        for name in draw.sample(makers, draw.randint(8, len(makers)))
    ]
    best = offers[0]
    lines = [voice.say("tournament", "intro", n=len(offers), o=best[0], p=best[1], w=best[2])]
    for name, price, weight in offers[1:]:
        cheaper, lighter = price < best[1], weight < best[2]
        key = f"{'cheaper' if cheaper else 'dearer'}_{'lighter' if lighter else 'heavier'}"
        slots = {"o": name, "p": price, "w": weight, "b": best[0], "d": abs(price - best[1])}
        lines.append(voice.say("tournament", key, **slots, e=round(abs(weight - best[2]), 1)))
        if price + 100 * weight < best[1] + 100 * best[2]:
            best = (name, price, weight)
            lines.append(voice.say("tournament", "take", o=name))
        else:
            lines.append(voice.say("tournament", "stay", o=best[0]))
    lines.append(voice.say("tournament", "end", o=best[0], p=best[1]))
    return voice.trace(lines)


def insertion(voice: Voice) -> str:
    """Cards put into their order one by one."""
    draw = voice.draw
    values = draw.sample(range(1, draw.choice((20, 90))), draw.randint(7, 12))
    done: list[int] = []
    lines = [voice.say("insertion", "intro", row=values)]
    for value in values:
        bigger = [one for one in done if one > value]
        done = sorted([*done, value])
        key = "middle" if bigger else "end_of"
        lines.append(voice.say("insertion", key, v=value, o=bigger[0] if bigger else "", row=done))
    lines.append(voice.say("insertion", "end", row=done))
    return voice.trace(lines)


def hanoi(voice: Voice) -> str:
    """The tower of Hanoi, move by move."""
    size = voice.draw.choice((4, 4, 5))
    pegs = voice.draw.sample("ABC", 3)
    towers = {peg: list(range(size, 0, -1)) if peg == pegs[0] else [] for peg in pegs}
    lines = [voice.say("hanoi", "intro", n=size, a=pegs[0], b=pegs[2])]
    shown = voice.draw.random() < 0.6

    def move(count: int, start: str, over: str, to: str) -> None:
        if not count:
            return
        move(count - 1, start, to, over)
        disc = towers[start].pop()
        towers[to].append(disc)
        state = "; ".join(f"{peg}: {' '.join(map(str, towers[peg])) or '–'}" for peg in "ABC")
        key = "shown" if shown else "move"
        lines.append(voice.say("hanoi", key, d=disc, a=start, b=to, state=state))
        move(count - 1, over, start, to)

    move(size, pegs[0], pegs[1], pegs[2])
    lines.append(voice.say("hanoi", "end", k=2**size - 1, b=pegs[2]))
    return voice.trace(lines)


def brackets(voice: Voice) -> str:
    """Brackets checked with a stack."""
    draw = voice.draw
    word, stack = "", ""
    for _ in range(draw.randint(8, 16)):
        if stack and draw.random() < 0.45:
            word += stack[-1]
            stack = stack[:-1]
        else:
            opened, closed = draw.choice(("()", "[]", "{}"))
            word += opened
            stack += closed
    word += stack[::-1]
    lines = [voice.say("brackets", "intro", w=word)]
    open_ = ""
    for mark in word:
        if mark in "([{":
            open_ += mark
            lines.append(voice.say("brackets", "push", c=mark, s=open_))
        else:
            top, open_ = open_[-1], open_[:-1]
            lines.append(voice.say("brackets", "pop", c=mark, t=top, s=open_ or "–"))
    lines.append(voice.say("brackets", "end", w=word))
    return voice.trace(lines)


def knights(voice: Voice) -> str:
    """Knights, who say the truth, and knaves, who don't: all cases."""
    draw = voice.draw
    people: list[str] = draw.sample(["Alma", "Bruno", "Cora", "Dario", "Elif"], 4)
    kinds = voice.list("kinds")
    # Each says of another that he or she is a knight or a knave.
    said = {one: (draw.choice([two for two in people if two != one]), draw.random() < 0.5)
            for one in people}  # fmt: skip
    claims = [
        voice.say("knights", "claim", a=one, b=two, k=kinds[not knight])
        for one, (two, knight) in said.items()
    ]
    lines = [voice.say("knights", "intro", people=people, claims=voice.space.join(claims))]
    found = 0
    for case in product((True, False), repeat=len(people)):
        cast = dict(zip(people, case, strict=True))
        shown = ", ".join(f"{one} {kinds[not knight]}" for one, knight in cast.items())
        wrong = next(
            (one for one in people if cast[one] != (cast[said[one][0]] == said[one][1])), None
        )
        if wrong is None:
            found += 1
            lines.append(voice.say("knights", "yes", case=shown))
        else:
            key = "liar" if cast[wrong] else "honest"
            lines.append(voice.say("knights", key, case=shown, a=wrong, b=said[wrong][0]))
    lines.append(voice.say("knights", "end", n=found))
    return voice.trace(lines)


def graph(voice: Voice) -> str:
    """A way through a net of stations, breadth first."""
    draw = voice.draw
    names = "ABCDEFGHIJ"[: draw.randint(7, 10)]
    edges: dict[str, set[str]] = {one: set() for one in names}
    for at, one in enumerate(names[1:], 1):
        for other in draw.sample(names[:at], min(at, draw.choice((1, 2, 2)))):
            edges[one].add(other)
            edges[other].add(one)
    goal = names[-1]
    lines = [voice.say("graph", "intro", a="A", b=goal)]
    seen, waiting = {"A": 0}, deque("A")
    while waiting:
        one = waiting.popleft()
        lines.append(voice.say("graph", "node", a=one, near=sorted(edges[one])))
        for other in sorted(edges[one]):
            if other in seen:
                lines.append(voice.say("graph", "seen", a=one, b=other))
                continue
            seen[other] = seen[one] + 1
            waiting.append(other)
            lines.append(voice.say("graph", "new", a=one, b=other, k=seen[other]))
        if goal in seen:
            break
    lines.append(voice.say("graph", "end", b=goal, k=seen[goal]))
    return voice.trace(lines)


def robot(voice: Voice) -> str:
    """A robot on a grid, command by command."""
    draw = voice.draw
    commands = "".join(draw.choices("FFLR", k=draw.randint(14, 32)))
    ways = voice.list("ways")
    x = y = facing = 0
    lines = [voice.say("robot", "intro", w=commands, f=ways[0])]
    for command in commands:
        if command == "F":
            dx, dy = ((0, 1), (1, 0), (0, -1), (-1, 0))[facing]
            x, y = x + dx, y + dy
            lines.append(voice.say("robot", "go", x=x, y=y, f=ways[facing]))
        else:
            facing = (facing + (1 if command == "R" else -1)) % 4
            key = "right" if command == "R" else "left"
            lines.append(voice.say("robot", key, x=x, y=y, f=ways[facing]))
    lines.append(voice.say("robot", "end", x=x, y=y, d=abs(x) + abs(y), f=ways[facing]))
    return voice.trace(lines)


def cells(voice: Voice) -> str:
    """Generations of a row of cells under one of Wolfram's rules."""
    draw = voice.draw
    rule, width = draw.choice((30, 90, 110, 150, 54)), draw.randint(13, 25)
    row = [int(draw.random() < 0.3) for _ in range(width)]
    row[width // 2] = 1
    lines = [voice.say("cells", "intro", r=rule, row=_drawn(row))]
    for at in range(1, draw.randint(12, 24)):
        row = [
            rule >> (row[n - 1] * 4 + row[n] * 2 + row[(n + 1) % width]) & 1 for n in range(width)
        ]
        lines.append(voice.say("cells", "row", i=at, row=_drawn(row), k=sum(row)))
    lines.append(voice.say("cells", "end", k=sum(row)))
    return voice.trace(lines)


def _drawn(row: list[int]) -> str:
    return "".join("#" if one else "." for one in row)


def drafts(voice: Voice) -> str:
    """A function drafted, tried, and drafted again."""
    return drafts_of(voice, "held-out")


HELD_OUT = (
    interest, lookup, factors, tournament, insertion, hanoi, brackets, knights, graph, robot, cells,
    drafts,
)  # fmt: skip
