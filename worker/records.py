"""The record that an attempt leaves in its job's lineage."""

from datetime import UTC, datetime
from typing import NamedTuple

from ..rollback import differences
from ..schemas import AttemptRecord, GenerationJob, Usage
from ..schemas.errors import tame
from ..schemas.limits import MAX_KEPT_TEXT
from .accounts import Accounts
from .endings import Answered, Ending, GaveUp
from .engine import EngineInfo
from .manuscript import Manuscript


class Run(NamedTuple):
    """Who ran it, since when, the length of its prompt, and how many tokens others had written."""

    worker: str
    started_at: datetime
    prompt_tokens: int
    handed_tokens: int = 0


def record(
    asked: GenerationJob,
    job: GenerationJob,
    info: EngineInfo | None,
    ending: Ending,
    accounts: Accounts,
    written: Manuscript | None,
    run: Run,
) -> AttemptRecord:
    """What happened up to now. `asked` is the job as it came, `job` as the attempt runs it; `info`
    and `written` are None where it did not get so far."""
    accepted = isinstance(ending, Answered)
    gave_up = ending if isinstance(ending, GaveUp) else None
    text = written.answer if written is not None else ""
    thinking = written.thinking if written is not None else None
    usage = Usage(
        prompt_tokens=run.prompt_tokens,
        cached_tokens=accounts.segments[0].cached_tokens if accounts.segments else 0,
        completion_tokens=accounts.produced - accounts.wasted,
        wasted_tokens=accounts.wasted,
        reasoning_tokens=thinking.thought() if thinking is not None else 0,
    )
    return AttemptRecord(
        attempt=job.attempt,
        worker=run.worker,
        model=info.model if info is not None else "",
        engine=info.version if info is not None else "",
        started_at=run.started_at,
        ended_at=datetime.now(UTC),
        parameters=differences(asked.sampling, job.sampling),
        instruction=asked.mutation.instruction if asked.mutation is not None else "",
        segments=tuple(accounts.segments),
        trips=tuple(accounts.trips),
        reasoning=thinking.record(usage, accepted=accepted) if thinking is not None else None,
        usage=usage,
        handed_tokens=run.handed_tokens,
        finish_reason=ending.finish_reason if isinstance(ending, Answered) else None,
        flaw=gave_up.flaw if gave_up is not None else None,
        found_by=gave_up.found_by if gave_up is not None else "",
        detail=tame(getattr(ending, "detail", "")),
        text="" if accepted else text[:MAX_KEPT_TEXT],
        text_chars=0 if accepted else len(text),
        shortened=accounts.left_out,
    )
