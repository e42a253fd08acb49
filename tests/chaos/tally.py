"""Counting as Jepsen does, from what the backend wrote down and what lies on the broker at the end.
Pure functions."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field
from sluicegate.schemas import DeadLetter, GenerationResult

from . import jobs
from .journal import Line

Key = tuple[str, int]
# What may become of each kind of job. "expired" needs a clock that was set forward.
_ENDS: Final[Mapping[jobs.Kind, frozenset[str]]] = {
    **dict.fromkeys(jobs.KINDS, frozenset({"completed"})),
    "hopeless": frozenset({"rejected"}),
    "told": frozenset({"completed", "rejected"}),
    "dated": frozenset({"completed", "expired"}),
    # Between the note that a call is made and the making nobody can say whether it was made; and
    # time is a budget, which a clock that is set forward spends.
    "agent": frozenset({"completed", "partial"}),
}


class Outcome(Struct, frozen=True, kw_only=True):
    """A result as a service published it."""

    job: str
    attempt: int
    kind: str
    worker: str = ""
    text: str = ""

    @property
    def key(self) -> Key:
        """What marks duplicates."""
        return self.job, self.attempt


class Letter(Struct, frozen=True, kw_only=True):
    """A dead letter. `reason` is empty where it is no letter, but what the broker put there by
    itself."""

    job: str
    reason: str = ""
    worker: str = ""
    has_result: bool = False


class Tally(Struct, frozen=True, kw_only=True):
    """What became of all jobs. Each list names jobs."""

    published: int
    acknowledged: int
    delivered: int
    refused: int
    recovered: int
    lost: list[str]
    marked: int
    marked_reached: int
    unmarked: list[str]
    unexpected: list[str]
    parked: list[str]
    unexplained: list[str]
    outcomes: dict[str, int] = field(default_factory=dict)
    letters: dict[str, int] = field(default_factory=dict)
    effects_doubled: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything that must be nothing is."""
        bad = (self.lost, self.unmarked, self.unexpected, self.parked)
        return not any((*bad, self.unexplained, self.effects_doubled))


def tally(
    lines: Iterable[Line],
    published: Sequence[Outcome],
    letters: Sequence[Letter],
    late: frozenset[str] = frozenset(),
    effects: Iterable[str] = (),
    *,
    scripted: bool = False,
) -> Tally:
    """The counts.

    `lines`: the backend's journal. `published`: every result that a service put out, duplicates
    included. `letters`: all dead letters. `late`: services that may have made a deadline pass
    which had not, for their clock was wrong; an agent service sets deadlines itself. `effects`: a
    line for each time that a tool with an effect ran. `scripted`: texts are those of the script.

    - published: jobs that the backend tried to publish; acknowledged: those that the broker
      confirmed; refused: those that surely were not stored.
    - delivered: jobs whose result the backend took; recovered: of these, those of which it could
      not tell whether they were published.
    - lost: acknowledged, and the backend took no result.
    - parked: of the lost, those that lie among the dead letters.
    - marked: results beyond the first under the same (job, attempt), which clients drop;
      marked_reached: those that the backend took all the same, after a restart of its own.
    - unmarked: jobs with results under two attempts.
    - unexpected: results of jobs that nobody published, or whose publish surely failed.
    - unexplained: outcomes, texts and dead letters that their kind of job can't have.
    """
    tries: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    stored: set[str] = set()
    taken: Counter[Key] = Counter()
    ends: dict[str, str] = {}
    for line in lines:
        match line.what:
            case "try":
                tries[line.job] += 1
            case "stored":
                stored.add(line.job)
            case "refused":
                refusals[line.job] += 1
            case "result":
                taken[line.job, line.attempt] += 1
                ends[line.job] = line.outcome
            case "unknown":
                pass
    refused = {job for job, number in tries.items() if refusals[job] == number}
    delivered = {job for job, _ in taken}
    results: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for outcome in published:
        results[outcome.job][outcome.attempt] += 1
    lost = sorted(stored - delivered)
    dead = {letter.job for letter in letters}
    return Tally(
        published=len(tries),
        acknowledged=len(stored),
        delivered=len(delivered),
        refused=len(refused),
        recovered=len(delivered - stored - refused),
        lost=lost,
        marked=sum(number - 1 for each in results.values() for number in each.values()),
        marked_reached=sum(number - 1 for number in taken.values()),
        unmarked=sorted(job for job, each in results.items() if len(each) > 1),
        unexpected=sorted((results.keys() | delivered) - (tries.keys() - refused)),
        parked=sorted(job for job in lost if job in dead),
        unexplained=[
            *_odd_outcomes(published, late),
            *(_odd_texts(published) if scripted else ()),
            *_odd_letters(letters, late),
        ],
        outcomes=dict(Counter(ends.values())),
        letters=dict(Counter(letter.reason or "by the broker" for letter in letters)),
        effects_doubled=_doubled(effects),
    )


def _odd_outcomes(published: Sequence[Outcome], late: frozenset[str]) -> list[str]:
    odd: list[str] = []
    for one in published:
        kind = jobs.kind_in(one.job)
        fits = kind is not None and one.kind in _ENDS[kind]
        if not fits or (one.kind == "expired" and one.worker not in late):
            odd.append(f"{one.job} attempt {one.attempt}: {one.kind} by {one.worker}")
    return odd


def _odd_texts(published: Sequence[Outcome]) -> list[str]:
    """A text that was cut short, doubled or mixed up on its way is not delivered."""
    return [
        f"{one.job} attempt {one.attempt}: completed by {one.worker} with {one.text!r}"
        for one in published
        if one.kind == "completed" and one.text != jobs.text_in(one.job, one.attempt)
    ]


def _odd_letters(letters: Sequence[Letter], late: frozenset[str]) -> list[str]:
    agents_late = any(name.startswith("agent") for name in late)
    return [
        f"dead letter of {one.job}: {one.reason or 'by the broker'}"
        for one in letters
        if not (
            (jobs.kind_in(one.job) in ("hopeless", "told") and one.reason == "checks_rejected")
            or (one.reason == "deadline_passed" and one.worker in late)
            # Agent jobs that ended with less than was asked for, and their rounds.
            or (jobs.kind_in(one.job) == "agent" and one.has_result)
            or (
                jobs.kind_in(one.job) == "agent" and one.reason == "deadline_passed" and agents_late
            )
        )
    ]


def _doubled(effects: Iterable[str]) -> list[str]:
    """Calls that must not be made twice, and were. "pay" changes state; the others may be."""
    made = Counter(line for line in effects if line.startswith("pay "))
    return sorted(line for line, number in made.items() if number > 1)


def outcome_in(body: bytes) -> Outcome:
    """What a message on a queue of results says."""
    result = msgspec.json.decode(body, type=GenerationResult)
    kind = str(result.outcome.__struct_config__.tag)
    return Outcome(
        job=result.job_id,
        attempt=result.attempt,
        kind=kind,
        worker=result.worker or "",
        text=result.text,
    )


def letter_in(body: bytes, kind: str) -> Letter:
    """What a message on the queue of dead letters says."""
    if kind != "dead_letter":
        found = msgspec.json.decode(body)
        inner = found.get("job") or found
        return Letter(job=str(found.get("id") or inner.get("id") or found.get("job_id") or ""))
    letter = msgspec.json.decode(body, type=DeadLetter)
    return Letter(
        job=letter.job_id or "",
        reason=letter.reason.value,
        worker=letter.origin.worker,
        has_result=letter.result is not None or letter.agent is not None,
    )
