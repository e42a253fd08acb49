"""Who takes part in the proof, and what they bring. Imports no engine."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct
from sluicegate.schemas import GenerationJob

PLAIN: Final = "plain"
GATED: Final = "sluicegate"
REPETITION: Final = "repetition_detection"
JUDGED: Final = "judge at the end"
LLMQ: Final = "llmq"
RESULT_S: Final = 120.0
MEANING: Final = {
    PLAIN: "a careful worker on aio-pika that delivers what vLLM says",
    GATED: "streaming gates in the worker, and a checker for the jobs that ask for one",
    REPETITION: "the plain worker with vLLM's repetition_detection: what it stops is an error",
    JUDGED: "the plain worker; the same gates and checks on the whole answer, at most 3 tries",
    LLMQ: "the queue and worker of llmq, with this engine in its place for one",
}


class Place(Struct, frozen=True, kw_only=True):
    """Where the contenders run. `folder` is for files of theirs."""

    url: str
    namespace: str
    concurrency: int
    folder: Path


class Came(Struct, frozen=True, kw_only=True):
    """What came back for a job: a text, or None and why. `touched`: its text was cut, or made
    again."""

    text: str | None
    detail: str = ""
    touched: bool = False
    rollbacks: int = 0
    retries: int = 0
    dead: bool = False


Contender = Callable[[GenerationJob], Awaitable[Came]]
