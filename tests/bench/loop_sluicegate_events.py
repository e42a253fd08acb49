"""The same with a producer that receives events, which is its default."""

from contextlib import AbstractAsyncContextManager

from . import loop_sluicegate
from .contender import Run, Setup

serve = loop_sluicegate.serve


def backend(setup: Setup) -> AbstractAsyncContextManager[Run]:
    return loop_sluicegate.backend(setup, events=True)
