"""The trace of an agent job: what is read from the journal's lines, and how it is drawn."""

import unicodedata
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops.agent_text import told_once
from sluicegate.ops.agent_trace import Growing, drawn, waiting_line
from sluicegate.ops.agent_trace_read import PATIENCE_S, Trace, gather, of_scene
from sluicegate.ops.agent_trace_source import with_scene
from sluicegate.ops.columns import columns
from sluicegate.schemas import (
    AgentContext,
    AgentRecord,
    Approval,
    Assessment,
    Decision,
    JournalEntry,
    ParseFailure,
    Reason,
    Round,
    Stop,
    ToolCall,
    ToolResult,
    ToolStatus,
    Usage,
)
from sluicegate.schemas.agents import (
    Begun,
    Closed,
    Dispatched,
    Ended,
    Entry,
    Finding,
    Memory,
    Returned,
    effect_id,
    round_job_id,
)

from ..worker.agent.contexts import START, a_round, call, context

replace = msgspec.structs.replace
JOB = context().job


class Lines:
    """Writes a journal."""

    def __init__(self, attempt: int = 1) -> None:
        self.job = replace(JOB, attempt=attempt)
        self.written: list[JournalEntry] = []

    def write(self, entry: Entry, by: str = "a1") -> None:
        at = START + timedelta(seconds=len(self.written))
        self.written.append(JournalEntry(job_id=self.job.id, at=at, by=by, entry=entry))

    def call(self, number: int, index: int = 0, **fields: Any) -> ToolCall:
        made = call(number, index, **fields)
        return replace(made, effect_id=effect_id(self.job, number, index))

    def dispatch(self, number: int, one: ToolCall) -> None:
        self.write(Dispatched(effect_id=one.effect_id, round=number, call=one))

    def close(self, number: int, *calls: ToolCall, **fields: Any) -> Round:
        this = a_round(number, *calls, job_id=round_job_id(self.job, number), **fields)
        self.write(Closed(round=this))
        return this

    def end(self, *rounds: Round, outcome: str = "completed", **fields: Any) -> AgentContext:
        at_end = replace(context(*rounds), job=self.job)
        record: AgentRecord = fields.pop("record", AgentRecord(rounds=len(rounds)))
        if (stop := fields.pop("stop", None)) is not None:
            at_end = replace(
                at_end, orchestration=replace(at_end.orchestration, stop=stop, phase="finishing")
            )
        if (memory := fields.pop("memory", None)) is not None:
            at_end = replace(at_end, execution=replace(at_end.execution, memory=memory))
        self.write(Ended(context=at_end, outcome=outcome, record=record, **fields))
        return at_end


def only(lines: Lines) -> Trace:
    (trace,) = gather(JOB.id, lines.written)
    return trace


def text(trace: Trace, **how: Any) -> str:
    return "\n".join(drawn(trace, **how))


# --- reading ---


def test_a_call_that_came_back_is_known_before_its_round_is_closed() -> None:
    lines = Lines()
    one = lines.call(1, status=None)
    lines.dispatch(1, one)
    result = ToolResult(status=ToolStatus.OK, content="42", seconds=0.5)
    lines.write(Returned(effect_id=one.effect_id, result=result))
    (this,) = only(lines).rounds
    assert this.round is None
    assert [each.call.result for each in this.calls] == [result]
    assert not this.calls[0].lost


def seen(lines: Lines, after_s: float) -> Trace:
    """So long after the first line."""
    (trace,) = gather(JOB.id, lines.written, START + timedelta(seconds=after_s))
    return trace


def test_a_call_that_may_still_run_is_no_lost_one() -> None:
    lines = Lines()
    lines.dispatch(1, lines.call(1, status=None))
    (one,) = seen(lines, 3).rounds[0].calls
    assert (one.running_s, one.lost) == (3, False)
    said = text(seen(lines, 3))
    assert said.count("for 3 s") == 2
    assert "running for 3 s" in said
    assert "unknown" not in said
    assert "not over" in said
    assert "running for 5 min" in text(seen(lines, 300))
    # Clocks differ.
    assert seen(lines, -2).rounds[0].calls[0].running_s == 0


def test_a_call_that_never_came_back_is_unknown_after_all_its_time() -> None:
    lines = Lines()
    lines.dispatch(1, lines.call(1, status=None))
    trace = seen(lines, PATIENCE_S)
    (one,) = trace.rounds[0].calls
    assert (one.running_s, one.lost) == (None, True)
    assert text(trace).count("nothing came back") == 2
    (sooner,) = gather(JOB.id, lines.written, START + timedelta(seconds=3), patience_s=2)
    assert sooner.rounds[0].calls[0].lost


