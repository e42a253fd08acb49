"""Reasoning written for tests: thought that makes progress though it looks alike."""

import itertools
import random
import re
from collections.abc import Callable, Iterable

from .searches import searches

_TOKEN = re.compile(r"\n+| ?[A-Za-z]{1,6}|\d| ?[^\W\d_]{1,3}|\s|.")


def tokens(text: str) -> list[tuple[int, str]]:
    """Ids and texts as a tokenizer would part them: pieces of words with the blank before, digits
    one by one."""
    parts: list[str] = _TOKEN.findall(text)
    ids: dict[str, int] = {}
    return [(ids.setdefault(part, len(ids)), part) for part in parts]


THOUGHT = {
    "en": "Let me see what the task wants. A train leaves at nine and covers eighty miles an hour. "
    "The second one starts an hour later from the same station but is faster by a quarter. ",
    "de": "Zuerst überlege ich, was gefragt ist. Der Zug fährt um neun ab und schafft achtzig "
    "Kilometer in der Stunde. Der andere startet später, ist dafür aber um ein Viertel schneller. ",
    "fr": "Voyons d'abord ce que demande l'énoncé. Le train part à neuf heures et roule lentement. "
    "L'autre quitte la même gare plus tard, mais il va un quart plus vite. ",
    "es": "Primero miro lo que pide el problema. El tren sale a las nueve y recorre ochenta "
    "kilómetros cada hora. El otro sale más tarde de la misma estación, pero va más rápido. ",
    "ru": "Сначала посмотрим, что требуется в задаче. Поезд выходит в девять часов и едет "
    "медленно. Второй выходит позже с той же станции, но движется на четверть быстрее. ",
    "zh": "先看看题目要求什么。第一列火车九点出发,每小时行驶八十公里。"
    "第二列火车晚一个小时从同一车站开出,但是速度快四分之一。",
    "ja": "まず問題が何を求めているかを考える。"
    "最初の列車は九時に出発し、毎時八十キロで進む。"
    "次の列車は一時間遅れて同じ駅を出るが、四分の一だけ速い。",
    "ar": "أولا أنظر إلى ما تطلبه المسألة. يغادر القطار في التاسعة ويقطع ثمانين ميلا كل ساعة. "
    "أما القطار الثاني فيغادر بعد ساعة من المحطة نفسها لكنه أسرع بمقدار الربع. ",
    "hi": "पहले देखते हैं कि सवाल क्या पूछता है। "
    "पहली रेलगाड़ी नौ बजे निकलती है और हर घंटे अस्सी मील चलती है। "
    "दूसरी रेलगाड़ी एक घंटे बाद उसी स्टेशन से चलती है पर एक चौथाई तेज़ है। ",
}

TRIALS = {
    "en": "Check n={n}: {n} mod {m} = {r}, not divisible.\n",
    "de": "Prüfe n={n}: {n} mod {m} ergibt {r}, also nicht teilbar.\n",
    "fr": "Essayons n={n} : {n} modulo {m} donne {r}, donc pas divisible.\n",
    "es": "Pruebo n={n}: {n} módulo {m} da {r}, no es divisible.\n",
    "ru": "Проверим n={n}: {n} по модулю {m} даёт {r}, не делится.\n",
    "zh": "检查 n={n}:{n} 除以 {m} 余 {r},不能整除。\n",
    "ja": "n={n} を調べる。{n} を {m} で割ると余りは {r} なので割り切れない。\n",
    "ar": "نجرب ن={n}: باقي قسمة {n} على {m} هو {r}، إذن لا يقبل القسمة.\n",
    "hi": "n={n} जाँचें: {n} को {m} से भाग देने पर शेष {r}, विभाज्य नहीं।\n",
}


def trials(language: str, count: int, rng: random.Random) -> str:
    frame, first, by = TRIALS[language], rng.randrange(11, 400), rng.choice((3, 7, 13))
    lines = (frame.format(n=n, m=by, r=n % by) for n in range(first, first + 2 * count) if n % by)
    return THOUGHT[language] + "".join([line for line, _ in zip(lines, range(count), strict=False)])


def tally(count: int) -> str:
    return "I go through the records. " + " ".join(
        f"{number:05}: {'yes' if number * number % 7 < 3 else 'no'}."
        for number in range(431, 431 + count)
    )


def table(count: int) -> str:
    rows = [f"| {n} | {n * n} | {n * n % 11} | {'ok' if n % 3 else 'no'} |" for n in range(count)]
    return "| n | square | rest | fits |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def algebra(count: int) -> str:
    lines = [f"x^2 + {a}x + {a * a // 4} = (x + {a // 2})^2" for a in range(2, 2 * count, 2)]
    return "Complete the square:\n" + "\n".join(lines) + "\nSo the pattern holds for all even a.\n"


