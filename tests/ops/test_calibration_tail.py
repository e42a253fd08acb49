"""Margins beyond the worst good text, and what thresholds reject of texts that did not set them."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.guards.checks.thresholds import CALIBRATED, read_tables
from sluicegate.ops.calibration import Aim, Sample, Table, calibrate, rejects
from sluicegate.ops.calibration_tail import beyond
from sluicegate.ops.calibration_toml import document
from sluicegate.ops.intervals import harm_bound

Array = npt.NDArray[np.float64]
RATE = 0.001
SHARES = {each.key for each in CALIBRATED if each.check in ("repetition", "language")} - {
    "repetition_compression_max"
}
# Scores without ends; those of shares are made of them.
KINDS = ("normal", "exponential", "heavy")


def drawn(kind: str, random: np.random.Generator, count: int) -> Array:
    """How bad so many texts are, by each score."""
    size = (count, len(CALIBRATED))
    if kind == "normal":
        return random.normal(size=size)
    return random.exponential(size=size) if kind == "exponential" else random.standard_t(3, size)


def texts(bad: Array) -> list[Sample]:
    """Good texts, by how bad each is by each threshold's score."""
    columns = {
        about.score: _score(about.key, column) * (1 if about.bad == "above" else -1)
        for about, column in zip(CALIBRATED, bad.T, strict=True)
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [Sample("chat", True, "x", dict(zip(columns, row, strict=True))) for row in rows]


def _score(key: str, bad: Array) -> Array:
    # Far enough from the ends that rounding a threshold outward gives nothing away.
    if key in SHARES:
        return 1 / (1 + np.exp(-bad / 10))
    return np.tanh(bad / 10) if key == "relevance_similarity_min" else bad


def rejected_of_new(table: Table, new: Array) -> float:
    """The rate of new texts that any threshold rejects."""
    out = np.zeros(len(new), bool)
    for each, column in zip(table.settings, new.T, strict=True):
        assert each.source == "rate"
        bad = _score(each.about.key, column)
        out |= bad > (each.value if each.about.bad == "above" else -each.value)
    return float(out.mean())


def rates(kind: str, count: int, runs: int, *, margin: bool) -> list[tuple[float, Table]]:
    """What is rejected of new texts by the thresholds of each of some samples."""
    random = np.random.default_rng(1)
    new = drawn(kind, random, 100_000)
    found: list[tuple[float, Table]] = []
    for _ in range(runs):
        sample = texts(drawn(kind, random, count))
        (base, _) = calibrate(sample, Aim(rate=RATE, margin=margin))
        found.append((rejected_of_new(base, new), base))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "runs"), [(1000, 15), (3000, 6), (12_000, 3)])
def test_of_new_good_texts_no_more_than_wanted_are_rejected(
    kind: str, count: int, runs: int
) -> None:
    found = rates(kind, count, runs, margin=True)
    assert np.mean([rate for rate, _ in found]) <= 1.5 * RATE
    for _, table in found:
        # With enough texts no margin is needed, and nothing is given away.
        few = count < len(CALIBRATED) / RATE
        assert any(each.value != each.edge for each in table.settings) == few


@pytest.mark.parametrize("kind", KINDS)
def test_of_few_texts_more_are_rejected_than_wanted_but_far_fewer_than_without_a_margin(
    kind: str,
) -> None:
    with_margin = np.mean([rate for rate, _ in rates(kind, 300, 20, margin=True)])
    without = rates(kind, 300, 20, margin=False)
    mean = np.mean([rate for rate, _ in without])
    expected = without[0][1].expected
    assert expected == pytest.approx(10 / 301)
    assert 0.8 * expected < mean < 1.2 * expected
    assert max(rate for rate, _ in without) < 2 * harm_bound(0, 300, 10)
    assert with_margin <= 4 * RATE


def test_a_tail_that_bends_down_is_followed_beyond_its_worst_and_not_to_infinity() -> None:
    worst = [math.log(1000 / (at + 0.5)) for at in range(1000)]
    found = beyond(worst, 1e-4, "perplexity")
    # Ten times as rare as the worst of an exponential tail: 2.3 on, and more for what is not known.
    assert worst[0] + math.log(10) < found < worst[0] + 3 * math.log(10)
    assert beyond(worst, 1e-300, "perplexity") < worst[0] + 100
    assert beyond(worst, 1e-3, "perplexity") == worst[0]
    # A heavier one is followed further, in its own terms.
    heavy = [(1000 / (at + 0.5)) ** 0.5 for at in range(1000)]
    assert beyond(heavy, 1e-4, "perplexity") / heavy[0] > 2.5


@pytest.mark.parametrize(
    ("worst", "score"),
    [
        ([2.0], "perplexity"),
        ([float(n) for n in range(199, 0, -1)], "perplexity"),
        ([5.0] * 500 + [1.0] * 500, "perplexity"),
        ([1.0] + [n / 1000 for n in range(999, 0, -1)], "language_other"),
        ([0.9, 0.5] + [0.0] * 998, "repetition_ngram"),
    ],
    ids=["one", "too few", "alike", "at the end", "mostly nothing"],
)
def test_where_there_is_no_tail_there_is_no_margin(worst: list[float], score: str) -> None:
    assert beyond(worst, 1e-5, score) == worst[0]


@given(
    st.lists(st.floats(0, 1), min_size=300, max_size=400),
    st.floats(1e-6, 0.5),
    st.sampled_from([each.score for each in CALIBRATED]),
)
def test_it_is_never_stricter_and_keeps_to_the_ends(
    scores: list[float], rate: float, score: str
) -> None:
    worst = sorted(scores, reverse=True)
    found = beyond(worst, rate, score)
    assert found >= worst[0]
    assert found <= 1 or score.startswith(("perplexity", "rel", "coh", "repetition_c"))
    assert score != "relevance_similarity" or found <= 1


def test_the_thresholds_are_such_as_a_file_may_have() -> None:
    random = np.random.default_rng(3)
    samples = texts(3 * random.normal(size=(400, len(CALIBRATED))))
    tables = calibrate(samples, Aim(rate=1e-6))
    written = read_tables(document(tables, Aim(), scoring_model="m"))
    assert written["base"] == tables[0].own()
    for each in tables[0].settings:
        assert each.value
        assert not any(rejects(each.about, each.value, sample) for sample in samples)
