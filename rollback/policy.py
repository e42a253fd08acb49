"""What to do about a finding: a pure function of the finding, the attempt so far, and a table."""

from typing import Final

from msgspec.structs import replace

from ..guards.finding import Finding
from .actions import Action, Changes, GiveUp, Note, Rollback
from .history import Situation, Trip
from .table import Row, Rung, Table

# Findings so many tokens apart, or a checkpoint interval if that is more, are at one place.
_REACH: Final = 16
# Where the first token is forced by a grammar, a ban would leave nothing to sample: restarts of a
# greedy job differ by heat instead.
_RESTART_TEMPERATURE: Final = 0.5


def decide(finding: Finding, situation: Situation, table: Table) -> Action:
    """Note it, go back, or give the attempt up. Same arguments, same action.

    The row of the finding's flaw (else of its level) is a ladder. The first trip at a place gets
    the first rung; the next one there, once a rung's tries are used, gets the next. A trip is at
    the place of an earlier one of the same row where it lies between that one's cut and its flaw,
    give or take the row's reach; then it goes no less far back. So later actions at a place are
    never weaker. Other places start at the first rung.

    What is kept is never below the floor (but for reasoning that is closed there), never more than
    was accepted, and never ends in half a character (`CheckpointStack.cut`; the floor is whole as
    it is). A constrained output is started again as a whole or given up: a grammar can't be entered
    in the middle.
    """
    row = table.row(finding)
    if (note := _note(row, situation, table)) is not None:
        return note
    # A ladder that closes the reasoning is short, and what it throws away bought the thought.
    closes = any(rung.changes.close for rung in row.rungs)
    if not closes and (exhausted := _exhausted(situation)):
        return _end(row, finding, exhausted)
    place = _place(row, finding, situation.tokens)
    earlier = _earlier(row, place, situation)
    index = _climb(row, earlier)
    limit = _lowest(earlier, situation) if row.place == "near" else situation.tokens
    for number, rung in enumerate(row.rungs[index:], index):
        keep = _keep(rung, _onset(finding, situation.tokens), limit, situation)
        if situation.constrained and keep > 0:
            return _end(
                row, finding, "constrained output, already given out in part, can't restart"
            )
        changes = _changes(rung, keep, situation)
        if changes is not None:
            return Rollback(
                keep=keep,
                changes=changes,
                fresh_cache=rung.fresh_cache,
                row=row.name,
                rung=number,
            )
    return _end(row, finding, _used_up(row, len(earlier)))


def _used_up(row: Row, rollbacks: int) -> str:
    """Why no rung is left."""
    if not rollbacks:
        return "nothing could be changed" if row.rungs else "not worth going back"
    what = "cut" if any(rung.changes.close for rung in row.rungs) else "rollback"
    times = f"1 {what}" if rollbacks == 1 else f"{rollbacks} {what}s"
    return f"{times} {'there' if row.place == 'near' else 'in this attempt'} did not help"


def _note(row: Row, situation: Situation, table: Table) -> Note | None:
    """A note, while the findings in the window are too few to act on."""
    if row.findings == 1:
        return None
    needed = situation.findings or row.findings
    within = situation.within or row.within
    noted: list[int] = []
    for trip in situation.trips:
        if isinstance(trip.action, Rollback):
            # What was found in tokens that are gone is gone with them.
            noted = [tokens for tokens in noted if tokens <= trip.action.keep]
        elif _counts(trip, row, table):
            noted.append(trip.tokens)
    if noted and situation.tokens - noted[-1] < row.apart:
        return Note(counts=False)
    recent = sum(situation.tokens - tokens < within for tokens in noted)
    return Note() if recent + 1 < needed else None


def _counts(trip: Trip, row: Row, table: Table) -> bool:
    counts = isinstance(trip.action, Note) and trip.action.counts
    return counts and table.row(trip.finding).name == row.name


