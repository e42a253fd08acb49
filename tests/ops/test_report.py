"""The figures of `sluice report`: what is counted, once; what is kept; and that the page is
harmless."""

import io
import math
import random
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.ops.dlq_export import labelled, whole
from sluicegate.ops.dlq_letter import Letter, Properties, read_letter
from sluicegate.ops.plain_text import escaped
from sluicegate.ops.report_charts import lines, seconds, stacked, strip
from sluicegate.ops.report_figures import Gathering, Span
from sluicegate.ops.report_html import esc, marked, page
from sluicegate.ops.report_page import About, render
from sluicegate.ops.report_sketch import ERROR, MOST_COLUMNS, Sketch, Timeline
from sluicegate.ops.report_sources import MOST_LINE_BYTES, Problems, read_dead, read_results
from sluicegate.ops.report_texts import BadText, TakenBack, Wasted, Worst
from sluicegate.schemas import (
    Completed,
    DeadLetter,
    Expired,
    Failed,
    FaultRecord,
    Flaw,
    GenerationResult,
    Lineage,
    Outcome,
    Reason,
    Timings,
    encode,
)

from .dlq_letters import BAD, NOW, attempt, job, rejected, trip, undecodable, verdict

EVIL = "<script>alert(1)</script>\x1b[31m\u202e&amp;</pre>\x00\u2028'\"" * 2


def letter(message: DeadLetter) -> Letter:
    return read_letter(encode(message), Properties(message_id="m"))


def result(job_id: str, outcome: Outcome | None = None, **more: Any) -> GenerationResult:
    given_: dict[str, Any] = {
        "attempt": 1,
        "finished_at": NOW,
        "timings": Timings(queued_s=2.0, first_token_s=0.25, engine_s=3.0),
        "lineage": Lineage(
            attempts=(
                attempt(
                    1,
                    flaw=None,
                    found_by="",
                    text="",
                    text_chars=0,
                    started_at=NOW - timedelta(seconds=4),
                    trips=(trip(), trip(action="note", quote="")),
                ),
            )
        ),
    }
    return GenerationResult(job_id=job_id, outcome=outcome or Completed(), **{**given_, **more})


def gathering(span: Span = Span()) -> Gathering:  # noqa: B008  it is frozen
    return Gathering(span, 10)


class TestSketch:
    @given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=200), st.floats(0.01, 1))
    def test_a_quantile_is_off_by_no_more_than_it_says(
        self, values: list[float], share: float
    ) -> None:
        sketch = Sketch()
        for value in values:
            sketch.add(value)
        exact = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
        assert sketch.quantile(share) == pytest.approx(exact, rel=ERROR + 1e-9)

    def test_whatever_comes_it_stays_small(self) -> None:
        sketch, draw = Sketch(), random.Random(3)
        for _ in range(50_000):
            sketch.add(10 ** draw.uniform(-9, 12))
        sketch.add(math.nan)
        assert sketch.count == 50_000
        assert len(sketch._buckets) < 2_000  # pyright: ignore[reportPrivateUsage]
        assert Sketch().quantile(0.5) is None

    @given(
        st.lists(
            st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001
            max_size=60,
        )
    )
    def test_a_timeline_has_few_steps_and_loses_none(self, times: list[datetime]) -> None:
        timeline = Timeline()
        for at in times:
            timeline.add(at, "x")
        columns = timeline.columns()
        assert len(columns) <= MOST_COLUMNS
        assert sum(counts.get("x", 0) for _, counts in columns) == len(times)
        for at in times:
            assert any(counts and start <= at for start, counts in columns)


