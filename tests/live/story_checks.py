"""What must be true of a job's story, whichever check found what was wrong."""

from datetime import datetime

from sluicegate.rollback import attempt_seed
from sluicegate.schemas import AttemptRecord, CheckRecord, Finished, Judged, Retrying
from sluicegate.schemas.limits import MAX_QUOTE_CHARS
from sluicegate.schemas.topology import RUNGS

from .checks_bench import Story
from .wrong_answers import Case


def check_rejection(record: AttemptRecord, case: Case) -> None:
    """The attempt said what it was made to say, no gate stopped it, and the right check, and none
    before it, found what is wrong, and where."""
    assert record.text == case.wrong
    assert record.text_chars == len(case.wrong)
    assert record.finish_reason == "stop"
    assert all(trip.action == "note" for trip in record.trips)
    assert (record.flaw, record.found_by) == (case.flaw, case.check)
    verdict = record.verdict
    assert verdict is not None
    assert verdict.outcome == "rejected"
    assert verdict.flaws() == (case.flaw,)
    found = next(each for each in verdict.checks if each.check == case.check)
    assert found == verdict.worst()
    check_numbers(found)
    check_evidence(found, case)


def check_numbers(found: CheckRecord) -> None:
    """What a measure rejects is on the wrong side of its threshold."""
    if found.check in ("json", "must_include"):
        assert found.score is None
        return
    assert found.score is not None
    assert found.threshold is not None
    assert (found.score < found.threshold) == (found.check == "relevance")


def check_evidence(found: CheckRecord, case: Case) -> None:
    """It is where the text is wrong, and the quotes are what stands there."""
    assert found.detail
    assert found.evidence
    for each in found.evidence:
        start, end = each.chars
        if end - start <= MAX_QUOTE_CHARS:
            assert each.quote == case.wrong[start:end]
        else:
            assert each.quote[:50] == case.wrong[start : start + 50]
    places = [case.wrong[slice(*each.chars)] for each in found.evidence]
    if case.place:
        assert any(case.place in place for place in places)
        assert case.wrong not in places
    else:
        assert places == [case.wrong]


def check_attempts(job_id: str, attempts: tuple[AttemptRecord, ...]) -> None:
    """One after the other, each with a seed of its own, and with who did it when and with what."""
    numbers = [record.attempt for record in attempts]
    assert numbers == list(range(1, len(attempts) + 1))
    seeds = [record.segments[0].seed for record in attempts]
    assert seeds == [attempt_seed(job_id, None, number) for number in numbers]
    assert len(set(seeds)) == len(seeds)
    last: datetime | None = None
    for record in attempts:
        assert record.worker == "worker-1"
        assert record.engine.startswith("vllm ")
        assert record.model
        assert record.usage.completion_tokens > 0
        assert record.ended_at is not None
        assert record.started_at <= record.ended_at
        assert last is None or last < record.started_at
        last = record.ended_at
        assert record.verdict is not None
        assert record.verdict.checker == "checker-1"
        assert record.verdict.at >= record.ended_at


def check_events(story: Story) -> None:
    """A backend sees every verdict, every retry, and the end."""
    *earlier, last = story.attempts
    kinds = [event.kind for event in story.events]
    again = ["accepted", "judged", "retrying"]
    assert kinds == [*(again * len(earlier)), "accepted", "judged", "finished"]
    events = [(event.attempt, event.event) for event in story.events]
    judged = {number: each.verdict for number, each in events if isinstance(each, Judged)}
    assert judged == {record.attempt: record.verdict for record in story.attempts}
    retries = {number: each for number, each in events if isinstance(each, Retrying)}
    for record in earlier:
        told = retries[record.attempt]
        assert told.next_attempt == record.attempt + 1
        assert told.detail == record.detail
        assert 0 < told.wait_s <= min(RUNGS.values())
    assert events[-1] == (last.attempt, Finished(outcome=story.result.outcome))
