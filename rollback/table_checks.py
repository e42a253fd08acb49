"""What a policy table may say. Errors name the key, and what to write instead."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, cast

from ..schemas import Flaw, Level
from .actions import Changes


class BadPolicy(ValueError):
    """A table that can't be used; the message says which key and why."""


# Least and most of each number. Deeper or longer than this is a new attempt.
_COUNTS: Final[dict[str, tuple[int, int]]] = {
    "back": (0, 4096),
    "checkpoints": (0, 1000),
    "tries": (1, 2),
    "tokens": (0, 100_000),
    "top_k_at_most": (0, 1_000_000),
    "findings": (1, 100),
    "within": (0, 100_000),
    "reach": (0, 100_000),
    "apart": (1, 100_000),
}
_AMOUNTS: Final[dict[str, tuple[float, float]]] = {
    "temperature_times": (0.0, 4.0),
    "temperature_at_least": (0.0, 2.0),
    "share": (0.0, 1.0),
    "top_p_at_most": (0.01, 1.0),
    "repetition_penalty_by": (-1.0, 1.0),
}
_FLAGS: Final = ("ban", "greedy", "reseed", "fresh_cache", "engine_fault", "close")
_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "at": ("onset", "end", "prompt"),
    "place": ("near", "attempt"),
    "then": ("give_up", "note"),
}
_TEXTS: Final[dict[str, int]] = {"guide": 200, "detail": 500}  # characters
_ROW_KEYS: Final = (
    *("level", "flaws", "place", "reach", "findings", "within", "apart"),
    *("then", "engine_fault", "detail", "rungs"),
)
_CHANGE_KEYS: Final = (
    *("ban", "temperature_times", "temperature_at_least", "greedy", "top_p_at_most"),
    *("top_k_at_most", "repetition_penalty_by", "guide", "reseed", "fresh_cache", "close"),
)
_RUNG_KEYS: Final = ("at", "back", "checkpoints", "share", "tries", "tokens", *_CHANGE_KEYS)
_MAX_RUNGS: Final = 20
_NEUTRAL: Final = Changes()
# Numbers that nothing can be sampled from: there is no going on without a way back.
_DEAD_ENDS: Final = (Flaw.NON_FINITE_LOGITS, Flaw.UNIFORM_LOGITS)
# Less heat only digs a loop in: at temperature 0 the same prefix gives the same loop.
_LOOPS: Final = (Flaw.LOOP, Flaw.WORD_RUN, Flaw.CHARACTER_RUN, Flaw.ENGINE_REPETITION)


def check_row(name: str, values: Mapping[str, Any]) -> None:
    """Raises BadPolicy."""
    flaws = _list(f"{name}.flaws", values.get("flaws", []))
    for flaw in flaws:
        known(str(flaw), [str(each) for each in Flaw], "flaw", f"{name}.flaws: ")
    for key, value in values.items():
        known(key, _ROW_KEYS, "key of a row", f"{name}.")
        if key == "level":
            if type(value) is not int or value not in [int(level) for level in Level]:
                raise BadPolicy(f"{name}.level: must be a level from 1 to 6, not {value!r}")
        elif key == "rungs":
            reasoning = values.get("level") == Level.REASONING
            _check_rungs(name, _list(f"{name}.rungs", value), flaws, reasoning=reasoning)
        elif key != "flaws":
            _check_value(f"{name}.{key}", key, value)


