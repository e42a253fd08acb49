"""The count: each way in which a job can go wrong is seen, and nothing else is."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas import (
    Completed,
    DeadLetter,
    GenerationJob,
    GenerationResult,
    Reason,
    encode,
)
from sluicegate.schemas.dead_letters import Origin

from . import jobs
from .backend import published_in
from .journal import Journal, Line, Reader, What
from .report import Report, render, troubles
from .tally import Letter, Outcome, Tally, letter_in, outcome_in, tally

NAMES = st.integers(0, 5).map(lambda number: f"plain-1-{number}")
LINES = st.lists(
    st.builds(
        Line,
        at=st.just(0.0),
        what=st.sampled_from(["try", "stored", "refused", "unknown", "result"]),
        job=NAMES,
        attempt=st.integers(1, 2),
        outcome=st.just("completed"),
    ),
    max_size=40,
)
OUTCOMES = st.lists(
    st.builds(Outcome, job=NAMES, attempt=st.integers(1, 2), kind=st.just("completed"))
)


def story(*words: What, job: str = "plain-1-0", attempt: int = 1) -> list[Line]:
    return [
        Line(at=float(at), what=word, job=job, attempt=attempt, outcome="completed")
        for at, word in enumerate(words)
    ]


def done(job: str = "plain-1-0", attempt: int = 1, kind: str = "completed") -> Outcome:
    return Outcome(job=job, attempt=attempt, kind=kind, worker="worker-1")


def test_a_job_that_went_well() -> None:
    counted = tally(story("try", "stored", "result"), [done()], [])
    assert (counted.published, counted.acknowledged, counted.delivered) == (1, 1, 1)
    assert counted.ok
    assert counted.outcomes == {"completed": 1}


def test_a_lost_job() -> None:
    counted = tally(story("try", "stored"), [], [])
    assert counted.lost == ["plain-1-0"]
    assert not counted.parked
    assert not counted.ok


def test_a_result_that_was_published_and_never_came_is_lost() -> None:
    assert tally(story("try", "stored"), [done()], []).lost == ["plain-1-0"]


def test_a_job_that_the_broker_put_with_the_dead_letters_by_itself() -> None:
    counted = tally(story("try", "stored"), [], [Letter(job="plain-1-0")])
    assert counted.parked == ["plain-1-0"]
    assert counted.unexplained == ["dead letter of plain-1-0: by the broker"]


def test_a_duplicate_under_the_same_attempt_is_marked() -> None:
    counted = tally(story("try", "stored", "result"), [done(), done()], [])
    assert (counted.marked, counted.marked_reached, counted.unmarked) == (1, 0, [])
    assert counted.ok
    twice = tally(story("try", "stored", "result", "result"), [done()], [])
    assert (twice.marked, twice.marked_reached) == (0, 1)
    assert twice.ok


def test_two_attempts_that_both_have_a_result_are_not() -> None:
    counted = tally(story("try", "stored", "result"), [done(), done(attempt=2)], [])
    assert counted.unmarked == ["plain-1-0"]
    assert not counted.ok


def test_a_publish_that_was_refused_must_have_no_result() -> None:
    assert tally(story("try", "refused", "result"), [done()], []).unexpected == ["plain-1-0"]
    assert tally([], [done("plain-1-9")], []).unexpected == ["plain-1-9"]
    assert tally(story("try", "refused"), [], []).refused == 1
    assert tally(story("try", "refused", "try", "stored", "result"), [done()], []).ok


def test_a_publish_of_unknown_outcome_may_have_one() -> None:
    for tried in (story("try", "unknown"), story("try")):
        counted = tally([*tried, *story("result")], [done()], [])
        assert (counted.recovered, counted.ok) == (1, True)
        assert tally(tried, [], []).ok


def test_outcomes_that_do_not_fit_the_job() -> None:
    failed = tally(story("try", "stored", "result"), [done(kind="failed")], [])
    assert failed.unexplained == ["plain-1-0 attempt 1: failed by worker-1"]
    dated = story("try", "stored", "result", job="dated-1-0")
    expired = [done("dated-1-0", kind="expired")]
    assert not tally(dated, expired, []).ok
    assert tally(dated, expired, [], frozenset({"worker-1"})).ok


def test_a_text_that_is_not_what_the_script_says_is_told() -> None:
    lines = story("try", "stored", "result")
    text = jobs.text_in("plain-1-0", 1) or ""
    for wrong in ("", text[:-1], text + text, text.replace("1-0", "1-1")):
        outcome = msgspec.structs.replace(done(), text=wrong)
        assert len(tally(lines, [outcome], [], scripted=True).unexplained) == 1
        assert tally(lines, [outcome], []).ok
    assert tally(lines, [msgspec.structs.replace(done(), text=text)], [], scripted=True).ok
    assert jobs.text_in("again-1-0", 2) != jobs.text_in("again-1-0", 1)


def test_dead_letters_are_explained_by_their_job() -> None:
    hopeless = Letter(job="hopeless-1-0", reason="checks_rejected", worker="checker-1")
    assert tally([], [], [hopeless]).ok
    stray = Letter(job="plain-1-0", reason="checks_rejected", worker="checker-1")
    assert not tally([], [], [stray]).ok
    round_ = Letter(job="agent-1-0:1:r1", reason="deadline_passed", worker="worker-2")
    assert not tally([], [], [round_]).ok
    assert tally([], [], [round_], frozenset({"agent-1"})).ok


def test_effects_that_happen_twice() -> None:
    assert tally([], [], [], effects=["put a", "put a", "pay a"]).ok
    assert tally([], [], [], effects=["pay a", "pay a"]).effects_doubled == ["pay a"]


@given(
    LINES,
    st.lists(st.builds(Outcome, job=NAMES, attempt=st.integers(1, 2), kind=st.just("completed"))),
)
def test_the_counts_add_up(lines: list[Line], published: list[Outcome]) -> None:
    counted = tally(lines, published, [])
    tried = {line.job for line in lines if line.what == "try"}
    assert counted.published == len(tried)
    assert counted.acknowledged - len(counted.lost) + counted.recovered <= counted.delivered
    assert set(counted.lost).isdisjoint(line.job for line in lines if line.what == "result")
    keys = {(each.job, each.attempt) for each in published}
    assert counted.marked == len(published) - len(keys)
    assert {*counted.unexpected} >= {each.job for each in published} - tried


def test_messages_are_read() -> None:
    now = datetime.now(UTC)
    result = GenerationResult(
        job_id="plain-1-0", attempt=2, outcome=Completed(), worker="w", finished_at=now
    )
    assert outcome_in(encode(result)) == Outcome(
        job="plain-1-0", attempt=2, kind="completed", worker="w"
    )
    letter = DeadLetter(
        job_id="plain-1-0",
        reason=Reason.CHECKS_REJECTED,
        detail="d",
        at=now,
        origin=Origin(stage="check", worker="c", queue="q"),
        result=result,
    )
    assert letter_in(encode(letter), "dead_letter") == Letter(
        job="plain-1-0", reason="checks_rejected", worker="c", has_result=True
    )
    raw = encode(GenerationJob(id="plain-1-0", prompt="x"))
    assert letter_in(raw, "generation_job") == Letter(job="plain-1-0")


def test_a_journal_outlives_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    first, second = story("try", "stored")
    journal, reader = Journal(file), Reader(file)
    assert reader.new() == []
    journal.write(first)
    assert reader.new() == [first]
    with file.open("ab") as half:
        half.write(b'{"at":1.0,"what":"sto')
    assert reader.new() == []
    journal.write(second)
    assert reader.new() == [second]
    assert published_in(file) == {0}
    for line in story("refused"):
        journal.write(line)
    assert published_in(file) == set()
    journal.close()


def test_the_mix_is_drawn_from_the_seed() -> None:
    drawn = [jobs.kind_of(3, number, jobs.SCRIPTED) for number in range(2_000)]
    assert drawn == [jobs.kind_of(3, number, jobs.SCRIPTED) for number in range(2_000)]
    assert set(drawn) == set(jobs.SCRIPTED)
    for number in range(50):
        kind = jobs.kind_of(3, number, jobs.SCRIPTED)
        assert jobs.kind_in(jobs.make(3, number, kind, 100).id) == kind


def _report(counted: Tally) -> Report:
    return Report(
        seed=1,
        engine="scripted",
        jobs=1,
        seconds=1.0,
        faults=[],
        tally=counted,
        left={},
        grown=[],
        ended=[],
        quiet=True,
    )


def test_the_report_says_what_did_not_hold() -> None:
    good = _report(tally(story("try", "stored", "result"), [done()], []))
    assert good.ok
    assert not list(troubles(good))
    bad = _report(tally(story("try", "stored"), [done("plain-1-9")], []))
    assert not bad.ok
    assert {line.partition(":")[0] for line in troubles(bad)} == {"lost", "unexpected"}
    assert not msgspec.structs.replace(good, left={"q": 1}).ok
    assert not msgspec.structs.replace(good, quiet=False).ok
    assert any(line.startswith("| 1 | scripted | 1 | 1 | 1 | 1 |") for line in render(good))
