"""The picture of `sluice top`: what is counted, what is trouble, and how it fits a terminal."""

import re
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.ops.columns import columns
from sluicegate.ops.top_cells import cell, cut, number, span
from sluicegate.ops.top_levels import level_of
from sluicegate.ops.top_meter import LEAST_S, MOST_NAMES, OTHERS, WINDOW_S, Meter, Trend, grown
from sluicegate.ops.top_model import MOST_SERVICES, Model
from sluicegate.ops.top_picture import Gates, Picture, QueueRow, Reading, ServiceRow, Trouble
from sluicegate.ops.top_render import render
from sluicegate.schemas import (
    Accepted,
    Completed,
    Failed,
    Finished,
    Flaw,
    Interrupted,
    JobEvent,
    Level,
    Names,
    Reason,
    Rejected,
    Retrying,
    ServiceEvent,
)
from sluicegate.schemas.events import Happening

AT = datetime(2031, 5, 2, 3, 4, 5, tzinfo=UTC)
NAMES = Names()
INTERACTIVE, BATCH = NAMES.jobs_queue("interactive"), NAMES.jobs_queue("batch")
SGR = re.compile(r"\x1b\[[0-9;]*m")


def model(now: float = 0.0) -> Model:
    return Model(NAMES, "amqp://broker:5672/", now)


def service(name: str = "gpu-1", **more: Any) -> ServiceEvent:
    given_: dict[str, Any] = {
        "kind": "worker",
        "at": AT,
        "what": "status",
        "state": "ready",
        "slots": 8,
        "queues": (INTERACTIVE,),
    }
    return ServiceEvent(service=name, **{**given_, **more})


def happened(event: Happening) -> JobEvent:
    return JobEvent(job_id="order-1", attempt=1, seq=1, at=AT, worker="gpu-1", event=event)


def texts(picture: Picture, width: int = 80, height: int | None = None) -> list[str]:
    return [line.text for line in render(picture, width, height)]


def troubles(picture: Picture) -> list[str]:
    return [each.text for each in picture.trouble]


class TestCounts:
    def test_a_meter_forgets_after_a_minute_and_keeps_the_total(self) -> None:
        meter = Meter()
        for second in range(120):
            meter.add("completed", float(second))
        assert meter.minute(119.5)["completed"] == 60
        assert meter.minute(1000.0) == {}
        assert meter.total["completed"] == 120

    def test_names_without_end_do_not_fill_the_memory(self) -> None:
        meter = Meter()
        for at in range(5000):
            meter.add(f"name-{at}", at / 1000)
        assert len(meter.total) == MOST_NAMES + 1
        assert meter.total[OTHERS] == 5000 - MOST_NAMES

    @given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 10**6)), min_size=2, max_size=300))
    def test_a_trend_is_that_of_its_ends_and_stays_small(
        self, steps: list[tuple[float, int]]
    ) -> None:
        trend, now = Trend(), 0.0
        for wait, value in steps:
            now += wait
            trend.add(value, now)
        assert len(trend) <= 2 * WINDOW_S + 4
        rate = trend.per_second()
        assert (rate is None) == (now - steps[0][0] < LEAST_S)
        if rate is not None:
            times = list(accumulate(wait for wait, _ in steps))
            rates = {
                (steps[-1][1] - value) / (now - at)
                for at, (_, value) in zip(times, steps, strict=True)
                if at < now
            }
            assert rate in rates

    def test_counters_that_began_anew_count_from_nothing(self) -> None:
        assert grown({"loop": 5, "empty": 1}, {"loop": 7, "empty": 1}) == {"loop": 2}
        assert grown({"loop": 5}, {"loop": 2}) == {"loop": 2}

    def test_every_flaw_has_its_level(self) -> None:
        assert {level_of(flaw.value) for flaw in Flaw} == {level.name.lower() for level in Level}
        assert all((level_of(flaw.value) == "reasoning") == flaw.is_of_reasoning for flaw in Flaw)
        assert level_of(Flaw.LOOP) == "text"
        assert level_of(Flaw.OWN_RULE) == "output"
        assert level_of("of the future") == "other"


