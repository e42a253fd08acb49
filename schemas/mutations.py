"""What a retry does differently from the job as it was asked."""

from typing import Annotated

from msgspec import Meta, Struct

from .flaws import Flaw
from .limits import MAX_INSTRUCTION_CHARS
from .measures import WorkerName
from .sampling import Sampling


class Mutation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In force for one attempt, written by the system; the job itself stays as it was asked.

    `sampling` stands in place of the job's, `instruction` is said in a system message, `flaws` are
    what they answer. A worker whose name is in `avoid` leaves the job to others for a while:
    `passes` counts how often one did.
    """

    sampling: Sampling
    instruction: Annotated[str, Meta(max_length=MAX_INSTRUCTION_CHARS)] = ""
    flaws: Annotated[tuple[Flaw, ...], Meta(max_length=64)] = ()
    avoid: Annotated[tuple[WorkerName, ...], Meta(max_length=8)] = ()
    passes: Annotated[int, Meta(ge=0, le=100)] = 0