CODE = """def merge(left, right):
    result = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    result.extend(left[i:])
    result.extend(right[j:])
    return result


def sort(values):
    if len(values) < 2:
        return values
    middle = len(values) // 2
    return merge(sort(values[:middle]), sort(values[middle:]))
"""


def drafts() -> str:
    second = CODE.replace("values", "items").replace("<=", "<")
    return (
        f"A first draft:\n\n```python\n{CODE}```\n\nThat is not stable if I write < there. Let me "
        f"write it once more and be careful:\n\n```python\n{second}```\n\nNo, <= was right. "
        f"Final:\n\n```python\n{CODE}```\n\nGood, that handles empty lists too.\n"
    )


def queens(size: int) -> str:
    """All boards of a search for n queens, printed."""
    text: list[str] = []

    def place(columns: tuple[int, ...]) -> None:
        if len(columns) == size:
            rows = (" ".join("Q" if at == c else "." for at in range(size)) for c in columns)
            text.append("Board:\n" + "\n".join(rows) + "\n\n")
            return
        for column in range(size):
            if all(
                column != c and abs(column - c) != len(columns) - row
                for row, c in enumerate(columns)
            ):
                place((*columns, column))

    place(())
    return "".join(text)


def search() -> str:
    """Missionaries and cannibals, breadth first."""
    seen = {(3, 3, 1)}
    queue = [(3, 3, 1)]
    text = ["State (m, c, boat) on the left bank.\n"]
    for m, c, b in queue:
        for dm, dc in ((1, 0), (2, 0), (0, 1), (0, 2), (1, 1)):
            state = (m - dm, c - dc, 0) if b else (m + dm, c + dc, 1)
            line = f"From {(m, c, b)} move {dm}m {dc}c -> {state}: "
            if not (0 <= state[0] <= 3 and 0 <= state[1] <= 3):
                text.append(line + "impossible.\n")
            elif (state[0] and state[0] < state[1]) or (3 - state[0] and state[0] > state[1]):
                text.append(line + "eaten.\n")
            elif state in seen:
                text.append(line + "seen before.\n")
            else:
                seen.add(state)
                queue.append(state)
                text.append(line + "new.\n")
    return "".join(text)


def knights() -> str:
    names = ("Anna", "Ben", "Carl")
    text = ["Each is a knight or a knave. I go through all cases.\n"]
    for case in range(8):
        kinds = ["knight" if case >> bit & 1 else "knave" for bit in range(3)]
        said = ", ".join(f"{n} is a {k}" for n, k in zip(names, kinds, strict=True))
        text.append(f"Suppose {said}. ")
        text.append(
            f"Then {names[0]} says that {names[1]} is a knave, which is "
            f"{'true' if kinds[1] == 'knave' else 'false'}. "
        )
        fits = (kinds[0] == "knight") == (kinds[1] == "knave")
        text.append("That fits.\n" if fits else "Contradiction.\n")
    return "".join(text)


def truth_table() -> str:
    rows = [
        f"A={a}, B={b}, C={c}, D={d}: (A and B) or (C and not D) = {(a and b) or (c and not d):d}"
        for a in (0, 1)
        for b in (0, 1)
        for c in (0, 1)
        for d in (0, 1)
    ]
    return "Truth table:\n" + "\n".join(rows) + "\nSo seven rows are true.\n"


def matrices() -> str:
    text = ["Powers of the matrix:\n"]
    matrix = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    power = matrix
    for n in range(2, 9):
        power = [
            [sum(power[i][k] * matrix[k][j] for k in range(3)) % 2 for j in range(3)]
            for i in range(3)
        ]
        text.append(f"M^{n} =\n" + "\n".join(" ".join(map(str, row)) for row in power) + "\n\n")
    text.append("dp = [\n" + "    [0, 0, 0, 0, 0, 0, 0],\n" * 7 + "]\n")
    return "".join(text)


POEM = (
    "The harbour lamps are going out",
    "a gull complains above the mast",
    "the nets are folded, ropes are coiled",
    "another season pulls away",
    "my father counts the silver fish",
    "his hands are older than the quay",
    "the tide has nothing more to say",
    "and leaves its letters in the sand",
)


def poem() -> str:
    """Lines added one by one, all of them said again each time, with a refrain."""
    text: list[str] = []
    for count in range(2, len(POEM) + 1, 2):
        text.append(f"Now line {count} needs a rhyme with {POEM[count - 1].split()[-1]!r}.\n\n")
        text += [
            "\n".join(POEM[at : at + 2]) + "\nAnd the sea, and the sea, and the sea.\n\n"
            for at in range(0, count, 2)
        ]
    return "".join(text)


