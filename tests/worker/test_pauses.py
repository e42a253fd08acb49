"""What is paused, by what was said: pure."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas import CancelJob, Pause, Resume, Target
from sluicegate.worker.cancellations import Cancellations
from sluicegate.worker.pauses import Pauses, told

NOW = datetime(2031, 5, 1, tzinfo=UTC)
BATCH = "s.jobs.batch"
TARGETS = (
    Target("all"),
    Target("kind", "worker"),
    Target("kind", "checker"),
    Target("service", "w1"),
    Target("service", "w2"),
    Target("queue", BATCH),
    Target("queue", "s.checks"),
)
OURS = {Target("all"), Target("kind", "worker"), Target("service", "w1"), Target("queue", BATCH)}


def seconds(count: int) -> datetime:
    return NOW + timedelta(seconds=count)


said = st.lists(
    st.tuples(st.sampled_from(TARGETS), st.sampled_from([None, 5, 50]), st.booleans()),
    max_size=12,
)


@given(said)
def test_what_was_said_last_of_a_target_holds(
    messages: list[tuple[Target, int | None, bool]],
) -> None:
    """Against a plain reading of the list: for each target its last pause, not lifted behind it,
    and not over."""
    pauses = Pauses("w1", "worker")
    expected: dict[Target, int | None] = {}
    for number, (target, until_s, lifts) in enumerate(messages):
        at = seconds(number)
        if lifts:
            pauses.hear(Resume(target=target, at=at), at)
            expected = {} if target.scope == "all" else expected
            expected.pop(target, None)
        else:
            until = seconds(until_s) if until_s is not None else None
            pauses.hear(Pause(target=target, at=at, until=until), at)
            expected[target] = until_s
    now = seconds(20)
    in_force = {each for each, until_s in expected.items() if until_s is None or until_s > 20}
    assert {each.target for each in pauses.all(now)} == in_force
    assert (pauses.on(BATCH, now) is not None) == bool(in_force & OURS)
    ends = [until_s - 20 for until_s in expected.values() if until_s and until_s > 20]
    assert pauses.next_end(now) == min(ends, default=None)


def test_pauses_are_bounded_and_those_that_are_over_go_first() -> None:
    pauses = Pauses("w1", "worker", remember=3)
    pauses.hear(Pause(target=Target("service", "w1"), at=NOW), NOW)
    for number in range(10):
        short = Pause(target=Target("service", f"x{number}"), at=NOW, until=seconds(1))
        pauses.hear(short, seconds(2))
    assert pauses.on(BATCH, seconds(3)) is not None


def test_who_paused_what_and_why_is_one_sentence() -> None:
    pause = Pause(target=Target("queue", BATCH), at=NOW, until=NOW, by="me", reason="rush hour")
    sentence = told(pause)
    assert sentence == f"paused (queue {BATCH}) by me until {NOW.isoformat()}: rush hour"


def test_a_cancellation_covers_what_was_published_before_it() -> None:
    known = Cancellations()
    known.hear(CancelJob(job_id="a", at=NOW))
    assert known.covers("a", NOW)
    assert known.covers("a", None)
    assert not known.covers("a", seconds(1))
    assert not known.covers("b", NOW)


def test_one_that_is_heard_as_it_is_said_counts_by_the_later_clock() -> None:
    known = Cancellations()
    known.hear(CancelJob(job_id="a", at=seconds(-30)), now=NOW)
    assert known.covers("a", seconds(-10))
    assert not known.covers("a", seconds(1))


@given(st.lists(st.integers(0, 20), max_size=60))
def test_of_cancellations_the_newest_are_remembered(ids: list[int]) -> None:
    known = Cancellations(remember=5)
    for each in ids:
        known.hear(CancelJob(job_id=str(each), at=NOW))
    newest = list(dict.fromkeys(reversed(ids)))[:5]
    assert {each for each in range(21) if known.covers(str(each), NOW)} == set(newest)