class TestGathering:
    def test_results(self) -> None:
        made = gathering()
        made.result(result("a"))
        made.result(result("b", Expired(deadline=NOW)))
        failed = Failed(reason=Reason.ENGINE_FAULT, detail="")
        faults = (FaultRecord(attempt=2, worker="w", at=NOW),)
        twice = Lineage(attempts=(attempt(1), attempt(2)), faults=faults)
        made.result(result("c", failed, attempt=2, lineage=twice))
        made.result(result("a"))  # delivered twice
        figures = made.figures()
        assert figures.results == 3
        assert figures.outcomes == {"completed": 1, "expired": 1, "failed": 1}
        assert figures.attempts == {"1": 2, "2": 1}
        assert figures.retries == {"engine_fault": 1, "high_perplexity": 1}
        assert [(each.action, each.count) for each in figures.trips] == [
            ("rollback", 2),
            ("note", 2),
        ]
        assert (figures.rollbacks, figures.made_tokens, figures.wasted_tokens) == (2, 36, 8)
        latency = {each.name: (each.count, each.p50) for each in figures.latencies}
        assert latency["queue"] == (2, pytest.approx(2, rel=0.01))
        assert latency["first token"] == (3, pytest.approx(0.25, rel=0.01))
        assert latency["engine"] == (3, pytest.approx(3, rel=0.01))
        assert latency["end to end"][1] == pytest.approx(6, rel=0.01)
        assert [place.quote for place in figures.taken_back] == ["!!!!!!", "!!!!!!"]

    def test_dead_letters_with_the_places_of_trips_and_of_evidence(self) -> None:
        made = gathering()
        gave_up = attempt(
            1,
            flaw=Flaw.LOOP,
            found_by="loop",
            text="it is is is is",
            trips=(trip(action="give_up", flaw=Flaw.LOOP, chars=(6, 14)),),
        )
        looped = job("order-2", lineage=Lineage(attempts=(gave_up,)))
        made.letter(letter(rejected("order-1")))
        made.letter(
            letter(rejected("order-2", reason=Reason.GATE_TRIPPED, flaw=Flaw.LOOP, job=looped))
        )
        made.letter(letter(undecodable()))
        figures = made.figures()
        assert figures.letters == 3
        assert figures.dead_reasons == {
            "checks_rejected": 1,
            "gate_tripped": 1,
            "malformed_json": 1,
        }
        assert figures.dead_flaws["loop"] == 1
        texts = {(each.job_id, each.attempt): each for each in figures.worst}
        assert texts["order-2", 1].spans == ((6, 14),)
        assert texts["order-2", 1].findings[0].quote == "!!!!!!"
        judged = texts["order-1", 2]
        assert judged.spans == ((12, 23),)
        assert BAD[12:23] == "qzx vvk qqq"
        assert {each.by for each in judged.findings} == {
            "runs (level 3)",
            "perplexity",
            "own:brand",
        }
        assert judged.prompt == "Tell me of rivers."
        assert figures.worst[0].share == max(each.share for each in figures.worst)

    def test_a_job_in_a_result_and_in_a_letter_counts_once(self) -> None:
        dead = rejected("order-1")
        assert dead.job is not None
        both, alone = gathering(), gathering()
        rejected_ = Failed(reason=Reason.ENGINE_FAULT, detail="")
        for made in (both, alone):
            made.result(result("order-1", rejected_, attempt=2, lineage=dead.job.lineage))
        both.letter(letter(dead))
        both.letter(letter(dead))  # a copy
        first, second = both.figures(), alone.figures()
        assert (first.letters, second.letters) == (1, 0)
        for name in ("retries", "attempts", "trips", "made_tokens", "outcomes"):
            assert getattr(first, name) == getattr(second, name)
        assert len(first.worst) == len(second.worst)

    def test_a_time_span(self) -> None:
        made = gathering(Span(NOW - timedelta(hours=1), NOW))
        for hours, job_id in ((-2, "early"), (-1, "first"), (0, "late")):
            at = NOW + timedelta(hours=hours)
            made.result(result(job_id, finished_at=at))
            made.letter(letter(rejected(f"dead-{job_id}", at=at)))
        made.letter(read_letter(b"{", Properties()))
        figures = made.figures()
        assert (figures.results, figures.letters, figures.undated) == (1, 1, 1)
        assert figures.first == NOW - timedelta(hours=1)


def bad(kind: str, share: float, job_id: str = "j") -> BadText:
    return BadText(
        job_id=job_id,
        attempt=1,
        kind=kind,
        found_by="",
        reason="",
        worker="",
        at=None,
        channel="content",
        prompt="",
        text="x",
        spans=(),
        cut_before=False,
        cut_after=False,
        chars=1,
        share=share,
        findings=(),
    )


