"""The checks of whole texts behind the gates: what both find, what they miss, what they harm."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..guards.checks.judge import check_all, needs_scores
from ..guards.checks.records import failed
from ..guards.checks.subject import Subject
from ..guards.checks.thresholds import Thresholds
from ..guards.finding import Finding, Level
from ..guards.gate import Gate, Step
from ..rollback import Note
from ..schemas import CheckRecord, TripRecord
from ..worker.scoring import Scorer
from ..worker.trips import record
from .evaluation import Judged, marked, mistake
from .intervals import percent, wilson, with_interval
from .whole_texts import scored, subject_of, wants


class Waiting(NamedTuple):
    """A text that the gates have judged, with the profile it is held to and what they noted."""

    judged: Judged
    profile: str
    notes: tuple[TripRecord, ...]


class Examined(NamedTuple):
    """What the gates said of a text and, where they let it pass, the checks that were not content
    with it: `bad` rejected it, `broken` could not be made."""

    judged: Judged
    bad: tuple[CheckRecord, ...] = ()
    broken: tuple[CheckRecord, ...] = ()

    @property
    def by_gates(self) -> bool:
        """Whether the gates found the fault, or harmed the good text."""
        if self.judged.line.label == "bad":
            return self.judged.found
        return self.judged.finding is not None

    @property
    def by_checks(self) -> bool:
        """Whether the checks did, where the gates had let it pass."""
        return bool(self.bad)

    @property
    def stopped(self) -> bool:
        """Whether either did."""
        return self.by_gates or self.by_checks

    @property
    def wrong(self) -> bool:
        """Whether a good text was touched or a fault missed."""
        return self.stopped if self.judged.line.label == "good" else not self.stopped


class Noting:
    """A gate around others that remembers what they found at level 4, as the worker's notes."""

    name = "noting"

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._found: list[Finding] = []

    def __repr__(self) -> str:
        return f"<Noting on {self._gate!r}>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        found = self._gate.feed(step)
        if found is not None and found.level is Level.COHERENCE:
            self._found.append(found)
        return found

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        self._gate.truncate(n_tokens)
        self._found = [found for found in self._found if found.tokens[1] <= n_tokens]

    def notes(self) -> tuple[TripRecord, ...]:
        """What was found, as the checks read it."""
        return tuple(
            record(found, Note(), segment=0, wasted=0, banned=None) for found in self._found
        )


def examine(
    waiting: Sequence[Waiting], rules: Mapping[str, Thresholds], scorer: Scorer
) -> list[Examined]:
    """All of them in order, with one pass of the scoring model over those that the gates let pass.
    `rules`: the thresholds of the checks by profile."""
    passed = [each for each in waiting if each.judged.finding is None]
    subjects = [
        subject_of(each.judged.line, each.profile, tokens=each.judged.tokens, notes=each.notes)
        for each in passed
    ]
    found: list[Subject | str] = list(subjects)
    asking = [at for at, each in enumerate(subjects) if needs_scores(each, rules[each.profile])]
    some = [subjects[at] for at in asking]
    for at, one in zip(
        asking, scored(scorer, some, wants([rules[each.profile] for each in some])), strict=True
    ):
        found[at] = one
    results = iter(
        _examined(each.judged, one, subject, rules[each.profile])
        for each, one, subject in zip(passed, found, subjects, strict=True)
    )
    return [
        next(results) if each.judged.finding is None else Examined(each.judged) for each in waiting
    ]


def _examined(
    judged: Judged, found: Subject | str, subject: Subject, thresholds: Thresholds
) -> Examined:
    """`found`: the subject with its scores, or why there are none."""
    broken: list[CheckRecord] = []
    if isinstance(found, str):
        broken.append(failed("scoring", found))
        found = subject
    records = list(check_all(found, thresholds))
    broken += [one for one in records if one.outcome == "failed"]
    bad = tuple(one for one in records if one.outcome == "rejected")
    return Examined(judged, bad, tuple(broken))


class Clock:
    """How long the checks took, in seconds, and for how many texts."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.texts = 0

    def timed(
        self, examining: Callable[[Sequence[Waiting]], list[Examined]], batch: Sequence[Waiting]
    ) -> list[Examined]:
        """The same, timed. Texts that the gates stopped cost nothing and don't count."""
        began = time.perf_counter()
        results = examining(batch)
        self.seconds += time.perf_counter() - began
        self.texts += sum(each.judged.finding is None for each in batch)
        return results


