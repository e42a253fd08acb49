"""A duration on the command line."""

import math
from typing import Any

import click


class Seconds(click.FloatRange):
    """More than 0 seconds, or with `none_too` 0 as well, and at most `most`. `inf` is no limit;
    `nan`, which no comparison refuses, is refused."""

    def __init__(self, *, none_too: bool = False, most: float | None = None) -> None:
        super().__init__(min=0, min_open=not none_too, max=most)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number of seconds, or click's own error about the flag."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is no duration.", param, ctx)
        return seconds


SECONDS = Seconds()
