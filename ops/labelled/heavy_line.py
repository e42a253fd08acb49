"""A line of the heavy set: a text with what the checks of whole texts ask about besides."""

from typing import Literal

from msgspec import Struct

from ...schemas import Rules
from .heavy_prompts import Task
from .line import Line


class HeavyLine(Line, frozen=True, kw_only=True, omit_defaults=True):
    """`rules`: those that the text is held to; `finish_reason`: as the engine said; `tokens`: how
    many the text has."""

    rules: Rules = Rules()
    finish_reason: Literal["stop", "length"] = "stop"
    tokens: int = 0


class Pair(Struct, frozen=True, kw_only=True):
    """A task and the model's answer. "length": it was cut off by the limit on tokens."""

    task: Task
    text: str
    ids: list[int]
    finish_reason: Literal["stop", "length"]


class Rot(Struct, frozen=True, kw_only=True):
    """A passage that a model with noise in its weights wrote. `surprise`: nats a token, to the
    sound model; `usual`: what 99 of 100 passages of the sound model stay below."""

    text: str
    surprise: float
    usual: float