def test_a_call_without_which_the_job_went_on_is_unknown() -> None:
    later, over, again, alone = Lines(), Lines(), Lines(2), Lines()
    for lines in (later, over, alone):
        lines.dispatch(1, lines.call(1, status=None))
    later.dispatch(2, later.call(2, status=None))
    over.end()
    again.write(Begun(job=again.job))
    calls = [
        only(later).rounds[0].calls[0],
        only(over).rounds[0].calls[0],
        gather(JOB.id, [*alone.written, *again.written])[0].rounds[0].calls[0],
        with_scene([only(alone)], of_scene(context(), "died"))[0].rounds[0].calls[0],
    ]
    assert [(one.lost, one.running_s) for one in calls] == [(True, None)] * 4
    assert only(later).rounds[1].calls[0].running_s == 0
    assert only(alone).rounds[0].calls[0].running_s == 0


def test_a_job_that_runs_says_what_is_asked_for() -> None:
    lines = Lines()
    lines.write(Begun(job=lines.job))
    trace = only(lines)
    assert (trace.job, trace.rounds) == (lines.job, ())
    for part in ("task ", lines.job.task, ", ".join(lines.job.tools), "200,000 tokens"):
        assert part in text(trace), part


def test_a_call_that_was_made_twice_says_so() -> None:
    lines = Lines()
    one = lines.call(1)
    lines.dispatch(1, one)
    lines.dispatch(1, one)
    lines.close(1, one)
    assert only(lines).rounds[0].calls[0].dispatched == 2
    assert "made 2 times" in text(only(lines))


def test_a_round_that_was_written_twice_is_one() -> None:
    lines = Lines()
    lines.close(1)
    lines.close(1)
    (this,) = only(lines).rounds
    assert this.closed == 2
    assert "written 2 times" in text(only(lines))


def test_an_end_that_was_written_twice_says_so() -> None:
    lines = Lines()
    this = lines.close(1)
    lines.end(this)
    assert "written" not in text(only(lines))
    lines.end(this, text="the later one")
    said = text(only(lines))
    assert "its end was written 2 times" in said
    assert "the later one" in said


def test_attempts_are_apart() -> None:
    first, second = Lines(1), Lines(2)
    first.close(1)
    second.close(1)
    second.close(2)
    one, two = gather(JOB.id, [*first.written, *second.written])
    assert [(each.attempt, len(each.rounds)) for each in (one, two)] == [(1, 1), (2, 2)]
    assert "attempt 2" in text(two)
    assert "attempt" not in text(one)


def test_the_end_has_what_the_journal_forgot() -> None:
    lines = Lines()
    early, late = a_round(1), a_round(2)
    lines.end(early, late)
    assert [each.number for each in only(lines).rounds] == [1, 2]


def test_the_scene_of_a_dead_letter_is_a_trace() -> None:
    at_end = context(a_round(1), a_round(2))
    trace = of_scene(at_end, "tool_unavailable: no tool fly")
    assert [each.number for each in trace.rounds] == [1, 2]
    said = text(trace)
    assert "from its dead letter" in said
    assert "no tool fly" in said


def test_a_dead_letter_completes_the_attempt_it_is_of() -> None:
    scene = replace(context(a_round(1), a_round(2)), job=replace(JOB, attempt=2))
    dead = of_scene(scene, "delivery_limit: too often")
    first, second, third = Lines(1), Lines(2), Lines(3)
    for lines in (first, second, third):
        lines.close(1)
    one, two, three = map(only, (first, second, third))
    assert with_scene([], dead) == [dead]
    assert with_scene([one], None) == [one]
    assert with_scene([one], dead) == [one, dead]
    completed = with_scene([one, two], dead)
    assert [each.why for each in completed] == ["", dead.why]
    assert completed[1].rounds == two.rounds
    assert "died after 2 rounds" in text(completed[1])
    # It has been sent back since.
    assert with_scene([two, three], dead) == [two, three]


def test_no_line_is_no_trace() -> None:
    assert gather("x", []) == []


# --- drawing ---