class TestModel:
    def test_outcomes_moves_and_reasons_of_the_last_minute(self) -> None:
        made = model()
        rejected = Rejected(reason=Reason.CHECKS_REJECTED, detail="no")
        failed = Failed(reason=Reason.ENGINE_FAULT, detail="no")
        made.job(happened(Finished(outcome=failed)), 1.0)
        for event in (
            Accepted(),
            Finished(outcome=Completed()),
            Finished(outcome=Completed()),
            Finished(outcome=rejected),
            Retrying(next_attempt=2, detail="", wait_s=1.0),
            Interrupted(detail=""),
        ):
            made.job(happened(event), 70.0)
        picture = made.picture(75.0, AT)
        assert picture.outcomes == {"completed": 2, "rejected": 1}
        assert picture.outcomes_total == {"completed": 2, "rejected": 1, "failed": 1}
        assert picture.moves == {"retrying": 1, "interrupted": 1}
        assert picture.dead_reasons == {"engine_fault": 1, "checks_rejected": 1}
        assert picture.dead_reasons_minute == {"checks_rejected": 1}

    def test_rates_of_a_service_and_what_the_gates_of_all_did(self) -> None:
        made = model()
        first = service(jobs={"completed": 10}, tokens={"completion": 900, "wasted": 100}, up_s=60)
        made.service(first, 0.0)
        then = service(
            jobs={"completed": 20, "retrying": 5},
            tokens={"completion": 2700, "wasted": 300},
            trips={"loop": 4, "mojibake": 1, "reasoning_cap": 2},
            rollbacks=4,
            in_flight=6,
            up_s=70,
            loop_lag_s=0.003,
        )
        made.service(then, 10.0)
        made.service(service("cpu-1", kind="checker", trips={"loop": 1}, queues=()), 10.0)
        picture = made.picture(11.0, AT)
        checker, worker = picture.services
        assert (checker.name, worker.name) == ("cpu-1", "gpu-1")
        assert worker.jobs_per_minute == pytest.approx(90)
        assert worker.tokens_per_second == pytest.approx(200)
        assert (worker.in_flight, worker.slots, worker.up_s) == (6, 8, 71)
        gates = picture.gates
        assert gates.trips == {
            "text": {"loop": 5, "mojibake": 1},
            "reasoning": {"reasoning_cap": 2},
        }
        # The checker's are those of before it was first heard.
        assert gates.trips_minute == {"loop": 4, "mojibake": 1, "reasoning_cap": 2}
        assert (gates.rollbacks, gates.rollbacks_minute, gates.reasoning_trips) == (4, 4, 2)
        assert gates.wasted_share == pytest.approx(0.1)

    def test_a_service_that_began_anew_is_no_fall_of_its_numbers(self) -> None:
        made = model()
        made.service(service(jobs={"completed": 100}, trips={"loop": 9}, up_s=500), 0.0)
        made.service(service(jobs={"completed": 1}, trips={"loop": 1}, up_s=2), 10.0)
        made.service(service(jobs={"completed": 3}, trips={"loop": 1}, up_s=7), 15.0)
        picture = made.picture(15.0, AT)
        assert picture.services[0].jobs_per_minute == pytest.approx(24)
        assert picture.gates.trips_minute == {"loop": 1}

    def test_silence_is_shown_then_forgotten(self) -> None:
        made = model()
        made.service(service(), 0.0)
        made.service(service("gpu-2", what="stopped", state="stopping"), 0.0)
        assert [each.state for each in made.picture(14.0, AT).services] == ["stopped", "ready"]
        silent = made.picture(40.0, AT)
        assert [(each.name, each.state) for each in silent.services] == [("gpu-1", "silent")]
        assert troubles(silent) == ["worker gpu-1 has been silent for 40s"]
        assert made.picture(700.0, AT).services == ()

    def test_a_state_has_its_beginning(self) -> None:
        made = model()
        made.service(service(), 0.0)
        made.service(service(what="quarantined", state="quarantined", detail="NaN"), 10.0)
        made.service(service(state="quarantined", detail="NaN"), 15.0)
        (row,) = made.picture(20.0, AT).services
        assert (row.state, row.state_s) == ("quarantined", 10.0)
        assert troubles(made.picture(20.0, AT)) == ["worker gpu-1 is quarantined, 10s: NaN"]

    def test_services_without_end_do_not_fill_the_memory(self) -> None:
        made = model()
        for at in range(MOST_SERVICES + 50):
            made.service(service(f"gpu-{at}"), at / 1000)
        names = {each.name for each in made.picture(2.0, AT).services}
        assert len(names) == MOST_SERVICES
        assert "gpu-0" not in names

    def test_queues_with_trend_and_what_is_in_flight(self) -> None:
        made = model()
        made.service(service(in_flight=5), 0.0)
        for now, ready in ((0.0, 100), (10.0, 80), (20.0, 60)):
            made.queues(
                [
                    Reading(name=INTERACTIVE, ready=ready, consumers=1),
                    Reading(name=BATCH, ready=3, unacked=7),
                    Reading(name=f"{NAMES.namespace}.results.orders", ready=2),
                ],
                now,
            )
        first, second, third = made.picture(20.0, AT).queues
        assert (first.name, first.in_flight, first.in_flight_most) == ("jobs.interactive", 5, False)
        assert first.per_minute == pytest.approx(-120)
        assert first.empty_in_s == pytest.approx(30)
        assert (second.in_flight, second.limit) == (7, 1_000_000)
        assert (third.name, third.role) == ("results.orders", "results")
        made.service(service(in_flight=5, queues=(INTERACTIVE, BATCH)), 21.0)
        assert made.picture(21.0, AT).queues[0].in_flight_most


