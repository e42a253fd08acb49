"""Reading the documents: their headings, code blocks, tables and links."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
PAGES: Final = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCE: Final = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_CODE: Final = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Table:
    """A table with the heading that it stands under."""

    heading: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks in a language, in order."""
    return [found["text"] for found in _FENCE.finditer(text) if found["language"] == language]


def prose(text: str) -> str:
    """The text without its fenced code blocks."""
    return _FENCE.sub("", text)


def headings(text: str) -> list[str]:
    return [found["text"] for found in _HEADING.finditer(prose(text))]


def anchor(heading: str) -> str:
    """What GitHub makes of a heading: small letters, no punctuation, dashes for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links(text: str) -> list[str]:
    return [found["target"] for found in _LINK.finditer(prose(text))]


def code_spans(text: str) -> list[str]:
    """What stands between backticks in prose and tables."""
    return _CODE.findall(prose(text))


def section(text: str, heading: str) -> str:
    """What stands under a heading, down to the next one of the same or a higher level."""
    # A comment in a code block looks like a heading: look for headings where the code is blank.
    blank = _FENCE.sub(lambda found: " " * len(found[0]), text)
    start = re.search(rf"^(#+) {re.escape(heading)}$", blank, re.MULTILINE)
    assert start is not None, f"no heading {heading!r}"
    end = re.compile(rf"^#{{1,{len(start[1])}}} ", re.MULTILINE).search(blank, start.end())
    return text[start.end() : end.start() if end else None]


def tables(text: str) -> list[Table]:
    """Every table of a page, cells as they are written."""
    found: list[Table] = []
    heading = ""
    run: list[tuple[str, ...]] = []
    for line in [*prose(text).splitlines(), ""]:
        if line.startswith("|"):
            run.append(tuple(cell.strip() for cell in line.strip().strip("|").split("|")))
            continue
        if len(run) > 2:
            found.append(Table(heading, run[0], tuple(run[2:])))
        run = []
        if title := _HEADING.match(line):
            heading = title["text"]
    return found


def table(text: str, first_column: str) -> Table:
    """The one table whose first column is called so."""
    (one,) = [each for each in tables(text) if each.head[0] == first_column]
    return one
