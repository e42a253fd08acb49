"""Texts from source files, documents and data of open source packages."""

import random
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from .line import MIN_CHARS, Line, good, thinned

_LENGTHS: Final = (300, 2600)
_BROKEN: Final = re.compile(r"[\0\ufffd\x80-\x84\x86-\x9f]")


class Kind(NamedTuple):
    """Files of one class: by the end of their names, with the profile that is right for them, and
    how many texts at most."""

    name: str
    profile: str
    endings: tuple[str, ...]
    most: int


KINDS: Final = (
    Kind("code:python", "code", (".py", ".pyx"), 200),
    Kind("code:javascript", "code", (".js",), 120),
    Kind("code:typescript", "code", (".ts", ".tsx"), 120),
    Kind("code:c", "code", (".c", ".h"), 120),
    Kind("code:cpp", "code", (".cpp", ".hpp", ".cc"), 120),
    Kind("code:java", "code", (".java",), 120),
    Kind("code:rust", "code", (".rs",), 120),
    Kind("code:go", "code", (".go",), 120),
    Kind("code:ruby", "code", (".rb",), 40),
    Kind("code:scala", "code", (".scala",), 40),
    Kind("code:perl", "code", (".pl", ".pm"), 40),
    Kind("code:sql", "code", (".sql",), 100),
    Kind("code:shell", "code", (".sh", ".bash", ".fish", ".ps1", ".bat", ".csh"), 50),
    Kind("code:css", "code", (".css", ".less"), 60),
    Kind("code:html", "code", (".html", ".jinja"), 80),
    Kind("code:haskell", "code", (".hs", ".lhs"), 20),
    Kind("code:lisp", "code", (".clj", ".lisp", ".scm", ".el"), 40),
    Kind("code:lua", "code", (".lua",), 20),
    Kind("code:xml", "code", (".xml", ".svg"), 40),
    Kind("markup:rst", "chat", (".rst",), 120),
    Kind("markup:markdown", "chat", (".md",), 120),
    Kind("prose:documents", "chat", (".txt",), 250),
    Kind("data:json", "data", (".json", ".ipynb"), 80),
    Kind("data:csv", "data", (".csv",), 100),
    Kind("data:yaml", "data", (".yml", ".yaml", ".toml"), 40),
)


def kind_of(name: str) -> Kind | None:
    """The class of a file by its name; None for what is no text for people or not taken."""
    path = PurePosixPath(name)
    if any(part in name for part in ("/vendor", "node_modules", ".min.", "/dist/", "bundled")):
        return None
    ending = path.suffix.lower()
    # Django's documents are named .txt; other files of that name are mostly lists.
    if ending == ".txt" and not ("/docs/" in name and "django" in name):
        return None
    return next((kind for kind in KINDS if ending in kind.endings), None)


def pieces(content: bytes, draw: random.Random) -> Iterator[str]:
    """One file cut at line ends into texts of ordinary length. What is not UTF-8, or has a broken
    character or a control of its own (of C1 even one: Windows-1252 read as Latin-1), is left out:
    it is no good text."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    if _BROKEN.search(text):
        return
    lines = text.splitlines(keepends=True)
    start = 0
    while start < len(lines):
        wanted = draw.randint(*_LENGTHS)
        size, end = 0, start
        while end < len(lines) and size < wanted:
            size += len(lines[end])
            end += 1
        piece = "".join(lines[start:end]).strip("\n")
        # A line as long as a text is minified, and nothing that a model would write.
        if MIN_CHARS < len(piece) < 2 * _LENGTHS[1]:
            yield piece
        start = end


def file_texts(kind: Kind, files: list[tuple[str, str, bytes]], draw: random.Random) -> list[Line]:
    """Texts of one class from (source, name, content), each source with its share."""
    by_source: dict[str, list[str]] = {}
    for source, _, content in files:
        cut = list(pieces(content, draw))
        # Of one file not more than a handful, or the largest would be most of the class.
        by_source.setdefault(source, []).extend(draw.sample(cut, min(len(cut), 6)))
    lines: list[Line] = []
    share = max(kind.most // max(len(by_source), 1), 1)
    spare = sum(max(0, share - len(texts)) for texts in by_source.values())
    for source, texts in sorted(by_source.items()):
        own = good(kind.name, kind.profile, texts, source)
        lines += thinned(own, share + spare, draw)
    return thinned(lines, kind.most, draw)
