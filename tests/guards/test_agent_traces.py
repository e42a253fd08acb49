"""Watchdog and breaker on traces: no healthy job is ended, and loops are stopped soon."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from sluicegate.guards.watchdog_thresholds import watchdog
from sluicegate.ops.agent_trace_words import DEV, HELD_OUT, Words
from sluicegate.ops.agent_traces import BadTrace, Trace, read_traces, samples, write_traces
from sluicegate.ops.agent_traces_made import made
from sluicegate.ops.evaluation_agents import SOON, follow, judge_traces, summary

DATA = Path(__file__).parent.parent / "data"
FILES = {"agent_traces.jsonl": DEV, "agent_traces_held_out.jsonl": HELD_OUT}


def traces(name: str) -> list[Trace]:
    with (DATA / name).open("rb") as file:
        return read_traces(file)


@pytest.mark.parametrize(("name", "words"), FILES.items())
def test_the_files_are_what_is_made(name: str, words: Words) -> None:
    assert (DATA / name).read_bytes() == write_traces(made(words))


@pytest.mark.parametrize("name", FILES)
def test_there_are_enough_of_both(name: str) -> None:
    found = traces(name)
    looping = [trace for trace in found if trace.looping]
    assert len(found) >= 60
    assert abs(2 * len(looping) - len(found)) <= 10
    assert len({trace.id for trace in found}) == len(found)
    # A loop goes on long enough to be missed.
    assert all(trace.onset and len(trace.rounds) >= trace.onset + SOON for trace in looping)


@pytest.mark.parametrize("name", FILES)
def test_the_requirement(name: str) -> None:
    result = summary(judge_traces(traces(name)))
    assert result["healthy_ended"] == 0
    assert result["healthy_tools_spent"] == 0
    assert result["stopped_soon"] >= 0.95 * result["looping"]


@given(seed=st.integers(0, 2**32), held_out=st.booleans())
@settings(max_examples=5, deadline=None, derandomize=True)
def test_it_is_no_chance(seed: int, held_out: bool) -> None:
    """With other draws of the same words, too."""
    words = structs.replace(HELD_OUT if held_out else DEV, seed=seed)
    result = summary(judge_traces(made(words)))
    assert result["healthy_ended"] == 0
    assert result["healthy_tools_spent"] == 0
    assert result["stopped_soon"] >= 0.95 * result["looping"]


@pytest.mark.parametrize("name", FILES)
def test_each_names_its_tools(name: str) -> None:
    """And has no other that it might call when those are taken away."""
    for trace in traces(name):
        called = {call.tool for each in trace.rounds for call in each.calls}
        assert {spec.name for spec in trace.tools} <= called


@pytest.mark.parametrize("name", FILES)
def test_the_specification_as_worded_does_worse(name: str) -> None:
    """The baseline ends healthy jobs and misses loops."""
    result = summary(judge_traces(traces(name), as_worded=True))
    assert result["healthy_ended"] > 0
    assert result["stopped_soon"] < 0.5 * result["looping"]


def test_two_jobs_share_nothing() -> None:
    """Side by side or one after the other, each is judged as if it were alone."""
    some = [trace for trace in traces("agent_traces.jsonl") if trace.id.endswith("-1")]
    once = [follow(trace, watchdog(trace.task_type)) for trace in some]
    again = [follow(trace, watchdog(trace.task_type)) for trace in reversed(some)]
    assert once == again[::-1]


def test_a_recovery() -> None:
    """A warned one that goes another way is normal again, and is not ended by its next mistake."""
    (loop,) = [trace for trace in traces("agent_traces.jsonl") if trace.id == "same call-1"]
    (good,) = [trace for trace in traces("agent_traces.jsonl") if trace.id == "forty files-1"]
    mixed = Trace(
        id="mixed",
        kind="mixed",
        looping=False,
        tools=loop.tools,
        rounds=(*loop.rounds[:4], *good.rounds[:5], *loop.rounds[:1], *good.rounds[5:9]),
    )
    done = follow(mixed, watchdog())
    assert done.warned == (3, 4)
    assert done.ended is None


def test_waiting_in_the_queue_is_not_the_rounds_own() -> None:
    (slow,) = [trace for trace in traces("agent_traces.jsonl") if trace.id == "slow rounds-1"]
    ours = [sample.wall_s for sample in samples(slow, watchdog())]
    worded = [sample.wall_s for sample in samples(slow, watchdog(as_worded=True))]
    assert max(ours) == 100
    assert min(worded) == 305


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "line 2: Input data was truncated"),
        (b'{"id": "a", "kind": "b", "looping": true}', "line 2: Object missing required field"),
        (
            b'{"id": "a", "kind": "b", "looping": false, "onset": 1, "rounds": [{}]}',
            "line 2: a healthy trace has no onset",
        ),
        (
            b'{"id": "a", "kind": "b", "looping": true, "onset": 2, "rounds": [{}]}',
            "line 2: the onset is behind the last round",
        ),
        (b'{"id": "a", "kind": "b", "looping": true, "round": []}', "line 2: Object contains"),
        (b"\xff", "line 2: "),
    ],
)
def test_lines_that_are_no_trace(line: bytes, problem: str) -> None:
    with pytest.raises(BadTrace) as raised:
        read_traces([b"\n", line])
    assert str(raised.value).startswith(problem)
