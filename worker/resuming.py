"""An attempt between two workers: its state as a message, and the state that a message tells of.

Nothing is decided here, and nothing is asked of an engine. What one worker writes down between two
tokens, the next one has in the same place of the same objects, so it goes on as the first would
have; gates and checkpoints are not written down, they come to the same state by the same tokens.
"""

import hashlib
from array import array
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

import msgspec

from ..guards.finding import Finding
from ..rollback import Changes, Note, Rollback, Trip
from ..schemas import GenerationJob, Progress
from ..schemas.limits import (
    MAX_HANDOVERS,
    MAX_PROGRESS_BYTES,
    MAX_PROGRESS_TOKENS,
    MAX_TRIPS,
)
from ..schemas.progress import Tried
from .accounts import Accounts
from .decisions import Decisions
from .engine import EngineInfo
from .manuscript import Manuscript, Place
from .requests import Plan

# Of records too many for a message, so many are kept at either end.
_ENDS: Final = 10
R = TypeVar("R")


class Unfit(Exception):
    """This worker can't go on from there. The attempt starts over, and that is why."""


class State(NamedTuple):
    """The parts of an attempt. The job is as the attempt runs it."""

    job: GenerationJob
    info: EngineInfo
    prompt: tuple[int, ...]
    written: Manuscript
    decisions: Decisions
    accounts: Accounts


class Now(NamedTuple):
    """When it is handed back, for which time, and how long it waited in queues."""

    times: int
    started_at: datetime
    at: datetime
    queued_s: float | None


def snapshot(state: State, coming: Plan, now: Now) -> Progress | None:
    """What to hand on of an attempt that ends here; `coming`: its next request. Goes back to where
    another can go on, so the attempt itself can't. None where there is no such place, or too much
    to fit a message."""
    job, info, prompt, written, decisions, accounts = state
    # A grammar is entered at its beginning, and what a client has seen of it can't be taken back.
    if now.times > MAX_HANDOVERS or (written.constrained and written.shown):
        return None
    accounts.drop(written.trim())
    if (written.constrained and not written.length) or written.length > MAX_PROGRESS_TOKENS:
        return None
    thinking = written.thinking
    progress = Progress(
        attempt=job.attempt,
        model=info.model,
        vocabulary_size=info.vocabulary_size,
        digest=_digest(prompt, written),
        times=now.times,
        started_at=now.started_at,
        at=now.at,
        tokens=written.tokens,
        **written.place._asdict(),
        draft=written.draft.state,
        thought=thinking.state if thinking is not None else None,
        seed=coming.seed,
        sampling=coming.sampling if coming.sampling != job.sampling else None,
        sampling_tokens=coming.tokens,
        fresh_cache=coming.fresh_cache,
        tried=tuple(_tried(trip) for trip in decisions.trips[-MAX_TRIPS:]),
        spent=accounts.spent(now.queued_s),
    )
    return _fitted(progress, MAX_PROGRESS_BYTES)


async def resume(progress: Progress, state: State) -> None:
    """Bring the fresh parts of an attempt to where the progress says. Raises Unfit where this can't
    be; the manuscript is of no use then. O(tokens)."""
    if why := _unfit(progress, state):
        raise Unfit(why)
    written = state.written
    place = Place(*(getattr(progress, name) for name in Place._fields))
    await written.restore(progress.tokens, place, progress.draft, progress.thought)
    if _digest(state.prompt, written) != progress.digest:
        raise Unfit("prompt or tokens say something else here than where it was written")
    state.accounts.restore(progress.spent)
    state.decisions.restore([_trip(each) for each in progress.tried])


def _unfit(progress: Progress, state: State) -> str:
    """Why the attempt can't go on from there here; empty where it may, by all that can be told
    before the tokens are read."""
    job, info, tokens = state.job, state.info, progress.tokens
    most = max(tokens, default=0)
    asked = len(tokens) - progress.inserted
    structured = job.sampling.structured_output is not None
    in_grammar = structured and not (progress.may_open or progress.in_block)
    reasons = {
        f"it is of attempt {progress.attempt}": progress.attempt != job.attempt,
        f"it was written by {progress.model!r}": progress.model != info.model,
        f"there were {progress.vocabulary_size:,} token ids where it was written": (
            progress.vocabulary_size != info.vocabulary_size
        ),
        f"token {most} is not in the vocabulary": most >= info.vocabulary_size,
        "reasoning was told apart in another way where it was written": (
            (progress.thought is None) != (state.written.thinking is None)
        ),
        f"{asked} of its tokens count, more than max_tokens, {job.sampling.max_tokens}": (
            asked > job.sampling.max_tokens
        ),
        "it ends in the middle of what a grammar holds": in_grammar and len(tokens) > progress.base,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def plan_of(progress: Progress, job: GenerationJob) -> Plan:
    """The request that was to come, or to go on."""
    return Plan(
        sampling=progress.sampling or job.sampling,
        seed=progress.seed,
        tokens=progress.sampling_tokens,
        fresh_cache=progress.fresh_cache,
    )


def _tried(trip: Trip) -> Tried:
    finding, action = trip.finding, trip.action
    rolled_back = action if isinstance(action, Rollback) else None
    return Tried(
        level=finding.level,
        flaw=finding.flaw,
        onset=finding.tokens[0],
        tokens=trip.tokens,
        keep=rolled_back.keep if rolled_back is not None else None,
        row=rolled_back.row if rolled_back is not None else "",
        rung=rolled_back.rung if rolled_back is not None else 0,
        banned=trip.banned,
    )


def _trip(tried: Tried) -> Trip:
    finding = Finding(
        gate="",
        level=tried.level,
        flaw=tried.flaw,
        tokens=(tried.onset, tried.tokens),
        chars=(0, 0),
        score=0,
        threshold=0,
    )
    action = Note()
    if tried.keep is not None:
        action = Rollback(keep=tried.keep, changes=Changes(), row=tried.row, rung=tried.rung)
    return Trip(finding=finding, action=action, tokens=tried.tokens, banned=tried.banned)


def _digest(prompt: tuple[int, ...], written: Manuscript) -> str:
    """Of the prompt's tokens and of all that is written, as text: another chat template or another
    tokenizer has another one. BLAKE2b, 128 bits."""
    texts = [written.draft.transcript.text]
    thinking = written.thinking
    if thinking is not None and thinking.draft is not None and not written.in_block:
        thought = thinking.draft.transcript
        texts.append(thought.slice(0, thought.offset(thinking.tokens)))
    whole = hashlib.blake2b(array("q", prompt).tobytes(), digest_size=16)
    for text in texts:
        whole.update(text.encode("utf-8", "surrogatepass") + b"\x00")
    return whole.hexdigest()


def _fitted(progress: Progress, max_bytes: int) -> Progress | None:
    """The same in at most so many bytes of JSON: with no more than the first and last of its
    records, where there are many. None where it does not fit so either."""
    if len(msgspec.json.encode(progress)) <= max_bytes:
        return progress
    spent = msgspec.structs.replace(
        progress.spent,
        segments=_ends(progress.spent.segments),
        trips=_ends(progress.spent.trips),
        records_left_out=True,
    )
    shortened = msgspec.structs.replace(progress, spent=spent)
    return shortened if len(msgspec.json.encode(shortened)) <= max_bytes else None


def _ends(records: tuple[R, ...]) -> tuple[R, ...]:
    return records if len(records) <= 2 * _ENDS else (*records[:_ENDS], *records[-_ENDS:])
