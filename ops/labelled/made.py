"""Good texts that look like faults: refrains, lists, laughter, forms, lessons on faults."""

import random
from collections.abc import Callable
from typing import Final

from . import made_data as data
from .line import Line, good
from .made_data import sentence
from .words import ADJECTIVES, GIFTS, NAMES, NUMBERS, OPENINGS, PLACES, POEMS, THINGS, VERBS

Maker = Callable[[random.Random], str]


def poem(draw: random.Random) -> str:
    """A poem whose refrain comes back, or an old one."""
    if draw.random() < 0.3:
        return "\n\n".join(POEMS[one] for one in draw.sample(sorted(POEMS), draw.randint(1, 2)))
    refrain = (
        f"O {draw.choice(ADJECTIVES)} {draw.choice(THINGS)}, sing to me,\n"
        f"from {draw.choice(PLACES)} down to the sea."
    )
    stanzas = [
        "\n".join(f"{sentence(draw)}," for _ in range(draw.randint(2, 4))) + f"\n{refrain}"
        for _ in range(draw.randint(3, 6))
    ]
    return "\n\n".join(stanzas)


def song(draw: random.Random) -> str:
    """A cumulative song: each stanza is the last one and a line."""
    days = draw.randint(3, 6)
    return "\n\n".join(
        f"On the {NUMBERS[day]} day of Christmas, my true love sent to me\n"
        + "\n".join(GIFTS[day::-1])
        for day in range(days)
    )


def laughter(draw: random.Random) -> str:
    """People being glad, loudly."""
    cry = draw.choice(
        (
            "哈" * draw.randint(6, 24),
            "ha" * draw.randint(4, 16),
            "555" * draw.randint(1, 4),
            "jajaja" * draw.randint(1, 4),
            "ㅋ" * draw.randint(4, 24),
            "w" * draw.randint(4, 16),
            "🎉" * draw.randint(3, 9),
            "No" + "o" * draw.randint(6, 40),
            "!" * draw.randint(4, 20),
        )
    )
    who = draw.choice(NAMES)
    return (
        f"{who}: you won't believe it, {sentence(draw)}\n{draw.choice(NAMES)}: {cry}\n"
        f"{who}: I know!!! {cry} {draw.choice('😂🤣🎂🥳')} see you at {draw.choice(PLACES)}?\n"
        f"{draw.choice(NAMES)}: yes yes yes, please please please bring cake"
    )


def chat(draw: random.Random) -> str:
    """A chat with time stamps and short answers."""
    two = draw.sample(NAMES, 2)
    lines: list[str] = []
    for n in range(draw.randint(8, 24)):
        said = draw.choice(("ok", "ok", "yes", "👍", "lol", "really?", "brb", f"{sentence(draw)}."))
        lines.append(f"[{8 + n // 12:02}:{n * 5 % 60:02}] {two[n % 2]}: {said}")
    return "\n".join(lines)


def bullets(draw: random.Random) -> str:
    """Points that all begin alike."""
    start = draw.choice(("Make sure that", "Check whether", "It is important that", "The part"))
    mark = draw.choice(("-", "*", "1.", "☐", "- [ ]"))
    rows = [f"{mark} {start} {sentence(draw)}." for _ in range(draw.randint(5, 14))]
    return f"{draw.choice(OPENINGS)}\n\n" + "\n".join(rows)


def numbered(draw: random.Random) -> str:
    """A list asked for as long and dull: multiplication tables, days, counting."""
    factor = draw.randint(2, 19)
    return draw.choice(
        (
            "\n".join(f"{factor} × {n} = {factor * n}" for n in range(1, draw.randint(11, 25))),
            ", ".join(str(n) for n in range(1, draw.randint(60, 200))),
            "\n".join(f"Day {n}: {sentence(draw)}." for n in range(1, draw.randint(7, 22))),
            "\n".join(f"Task {n}: TODO" for n in range(1, draw.randint(8, 20))),
        )
    )


