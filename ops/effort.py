"""How much a model may think, on the command line."""

from typing import Any, Final

import click

from ..schemas.limits import MAX_OUTPUT_TOKENS

NAMES: Final = ("low", "medium", "high", "max")


class EffortType(click.ParamType["int | str"]):
    """One of the names, or a number of tokens."""

    name = "effort"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """The name or the number, or click's own error about the flag."""
        if value in NAMES:
            return str(value)
        try:
            tokens = int(value)
        except ValueError:
            tokens = -1
        if not 0 <= tokens <= MAX_OUTPUT_TOKENS:
            self.fail(
                f"{value!r} is none of {', '.join(NAMES)}, and no number of tokens from 0 to "
                f"{MAX_OUTPUT_TOKENS}.",
                param,
                ctx,
            )
        return tokens


EFFORT: Final = EffortType()