class TestWorst:
    def test_a_few_of_each_kind_the_worst_first(self) -> None:
        worst = Worst(8)
        for at in range(1000):
            worst.add(bad("loop", at / 1000))
            worst.add(bad("mojibake", at / 3000))
        kept = worst.texts()
        assert [each.kind for each in kept] == ["loop"] * 3 + ["mojibake"] * 3 + ["loop"] * 2
        assert [each.share for each in kept[:3]] == [0.999, 0.998, 0.997]
        assert Worst(0).texts() == []

    def test_kinds_without_end_do_not_fill_the_memory(self) -> None:
        worst = Worst(5)
        for at in range(3000):
            worst.add(bad(f"kind-{at}", 0.5))
        assert len(worst._heaps) <= 128  # pyright: ignore[reportPrivateUsage]
        assert len(worst.texts()) == 5

    def test_what_cost_most(self) -> None:
        wasted = Wasted(2)
        for tokens in (3, 9, 1, 5):
            wasted.add(taken(tokens))
        assert [each.wasted for each in wasted.places()] == [9, 5]


def taken(tokens: int) -> TakenBack:
    return TakenBack(
        job_id="j", attempt=1, by="g", flaw="loop", action="rollback", wasted=tokens, quote="q"
    )


def read(reader: Any, *written: bytes, span: Span = Span()) -> tuple[Gathering, Problems, int]:  # noqa: B008
    made, problems = gathering(span), Problems()
    count = reader(io.BytesIO(b"\n".join(written) + b"\n"), made, problems, lambda: None)
    return made, problems, count


def exported(*letters: Letter) -> list[bytes]:
    return [escaped(msgspec.json.encode(whole(each))) for each in letters]


class TestSources:
    def test_an_export_tells_the_same_as_the_queue(self) -> None:
        letters = [
            letter(rejected("order-1")),
            letter(undecodable()),
            read_letter(b"{", Properties()),
        ]
        direct = gathering()
        for each in letters:
            direct.letter(each)
        made, problems, count = read(read_dead, *exported(*letters))
        assert (count, problems.count) == (3, 0)
        assert made.figures() == direct.figures()

    def test_an_export_of_texts_has_their_places_too(self) -> None:
        written = [msgspec.json.encode(each) for each in labelled(letter(rejected("order-1")))]
        made, problems, count = read(read_dead, *written)
        assert (count, problems.count) == (2, 0)
        figures = made.figures()
        assert (figures.letters, figures.lines) == (1, 2)
        assert figures.dead_reasons == {"checks_rejected": 1}
        assert {each.spans for each in figures.worst} == {(), ((12, 23),)}
        older = msgspec.json.encode({"text": "good bad", "onset": 5, "class": "loop", "id": "x:1"})
        (text,) = read(read_dead, older)[0].figures().worst
        assert text.spans == ((5, 8),)

    def test_what_is_no_line_of_it_is_told_and_passed_over(self) -> None:
        good = exported(letter(rejected("order-1")))
        broken = [b"{", b"[1]", b'"x"', b"{}", b'{"text": 5}', b"\xff\xfe", b"[" * 100_000]
        made, problems, count = read(read_dead, *broken, b"", *good)
        assert (count, problems.count) == (1, len(broken))
        assert problems.first[0].startswith("-:1: ")
        assert made.figures().letters == 1
        long = b'{"text": "' + b"x" * MOST_LINE_BYTES + b'"}'
        made, problems, count = read(read_dead, long, *good)
        assert (count, problems.count) == (1, 1)
        made, problems, count = read(read_results, b"{}", encode(result("a")), encode(job()))
        assert (count, problems.count) == (1, 2)

    @settings(max_examples=60)
    @given(
        st.dictionaries(
            st.sampled_from(["text", "spans", "onset", "class", "job_id", "attempt", "text_chars"]),
            st.one_of(
                st.text(max_size=20),
                st.integers(-5, 10**12),
                st.none(),
                st.lists(st.lists(st.integers(-3, 30), max_size=3), max_size=4),
            ),
        )
    )
    def test_lines_of_anybody_do_no_harm(self, line: dict[str, Any]) -> None:
        made = gathering()
        made.line(line)
        for text in made.figures().worst:
            at = 0
            for start, end in text.spans:
                assert at <= start < end <= len(text.text)
                at = end
        assert_harmless(render(made.figures(), about()))

    def test_names_without_end_do_not_fill_the_memory(self) -> None:
        made = gathering()
        long = "w" * 100_000
        made.line({"text": "a", "worker": long, "reason": long, "job_id": long, "class": long})
        assert len(msgspec.json.encode(made.figures())) < 10_000


