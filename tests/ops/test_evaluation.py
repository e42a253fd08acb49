"""What an evaluation counts, and how it reads its file."""

import json
from collections.abc import Callable, Iterable, Iterator

import pytest
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.gate import Step
from sluicegate.guards.pipeline import streaming_gates
from sluicegate.guards.profiles import profile
from sluicegate.ops.evaluation import (
    Judged,
    Labelled,
    judge,
    marked,
    mistakes,
    parse,
    report,
    summary,
)
from sluicegate.ops.intervals import wilson


def judged(*texts: tuple[str, str, str]) -> list[Judged]:
    """Texts with label and class, judged in chat, a character a token."""
    lines, problems = parse(
        json.dumps({"id": n, "text": text, "label": label, "class": kind}).encode()
        for n, (text, label, kind) in enumerate(texts)
    )
    assert problems == []
    return [
        judge(
            line,
            (Step(ord(one), one, n, n) for n, one in enumerate(line.text)),
            streaming_gates(profile("chat"), vocabulary_size=0x110000).feed,
        )
        for line in lines
    ]


def test_rates_by_class_and_overall() -> None:
    some = judged(
        ("Hello.", "good", "chat"),
        ("!" * 300, "good", "chat"),
        ("Hi" + "!" * 300, "bad", "run"),
        ("Fine, but wrong.", "bad", "run"),
        ("\x07\x07", "bad", "control"),
    )
    result = summary(some)
    assert (result["n_good"], result["n_bad"]) == (2, 3)
    assert result["false_positive_rate"] == 0.5
    assert result["recall"] == pytest.approx(2 / 3)
    assert list(result["by_class"]) == ["chat", "control", "run"]
    run = result["by_class"]["run"]
    assert (run["n_bad"], run["found"], run["recall"]) == (2, 1, 0.5)
    assert (run["median_onset"], run["median_found_at"]) == (2, 102)
    assert (run["median_delay_chars"], run["delay_tokens_90"]) == (None, None)
    assert run["found_by"] == {"runs: character_run": 1}
    assert run["false_positive_rate"] is None
    # The stream ends with the first finding.
    assert result["speed"]["tokens"] == 6 + 100 + 102 + 16 + 2
    assert [(one["id"], one["mistake"]) for one in mistakes(some)] == [
        (1, "false alarm"),
        (3, "miss"),
    ]
    json.dumps(result)


def test_a_report_has_a_line_for_each_class() -> None:
    def plain(rows: list[tuple[str, ...]]) -> list[str]:
        return [" ".join(row) for row in rows]

    lines = list(report(summary(judged(("\x07\x07", "bad", "control"))), plain))  # pyright: ignore[reportArgumentType]
    assert lines[1] == "control 0 0 1 1 100.00% 2 - characters: control_character 1"
    assert any(line.startswith("recall               100.00% (95%: 20.65% to") for line in lines)
    assert "false positive rate  - (no such texts)" in lines


def stream(text: str, ids: Iterable[int] = ()) -> Iterator[Step]:
    """A character a token; behind them ids without text."""
    yield from (Step(ord(one), one, n, n) for n, one in enumerate(text))
    yield from (Step(one, "", len(text) + n, len(text)) for n, one in enumerate(ids))


def one_found(at: int) -> Callable[[Step], Finding | None]:
    """A gate that finds something at a token."""

    def feed(step: Step) -> Finding | None:
        if step.position != at:
            return None
        return Finding(
            gate="g",
            level=Level.TEXT,
            flaw=Flaw.LOOP,
            tokens=(0, at + 1),
            chars=(0, step.offset + 1),
            score=1,
            threshold=1,
        )

    return feed


@pytest.mark.parametrize(
    ("at", "delay", "found"),
    [(4, (1, 1), True), (9, (6, 6), True), (3, (0, 0), False), (0, (-3, 0), False)],
)
def test_how_long_after_its_onset_a_fault_is_found(
    at: int, delay: tuple[int, int], found: bool
) -> None:
    line = Labelled(id=1, text="goodbadbadbad", label="bad", onset=4)
    one = judge(line, stream(line.text), one_found(at))
    assert (one.delay, one.found, one.early, one.wrong) == (delay, found, not found, not found)
    counted = summary([one])
    assert (counted["found"], counted["early"], counted["recall"]) == (found, not found, found)
    if found:
        assert (counted["median_delay_chars"], counted["delay_tokens_90"]) == delay
    else:
        assert [one["mistake"] for one in mistakes([one])] == ["too early"]


def test_a_fault_of_tokens_without_text() -> None:
    line = Labelled(id=1, text="good", label="bad", onset=4, token_ids=[])
    one = judge(line, stream("good", [0, 0, 0]), one_found(5))
    assert (one.delay, one.found) == ((0, 2), True)


def test_a_text_that_ends_is_judged_as_a_whole() -> None:
    line = Labelled(id=1, text=" ", label="bad", onset=0)
    whole = judge(line, stream(line.text), one_found(99), profile("chat"))
    assert whole.finding is not None
    assert (whole.finding.flaw, whole.delay) == (Flaw.EMPTY_ANSWER, (1, 1))
    assert judge(line, stream(line.text), one_found(99)).finding is None
    # What stopped it before is all there is to say.
    stopped = judge(line, stream(line.text), one_found(0), profile("chat"))
    assert stopped.finding is not None
    assert stopped.finding.flaw is Flaw.LOOP


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 1000, 0.0, 0.003827), (5, 1000, 0.002138, 0.011650), (9, 10, 0.595850, 0.982124)],
)
def test_wilson(hits: int, of: int, low: float, high: float) -> None:
    assert wilson(hits, of) == pytest.approx((low, high), abs=1e-5)


def test_wilson_of_nothing() -> None:
    assert wilson(0, 0) is None


GOOD = b'{"id": "a", "text": "b", "label": "good"}'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "line 2: Input data was truncated"),
        (b"[1]", "line 2: Expected `object`, got `array`"),
        (b'{"id": "a", "label": "good"}', "line 2: Object missing required field `text`"),
        (
            b'{"id": "a", "text": "b", "label": "ok"}',
            "line 2: Invalid enum value 'ok' - at `$.label`",
        ),
        (b'{"id": "a", "text": "\xff", "label": "good"}', "line 2: "),
        (
            b'{"id": "a", "text": "b", "label": "good", "profile": "x"}',
            "line 2: 'x' is no profile; there are chat, code,",
        ),
    ],
)
def test_bad_lines(line: bytes, problem: str) -> None:
    texts, problems = parse([GOOD, line, b"\n", GOOD])
    assert len(texts) == 2
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_a_byte_order_mark_and_what_is_optional() -> None:
    (text,), problems = parse(
        [b'\xef\xbb\xbf{"id": 7, "text": "b", "label": "bad", "prompt": "p", "more": 1}']
    )
    assert problems == []
    assert (text.id, text.kind, text.profile, text.prompt) == (7, "none", None, "p")


def test_a_marked_span_is_one_line_that_a_terminal_can_take() -> None:
    assert marked("a\x1bb\nc", (1, 3)) == "a⟦\\x1bb⟧\\nc"
    long = marked("x" * 5000, (1000, 4000))
    assert long.startswith("x" * 60 + "⟦xx")
    assert len(long) < 300
