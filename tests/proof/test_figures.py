"""The proof's oracle, its jobs and its figures: by made requests, without an engine."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops.faults import Fault, Strike

from .claims import claim, saving
from .contender import GATED, JUDGED, PLAIN
from .figures import part, quantile
from .oracle import Request, made
from .pages import headline, side_by_side, write
from .race import Book, Head, Outcome, Turn
from .work import KINDS, tasks


def strike(at: int, ids: tuple[int, ...]) -> Strike:
    return Strike(kind=Fault.SALAD, at=at, length=len(ids), seed=0, ids=ids, key="x")


def letters(ids: object) -> list[str]:
    return [chr(one) for one in ids]  # pyright: ignore


class TestOracle:
    def test_a_fault_in_the_text_is_found_by_who_made_the_token(self) -> None:
        request = Request(job="a", strike=strike(2, (88, 89)), tokens=[65, 66, 88, 89, 67])
        found = made([request], "ABXYC", letters)
        assert (found.struck, found.bad, found.explained) == (True, 2, True)

    def test_what_was_taken_back_is_not_delivered(self) -> None:
        first = Request(job="a", strike=strike(2, (88, 89)), tokens=[65, 66, 88])
        second = Request(job="a", carried=(65, 66), strike=strike(2, (88, 89)), tokens=[67, 68])
        found = made([first, second], "ABCD", letters)
        assert (found.struck, found.bad) == (True, 0)

    def test_a_text_that_the_engine_never_brought_is_told(self) -> None:
        request = Request(job="a", tokens=[65, 66])
        assert not made([request], "ZZ", letters).explained

    def test_nothing_delivered_is_nothing_bad(self) -> None:
        request = Request(job="a", strike=strike(0, (88,)), tokens=[88])
        assert (made([request], None, letters).bad, made([request], None, None).struck) == (0, True)


@given(st.integers(1, 300), st.floats(0, 1), st.integers(0, 9))
def test_the_jobs_are_those_of_the_seed_and_the_faults_are_as_many_as_said(
    count: int, rate: float, seed: int
) -> None:
    found = tasks(count, rate, seed)
    assert found == tasks(count, rate, seed)
    struck = [one for one in found if one.kind]
    assert len(struck) == round(count * rate)
    by_kind = [sum(one.kind == kind for one in struck) for kind in KINDS]
    assert max(by_kind) - min(by_kind) <= 1
    assert all(one.at < one.max_tokens for one in struck)


def outcome(arm: str, number: int, **changes: object) -> Outcome:
    values: dict[str, object] = {
        "arm": arm,
        "batch": number // 10,
        "number": number,
        "kind": "",
        "text": "fine",
        "detail": "",
        "latency_s": 1.0,
        "engine_s": 0.9,
        "tokens": 10,
        "kept": 10,
        "struck": False,
        "bad": 0,
        "explained": True,
        "obeys": True,
        "touched": False,
        "rollbacks": 0,
        "retries": 0,
        "dead": False,
    }
    return Outcome(**values | changes)  # pyright: ignore


def turns(arm: str, **struck: object) -> list[Turn]:
    """Two batches of ten; the third job of each has a fault."""
    return [
        Turn(
            arm=arm,
            batch=batch,
            wall_s=2.0,
            busy_s=1.5,
            outcomes=[
                outcome(arm, 10 * batch + n, kind="nan", struck=True, **struck)
                if n == 3
                else outcome(arm, 10 * batch + n)
                for n in range(10)
            ],
        )
        for batch in range(2)
    ]


def test_the_same_job_is_compared_with_itself() -> None:
    """Every job takes a tenth longer: so says the ratio, however different the jobs are."""

    def taking(arm: str, factor: float) -> Turn:
        ones = [outcome(arm, n, latency_s=factor * (n + 1) ** 2) for n in range(10)]
        return Turn(arm=arm, batch=0, wall_s=2.0, busy_s=1.5, outcomes=ones)

    both = [taking(PLAIN, 1.0), taking(GATED, 1.1)]
    ours = part("x", both, rate=0.0, seed=1, concurrency=8, planned=10).row(GATED)
    assert ours is not None
    assert ours.each_ratio is not None
    assert ours.each_ratio.value == pytest.approx(1.1)


def test_the_figures_are_counts_of_the_outcomes() -> None:
    whole = [
        *turns(PLAIN, bad=4),
        *turns(GATED, touched=True, rollbacks=1, tokens=13),
        *turns(JUDGED, touched=True, retries=1, tokens=20, engine_s=1.8),
    ]
    found = part("headline", whole, rate=0.1, seed=1, concurrency=8, planned=20)
    plain, ours = found.row(PLAIN), found.row(GATED)
    assert plain is not None
    assert ours is not None
    assert (plain.invalid, plain.struck, plain.wasted) == (2, 2, 20)
    assert (ours.invalid, ours.touched, ours.good, ours.wasted) == (0, 0, 18, 6)
    assert ours.p50_ratio is not None
    assert ours.p50_ratio.value == 1
    assert ours.each_ratio is not None
    assert ours.each_ratio.value == 1
    told = claim(found, [found])
    assert told is not None
    assert (told.missed, told.faults) == (0, 2)
    assert told.derived == pytest.approx(0.1 * told.miss_bound)
    saved = saving(found)
    assert saved is not None
    assert saved.share == pytest.approx(0.7)
    assert any("| invalid outputs delivered | 2 of 20 (10.00%) | 0 of 20" in line
               for line in headline([found], "make proof"))  # fmt: skip
    assert any("70% less" in line for line in side_by_side(found))


def test_what_the_gates_cost_is_told_apart_from_what_repairs_cost() -> None:
    theirs, ours = turns(PLAIN), turns(GATED)
    repaired = [outcome(GATED, n, touched=n == 5, kept=5) for n in range(10)]
    slower = Turn(arm=GATED, batch=0, wall_s=2.0, busy_s=1.5, outcomes=repaired)
    row = part("x", [*theirs, slower, ours[1]], rate=0.1, seed=1, concurrency=8, planned=20).row(
        GATED
    )
    assert row is not None
    assert row.rate_ratio is not None
    assert row.calm_ratio is not None
    assert (row.rate_ratio.value, row.calm_ratio.value, row.calm_jobs) == (0.75, 1.0, 10)


def test_a_batch_that_one_contender_has_not_run_counts_for_nobody() -> None:
    whole = [*turns(PLAIN), *turns(GATED)[:1]]
    assert part("x", whole, rate=0.1, seed=1, concurrency=8, planned=20).jobs == 10


def test_a_run_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    head = Head(
        part="x", jobs=20, rate=0.1, seed=1, concurrency=8, batch=10, model="m", arms=(PLAIN,)
    )
    path = tmp_path / "x.jsonl"
    first = Book(path, head, print)
    first.add(turns(PLAIN)[0])
    with path.open("ab") as file:
        file.write(b'{"arm": "pla')
    again = Book(path, head, print)
    assert again.has(PLAIN, 0)
    assert not again.has(PLAIN, 1)
    assert not Book(path, Head(**{**_fields(head), "seed": 2}), print).turns  # pyright: ignore


def _fields(head: Head) -> dict[str, object]:
    return {name: getattr(head, name) for name in head.__struct_fields__}


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_among_its_values(values: list[float], at: float) -> None:
    ordered = sorted(values)
    assert ordered[0] <= quantile(ordered, at) <= ordered[-1] * (1 + 1e-9)


def test_the_tables_go_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- proof:begin -->\nold\n<!-- proof:end -->\nafter\n")
    write(page, ["new"])
    assert page.read_text() == "before\n<!-- proof:begin -->\nnew\n<!-- proof:end -->\nafter\n"
    page.write_text("none")
    with pytest.raises(ValueError, match="proof:begin"):
        write(page, ["new"])