def test_a_round_shows_calls_scores_state_and_tokens() -> None:
    lines = Lines()
    denied = replace(
        lines.call(1, 1, name="pay", status=ToolStatus.DENIED, content="no"),
        approval=Approval(state="denied", expires_at=START, by="kim", why="too much"),
    )
    finding = Finding(
        metric="cycle", value=3, threshold=2, points=3, detail="you called it 3 times"
    )
    this = lines.close(
        1,
        lines.call(1, name="find", arguments={"q": "x"}),
        denied,
        usage=Usage(prompt_tokens=1_234, completion_tokens=56, wasted_tokens=7),
        engine_s=1.0,
        tools_s=0.25,
        assessment=Assessment(round=1, score=3, findings=(finding,)),
        decision=Decision(state="warning", warnings=1, degree="warn", because="circles"),
        reminder="Note: try another way.",
        degraded=True,
    )
    stop = Stop(reason=Reason.BREAKER_TRIPPED, detail="it went round in circles")
    record = AgentRecord(rounds=1, done=("found x",), not_done=("paid nobody",), stopped=stop)
    lines.end(this, outcome="partial", record=record, text="As far as I came.", stop=stop)
    said = text(only(lines))
    for part in (
        "round 1",
        "unused tools only",
        "1,234 in + 56 out + 7 lost, 1.25 s",
        'find {"q":"x"}',
        "denied",
        "approval denied by kim: too much",
        "3 = cycle 3",
        "you called it 3 times",
        "warning, 1 warning → warn",
        "Note: try another way.",
        "partial after 1 round",
        "breaker_tripped: it went round in circles",
        "found x",
        "paid nobody",
        "As far as I came.",
    ):
        assert part in said, part


def test_what_is_told_again_is_told_once() -> None:
    failed = "lookup Atlantis: it failed"
    told = ["round 1: a", *(f"round {n}: {failed}" for n in (2, 3, 5)), "plain", "round 6: a b"]
    assert told_once(told) == [
        "round 1: a",
        f"rounds 2 to 5 (×3): {failed}",
        "plain",
        "round 6: a b",
    ]
    assert told_once(["round 4: a", "round 4: a"]) == ["round 4 (×2): a"]
    assert told_once(["plain", "plain"]) == ["×2: plain"]
    lines = Lines()
    record = AgentRecord(rounds=5, not_done=tuple(told))
    lines.end(lines.close(1), outcome="partial", record=record)
    assert text(only(lines)).count(failed) == 1


def test_what_could_not_be_read_and_what_was_folded_is_shown() -> None:
    lines = Lines()
    failure = ParseFailure(kind="malformed", detail="no JSON", quote="{oops")
    this = lines.close(12, failure=failure)
    lines.end(this, memory=Memory(through=11, ledger_dropped=4))
    said = text(only(lines))
    assert "malformed: no JSON “{oops”" in said
    assert "rounds 1 to 11 were summed up" in said
    assert "4 more were dropped" in said


def test_colour_is_only_where_it_is_wanted() -> None:
    lines = Lines()
    this = lines.close(1, decision=Decision(state="tripped", warnings=3, degree="terminate"))
    lines.end(this, outcome="partial")
    assert "\x1b" not in text(only(lines))
    assert "\x1b[31m" in text(only(lines), colour=True)


def test_a_growing_job_is_drawn_once() -> None:
    lines = Lines()
    growing = Growing()
    rounds = [lines.close(1)]
    first = list(growing.more(only(lines)))
    lines.dispatch(2, lines.call(2, status=None))
    assert list(growing.more(only(lines))) == []
    rounds.append(lines.close(2))
    second = list(growing.more(only(lines)))
    lines.end(*rounds, text="done")
    third = list(growing.more(only(lines)))
    assert sum("round 1," in line for line in [*first, *second, *third]) == 1
    assert sum("round 2," in line for line in second) == 1
    assert any("completed after" in line for line in third)


HOSTILE = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\x1b\r\n\u202e\x9b世a ")),
    max_size=120,
)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_nothing_acts_on_the_terminal_and_nothing_is_too_wide(
    said: str, name: str, content: str
) -> None:
    lines = Lines()
    one = lines.call(1, name=name[:60], arguments={"x": said}, content="ok")
    # A body with control characters does not come from here; from elsewhere it may.
    one = replace(one, result=ToolResult(status=ToolStatus.ERROR, content=_clean(content)))
    this = lines.close(
        1,
        one,
        prose=said,
        reminder=content,
        failure=ParseFailure(kind="mixed", detail=content, quote=said),
        decision=Decision(state="warning", degree="warn", because=said),
        assessment=Assessment(
            round=1, score=3, findings=(Finding(metric=name[:60], value=1, threshold=1),)
        ),
    )
    record = AgentRecord(rounds=1, done=(said,), not_done=(content,))
    stop = Stop(reason=Reason.BUDGET_SPENT, detail=content)
    lines.end(this, outcome="partial", record=record, text=said, stop=stop)
    for line in (*drawn(only(lines)), waiting_line(name, {"x": said}, START)):
        assert columns(line) <= 80, line
        assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in line)
        assert "\u202e" not in line


def _clean(content: str) -> str:
    return "".join(char for char in content if char == "\n" or unicodedata.category(char) != "Cc")
