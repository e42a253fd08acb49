"""Every error of ours has one root, so that a caller can catch the lot."""

import functools
import unicodedata
from collections.abc import Callable
from typing import Any, Final, Self

from .reasons import Reason

MAX_FIELD_CHARS: Final = 200
MAX_DETAIL_CHARS: Final = 500


class SluiceError(Exception):
    """The root of every error that sluicegate raises on purpose.

    Each can be pickled, whatever its constructor takes: they cross process boundaries.
    """

    made_of: tuple[Any, ...] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            cls.__init__ = _remembering(cls.__init__)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), self.args if self.made_of is None else self.made_of


def _remembering(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that keeps what it was given: `args` holds the finished sentence alone."""

    @functools.wraps(init)
    def remember(self: SluiceError, *arguments: Any) -> None:
        if self.made_of is None:
            self.made_of = arguments
        init(self, *arguments)

    return remember


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