def rules(draw: random.Random) -> str:
    """Markdown with rules, headings underlined, and a banner."""
    rule = draw.choice("-=*_~#") * draw.choice((3, 20, 60, 72, 79))
    title = draw.choice(THINGS).title()
    parts = [f"{rule}\n{title}\n{rule}"]
    parts += [f"## {draw.choice(THINGS).title()}\n\n{sentence(draw)}.\n\n{rule}" for _ in range(4)]
    return "\n\n".join(parts)


def form(draw: random.Random) -> str:
    """A scanned form: dotted lines, boxes, pages ended by form feeds."""
    fields = [
        f"{draw.choice(THINGS).title()} {'.' * draw.randint(20, 70)} {draw.randint(1, 99)}"
        for _ in range(draw.randint(5, 14))
    ]
    blank = "_" * draw.randint(20, 60)
    return "\n".join([*fields, f"Name: {blank}", f"Date: {blank}", "☐ yes   ☐ no", "\f"])


def summary(draw: random.Random) -> str:
    """A few sentences about the same people."""
    who = draw.sample(NAMES, 3)
    return " ".join(
        f"{draw.choice(who)} {draw.choice(VERBS)} the {draw.choice(ADJECTIVES)} "
        f"{draw.choice(THINGS)}."
        for _ in range(draw.randint(4, 9))
    )


def about_faults(draw: random.Random) -> str:
    """Lessons that quote a fault or two: special tokens, a broken character, mojibake."""
    lesson = draw.choice(
        (
            "Turns are wrapped: `<|im_start|>user\\nHi<|im_end|>`. Never train on `<pad>`",
            "If you see Ã© in place of é, UTF-8 was read as Latin-1. Decode once, encode once",
            "The replacement character \ufffd (U+FFFD) stands for bytes that could not be decoded",
            "To colour a prompt, print \x1b[31mred\x1b[0m",
            "Zero-width joiners make families: 👩‍👩‍👧 👨‍👩‍👧‍👦 🏳️‍🌈 and 👍🏽",
            "Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo buffalo is a sentence",
            "Greek and Cyrillic look-alikes (ο and о for o) fool readers: pаypal is not paypal",
        )
    )
    return f"{lesson}. For example, {sentence(draw)}."


# Class, profile, maker, and how many.
MAKERS: Final[tuple[tuple[str, str, Maker, int], ...]] = (
    ("table", "chat", data.table, 120),
    ("table:boxes", "data", data.box_table, 50),
    ("data:json", "data", data.json_rows, 60),
    ("data:json", "data", data.json_nested, 40),
    ("data:csv", "data", data.csv_rows, 60),
    ("log", "data", data.log, 80),
    ("log:polling", "chat", data.polling, 40),
    ("log:progress", "data", data.progress, 20),
    ("matrix", "data", data.matrix, 40),
    ("latex", "chat", data.latex, 80),
    ("latex", "chat", data.latex_table, 30),
    ("poem", "creative", poem, 120),
    ("poem", "creative", song, 10),
    ("chat:loud", "chat", laughter, 80),
    ("chat", "chat", chat, 100),
    ("list", "chat", bullets, 80),
    ("list", "chat", numbered, 60),
    ("markup:rules", "chat", rules, 50),
    ("data:base64", "data", data.encoded, 40),
    ("data:hex", "data", data.hex_dump, 40),
    ("data:identifiers", "data", data.identifiers, 40),
    ("ocr:form", "ocr", form, 50),
    ("summary", "summary", summary, 60),
    ("about-faults", "chat", about_faults, 60),
)


def made_texts(seed_of: Callable[[str], random.Random], scale: float) -> list[Line]:
    """All of them; none twice."""
    lines: list[Line] = []
    for kind, profile, maker, number in MAKERS:
        draw = seed_of(maker.__name__)
        texts = dict.fromkeys(maker(draw) for _ in range(max(2, round(number * scale))))
        lines += good(kind, profile, texts, f"made.{maker.__name__}")
    return lines
