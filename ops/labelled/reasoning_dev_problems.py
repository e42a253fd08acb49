"""Honest reasoning on problems that are solved case by case, computed: the split "dev"."""

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

from .reasoning_bank import Voice


def residues(voice: Voice) -> str:
    """Numbers tried one after the other until both remainders are right."""
    draw = voice.draw
    p, q = draw.choice(((7, 11), (5, 9), (8, 13), (9, 14), (11, 12), (7, 15), (6, 19), (13, 17)))
    answer = draw.randint(60, 900)
    r, s = answer % p, answer % q
    first = answer - draw.randint(9, 44)
    lines = [voice.say("residues", "intro", a=first, p=p, r=r, q=q, s=s)]
    for n in range(first, answer + 1):
        x, y = n % p, n % q
        if x == r and y == s:
            lines.append(voice.say("residues", "yes", n=n, p=p, r=r, q=q, s=s))
            lines.append(voice.say("residues", "end", n=n))
            break
        key, slots = ("no1", {"x": x}) if x != r else ("no2", {"y": y})
        lines.append(voice.say("residues", key, n=n, p=p, r=r, q=q, s=s, **slots))
    return voice.trace(lines)


def roots(voice: Voice) -> str:
    """A root by bisection."""
    draw = voice.draw
    power = draw.choice((2, 2, 3))
    c = draw.randint(11, 990)
    root = round(c ** (1 / power))
    if root**power == c:
        c += 1
    low = max(n for n in range(1, 40) if n**power < c)
    lo, hi = Fraction(low), Fraction(low + 1)
    sign = "²" if power == 2 else "³"
    lines = [voice.say("roots", "intro", c=c, sign=sign, lo=lo, hi=hi)]
    for _ in range(draw.randint(8, 13)):
        m = (lo + hi) / 2
        v = m**power
        key = "low" if v < c else "high"
        lo, hi = (m, hi) if v < c else (lo, m)
        slots = {"m": voice.number(m, 5), "v": voice.number(v, 4), "c": c, "sign": sign}
        ends = {"lo": voice.number(lo, 5), "hi": voice.number(hi, 5)}
        lines.append(voice.say("roots", key, **slots, **ends))
    lines.append(voice.say("roots", "end", m=voice.number((lo + hi) / 2, 3), c=c, sign=sign))
    return voice.trace(lines)


# The goods at these places are what money comes in for.
_INCOME = (2, 5, 14)


def ledger(voice: Voice) -> str:
    """A running balance, and then the same by sums."""
    draw = voice.draw
    start = draw.randint(2500, 9000)
    lines = [voice.say("ledger", "intro", start=start)]
    spent = earned = 0
    balance = start
    goods = voice.list("goods")
    for item in draw.sample(goods, draw.randint(10, len(goods))):
        x = draw.randint(5, 290)
        out = goods.index(item) not in _INCOME
        after = balance - x if out else balance + x
        key = "out" if out else "in"
        lines.append(voice.say("ledger", key, item=item, x=x, a=balance, b=after))
        balance = after
        spent, earned = (spent + x, earned) if out else (spent, earned + x)
    lines.append(
        voice.say(
            "ledger", "check", start=start, earned=earned, spent=spent, up=start + earned, b=balance
        )
    )
    lines.append(voice.say("ledger", "end", b=balance))
    return voice.trace(lines)


def collatz(voice: Voice) -> str:
    """A small program run by hand."""
    n = voice.draw.randint(6, 400)
    lines = [voice.say("collatz", "intro", n=n)]
    step = 0
    while n != 1 and step < 45:
        step += 1
        m = n // 2 if n % 2 == 0 else 3 * n + 1
        lines.append(voice.say("collatz", "odd" if n % 2 else "even", n=n, m=m, i=step))
        n = m
    lines.append(voice.say("collatz", "end" if n == 1 else "stop", i=step, n=n))
    return voice.trace(lines)