def _exhausted(situation: Situation) -> str:
    """Which budget is spent, and what would raise it; or nothing. What is spent is compared, not
    what a rollback is going to cost: the last one may go over."""
    budgets = situation.budgets
    for spent, limit, key in (
        (situation.rollbacks, budgets.max_rollbacks, "max_rollbacks"),
        (situation.wasted, budgets.max_wasted_tokens, "max_wasted_tokens"),
        (situation.seconds, budgets.max_seconds, "max_rollback_seconds"),
    ):
        if spent >= limit:
            return f"{key} is spent ({spent:g} of {limit:g}); a profile with more goes on longer"
    return ""


def _onset(finding: Finding, tokens: int) -> int:
    return min(max(finding.tokens[0], 0), tokens)


def _place(row: Row, finding: Finding, tokens: int) -> int:
    """The token that a finding was about when `tokens` were accepted: its onset, or the end for
    rows that go back from there."""
    by_end = bool(row.rungs) and row.rungs[0].at == "end"
    return tokens if by_end else _onset(finding, tokens)


def _earlier(row: Row, place: int, situation: Situation) -> list[Trip]:
    """The row's rollbacks at the same place."""
    reach = row.reach or max(situation.checkpoints.interval, _REACH)
    found: list[Trip] = []
    for trip in situation.trips:
        action = trip.action
        if not isinstance(action, Rollback) or action.row != row.name:
            continue
        ends = (action.keep, _place(row, trip.finding, trip.tokens))
        if row.place == "attempt" or min(ends) - reach <= place <= max(ends) + reach:
            found.append(trip)
    return found


def _climb(row: Row, earlier: list[Trip]) -> int:
    """The number of the rung that is due: the highest that was used at the place, or the next."""
    used = [trip.action.rung for trip in earlier if isinstance(trip.action, Rollback)]
    if not used:
        return 0
    top = max(used)
    if top < len(row.rungs) and used.count(top) < row.rungs[top].tries:
        return top
    return top + 1


def _lowest(earlier: list[Trip], situation: Situation) -> int:
    """The least that was kept at the place before."""
    keeps = (trip.action.keep for trip in earlier if isinstance(trip.action, Rollback))
    return min(keeps, default=situation.tokens)


def _keep(rung: Rung, onset: int, limit: int, situation: Situation) -> int:
    """How many tokens stay, at most `limit`."""
    if situation.constrained:
        return situation.floor
    starts = {"onset": onset, "end": situation.tokens, "prompt": 0}
    keep = max(starts[rung.at] - rung.back, 0)
    for _ in range(rung.checkpoints):
        keep = situation.checkpoints.at_or_before(keep - 1).tokens
    keep = situation.checkpoints.cut(min(int(keep * rung.share), limit))
    # The reasoning that an answer is made from need not be all that a client has seen of it.
    return keep if rung.changes.close else max(keep, situation.floor)


def _changes(rung: Rung, keep: int, situation: Situation) -> Changes | None:
    """The rung's changes, made such that they change something; None if there is no way."""
    changes = rung.changes
    if changes.close or (rung.fresh_cache and changes == Changes()):
        return changes
    if situation.constrained:
        warm = _RESTART_TEMPERATURE if situation.greedy else 0.0
        return replace(
            changes,
            ban=False,
            guide="",
            reseed=True,
            greedy=False,
            temperature_at_least=max(changes.temperature_at_least, warm),
            tokens=0,
        )
    felt = (
        rung.fresh_cache
        or bool(changes.guide)
        or changes.temperature_at_least > 0
        or changes.repetition_penalty_by != 0
    )
    if not situation.greedy or felt:
        return changes
    # Greedy sampling feels neither a seed nor less heat: ban what it chose. Nothing stands at the
    # very end; where a signal came from inside the engine, it took the token's place.
    return replace(changes, ban=True) if keep < situation.tokens else None


def _end(row: Row, finding: Finding, why: str) -> Note | GiveUp:
    """The end of the ladder."""
    if row.then == "note":
        return Note(counts=False)
    advice = f"; {row.detail}" if row.detail else ""
    return GiveUp(
        detail=f"{finding.flaw} at token {finding.tokens[0]}: {why}{advice}",
        engine_fault=row.engine_fault,
    )
