"""A yes or no, and what becomes of the job by it: pure."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from sluicegate.schemas import decode, encode
from sluicegate.schemas.agents import AgentContext, Execution
from sluicegate.schemas.tools import ToolCall
from sluicegate.worker.agent.deciding import Verdict, decided, expired, soonest, waiting

from .waiting_jobs import call, context, done, now, states

VERDICTS: tuple[Verdict, ...] = ("approved", "denied", "timed_out")
kinds = st.lists(st.sampled_from(["waits", "free", "done", "denied"]), min_size=1, max_size=6)


def made(kind: str, number: int) -> ToolCall:
    effect_id = f"job-1:2:{number}"
    match kind:
        case "waits":
            return call(effect_id, 100.0 + number)
        case "free":
            return call(effect_id, None)
        case "done":
            return done(effect_id)
        case _:
            given = call(effect_id)
            assert given.approval is not None
            return structs.replace(given, approval=structs.replace(given.approval, state="denied"))


@given(kinds, st.sets(st.integers(0, 7)), st.sampled_from(VERDICTS), st.booleans())
def test_only_what_waits_and_is_meant_is_decided(
    given_kinds: list[str], chosen: set[int], verdict: Verdict, meant_all: bool
) -> None:
    before = context("job-1", *(made(kind, number) for number, kind in enumerate(given_kinds)))
    meant = None if meant_all else {f"job-1:2:{number}" for number in chosen}
    at = now()
    after = decided(before, meant, verdict, by="kim", why="so", now=at)
    assert decode(encode(after), AgentContext) == after
    assert after.revision == before.revision + 1
    old_calls, calls = before.execution.rounds[-1].calls, after.execution.rounds[-1].calls
    for number, (kind, old, new) in enumerate(zip(given_kinds, old_calls, calls, strict=True)):
        if kind != "waits" or (meant is not None and number not in chosen):
            assert new == old
            continue
        assert old.approval is not None
        answer = structs.replace(old.approval, state=verdict, by="kim", why="so", at=at)
        assert new == structs.replace(old, approval=answer)
    left = [one.call.effect_id for one in waiting(after)]
    was = [one.call.effect_id for one in waiting(before)]
    assert left == ([] if meant is None else [each for each in was if each not in meant])
    waits = after.orchestration
    if left:
        assert waits == before.orchestration
        return
    since = before.orchestration.waiting_since
    assert since is not None
    assert (waits.phase, waits.waiting_since) == ("calling", None)
    assert waits.spent.waited_s == 10.0 + (at - since).total_seconds()
    assert structs.replace(waits.spent, waited_s=10.0) == before.orchestration.spent


@given(kinds)
def test_the_clock_of_the_waiting_calls(given_kinds: list[str]) -> None:
    before = context("job-1", *(made(kind, number) for number, kind in enumerate(given_kinds)))
    every = waiting(before)
    assert soonest(before) == min((one.expires_at for one in every), default=None)
    for one in every:
        moment = timedelta(microseconds=1)
        assert one.call.effect_id not in expired(before, one.expires_at - moment)
        assert one.call.effect_id in expired(before, one.expires_at)
        over = expired(before, one.expires_at)
        after = decided(before, over, "timed_out", now=one.expires_at)
        assert expired(after, one.expires_at) == ()


def test_a_call_that_was_closed_waits_for_nobody() -> None:
    """A job that is ended has its open calls answered, whatever anybody says later."""
    given_call = call("job-1:2:a", result=done("x").result)
    assert waiting(context("job-1", given_call)) == ()


def test_calls_of_every_round_are_seen() -> None:
    before = context()
    first, second = before.execution.rounds
    rounds = (structs.replace(first, calls=(call("job-1:1:a", 5),)), second)
    before = structs.replace(before, execution=Execution(rounds=rounds))
    assert [one.round for one in waiting(before)] == [1, 2]
    after = decided(before, {"job-1:1:a"}, "approved", now=now())
    assert [one.round for one in waiting(after)] == [2]
    assert states(after) == ["waiting"]


def test_a_job_that_is_being_ended_goes_on_ending() -> None:
    before = context()
    ending = structs.replace(before.orchestration, phase="finishing", waiting_since=None)
    after = decided(
        structs.replace(before, orchestration=ending), None, "denied", by="x" * 999, now=now()
    )
    assert after.orchestration == ending
    encode(after)  # and what is too long to be told is cut
