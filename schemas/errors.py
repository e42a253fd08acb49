"""Every error of ours has one root, so that a caller can catch the lot."""

import unicodedata
from typing import Any, Final, Self

from .reasons import Reason

MAX_FIELD_CHARS: Final = 200
MAX_DETAIL_CHARS: Final = 500


class SluiceError(Exception):
    """The root of every error that sluicegate raises on purpose.

    Each can be pickled, whatever its constructor takes: they cross process boundaries.
    """

    _made_of: tuple[Any, ...]

    def __new__(cls, *arguments: Any, **_named: Any) -> Self:
        made = super().__new__(cls, *arguments)
        made._made_of = arguments
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), self._made_of


class InvalidMessage(SluiceError, ValueError):
    """A message can't be taken: which field, why, and the limit it broke.

    `reason` is the code that goes into results and dead letters, `field` a JSON path such as
    `$.sampling.temperature` (`$` where the body as a whole is at fault). Both texts may quote what
    was sent, so they are cut short and are fit for a log, a terminal and JSON.
    """

    def __init__(self, reason: Reason, field: str, detail: str) -> None:
        self.reason = reason
        self.field = tame(field, MAX_FIELD_CHARS)
        self.detail = tame(detail, MAX_DETAIL_CHARS)
        super().__init__(f"{self.field}: {self.detail}" if field else self.detail)


def tame(text: str, limit: int = MAX_DETAIL_CHARS) -> str:
    """Text of anybody's, short enough and fit for a log, a terminal and JSON."""
    short = text if len(text) <= limit else f"{text[: limit - 3]}..."
    return "".join(char if _shows(char) else "?" for char in short)


def _shows(char: str) -> bool:
    """Not so control characters, half surrogate pairs, and whatever else would act, not show."""
    category = unicodedata.category(char)
    return category[0] != "C" and category not in ("Zl", "Zp")