class TestTrouble:
    def test_of_queues(self) -> None:
        made = model()
        for now, dead in ((0.0, 10), (30.0, 16)):
            made.queues(
                [
                    Reading(name=INTERACTIVE, ready=4, consumers=0),
                    Reading(name=BATCH, ready=900_000, consumers=2),
                    Reading(name=NAMES.checks, ready=None),
                    Reading(name=NAMES.approvals, ready=1),
                    Reading(name=NAMES.dead, ready=dead),
                    Reading(name=NAMES.retry_queue("5s"), ready=5),
                ],
                now,
            )
        assert troubles(made.picture(30.0, AT)) == [
            "queue jobs.interactive: 4 waiting, nobody takes them; paused? `sluice pause`",
            "queue jobs.batch is 90% full: at 1,000,000 it refuses more",
            "queue checks is missing: `sluice topology apply` creates it",
            "dead letters grow by 12 a minute: `sluice dlq stats`",
            "queues are consumed, but no service is heard of: is it an old version?",
            "1 of the agent jobs wait for a person: `sluice agent approvals`",
        ]

    def test_of_services(self) -> None:
        made = model()
        made.service(service("a", state="paused", detail="by an operator"), 0.0)
        made.service(service("b", state="restarting"), 0.0)
        made.service(service("c", loop_lag_s=0.8), 0.0)
        made.service(service("d", detail="the broker is not reached"), 0.0)
        assert troubles(made.picture(5.0, AT)) == [
            "worker a is paused, 5s: by an operator",
            "worker b restarts its engine, 5s",
            "worker c: its event loop wakes up 0.8 s late",
            "worker d: the broker is not reached",
        ]

    def test_a_broker_that_is_gone_until_it_answers(self) -> None:
        made = model()
        made.broker("can't reach it")
        assert troubles(made.picture(1.0, AT)) == ["the broker: can't reach it"]
        made.queues([Reading(name=NAMES.dead, ready=0)], 2.0)
        assert troubles(made.picture(2.0, AT)) == []


def full_picture(services: int = 3) -> Picture:
    made = model()
    queues = [INTERACTIVE, BATCH, NAMES.checks, NAMES.retry_queue("5s"), NAMES.dead]
    for now, ready in ((0.0, 120), (60.0, 80)):
        for at in range(services):
            made.service(
                service(
                    f"gpu-{at}",
                    jobs={"completed": int(now)},
                    tokens={"completion": int(now) * 100, "wasted": int(now)},
                    trips={"loop": 3, "mojibake": 1},
                    rollbacks=3,
                    in_flight=4,
                    up_s=now,
                    model="Qwen/Qwen3-0.6B",
                ),
                now,
            )
        made.queues([Reading(name=name, ready=ready, consumers=1) for name in queues], now)
    for _ in range(5):
        made.job(happened(Finished(outcome=Completed())), 55.0)
    made.job(happened(Finished(outcome=Rejected(reason=Reason.CHECKS_REJECTED, detail=""))), 55.0)
    return made.picture(60.0, AT)


