"""Texts in many languages: the translated messages of open source programs."""

import random
import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from .line import Line, good, thinned

_MAGIC: Final = 0x950412DE
_LOCALE: Final = re.compile(r"(?:^|/)([a-z]{2,3}(?:[_-][A-Za-z]{2,8})?)/LC_MESSAGES/[^/]+\.mo$")
# Shorter ones are labels of buttons.
_LEAST_MESSAGE: Final = 25
_LENGTHS: Final = (250, 1400)
_PER_LANGUAGE: Final = 32

# Phrases for lists: so short, in so many languages, so many rows.
_SHORT, _WIDE, _ROWS = 90, 12, (6, 12)

Messages = dict[str, str]


def language_of(name: str) -> str | None:
    """The language of a catalogue's file, such as `pt_br`; None where it is no catalogue."""
    found = _LOCALE.search(name)
    return found[1].lower().replace("-", "_") if found else None


def read(content: bytes) -> Messages:
    """Source and translation of every message of a compiled catalogue (GNU gettext, .mo). Of
    plurals the first form."""
    order = "<" if struct.unpack("<I", content[:4])[0] == _MAGIC else ">"
    count, sources, targets = struct.unpack(f"{order}III", content[8:20])

    def text(table: int, index: int) -> str:
        length, offset = struct.unpack_from(f"{order}II", content, table + 8 * index)
        raw = content[offset : offset + length].decode()
        return raw.partition("\0")[0]

    pairs = ((text(sources, one), text(targets, one)) for one in range(count))
    # A context stands before the source, behind an end-of-transmission character.
    return {source.rpartition("\x04")[2]: target for source, target in pairs if source and target}


def language_texts(
    language: str, messages: Messages, draw: random.Random, source: str
) -> list[Line]:
    """Messages of one language, joined to texts of some paragraphs."""
    # What is not translated would be a foreign passage in the middle of the text.
    shown = [two for one, two in messages.items() if len(two) >= _LEAST_MESSAGE and one != two]
    draw.shuffle(shown)
    lines = good(f"language:{language}", "chat", _joined(shown, draw), source)
    return thinned(lines, _PER_LANGUAGE, draw)


def _joined(messages: Sequence[str], draw: random.Random) -> Iterator[str]:
    text: list[str] = []
    wanted = draw.randint(*_LENGTHS)
    for one in messages:
        text.append(one.strip())
        if sum(map(len, text)) >= wanted:
            yield draw.choice(("\n", "\n\n", " ")).join(text)
            text, wanted = [], draw.randint(*_LENGTHS)


def bilingual(catalogues: dict[str, Messages], draw: random.Random, number: int) -> list[Line]:
    """Texts that are rightly in several languages: phrase lists and glossaries."""
    by_source: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for language, messages in catalogues.items():
        for source, target in messages.items():
            if source != target and len(source) < _SHORT and "\n" not in source + target:
                by_source[source][language] = target
    wide = sorted(source for source, targets in by_source.items() if len(targets) >= _WIDE)
    pairs = {
        language: found
        for language, messages in sorted(catalogues.items())
        if len(found := [one for one in messages.items() if len(one[0]) < _SHORT]) >= _ROWS[1]
    }
    if not wide or not pairs:
        return []
    texts: list[str] = []
    for _ in range(number):
        if draw.random() < 0.5:
            phrase = draw.choice(wide)
            targets = by_source[phrase]
            chosen = draw.sample(sorted(targets), draw.randint(*_ROWS))
            rows = (f"- **{one}**: {targets[one]}" for one in chosen)
            texts.append(f"“{phrase}” in other languages:\n\n" + "\n".join(rows))
        else:
            language = draw.choice(sorted(pairs))
            rows = (f"| {a} | {b} |" for a, b in draw.sample(pairs[language], draw.randint(*_ROWS)))
            texts.append(f"| English | {language} |\n|---|---|\n" + "\n".join(rows))
    return good("bilingual", "chat", texts, "catalogues")