def check_dead_ends(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises BadPolicy where the row of a flaw that can't be let be would let it be. `tables`: all
    rows, with each level in one of them, and each flaw in one at most."""
    named = {flaw: name for name, row in tables.items() for flaw in row.get("flaws", ())}
    levels = {row["level"]: name for name, row in tables.items() if "level" in row}
    for flaw in _DEAD_ENDS:
        name = named.get(flaw, levels[int(Level.LOGITS)])
        row = tables[name]
        why = f"with {flaw}: the engine has ended the request and would end it there again"
        if row.get("then") == "note":
            raise BadPolicy(f"{name}.then: note can't go {why}; write then = 'give_up'")
        if row.get("findings", 1) > 1:
            raise BadPolicy(f"{name}.findings: above 1 can't go {why}; write findings = 1")


def known(key: str, names: Iterable[str], kind: str, where: str, hint: str = "") -> None:
    """BadPolicy, with the nearest name, for a key that is not among the names."""
    there = sorted(names)
    if key not in there:
        near = get_close_matches(key, there, n=1)
        help_ = f"did you mean {near[0]}?" if near else f"there are {', '.join(there)}{hint}"
        raise BadPolicy(f"{where}{key} is no {kind}; {help_}")


def _check_rungs(name: str, rungs: list[Any], flaws: Iterable[str], *, reasoning: bool) -> None:
    if len(rungs) > _MAX_RUNGS:
        raise BadPolicy(f"{name}.rungs: {len(rungs)} are too many; at most {_MAX_RUNGS}")
    for number, rung in enumerate(rungs, 1):
        where = f"{name}.rungs, number {number}"
        if not isinstance(rung, dict):
            raise BadPolicy(f"{where}: must be a table, such as {{ at = 'onset', ban = true }}")
        rung = cast("dict[str, Any]", rung)
        for key, value in rung.items():
            known(key, _RUNG_KEYS, "key of a rung", f"{where}: ")
            _check_value(f"{where}: {key}", key, value)
        if "at" not in rung:
            raise BadPolicy(f"{where}: at is missing; write at = 'onset', 'end' or 'prompt'")
        if all(_is_neutral(key, rung.get(key)) for key in _CHANGE_KEYS):
            raise BadPolicy(
                f"{where}: changes nothing, so the same would come again; add ban = true "
                f"or another of {', '.join(_CHANGE_KEYS)}"
            )
        if rung.get("tries", 1) > 1 and not (rung.get("ban") or rung.get("reseed")):
            raise BadPolicy(
                f"{where}: tries = 2 needs ban or reseed; without, the second repeats the first"
            )
        if rung.get("close") and not reasoning:
            raise BadPolicy(f"{where}: close is for the row of level {Level.REASONING.value}")
        cooler = rung.get("greedy") or rung.get("temperature_times", 1.0) < 1
        if cooler and set(flaws) & {str(flaw) for flaw in _LOOPS}:
            raise BadPolicy(
                f"{where}: less heat brings a loop back; use temperature_at_least or "
                "temperature_times above 1"
            )


def _is_neutral(key: str, value: Any) -> bool:
    return value is None or value == getattr(_NEUTRAL, key, False)


def _check_value(where: str, key: str, value: Any) -> None:
    if key in _FLAGS:
        if not isinstance(value, bool):
            raise BadPolicy(f"{where}: must be true or false, not {value!r}")
    elif key in _WORDS:
        if value not in _WORDS[key]:
            raise BadPolicy(f"{where}: must be one of {', '.join(_WORDS[key])}, not {value!r}")
    elif key in _TEXTS:
        _check_text(where, value, _TEXTS[key])
    elif key in _COUNTS:
        least, most = _COUNTS[key]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise BadPolicy(
                f"{where}: must be a whole number from {least} to {most}, not {value!r}"
            )
    else:
        low, high = _AMOUNTS[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high:
            raise BadPolicy(f"{where}: must be a number from {low:g} to {high:g}, not {value!r}")


def _check_text(where: str, value: Any, most: int) -> None:
    if not isinstance(value, str) or len(value) > most:
        raise BadPolicy(f"{where}: must be text of at most {most} characters")
    strange = next((one for one in value if not (one.isprintable() or one in "\n\t")), None)
    if strange is not None:
        raise BadPolicy(
            f"{where}: must be printable, or line breaks and tabs, not U+{ord(strange):04X}"
        )


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadPolicy(f"{where}: must be a list, not {value!r}")
    return cast("list[Any]", value)
