"""The watchdog: windows, metrics, points; asking changes nothing."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.signatures import argument_words, call_key, fingerprint
from sluicegate.guards.watchdog import SIZE, assess, size_points, watch
from sluicegate.guards.watchdog_rounds import asks_the_same
from sluicegate.guards.watchdog_samples import round_sample
from sluicegate.guards.watchdog_thresholds import Watchdog, watchdog
from sluicegate.schemas.agents import (
    Assessment,
    Budget,
    CallSample,
    Monitoring,
    ParseFailure,
    Round,
    RoundSample,
)
from sluicegate.schemas.tools import ToolCall, ToolResult, ToolSpec, ToolStatus
from sluicegate.schemas.usage import Usage

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
RULES = watchdog()
# Repetition counts from the first round on that brought nothing.
STRICT = watchdog(overrides={"news_rounds": 1})
SAID = (
    "Let me open the annual report on harbor tariffs and note the dates, the sums, the parties, "
    "the open questions, the sources, and whatever the port authority decided in spring."
)


def call(
    name: str = "read",
    argument: Any = "a.md",
    result: str = "",
    status: ToolStatus = ToolStatus.OK,
    **flags: bool,
) -> CallSample:
    arguments = {"x": argument}
    return CallSample(
        tool=name,
        key=call_key(name, arguments),
        fingerprint=fingerprint(result or f"result of {name} {argument}"),
        status=status,
        at=START,
        words=argument_words(arguments),
        **flags,
    )


Rounds = Sequence[Sequence[CallSample] | RoundSample]


def watched(
    rounds: Rounds, rules: Watchdog = RULES, *, every_s: float = 10.0, first: int = 1
) -> Monitoring:
    monitoring = Monitoring()
    for number, each in enumerate(rounds, first):
        at = START + timedelta(seconds=every_s * number)
        if isinstance(each, RoundSample):
            sample = msgspec.structs.replace(each, number=number, at=at)
        else:
            calls = tuple(msgspec.structs.replace(one, at=at) for one in each)
            sample = RoundSample(number=number, at=at, calls=calls)
        monitoring = watch(monitoring, sample, rules)
    return monitoring


def asked(
    rounds: Rounds, rules: Watchdog = RULES, budget: Budget | None = None, **how: Any
) -> Assessment:
    return assess(watched(rounds, rules, **how), rules, budget or Budget())


def points(assessment: Assessment) -> dict[str, int]:
    return {found.metric: found.points for found in assessment.findings}


def different(count: int) -> list[list[CallSample]]:
    return [[call(argument=f"{number}.md")] for number in range(count)]


def said(prose: str, *calls: CallSample, **more: Any) -> RoundSample:
    return RoundSample(number=0, at=START, prose=prose, calls=calls, **more)


names = st.sampled_from(["a", "b", "c"])
calls = st.builds(
    call,
    name=names,
    argument=st.sampled_from([1, 2, "harbor fees in Riga", "fees of Riga harbor"]),
    result=st.sampled_from(["", "ok", "long " * 200]),
    status=st.sampled_from(list(ToolStatus)),
    polls=st.booleans(),
    changes_state=st.booleans(),
)
samples = st.builds(
    said,
    st.sampled_from(["", SAID, SAID.replace("tariffs", "pilots"), "字" * 50]),
    failed=st.booleans(),
    tokens=st.integers(0, 10_000),
    wall_s=st.floats(0, 400),
).flatmap(
    lambda made: st.lists(calls, max_size=4).map(
        lambda some: msgspec.structs.replace(made, calls=tuple(some))
    )
)


@given(rounds=st.lists(samples, max_size=12), worded=st.booleans())
def test_asking_changes_nothing_and_the_sum_is_the_sum(
    rounds: list[RoundSample], worded: bool
) -> None:
    rules = watchdog(as_worded=worded)
    monitoring = watched(rounds, rules)
    before = msgspec.json.encode(monitoring)
    first = assess(monitoring, rules, Budget())
    assert assess(monitoring, rules, Budget()) == first
    assert msgspec.json.encode(monitoring) == before
    assert first.score == sum(found.points for found in first.findings)
    assert all(found.points and found.detail for found in first.findings)
    assert all(map(math.isfinite, first.measured.values()))
    assert 0 <= size_points(first) <= first.score
    assert not first.circling or any(found.metric not in SIZE for found in first.findings)
    # It is fit for the wire.
    assert msgspec.json.decode(msgspec.json.encode(first), type=Assessment) == first


@given(rounds=st.lists(samples, min_size=1, max_size=14), every=st.sampled_from([0.1, 5, 100]))
def test_what_the_windows_drop_was_not_needed(rounds: list[RoundSample], every: float) -> None:
    """Trimmed round by round, or held whole: the same is said."""
    rules = watchdog(overrides={"memory_rounds": 12})
    whole = tuple(
        msgspec.structs.replace(
            each,
            number=number,
            at=START + timedelta(seconds=every * number),
            calls=tuple(
                msgspec.structs.replace(one, at=START + timedelta(seconds=every * number))
                for one in each.calls
            ),
        )
        for number, each in enumerate(rounds, 1)
    )
    monitoring = Monitoring()
    for sample in whole:
        monitoring = watch(monitoring, sample, rules)
    trimmed = assess(monitoring, rules, Budget())
    kept = assess(Monitoring(samples=whole[-12:]), rules, Budget())
    for metric in ("cycle", "failures", "similarity", "round_seconds", "rounds"):
        assert trimmed.measured[metric] == kept.measured[metric]


def test_nothing_yet() -> None:
    assert assess(Monitoring(), RULES, Budget()) == Assessment(round=0)


def test_the_windows_are_bounded() -> None:
    many = tuple(call(argument=f"ask for number {n}") for n in range(64))
    monitoring = watched([said("x" * 20_000, *many)] * 100, every_s=0.1)
    assert len(monitoring.samples) == 64
    assert [bool(each.prose) for each in monitoring.samples] == [False] * 59 + [True] * 5
    assert max(len(each.prose) for each in monitoring.samples) <= 4_000
    worded = [any(one.words for one in each.calls) for each in monitoring.samples]
    assert worded == [False] * 56 + [True] * 8
    # Slow rounds leave the minute, and only the memory counts.
    assert len(watched(different(100), every_s=30).samples) == RULES.memory_rounds


# --- size


def test_rounds() -> None:
    assert points(asked(different(25))) == {}
    late = asked(different(26))
    assert points(late) == {"rounds": 3}
    assert not late.circling
    assert points(asked(different(13), watchdog("qa"))) == {"rounds": 3}


def test_calls_within_a_real_minute() -> None:
    three = [[call(argument=n) for n in range(3)]]
    # 72 a minute by their pace, three by the clock.
    assert asked(three).measured["calls_per_minute"] == 3
    assert points(asked(different(16), every_s=3)) == {"calls_per_minute": 1}
    # Of the last twenty four are older than a minute.
    assert asked(different(20), every_s=4).measured["calls_per_minute"] == 15
    worded = watchdog(overrides={"sliding_minute": False})
    pair = watched([[call(argument=1)], [call(argument=2)]], worded, every_s=2.5)
    assert assess(pair, worded, Budget()).measured["calls_per_minute"] == 48


def test_tokens_within_a_minute() -> None:
    budget = Budget(tokens=10_000)
    quick = [said("", tokens=2_000, wall_s=1.0)] * 3
    assert points(asked(quick, budget=budget, every_s=20)) == {
        "tokens_per_minute": 3,
        "failures": 3,
    }
    assert asked(quick, budget=budget, every_s=60).measured["tokens_per_minute"] == 2_000
    # A round of ten minutes has a tenth of its tokens in the last one.
    slow = [said("", tokens=9_000, wall_s=600.0)]
    assert asked(slow, budget=budget).measured["tokens_per_minute"] == 900


def test_seconds_of_a_round() -> None:
    assert points(asked([said("", call(), wall_s=90.0)])) == {}
    assert points(asked([said("", call(), wall_s=91.0)])) == {"round_seconds": 1}
    assert points(asked([said("", call(), wall_s=91.0)], watchdog("coding"))) == {}


# --- circling


def test_one_call_again_and_again() -> None:
    assert points(asked([[call()]] * 2)) == {}
    third = asked([[call()]] * 3)
    assert points(third) == {"cycle": 3}
    assert third.circling
    assert "read(x=a.md) 3 times in a row" in third.findings[0].detail
    assert points(asked([[call()]] * 9)) == {"cycle": 3, "repeat_rate": 2}


@pytest.mark.parametrize("period", [2, 3, 4, 5])
def test_cycles_are_found_when_they_came_twice(period: int) -> None:
    rounds = different(period) * 3
    for length in range(1, len(rounds)):
        assert ("cycle" in points(asked(rounds[:length]))) == (length >= 2 * period)


@given(
    before=st.integers(0, 8),
    period=st.integers(1, 3),
    width=st.integers(1, 3),
    shuffle=st.randoms(use_true_random=False),
)
def test_every_short_cycle_is_found_by_then(
    before: int, period: int, width: int, shuffle: Any
) -> None:
    loop = [[call(argument=f"{n}.{w}") for w in range(width)] for n in range(period)]
    rounds: list[list[CallSample]] = [[call(argument=-n - 1)] for n in range(before)]
    for n in range(max(3, 2 * period)):
        shuffled = list(loop[n % period])
        shuffle.shuffle(shuffled)
        rounds.append(shuffled)
    found = asked(rounds)
    assert found.circling
    assert points(found)["cycle"] == 3


def test_another_result_is_news() -> None:
    rounds = [[call("tests", "all", f"{n} failed")] for n in range(12)]
    assert points(asked(rounds)) == {}
    worded = watchdog(overrides={"results_count": False})
    assert points(asked(rounds, worded)) == {"cycle": 3, "repeat_rate": 2}


def test_what_is_declared_as_polling_is_legal() -> None:
    polls = [[call("status", polls=True)]] * 20
    assert points(asked(polls)) == {}
    assert asked(polls).measured["repeat_rate"] == 0
    assert points(asked([said(SAID, *each) for each in polls])) == {}
    worded = watchdog(overrides={"polling_is_legal": False})
    assert points(asked(polls, worded)) == {"cycle": 3, "repeat_rate": 2}
    # It is no excuse for what is done in between.
    assert "cycle" in points(asked([[call("status", polls=True)], [call()]] * 2))


def test_after_a_change_all_may_be_asked_again() -> None:
    def work(changes: int) -> list[list[CallSample]]:
        look = [call("read")]
        return [
            each
            for n in range(changes)
            for each in ([call("write", n, "ok", changes_state=True)], look)
        ]

    assert points(asked(work(8))) == {}
    assert asked(work(8)).measured["repeat_rate"] == 0
    worded = watchdog(overrides={"changes_renew": False})
    assert asked(work(8), worded).measured["repeat_rate"] == 0.5


def test_the_same_change_again_renews_nothing() -> None:
    same = [[call("write", 1, "ok", changes_state=True)], [call("read")]]
    assert "cycle" in points(asked(same * 3))
    # It may have done something each time, though it says no more than "ok".
    assert points(asked([same[0]] * 4)) == {}
    assert points(asked([same[0]] * 5)) == {"cycle": 3}


def test_a_change_that_was_refused_changed_nothing() -> None:
    refused = call("write", 1, status=ToolStatus.DENIED, changes_state=True)
    assert "cycle" in points(asked([[refused, call()]] * 3))


PARAPHRASES = (
    "harbor fees Hamburg container ships",
    "container ships: harbor fees in Hamburg",
    "what are the Hamburg harbor fees for container ships",
    "fees container ships pay, Hamburg harbor",
)


def test_the_same_in_other_words() -> None:
    rounds = [[call("search", query, "nothing")] for query in PARAPHRASES]
    assert points(asked(rounds)) == {"cycle": 3}
    assert points(asked(rounds[:3])) == {}
    # With other results it is research.
    rounds = [[call("search", query)] for query in PARAPHRASES]
    assert points(asked(rounds)) == {}
    rounds = [[call("search", query, "nothing")] for query in PARAPHRASES]
    assert points(asked(rounds, watchdog(overrides={"near_calls": False}))) == {}


@pytest.mark.parametrize(
    "questions",
    [
        ["find all documents about crane", "find all documents about dock", "... about quay"],
        [f"report number {n}" for n in range(6)],
        [f"src/{name}/__init__.py" for name in ("a", "b", "c", "d")],
        list(range(6)),
        [f"x = {n}" for n in range(6)],
        ["crane fees", "dock dues", "quay prices", "berth costs"],
        ["关于合同的文件", "关于发票的文件", "关于关税的文件"],
        [f"{'long ' * 100}{n}" for n in range(6)],
    ],
)
def test_other_questions_with_the_same_answer(questions: list[Any]) -> None:
    assert points(asked([[call("search", each, "nothing found")] for each in questions])) == {}


def test_what_acts_is_never_the_same_in_other_words() -> None:
    rounds = [[call("note", query, "ok", changes_state=True)] for query in PARAPHRASES]
    assert points(asked(rounds)) == {}


@pytest.mark.parametrize(
    "status",
    [ToolStatus.UNKNOWN_TOOL, ToolStatus.INVALID_ARGUMENTS, ToolStatus.QUOTA_SPENT],
)
def test_refusals_in_a_row(status: ToolStatus) -> None:
    rounds = [[call(f"tool{n}", n, status=status)] for n in range(4)]
    assert points(asked(rounds[:2])) == {}
    third = asked(rounds[:3])
    assert points(third) == {"failures": 3}
    assert third.circling
    # One call that ran ends the row.
    assert points(asked([*rounds[:3], [rounds[3][0], call()]])) == {}


def test_answers_that_can_not_be_read() -> None:
    assert points(asked([said("words", failed=True)] * 2)) == {}
    assert points(asked([said(f"{n} words", failed=True) for n in range(3)])) == {"failures": 3}
    # And announcements, behind which nothing is called.
    assert points(asked([said(f"{n} words") for n in range(3)])) == {"failures": 3}


def test_a_passing_error_is_tried_four_times() -> None:
    failed = [call(status=ToolStatus.ERROR, result="reset")]
    assert points(asked([failed] * 4)) == {}
    assert points(asked([failed] * 5)) == {"cycle": 3}
    assert "with the same error" in asked([failed] * 5).findings[0].detail
    assert points(asked([failed] * 4 + [[call()]])) == {}
    # With a pause between them, too.
    pause = [call("sleep", 5, "ok")]
    assert points(asked([failed, pause] * 2 + [failed])) == {}
    assert "cycle" in points(asked([failed, pause] * 4))


def test_errors_alone_whatever_is_tried() -> None:
    failed = [[call(argument=n, result="gone", status=ToolStatus.ERROR)] for n in range(8)]
    assert points(asked(failed[:7])) == {}
    eighth = asked(failed)
    assert points(eighth) == {"errors": 3}
    assert eighth.circling
    # One that worked ends the row, and a pause does not.
    assert points(asked([*failed[:4], [call()], *failed[4:]])) == {}
    assert points(asked([*failed[:4], [call("sleep", 1, "ok")], *failed[4:]])) == {"errors": 3}


def test_the_same_checks_behind_another_change_are_no_circle() -> None:
    """Whatever is declared of the tool that changes something."""
    for declared in (False, True):
        rounds = [
            each
            for n in range(8)
            for each in (
                [call("bash", f"sed {n}", "", changes_state=declared)],
                [call("bash", "lint", "fine", changes_state=declared)],
                [call("bash", "test", "3 failed", changes_state=declared)],
            )
        ]
        for length in range(1, len(rounds)):
            assert points(asked([said(SAID, *each) for each in rounds[:length]])) == {}


def test_all_is_checked_again_behind_a_change_that_nobody_declared() -> None:
    checks = different(6)
    rounds = [*checks, [call("fix", 1)], *checks, [call("fix", 2)], *checks]
    for length in range(1, len(rounds)):
        assert points(asked(rounds[:length])) == {}
    assert points(asked([*rounds, *checks]))["stale_rounds"] == 3


def test_a_pause_belongs_to_the_poll() -> None:
    for pause in (call("sleep", 30, "slept for 30 seconds"), call("hold", 30, "ok")):
        rounds = [[pause], [call("status", polls=True)]] * 12
        for length in range(1, len(rounds)):
            assert points(asked([said(SAID, *each) for each in rounds[:length]])) == {}
        # Alone it is none.
        assert "cycle" in points(asked([[pause]] * 5))
        assert "cycle" in points(asked([*rounds, *[[pause]] * 9]))


def test_a_key_is_pressed_again() -> None:
    press = [call("key", "PageDown", "ok", changes_state=True)]
    rounds = [each for n in range(6) for each in (press, press, press, [call("shot", n)])]
    for length in range(1, len(rounds)):
        assert points(asked(rounds[:length])) == {}
    assert "cycle" in points(asked([*rounds, *[press] * 5]))


def test_rounds_in_no_order_that_bring_nothing_new() -> None:
    a, b, c, d, e, f = different(6)
    rounds = [a, b, c, d, e, f, c, a, f, b, d, e, a, c]
    assert points(asked(rounds[:13])) == {}
    assert points(asked(rounds)) == {"repeat_rate": 2, "stale_rounds": 3}
    assert points(asked([*rounds, [call(argument="new")]])) == {}


# --- repeat rate


def test_the_repeat_rate_needs_a_sample_and_no_news() -> None:
    a, b, c, d = different(4)
    seven = [[*a, *a, *b, *b], [*c], [*d], [*d]]
    assert asked(seven).measured["repeat_rate"] == 0
    eight = [*seven, [*c]]
    assert asked(eight).measured["repeat_rate"] == 1
    # Two rounds behind the last news.
    assert points(asked(eight)) == {}
    strict = watchdog(overrides={"news_rounds": 2})
    assert points(asked(eight, strict)) == {"repeat_rate": 2}
    nine = asked([*eight, [call(argument="new")]], strict)
    assert (points(nine), nine.circling) == ({}, False)
    assert nine.measured["repeat_rate"] == pytest.approx(8 / 9, abs=1e-3)
    worded = watchdog(overrides={"news_clears": False})
    assert points(asked([*eight, [call(argument="new")]], worded)) == {"repeat_rate": 2}


def test_the_repeat_rate_is_of_the_last_twenty_calls() -> None:
    assert asked([*different(30), *different(30)[-4:]]).measured["repeat_rate"] == 0.4
    assert asked([*different(30), *different(30)[-5:]]).measured["repeat_rate"] == 0.5


# --- similarity


def test_similar_prose_counts_where_the_results_are_the_same_too() -> None:
    other = SAID.replace("tariffs", "pilots")
    assert points(asked([said(SAID, call()), said(other, call())], STRICT)) == {"similarity": 2}
    assert points(asked([said(SAID, call()), said(other, call())])) == {}
    assert points(asked([said(SAID, call()), said(other, call(argument="b"))], STRICT)) == {}
    worded = watchdog(overrides={"news_clears": False, "similarity_needs_same_results": False})
    rounds = [said(SAID, call()), said(other, call(argument="b"))]
    assert points(asked(rounds, worded)) == {"similarity": 2}


def test_short_prose_says_nothing() -> None:
    assert points(asked([said("Let me see the file.", call())] * 2, STRICT)) == {}
    worded = watchdog(overrides={"similarity_min_terms": 0, "news_rounds": 1})
    assert points(asked([said("Let me see the file.", call())] * 2, worded)) == {"similarity": 2}


def test_it_looks_back_over_the_window() -> None:
    other = said("Now for something else altogether: cranes, quays, pallets, and old maps.", call())
    rounds = [said(SAID, call()), other, said(SAID, call())]
    assert asked(rounds).measured["similarity"] == 1
    worded = watchdog(overrides={"similarity_looks_back": False})
    assert asked(rounds, worded).measured["similarity"] < 0.2
    far = [said(SAID, call()), *[other] * 4, said(SAID, call())]
    assert asked(far).measured["similarity"] < 0.2


def test_a_template_is_no_circle() -> None:
    """Forty summaries by a template, each acknowledged with the same word."""
    rounds = [
        said(
            SAID.replace("annual", name), call("write", f"out/{name}.md", "ok", changes_state=True)
        )
        for name in ("early", "late", "short", "long")
    ]
    found = asked(rounds)
    assert (points(found), found.circling) == ({}, False)
    assert found.measured["similarity"] > 0.85


def test_a_cosine_from_outside() -> None:
    rounds = watched([said(SAID, call()), said("Quays and cranes, " * 4 + SAID[:60], call())])
    found = assess(rounds, STRICT, Budget(), cosine=lambda _one, _other: 0.93)
    assert points(found) == {"similarity_cosine": 2}
    assert found.measured["similarity_cosine"] == 0.93
    low = assess(rounds, STRICT, Budget(), cosine=lambda _one, _other: 0.91)
    assert points(low) == {}
    # Two measures of one thing count once.
    same = watched([said(SAID, call())] * 2)
    assert assess(same, STRICT, Budget(), cosine=lambda _one, _other: 1.0).score == 2
    lost = assess(rounds, STRICT, Budget(), cosine=lambda _one, _other: math.nan)
    assert lost.measured["similarity_cosine"] == 0


# --- what a finding says


def test_what_is_told_is_tame_and_short() -> None:
    nasty = "\x1b[31m" + "\u202e" + "x" * 50
    rounds = [[call("t\x07" + nasty, nasty * 20, status=ToolStatus.UNKNOWN_TOOL)]] * 3
    (found,) = asked(rounds).findings
    assert found.detail.isprintable()
    assert len(found.detail) < 300


# --- samples


def test_a_round_as_the_watchdog_sees_it() -> None:
    done = Round(
        number=7,
        at=START,
        said="Prose <tool_call>",
        prose="Prose",
        calls=(
            ToolCall(
                id="1",
                name="t",
                arguments={"a": 1},
                effect_id="e",
                result=ToolResult(status=ToolStatus.OK, content="x"),
            ),
        ),
        failure=ParseFailure(kind="mixed"),
        usage=Usage(prompt_tokens=10, completion_tokens=5, wasted_tokens=2),
        engine_s=3.0,
        tools_s=1.5,
    )
    later = START + timedelta(seconds=9)
    specs = {"t": ToolSpec(name="t", polls=True)}
    made = round_sample(done, specs, RULES, at=later, whole_s=300.0, called_at={"e": START})
    assert (made.number, made.at, made.tokens, made.wall_s) == (7, later, 17, 4.5)
    assert (made.prose, made.failed) == ("Prose", True)
    assert (made.calls[0].polls, made.calls[0].at) == (True, START)
    worded = round_sample(done, {}, watchdog(as_worded=True), at=later, whole_s=300.0)
    assert (worded.prose, worded.wall_s) == ("Prose <tool_call>", 300.0)
    assert (worded.calls[0].polls, worded.calls[0].at) == (False, later)


# --- asking the same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("weather Paris", "Paris weather", True),
        ("weather Paris", "what is the weather in Paris", True),
        ("weather Paris", "weather Rome", False),
        ("pay of nurses, Berlin", "Berlin nurse pay", True),
        ("top 5 hotels Rome", "Rome hotels top 5", True),
        ("top 5 hotels Rome", "Rome hotels top 10", False),
        ("the quay", "the dock", False),
        ("the of", "of the", False),
        ("汉堡港口集装箱费用", "集装箱费用汉堡港口", True),
        ("汉堡港口集装箱费用", "巴黎机场行李箱价格", False),
    ],
)
def test_whether_two_questions_are_one(one: str, other: str, same: bool) -> None:
    said = [argument_words({"q": text}) for text in (one, other)]
    assert asks_the_same(said[0], said[1], RULES.near_overlap) is same
    assert asks_the_same(said[1], said[0], RULES.near_overlap) is same


@given(one=st.text(max_size=60), other=st.text(max_size=60), least=st.floats(0, 1))
def test_asking_the_same_is_mutual(one: str, other: str, least: float) -> None:
    said = [argument_words({"q": text}) for text in (one, other)]
    assert asks_the_same(said[0], said[1], least) == asks_the_same(said[1], said[0], least)


def test_an_answer_that_tells_something_needs_fewer_words() -> None:
    ways = (
        "salary of crane drivers in Riga",
        "what a driver of a crane earns, Riga",
        "Riga: typical pay of a crane driver",
        "crane driver wages, Riga",
    )
    short = [[call("search", way, "nothing was found")] for way in ways]
    found = "1,900 euros a month on average, says one source"
    telling = [[call("search", way, found)] for way in ways]
    rules = watchdog(overrides={"near_overlap": 0.7})
    assert points(asked(short, rules)) == {}
    assert points(asked(telling, rules)) == {"cycle": 3}


def test_who_is_not_when() -> None:
    found = "dock-report.pdf: yearly report on the docks, by the board"
    asks = (
        "who wrote the dock report",
        "when was the dock report made",
        "where is the dock report",
    )
    more = ("why was the dock report written", "how many pages has the dock report", asks[0])
    rounds = [[call("search", each, found)] for each in (*asks, *more)]
    for length in range(1, len(rounds)):
        assert points(asked(rounds[:length])) == {}


def test_short_texts_that_get_the_same_label() -> None:
    texts = [
        f"the {a} was fine and the {b} was slow" for a in ("dock", "food") for b in ("bus", "bed")
    ]
    arguments = [{"review": text} for text in texts]
    assert all(argument_words(each)[0].startswith("review=") for each in arguments)