class TestRender:
    def test_everything_is_there_at_80_by_24(self) -> None:
        shown = texts(full_picture(), 80, 24)
        assert len(shown) <= 24
        text = "\n".join(shown)
        for part in (
            r"^sluice top sluice\.v1 amqp://broker:5672/ +03:04:05$",
            r"^Jobs, last minute: completed 5 · rejected 1 · failed 0 · retries 0$",
            r"^QUEUE +READY +IN FLIGHT +CONSUMERS +PER MIN +EMPTY IN$",
            r"^jobs\.interactive +80 +12 +1 +-40 +2m$",
            r"^retry \(waiting\) +80",
            r"^dead +80",
            r"^SERVICE +KIND +STATE +FOR +BUSY +JOBS/MIN +TOK/S +LAG +UP +MODEL$",
            r"^gpu-1 +worker +ready +60s +4/8 +60 +101 +0ms +60s +Qwen/Qwen3-0\.6B$",
            r"^GATES 12 trips \(\+0\) · 9 rollbacks \(\+0\) · 0\.99% wasted · 0 in reasoning$",
            r"^text: loop 9, mojibake 3$",
            r"^DEAD LETTERS 80$",
            r"checks_rejected 1 \(\+1\)$",
        ):
            assert re.search(part, text, re.MULTILINE), (part, text)

    def test_a_wide_terminal_shows_the_model_and_a_narrow_one_the_name(self) -> None:
        assert any("Qwen/Qwen3-0.6B" in line for line in texts(full_picture(), 120))
        narrow = texts(full_picture(), 30)
        assert any(line.startswith("gpu-1") and "4/8" in line for line in narrow)
        assert not any("TOK/S" in line for line in narrow)

    def test_what_is_left_out_is_told(self) -> None:
        shown = texts(full_picture(200), 80, 24)
        assert len(shown) <= 24
        assert any(re.fullmatch(r"… \d+ more", line) for line in shown)
        assert sum(line.startswith("gpu-") for line in shown) >= 2

    def test_what_needs_a_look_comes_first(self) -> None:
        made = model()
        for at in range(50):
            made.service(service(f"gpu-{at:02}"), 0.0)
        made.service(service("gpu-49", state="quarantined", detail="NaN"), 1.0)
        shown = texts(made.picture(2.0, AT), 80, 24)
        assert any(line.startswith("! worker gpu-49 is quarantined") for line in shown)
        assert next(line for line in shown if line.startswith("gpu-")).startswith("gpu-49")

    def test_the_picture_of_the_docs(self) -> None:
        pages = (Path(__file__).parents[2] / "docs/operations.md").read_text()
        shown = "\n".join([*texts(busy_picture(), 80, 23), "q quits"])
        assert f"```console\n{shown}\n```" in pages, shown

    def test_numbers_and_durations_are_short(self) -> None:
        assert [number(each) for each in (None, 0, 99_999, 123_456, 12_345_678)] == [
            "-",
            "0",
            "99,999",
            "123k",
            "12.3M",
        ]
        assert [span(each) for each in (0, 119, 121, 7300, 200_000)] == [
            "0s",
            "119s",
            "2m",
            "2h",
            "2d",
        ]


def busy_picture() -> Picture:
    """What docs/operations.md shows: one engine is sick, one worker is gone."""
    made = model()
    lanes = (INTERACTIVE, BATCH)
    for now, share in ((0.0, 0), (60.0, 1)):
        for name, jobs, tokens in (("gpu-1:8812", 41, 12_300), ("gpu-2:7310", 38, 11_640)):
            made.service(
                service(
                    name,
                    queues=lanes,
                    model="Qwen/Qwen3-0.6B",
                    jobs={"completed": 5000 + share * jobs},
                    tokens={"completion": 1_400_000 + share * tokens, "wasted": 3100},
                    trips={"loop": 60 + share, "character_run": 9, "low_confidence": 14},
                    rollbacks=70 + share,
                    in_flight=7,
                    up_s=20_000 + now,
                    loop_lag_s=0.002,
                ),
                now,
            )
        made.service(
            service(
                "cpu-1:402",
                kind="checker",
                queues=(NAMES.checks,),
                jobs={"passed": 9000 + share * 75},
                up_s=20_000 + now,
                in_flight=5,
                slots=16,
            ),
            now,
        )
        sick = {"what": "quarantined", "state": "quarantined", "detail": "numeric_faults"}
        made.service(service("gpu-3:90", **({} if now == 0 else sick), up_s=90 + now), now)
        stands = (
            (INTERACTIVE, 12 - 8 * share, 2),
            (BATCH, 5120 - 70 * share, 2),
            (NAMES.checks, 9, 1),
            (NAMES.retry_queue("5s"), 3, 0),
            (NAMES.results_queue("default"), 0, 0),
            (NAMES.dead, 40 + 2 * share, 0),
        )
        made.queues(
            [Reading(name=name, ready=ready, consumers=takers) for name, ready, takers in stands],
            now,
        )
    for _ in range(77):
        made.job(happened(Finished(outcome=Completed())), 50.0)
    for _ in range(2):
        rejected = Rejected(reason=Reason.CHECKS_REJECTED, detail="")
        made.job(happened(Finished(outcome=rejected)), 50.0)
        made.job(happened(Retrying(next_attempt=2, detail="", wait_s=5.0)), 50.0)
    return made.picture(72.0, AT)


