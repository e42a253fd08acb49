"""The synthetic traces: every kind of loop and of healthy work, twice, by a seed and a set of
words.

`python -m sluicegate.ops.agent_traces_made [--held-out]` prints those of `tests/data/`.
"""

import random
import sys
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import structs

from .agent_trace_loops import LOOPS
from .agent_trace_noise import NOISE
from .agent_trace_rewordings import REWORDINGS
from .agent_trace_words import DEV, HELD_OUT, Words
from .agent_traces import Trace, write_traces
from .agent_traces_healthy import HEALTHY
from .agent_traces_reading import READING
from .agent_traces_working import WORKING

Maker = Callable[[random.Random, Words], Trace]
_COPIES: Final = 2


def made(words: Words) -> list[Trace]:
    """All of them, the same for the same words."""
    return list(_made(words))


def _made(words: Words) -> Iterator[Trace]:
    for make in (*LOOPS, *REWORDINGS, *NOISE, *HEALTHY, *READING, *WORKING):
        for copy in range(1, _COPIES + 1):
            # By kind, so that a new one changes no other.
            name = f"{words.seed}:{make.__module__.rpartition('.')[2]}:{make.__name__}:{copy}"
            trace = make(random.Random(name), words)  # noqa: S311  no secret
            yield structs.replace(trace, id=f"{trace.kind}-{copy}")


if __name__ == "__main__":
    chosen = HELD_OUT if "--held-out" in sys.argv[1:] else DEV
    sys.stdout.buffer.write(write_traces(made(chosen)))
