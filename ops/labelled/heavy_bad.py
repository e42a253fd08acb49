"""Bad texts of the heavy set: each with one fault that only the whole text shows."""

from typing import Final

from . import heavy_rules as rules
from . import heavy_spoiled as spoiled
from .heavy_fault import Bad, Maker
from .heavy_good import SeedOf
from .heavy_line import HeavyLine
from .heavy_material import Material

_TRIES: Final = 30  # for each text that is wanted


def bad_lines(made_of: Material, seed_of: SeedOf, scale: float) -> list[HeavyLine]:
    """So many of every class as there should be, or as can be made of what there is. None twice."""
    lines: list[HeavyLine] = []
    for kind, make, number in CLASSES:
        draw = seed_of(f"heavy:{kind}")
        wanted = max(2, round(number * scale))
        found: dict[tuple[str, str | None, str], Bad] = {}
        for _ in range(wanted * _TRIES):
            bad = make(made_of, draw)
            if bad is not None:
                found.setdefault((bad.text, bad.prompt, str(bad.rules)), bad)
            if len(found) == wanted:
                break
        lines += [_line(kind, at, bad) for at, bad in enumerate(found.values())]
    return lines


def _line(kind: str, number: int, bad: Bad) -> HeavyLine:
    return HeavyLine(
        id=f"{kind}:{number}",
        text=bad.text,
        label="bad",
        kind=kind,
        profile=bad.profile,
        prompt=bad.prompt,
        onset=bad.onset,
        rules=bad.rules,
        finish_reason="length" if bad.finish_reason == "length" else "stop",
        source=bad.source,
    )


# Class, maker, and how many.
CLASSES: Final[tuple[tuple[str, Maker, int], ...]] = (
    ("irrelevant", spoiled.irrelevant, 140),
    ("rotten:salad", spoiled.salad, 80),
    ("rotten:noise", spoiled.noise, 80),
    ("rotten:tokens", spoiled.random_tokens, 80),
    ("language", spoiled.other_language, 100),
    ("language:switch", spoiled.switched, 90),
    ("duplicate-paragraphs", spoiled.duplicates, 80),
    ("repetition:drift", spoiled.drift, 60),
    ("repetition:greedy", spoiled.in_circles, 60),
    ("disjointed", spoiled.disjointed, 90),
    ("invalid-json", rules.no_json, 80),
    ("schema", rules.no_fit, 80),
    ("unclosed-fence", rules.unclosed, 60),
    ("cut-off", rules.cut_off, 70),
    ("missing", rules.missing, 60),
    ("forbidden", rules.forbidden, 60),
    ("pattern", rules.pattern, 40),
    ("too-short", rules.too_short, 50),
    ("too-long", rules.too_long, 50),
)