def heavy_summary(examined: Sequence[Examined], clock: Clock, *, model: str) -> dict[str, Any]:
    """Gates and checks together, as one JSON object."""
    classes: defaultdict[str, list[Examined]] = defaultdict(list)
    for each in examined:
        classes[each.judged.line.kind].append(each)
    return {
        "scoring_model": model,
        "examined": clock.texts,
        "seconds": round(clock.seconds, 3),
        "texts_per_second": round(clock.texts / clock.seconds, 3) if clock.seconds else None,
        "failed": dict(Counter(one.check for each in examined for one in each.broken)),
        **_rates(examined),
        "by_class": {kind: _rates(some) for kind, some in sorted(classes.items())},
    }


def _rates(examined: Sequence[Examined]) -> dict[str, Any]:
    good = [each for each in examined if each.judged.line.label == "good"]
    bad = [each for each in examined if each.judged.line.label == "bad"]
    alarms = sum(each.stopped for each in good)
    found = sum(each.stopped for each in bad)
    return {
        "n_good": len(good),
        "n_bad": len(bad),
        "false_positives": alarms,
        "false_positives_of_gates": sum(each.by_gates for each in good),
        "false_positives_of_checks": sum(each.by_checks for each in good),
        "false_positive_rate": alarms / len(good) if good else None,
        "false_positive_interval": wilson(alarms, len(good)),
        "found": found,
        "found_by_gates": sum(each.by_gates for each in bad),
        "found_by_checks": sum(each.by_checks for each in bad),
        "recall": found / len(bad) if bad else None,
        "recall_interval": wilson(found, len(bad)),
        # By the first check that rejected the text, and by all that did.
        "found_by": _by_check(each.bad[:1] for each in bad),
        "rejected_by": _by_check(each.bad for each in bad),
        "false_positives_by": _by_check(each.bad[:1] for each in good),
    }


def _by_check(records: Iterable[Sequence[CheckRecord]]) -> dict[str, int]:
    names = Counter(one.check for some in records for one in some)
    return dict(names.most_common())


def heavy_report(result: Mapping[str, Any], table: Callable[[Any], Iterator[str]]) -> Iterator[str]:
    """The result as lines for a person: by class what the gates find, what the checks find of the
    rest, and both."""
    head = "CLASS,GOOD,BY GATES,BY CHECKS,BAD,BY GATES,BY CHECKS,BOTH,RECALL,CHECKS"
    rows: list[tuple[str, ...]] = [tuple(head.split(","))]
    for kind, of in [*result["by_class"].items(), ("all", result)]:
        by = of["found_by"] or of["false_positives_by"]
        checks = ", ".join(f"{check} {count}" for check, count in by.items()) or "-"
        rows.append(
            (
                kind,
                str(of["n_good"]),
                str(of["false_positives_of_gates"]),
                str(of["false_positives_of_checks"]),
                str(of["n_bad"]),
                str(of["found_by_gates"]),
                str(of["found_by_checks"]),
                str(of["found"]),
                percent(of["recall"]),
                checks if of["found_by"] else f"false: {checks}" if by else "-",
            )
        )
    yield from table(rows)
    yield ""
    yield f"recall               {with_interval(result['recall'], result['recall_interval'])}"
    rate = with_interval(result["false_positive_rate"], result["false_positive_interval"])
    yield f"false positive rate  {rate}"
    speed = result["texts_per_second"]
    shown = "-" if speed is None else f"{speed:.2f}"
    yield f"speed of the checks  {shown} texts a second over {result['examined']} texts"
    for check, count in result["failed"].items():
        yield f"could not be made    {check}, of {count} texts"


def heavy_mistakes(examined: Iterable[Examined]) -> Iterator[dict[str, Any]]:
    """What neither gates nor checks found, and good texts that either harmed, in order, each with
    the first span marked."""
    for each in examined:
        if not each.wrong:
            continue
        line, finding = each.judged.line, each.judged.finding
        check = each.bad[0] if each.bad else None
        spans = check.evidence if check is not None else ()
        span = finding.chars if finding is not None else None
        if finding is None and spans:
            start, end = spans[0].chars
            span = (start, end)
        flaw = finding.flaw if finding is not None else check.flaw if check is not None else None
        by = finding if finding is not None else check
        yield {
            "id": line.id,
            "label": line.label,
            "class": line.kind,
            "mistake": mistake(each.judged),
            "flaw": flaw.value if flaw is not None else None,
            "chars": span,
            "detail": by.detail if by is not None else None,
            "checks": [one.check for one in each.bad],
            "text": marked(each.judged.text, span),
        }