def about(**more: Any) -> About:
    given_: dict[str, Any] = {
        "title": "a report",
        "written": NOW,
        "sources": ("dead.jsonl",),
        "remarks": (),
        "since": None,
        "until": None,
    }
    return About(**{**given_, **more})


class Parsed(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def assert_harmless(document: str) -> Parsed:
    parsed = Parsed()
    parsed.feed(document)
    for tag, attributes in parsed.tags:
        assert tag not in ("script", "img", "iframe", "object", "form", "base", "a")
        assert not any(name.startswith("on") or name in ("src", "style") for name in attributes)
    links = [attributes for tag, attributes in parsed.tags if tag == "link"]
    assert links == [{"rel": "icon", "href": "data:,"}]
    acting = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
    assert not acting.search(document)
    return parsed


class TestPage:
    @given(st.text())
    def test_escaped_text_is_text(self, text: str) -> None:
        parsed = Parsed()
        parsed.feed(f'<p title="{esc(text)}">{esc(text)}</p>')
        ((tag, attributes),) = parsed.tags
        assert tag == "p"
        assert attributes["title"] == parsed.words
        if text.isprintable():
            assert parsed.words == text

    def test_marks_stand_where_the_places_are(self) -> None:
        assert marked("a<b>c", [(1, 2), (3, 5)]) == ("a<mark>&lt;</mark>b<mark>&gt;c</mark>")
        assert marked("\x1b\n\u202e", [(0, 1)]) == "<mark>\u241b</mark>\n[U+202E]"

    def test_hostile_text_in_every_place_is_harmless(self) -> None:
        made = gathering()
        evil = attempt(
            1,
            worker=EVIL[:200],
            flaw=Flaw.LOOP,
            found_by=EVIL[:60],
            detail=EVIL,
            text=EVIL,
            trips=(
                trip(action="give_up", gate=EVIL[:60], detail=EVIL, quote=EVIL, chars=(3, 30)),
                trip(quote=EVIL),
            ),
            verdict=verdict(),
        )
        dead = rejected(
            "order-1",
            detail=EVIL,
            job=job("order-1", prompt=EVIL.replace("\0", ""), lineage=Lineage(attempts=(evil,))),
        )
        made.letter(letter(dead))
        made.line({"text": EVIL, "class": EVIL, "job_id": EVIL, "worker": EVIL, "prompt": EVIL})
        document = render(made.figures(), about(title=EVIL, sources=(EVIL,), remarks=(EVIL,)), "")
        parsed = assert_harmless(document)
        assert parsed.words.count("<script>alert(1)</script>") > 10
        assert "<mark>ript&gt;alert(1)&lt;/script&gt;\u241b" in document

    def test_an_empty_report_is_a_report(self) -> None:
        parsed = assert_harmless(render(gathering().figures(), about()))
        assert "No gate tripped." in parsed.words

    def test_the_style_is_the_one_that_the_policy_names(self) -> None:
        # A browser says so, too; here it costs nothing.
        document = page("t", "b")
        assert document.count("<style>") == 1
        assert "default-src &#x27;none&#x27;" in document
        assert "unsafe" not in document

    def test_charts_of_nothing_and_of_odd_numbers(self) -> None:
        assert "None." in stacked("t", [], {})
        assert "Nothing" in lines("t", {"a": [(0.0, math.nan)]})
        assert "polyline" in lines("t", {"a": [(0.0, 0.0)], "b": [(1.0, math.inf), (2.0, 1.0)]})
        for low, high in ((0.001, 1.0), (1.0, 1.0)):
            widths = re.findall(r'width="([^"]+)"', strip(low, (0.0, 0.5, 9.0), high))
            assert all(0 <= float(width) <= 100 for width in widths)
        assert [seconds(each) for each in (0.0004, 0.25, 3.14159, 61, 36_000)] == [
            "0.4 ms",
            "250 ms",
            "3.14 s",
            "61 s",
            "600 min",
        ]
