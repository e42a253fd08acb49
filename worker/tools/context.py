"""What a tool may know of the call it answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Until a call runs it has no folder.
NO_FOLDER: Final = Path("/nonexistent")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """A parameter of a tool that is annotated with this is not the model's: it gets this.

    `effect_id` is the same each time this very call is run: fit for an idempotency key. `folder` is
    an empty folder of this call alone, removed with all that is in it when the call is over. A
    runner puts it in; whoever makes a context for one leaves it out.
    """

    job_id: str
    round: int
    effect_id: str
    folder: Path = NO_FOLDER
