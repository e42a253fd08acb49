"""Characters that good text does not have, counted within a window.

One of them proves little: a form feed, a company's logo from the private use area, a U+FFFD in a
quotation. What counts is how many stand close together. Whitespace, byte order marks, joiners,
variation selectors and combining marks are text and never counted. Half a character is none of
this gate's business: it is not in the text of a step before it is whole.
"""

from bisect import bisect_right
from operator import itemgetter
from typing import Final

import regex
from msgspec import Struct

from .finding import Finding, Flaw, Level
from .gate import Step
from .mojibake import HINT, pictures
from .tail import Tail


class CharacterRules(Struct, frozen=True, kw_only=True):
    """How many characters of a kind within `window` characters are too many; 0: any number is
    fine. Mojibake has a window of its own. `allowed` never count; one of `denied` is enough."""

    window: int = 200
    controls: int = 2
    private_use: int = 3
    unassigned: int = 3
    replacements: int = 3
    mojibake: int = 4
    mojibake_window: int = 120
    allowed: str = ""
    denied: str = ""


_CONTROLS: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_OFFSET: Final = itemgetter(1)
_SUSPECT: Final = rf"{_CONTROLS}\p{{Co}}\p{{Cn}}\p{{Cs}}\uFFFD"


class CharacterGate:
    """Trips on the character that is one too many. Plain text costs one look. Memory O(tokens)."""

    name = "characters"

    def __init__(self, rules: CharacterRules | None = None) -> None:
        rules = rules or CharacterRules()
        self._rules = rules
        self._allowed = frozenset(rules.allowed)
        self._denied = frozenset(rules.denied)
        self._limits = {
            Flaw.CONTROL_CHARACTER: rules.controls,
            Flaw.PRIVATE_USE: rules.private_use,
            Flaw.UNASSIGNED: rules.unassigned,
            Flaw.REPLACEMENT_CHARACTER: rules.replacements,
            Flaw.DENIED_CHARACTER: 1,
        }
        # Whether plain text can be passed over unread.
        self._plain = not any(one.isascii() and one.isprintable() for one in rules.denied)
        more = regex.escape(rules.denied, special_only=True)
        self._suspect = regex.compile(f"[{_SUSPECT}{more}]")
        self._tail = Tail()
        # How many characters there are behind each step.
        self._ends: list[int] = []
        # Of each kind, the positions and offsets of all that were seen, in order.
        self._seen: dict[Flaw, list[tuple[int, int]]] = {flaw: [] for flaw in self._limits}

    def __repr__(self) -> str:
        return f"<CharacterGate {len(self._tail.pieces)} tokens>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        text = step.text
        self._tail.pieces.append(text)
        self._ends.append(step.offset + len(text))
        if self._plain and text.isascii() and text.isprintable():
            return None
        found = self._judge_suspects(step) if self._suspect.search(text) else None
        if found is None and self._rules.mojibake and HINT.search(text):
            found = self._judge_mojibake(step)
        return found

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        del self._tail.pieces[n_tokens:]
        del self._ends[n_tokens:]
        for seen in self._seen.values():
            while seen and seen[-1][0] >= n_tokens:
                seen.pop()

    def suspected(self) -> int | None:
        """The first token with a suspect character that counts with the next one to come. O(log of
        how many were seen)."""
        first: int | None = None
        for flaw, seen in self._seen.items():
            limit = self._limits[flaw]
            if not seen or not limit:
                continue
            # Those before are too far away, or too many back to be needed.
            earliest = max(0, len(seen) - limit)
            outside = self._ends[-1] - self._rules.window
            near = bisect_right(seen, outside, lo=earliest, key=_OFFSET)
            if near < len(seen) and (first is None or seen[near][0] < first):
                first = seen[near][0]
        return first

    def _judge_suspects(self, step: Step) -> Finding | None:
        finding: Finding | None = None
        for found in self._suspect.finditer(step.text):
            flaw = self._flaw(found[0])
            limit = self._limits[flaw] if flaw else 0
            if flaw is None or not limit:
                continue
            seen, offset = self._seen[flaw], step.offset + found.start()
            seen.append((step.position, offset))
            if finding is None and len(seen) >= limit:
                position, start = seen[-limit]
                if offset - start < self._rules.window:
                    finding = Finding(
                        gate=self.name,
                        level=Level.TEXT,
                        flaw=flaw,
                        tokens=(position, step.position + 1),
                        chars=(start, step.offset + len(step.text)),
                        score=limit,
                        threshold=limit,
                        detail=f"U+{ord(found[0]):04X}",
                    )
        return finding

    def _flaw(self, character: str) -> Flaw | None:
        if character in self._denied:
            return Flaw.DENIED_CHARACTER
        if character in self._allowed:
            return None
        if character == "\N{REPLACEMENT CHARACTER}":
            return Flaw.REPLACEMENT_CHARACTER
        if regex.match(f"[{_CONTROLS}]", character):
            return Flaw.CONTROL_CHARACTER
        return Flaw.PRIVATE_USE if regex.match(r"\p{Co}", character) else Flaw.UNASSIGNED

    def _judge_mojibake(self, step: Step) -> Finding | None:
        rules = self._rules
        tail, first = self._tail.last(rules.mojibake_window + len(step.text))
        starts = pictures(tail)
        begin = step.offset + len(step.text) - len(tail)
        for one, last in zip(starts, starts[rules.mojibake - 1 :], strict=False):
            if last - one < rules.mojibake_window:
                return Finding(
                    gate=self.name,
                    level=Level.TEXT,
                    flaw=Flaw.MOJIBAKE,
                    tokens=(self._tail.position(first, one), step.position + 1),
                    chars=(begin + one, step.offset + len(step.text)),
                    score=len(starts),
                    threshold=rules.mojibake,
                    detail="UTF-8 read as a one-byte code page",
                )
        return None