ANY = st.text(max_size=40)
NASTY = st.one_of(
    ANY,
    st.sampled_from(
        [
            "\x1b[2J\x1b]0;owned\x07",
            "漢字" * 20,
            "👩‍👩‍👧❤️" * 9,
            "a\u0300" * 30,
            "\u202eevil",
            "\x9b31m",
        ]
    ),
)
AMOUNT = st.integers(0, 10**9)
RATE = st.one_of(st.none(), st.floats(-1e9, 1e9))
QUEUE = st.builds(
    QueueRow,
    name=NASTY,
    role=st.sampled_from(["work", "wait", "retry", "results", "dead", "other"]),
    ready=st.one_of(st.none(), AMOUNT),
    consumers=AMOUNT,
    in_flight=st.one_of(st.none(), AMOUNT),
    in_flight_most=st.booleans(),
    limit=st.one_of(st.none(), AMOUNT),
    per_minute=RATE,
    empty_in_s=st.one_of(st.none(), st.floats(0, 1e12)),
)
SECONDS_ = st.floats(0, 1e9)
SERVICE = st.builds(
    ServiceRow,
    name=NASTY,
    kind=st.sampled_from(["worker", "checker", "agent", "tools"]),
    state=st.sampled_from(["ready", "paused", "quarantined", "silent", "stopped"]),
    state_s=SECONDS_,
    heard_s=SECONDS_,
    up_s=SECONDS_,
    detail=NASTY,
    model=NASTY,
    in_flight=AMOUNT,
    slots=AMOUNT,
    queues=st.just(()),
    jobs_per_minute=st.one_of(st.none(), SECONDS_),
    tokens_per_second=st.one_of(st.none(), SECONDS_),
    loop_lag_s=SECONDS_,
)
COUNTS = st.dictionaries(NASTY, AMOUNT, max_size=8)
PICTURE = st.builds(
    Picture,
    namespace=NASTY,
    broker=NASTY,
    at=st.just(AT),
    seen_s=SECONDS_,
    outcomes=COUNTS,
    moves=COUNTS,
    outcomes_total=COUNTS,
    queues=st.lists(QUEUE, max_size=12).map(tuple),
    services=st.lists(SERVICE, max_size=12).map(tuple),
    gates=st.builds(
        Gates,
        trips=st.dictionaries(NASTY, COUNTS, max_size=6),
        trips_minute=COUNTS,
        rollbacks=AMOUNT,
        rollbacks_minute=AMOUNT,
        reasoning_trips=AMOUNT,
        wasted_share=st.one_of(st.none(), st.floats(0, 1)),
    ),
    dead=st.one_of(st.none(), AMOUNT),
    dead_reasons=COUNTS,
    dead_reasons_minute=COUNTS,
    trouble=st.lists(
        st.builds(Trouble, st.sampled_from(["bad", "warn", "note"]), NASTY), max_size=9
    ).map(tuple),
)


class TestLaws:
    @settings(max_examples=60, deadline=None)
    @given(PICTURE, st.integers(1, 250), st.one_of(st.none(), st.integers(1, 60)))
    def test_no_line_is_wider_than_the_terminal_and_nothing_in_it_acts(
        self, picture: Picture, width: int, height: int | None
    ) -> None:
        lines = render(picture, width, height, foot="q quits")
        assert height is None or len(lines) <= max(height, 1)
        for line in lines:
            assert columns(line.text) <= width
            assert all(char.isprintable() or char in "\u200c\u200d" for char in line.text), line
            painted = line.painted()
            assert SGR.sub("", painted) == line.text
            assert painted.count("\x1b") in (0, 2)

    @given(NASTY, st.integers(0, 60), st.booleans())
    def test_a_cell_has_its_width(self, text: str, width: int, right: bool) -> None:
        assert columns(cell(text, width, right=right)) == width
        assert columns(cut(text, width)) <= width
