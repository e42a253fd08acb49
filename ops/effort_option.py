"""An effort of reasoning as it is typed: a name, or a number of tokens."""

from typing import Any, Final

import click
import msgspec

from ..schemas.limits import MAX_OUTPUT_TOKENS
from ..schemas.reasoning import Effort

EFFORTS: Final = "low|medium|high|max|N"


class EffortType(click.ParamType[Any]):
    """`low`, `medium`, `high` and `max` are as the profile says; a number is one of tokens."""

    name = "effort"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Effort:
        """As it was typed."""
        try:
            return msgspec.convert(int(value) if str(value).isdecimal() else value, Effort)
        except (msgspec.ValidationError, ValueError):
            self.fail(
                f"{value!r} is not low, medium, high or max, nor a number of tokens "
                f"from 0 to {MAX_OUTPUT_TOKENS}",
                param,
                ctx,
            )