THINGS = (
    "the kettle, my neighbour's radio, a dream about stairs, the letter I did not send, bread, "
    "how cold the tiles are, the smell of rain, an argument from last week, my sister's laugh, "
    "whether cats forgive, a song without its title, the dentist, tax forms, the lake in June, "
    "running late, the green coat, what Tom meant, a broken zip, olives, the number nine bus, "
    "being ten years old, the hum of the fridge, a door that sticks, chalk, Sunday"
)


def anaphora() -> str:
    return "".join(f"This morning I woke and thought of {thing}. " for thing in THINGS.split(", "))


def hanoi(discs: int) -> str:
    text = ["Smaller discs first, always.\n"]

    def move(count: int, source: str, target: str, spare: str) -> None:
        if count:
            move(count - 1, source, spare, target)
            text.append(f"Move disc {count} from {source} to {target}.\n")
            move(count - 1, spare, target, source)

    move(discs, "A", "C", "B")
    return "".join(text)


def orders(names: tuple[str, ...]) -> str:
    """Every order of some names, each judged."""
    lines = (
        f"{', '.join(order)}: {order[0]} sits next to {order[1]}, "
        f"{'fine' if order[0] < order[-1] else 'no'}.\n"
        for order in itertools.permutations(names)
    )
    return "All ways to sit:\n" + "".join(lines)


def valuations() -> str:
    """A truth table in words."""
    lines: list[str] = []
    for case in itertools.product(("true", "false"), repeat=4):
        p, q, r, s = (one == "true" for one in case)
        first, second = (p and q) or r, p or (r and not s)
        lines.append(
            ", ".join(f"{name} {value}" for name, value in zip("PQRS", case, strict=True))
            + f": the first is {str(first).lower()}, the second {str(second).lower()}. "
            + ("Same.\n" if first == second else "Different.\n")
        )
    return "Compare both formulas.\n" + "".join(lines)


def automaton(steps: int, rng: random.Random) -> str:
    state, text = 0, ["Run the machine on the word.\n"]
    table = {(at, letter): rng.randrange(4) for at in range(4) for letter in "ab"}
    for _ in range(steps):
        letter = rng.choice("ab")
        text.append(f"In q{state} read {letter}, go to q{table[state, letter]}.\n")
        state = table[state, letter]
    return "".join(text)


def bubble() -> str:
    values, text = [9, 3, 7, 1, 8, 2, 6, 5], ["Sort by swapping neighbours.\n"]
    for end in range(len(values) - 1, 0, -1):
        for at in range(end):
            if swap := values[at] > values[at + 1]:
                values[at : at + 2] = values[at + 1], values[at]
            text.append(f"{'Swap' if swap else 'No swap'}. {values}\n")
    return "".join(text)


def self_check(rng: random.Random) -> str:
    text = ["I need 24*17 and more of these.\n"]
    for _ in range(15):
        a, b = rng.randrange(12, 99), rng.randrange(12, 99)
        tens, ones = b // 10 * 10, b % 10
        text.append(f"{a}*{b}: {a}*{tens} = {a * tens}, and {a}*{ones} = {a * ones}, so {a * b}. ")
        tens, ones = a // 10 * 10, a % 10
        text.append(f"Wait, let me check that again. {b}*{tens} = {b * tens}, ")
        text.append(f"plus {b * ones} gives {a * b}. Good.\n")
    return "".join(text)


def reread(language: str) -> str:
    task = THOUGHT[language]
    return f"{task}\n\n{TRIALS[language].format(n=8, m=3, r=2)}\n{task}\n\n{table(5)}\n"


def good() -> Iterable[tuple[str, str]]:
    """Names and texts of reasoning that must be left alone."""
    rng = random.Random(5)
    for language in TRIALS:
        for count in (10, 50):
            yield f"trials {language} {count}", trials(language, count, rng)
        yield f"reread {language}", reread(language)
    plain: dict[str, Callable[[], str]] = {
        "tally": lambda: tally(400),
        "table": lambda: table(120),
        "algebra": lambda: algebra(80),
        "drafts": drafts,
        "queens": lambda: queens(6),
        "search": search,
        "knights": knights,
        "truth table": truth_table,
        "matrices": matrices,
        "poem": poem,
        "anaphora": anaphora,
        "self check": lambda: self_check(rng),
        "hanoi": lambda: hanoi(5),
        "orders of four": lambda: orders(("Anna", "Ben", "Clara", "Emil")),
        "orders of five": lambda: orders(("red", "green", "blue", "white", "black")),
        "valuations": valuations,
        "automaton": lambda: automaton(50, rng),
        "bubble": bubble,
    }
    for name, made in plain.items():
        yield name, made()
    yield from searches()