def clauses(voice: Voice) -> str:
    """Two contracts, clause by clause."""
    draw = voice.draw
    lines = [voice.say("clauses", "intro")]
    counts = [0, 0, 0]
    topics = voice.list("topics")
    for number, topic in enumerate(draw.sample(topics, draw.randint(8, len(topics))), 1):
        x = draw.choice((5, 7, 10, 12, 14, 15, 20, 21, 24, 30, 36, 45, 60, 90))
        y = draw.choice((5, 7, 10, 12, 14, 15, 20, 21, 24, 30, 36, 45, 60, 90, x, x))
        key = "same" if x == y else "more" if y > x else "less"
        counts[("same", "more", "less").index(key)] += 1
        lines.append(voice.say("clauses", key, i=number, topic=topic, x=x, y=y, d=abs(x - y)))
    same, more, less = counts
    lines.append(voice.say("clauses", "end", same=same, more=more, less=less))
    return voice.trace(lines)


def coins(voice: Voice) -> str:
    """All solutions of a x + b y = c in whole numbers, tried one by one."""
    draw = voice.draw
    a, b = draw.choice(((7, 5), (9, 7), (8, 5), (11, 6), (13, 9), (12, 7), (9, 4), (11, 8)))
    c = a * draw.randint(3, 15) + b * draw.randint(3, 18)
    lines = [voice.say("coins", "intro", a=a, b=b, c=c, most=c // a)]
    found: list[str] = []
    for x in range(c // a + 1):
        rest = c - a * x
        y, over = divmod(rest, b)
        if over:
            lines.append(voice.say("coins", "no", a=a, b=b, c=c, x=x, ax=a * x, rest=rest, m=over))
        else:
            found.append(f"({x}; {y})")
            lines.append(voice.say("coins", "yes", a=a, b=b, c=c, x=x, ax=a * x, rest=rest, y=y))
    lines.append(voice.say("coins", "end", found=found, k=len(found)))
    return voice.trace(lines)


def letters(voice: Voice) -> str:
    """A letter counted in a sentence, word by word."""
    draw = voice.draw
    said = " ".join(draw.sample(voice.list("sentences"), 2))
    words = [word for word in said.split() if word.isalpha()]
    counts = Counter("".join(words).lower())
    letter = draw.choice(sorted(counts, key=lambda one: (counts[one], one))[-7:])
    lines = [voice.say("letters", "intro", l=letter, k=len(words))]
    total = 0
    for word in words:
        count = word.lower().count(letter)
        total += count
        spelled = "-".join(word)
        key = "some" if count else "none"
        lines.append(voice.say("letters", key, w=word, spelled=spelled, k=count, t=total, l=letter))
    lines.append(voice.say("letters", "end", l=letter, t=total))
    return voice.trace(lines)


_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def dates(voice: Voice) -> str:
    """So many days from a date on, month by month."""
    draw = voice.draw
    months = voice.list("months")
    at, day, left = draw.randrange(12), draw.randint(1, 28), draw.randint(150, 700)
    lines = [voice.say("dates", "intro", d=day, month=months[at], k=left)]
    gone = 0
    while day + left > _DAYS[at]:
        part = _DAYS[at] - day + 1
        left -= part
        gone += part
        lines.append(
            voice.say("dates", "step", month=months[at], n=_DAYS[at], part=part, g=gone, left=left)
        )
        at, day = (at + 1) % 12, 1
    lines.append(voice.say("dates", "end", d=day + left, month=months[at], left=left))
    return voice.trace(lines)


def subsequence(voice: Voice) -> str:
    """The longest common subsequence of two words, as a table row by row."""
    draw = voice.draw
    one, two = ("".join(draw.choices("ABCDX", k=draw.randint(6, 11))) for _ in range(2))
    lines = [voice.say("subsequence", "intro", one=one, two=two)]
    row = [0] * (len(two) + 1)
    for letter in one:
        new = [0]
        for at, other in enumerate(two):
            new.append(row[at] + 1 if letter == other else max(row[at + 1], new[at]))
        lines.append(voice.say("subsequence", "row", l=letter, row=" ".join(map(str, new))))
        row = new
    lines.append(voice.say("subsequence", "end", k=row[-1]))
    return voice.trace(lines)


def elimination(voice: Voice) -> str:
    """Three equations, by elimination."""
    draw = voice.draw
    while True:
        rows = [[Fraction(draw.randint(-6, 9)) for _ in range(3)] for _ in range(3)]
        wanted = [Fraction(draw.randint(-5, 8)) for _ in range(3)]
        full = [
            [*row, Fraction(sum(map(math.prod, zip(row, wanted, strict=True))))] for row in rows
        ]
        lines = [voice.say("elimination", "intro", rows="; ".join(map(_shown, full)))]
        if _solved(voice, full, lines):
            break
    x, y, z = wanted
    lines.append(voice.say("elimination", "end", x=x, y=y, z=z))
    for row, values in zip(rows, full, strict=True):
        del values
        parts = " + ".join(f"({a})·({b})" for a, b in zip(row, wanted, strict=True))
        total = sum(a * b for a, b in zip(row, wanted, strict=True))
        lines.append(voice.say("elimination", "check", parts=parts, total=total))
    return voice.trace(lines)


def _shown(row: list[Fraction]) -> str:
    return f"[{' '.join(str(one) for one in row[:-1])} | {row[-1]}]"


def _solved(voice: Voice, rows: list[list[Fraction]], lines: list[str]) -> bool:
    rows = [list(row) for row in rows]
    for at in range(3):
        if rows[at][at] == 0:
            return False
        for other in range(3):
            if other == at or rows[other][at] == 0:
                continue
            factor = rows[other][at] / rows[at][at]
            rows[other] = [a - factor * b for a, b in zip(rows[other], rows[at], strict=True)]
            slots = {"i": other + 1, "j": at + 1, "f": factor, "row": _shown(rows[other])}
            lines.append(voice.say("elimination", "row", **slots))
    return True


def queens(voice: Voice) -> str:
    """Queens on a small board, with all the steps back."""
    size = voice.draw.choice((4, 5, 6))
    first = voice.draw.randrange(size)
    lines = [voice.say("queens", "intro", k=size, c=first + 1)]
    placed = [first]
    column = 0
    while 0 < len(placed) < size and len(lines) < 60:
        row = len(placed)
        clash = next((r for r, c in enumerate(placed) if _attacks(r, c, row, column)), None)
        if column >= size:
            column = placed.pop() + 1
            lines.append(voice.say("queens", "back", r=row + 1, p=row, c=column))
            continue
        if clash is None:
            placed.append(column)
            state = ", ".join(str(c + 1) for c in placed)
            lines.append(voice.say("queens", "ok", r=row + 1, c=column + 1, state=state))
            column = 0
        else:
            lines.append(voice.say("queens", "no", r=row + 1, c=column + 1, o=clash + 1))
            column += 1
    key = "end" if len(placed) == size else "stop"
    lines.append(voice.say("queens", key, state=", ".join(str(c + 1) for c in placed)))
    return voice.trace(lines)


def _attacks(row: int, column: int, other: int, at: int) -> bool:
    return column == at or abs(row - other) == abs(column - at)


def expansion(voice: Voice) -> str:
    """A product of factors, multiplied out one by one."""
    draw = voice.draw
    roots_ = [draw.choice([n for n in range(-7, 8) if n]) for _ in range(draw.randint(4, 7))]
    factors = "".join(f"(x {'-' if n > 0 else '+'} {abs(n)})" for n in roots_)
    lines = [voice.say("expansion", "intro", factors=factors)]
    values = [1, -roots_[0]]
    for n in roots_[1:]:
        before = _polynomial(values)
        values = [a - n * b for a, b in zip([*values, 0], [0, *values], strict=True)]
        factor = f"(x {'-' if n > 0 else '+'} {abs(n)})"
        lines.append(voice.say("expansion", "step", p=before, f=factor, q=_polynomial(values)))
    lines.append(voice.say("expansion", "check", total=sum(values), parts=[1 - n for n in roots_]))
    for one, two in pairwise(sorted(set(roots_))):
        value = (one + two) // 2
        result = math.prod(value - n for n in roots_)
        parts = "·".join(f"({value - n})" for n in roots_)
        lines.append(voice.say("expansion", "point", x=value, parts=parts, total=result))
    lines.append(voice.say("expansion", "end", q=_polynomial(values)))
    return voice.trace(lines)


def _polynomial(values: list[int]) -> str:
    parts: list[str] = []
    for power, value in zip(range(len(values) - 1, -1, -1), values, strict=True):
        if value:
            letter = "" if power == 0 else "x" if power == 1 else f"x^{power}"
            amount = "" if abs(value) == 1 and power else str(abs(value))
            parts.append(f"{'-' if value < 0 else '+'} {amount}{letter}")
    return " ".join(parts).removeprefix("+ ")


CASES = (
    residues, roots, ledger, collatz, clauses, coins, letters, dates, subsequence, elimination,
    queens, expansion,
)  # fmt: skip
