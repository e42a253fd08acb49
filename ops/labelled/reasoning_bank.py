"""The sentences that reasoning traces are made of, by language; "dev" and "held-out" share none."""

import random
import tomllib
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, Literal

Split = Literal["dev", "held-out"]
# A table of a language: sentences by name, and by problem and name.
Bank = dict[str, "str | dict[str, str]"]

_UNSPACED: Final = frozenset({"zh", "ja"})
_DECIMAL_COMMA: Final = frozenset({"de", "fr", "es", "pt", "ru"})


@cache
def banks(split: Split) -> dict[str, Bank]:
    """The banks of a split by language, read from the files beside this one."""
    found: dict[str, Bank] = {}
    stem = f"reasoning_{split.replace('-', '_')}"
    for path in sorted(Path(__file__).parent.glob(f"{stem}*.toml")):
        for language, tables in tomllib.loads(path.read_text(encoding="utf-8")).items():
            found.setdefault(language, {}).update(tables)
    return found


class Voice:
    """One language of one split, and how one trace is written: its sentences, its separator."""

    def __init__(self, language: str, bank: Bank, draw: random.Random) -> None:
        self.language = language
        self.draw = draw
        self._bank = bank
        self.space = "" if language in _UNSPACED else " "
        self.gap = draw.choice((self.space, "\n", "\n", "\n\n"))
        # Some writers have one frame for all their lines, which looks the most like a loop.
        self._fixed = draw.random() < 0.5
        self._chosen: dict[str, str] = {}
        self._chatty = draw.choice((0.0, 0.0, 0.1, 0.25))

    def has(self, problem: str) -> bool:
        """Whether the language has sentences for a problem."""
        return problem in self._bank

    def list(self, name: str) -> list[str]:
        """The parts of an entry, which are separated by bars."""
        return [part.strip() for part in self.raw(name).split("|")]

    def raw(self, name: str) -> str:
        """An entry as it stands in the file, spaces included."""
        entry = self._bank[name]
        if not isinstance(entry, str):
            raise TypeError(f"{name} is a table")
        return entry

    def say(self, problem: str, key: str, **slots: object) -> str:
        """A sentence of a problem with its slots filled."""
        table = self._bank[problem]
        if isinstance(table, str):
            raise TypeError(f"{problem} is no table")
        name = f"{problem}.{key}"
        ways = [part.strip() for part in table[key].split("|")]
        way = self._chosen.setdefault(name, self.draw.choice(ways))
        if not self._fixed:
            way = self.draw.choice(ways)
        return way.format(**{name: self._shown(value) for name, value in slots.items()})

    def number(self, value: Fraction, digits: int) -> str:
        """A decimal number as the language writes it; exact values lose their last zeros."""
        text = f"{float(round(value, digits)):.{digits}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        return text.replace(".", ",") if self.language in _DECIMAL_COMMA else text

    def trace(self, lines: Sequence[str]) -> str:
        """The lines of a trace, with an interjection here and there."""
        said: list[str] = []
        for line in lines:
            if said and self.draw.random() < self._chatty:
                said.append(f"{self.draw.choice(self.list('asides'))}{self.space}{line}")
            else:
                said.append(line)
        return self.gap.join(said)

    def _shown(self, value: object) -> str:
        if isinstance(value, Fraction):
            return str(value)
        if isinstance(value, (list, tuple)):
            mark = "、" if self.language in _UNSPACED else ", "
            return mark.join(str(one) for one in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return str(value)
