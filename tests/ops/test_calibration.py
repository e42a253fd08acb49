"""Where thresholds are set, by hand-made scores."""

import json
import math
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.checks.thresholds import CALIBRATED, Calibrated, read_tables, thresholds
from sluicegate.ops.calibration import (
    Aim,
    Sample,
    Table,
    calibrate,
    rejected,
    rejects,
)
from sluicegate.ops.calibration_report import as_json, report, warnings
from sluicegate.ops.calibration_toml import document
from sluicegate.ops.console import table

BY_KEY = {each.key: each for each in CALIBRATED}
PERPLEXITY, WINDOW = BY_KEY["perplexity_max"], BY_KEY["perplexity_window_max"]
RELEVANCE, COHERENCE = BY_KEY["relevance_min"], BY_KEY["coherence_min"]


def good(*values: float, about: Calibrated = PERPLEXITY, profile: str = "chat") -> list[Sample]:
    return [Sample(profile, True, "fine", {about.score: value}) for value in values]


def bad(*values: float, about: Calibrated = PERPLEXITY, kind: str = "salad") -> list[Sample]:
    return [Sample("chat", False, kind, {about.score: value}) for value in values]


def base(samples: list[Sample], *wanted: Calibrated, **aim: float) -> Table:
    return calibrate(samples, Aim(wanted=wanted or (PERPLEXITY,), **{"least": 1, **aim}))[0]  # pyright: ignore[reportArgumentType]


def value(found: Table, about: Calibrated = PERPLEXITY) -> float:
    return next(each.value for each in found.settings if each.about == about)


def test_a_threshold_lets_go_of_as_many_good_texts_as_the_rate_allows() -> None:
    scores = [float(n) for n in range(1, 101)]
    for rate, harmed, where in ((0.001, 0, 100), (0.0197, 0, 100), (0.0199, 1, 99), (0.5, 49, 51)):
        found = base(good(*scores), rate=rate)
        assert (found.harmed, value(found)) == (harmed, where)
    # And below, where a score is bad there.
    found = base(good(*scores, about=RELEVANCE), RELEVANCE, rate=0.02)
    assert (found.harmed, value(found, RELEVANCE)) == (1, 2)


def test_the_rate_is_that_of_all_thresholds_together() -> None:
    samples = [
        # Either score has its ten worst texts, and they are others.
        Sample("chat", True, "x", {PERPLEXITY.score: 1.0 + n, WINDOW.score: 101.0 - n})
        for n in range(100)
    ]
    found = base(samples, PERPLEXITY, WINDOW, rate=0.05)
    # Either takes the text that it stands on as well.
    assert found.harmed == 2
    assert [each.harmed for each in found.settings] == [1, 1]
    assert found.expected == pytest.approx(4 / 101)
    # Where the worst texts are the same ones, each may let go of all.
    same = [
        Sample("chat", True, "x", {PERPLEXITY.score: 1.0 + n, WINDOW.score: 1.0 + n})
        for n in range(100)
    ]
    assert [each.harmed for each in base(same, PERPLEXITY, WINDOW, rate=0.05).settings] == [3, 3]


def test_of_the_texts_with_a_score_no_more_than_the_rate_are_let_go() -> None:
    # Ten may be lost of all; of the ten that have this score none.
    samples = good(*map(float, range(1, 991))) + good(*map(float, range(1, 11)), about=RELEVANCE)
    found = base(samples, PERPLEXITY, RELEVANCE, rate=0.01)
    assert [each.harmed for each in found.settings] == [8, 0]


def test_ties_are_let_go_of_together_or_not_at_all() -> None:
    found = base(good(*[1.0] * 90, *[5.0] * 10), rate=0.05)
    assert (found.harmed, value(found)) == (0, 5)
    found = base(good(*[1.0] * 90, *[5.0] * 10), rate=0.11)
    assert (found.harmed, value(found)) == (10, 1)


def test_a_threshold_is_rounded_outward_and_never_off() -> None:
    assert value(base(good(1.0, 5.123456))) == 5.124
    assert value(base(good(0.9, 0.123456, about=RELEVANCE), RELEVANCE), RELEVANCE) == 0.1234
    assert value(base(good(0.9, -0.123456, about=RELEVANCE), RELEVANCE), RELEVANCE) == -0.1235
    # 0 is off.
    assert value(base(good(0.9, 0.0, about=RELEVANCE), RELEVANCE), RELEVANCE) == -0.0001
    share = BY_KEY["repetition_ngram_max"]
    assert value(base(good(*[0.0] * 9, 0.5, about=share), share, rate=0.2), share) == 0.0001
    assert value(base(good(0.1, 1.0, about=share), share), share) == 1


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ([], "no good text has this score"),
        (bad(1.0, 2.0), "no good text has this score"),
        (good(3.0, 3.0, 3.0), "all good texts have the same score, 3"),
        (good(3.0), "all good texts have the same score, 3"),
    ],
)
def test_a_sample_that_says_nothing_changes_nothing(samples: list[Sample], why: str) -> None:
    found = base(samples)
    setting = found.settings[0]
    assert (setting.source, setting.why) == ("kept", why)
    assert setting.value == setting.before == thresholds("off").perplexity_max
    assert found.own() == {}
    assert read_tables(document([found], Aim(), scoring_model="m")) == {}


def test_coherence_by_its_share_of_the_mean() -> None:
    samples = good(0.2, 0.4, 0.6, about=COHERENCE) + good(1.0, 2.0)
    found = base(samples, PERPLEXITY, COHERENCE, coherence_share=0.75)
    assert value(found, COHERENCE) == pytest.approx(0.3)
    assert [each.source for each in found.settings] == ["rate", "share"]
    # What it harms is told, and takes nothing from the others.
    aim = Aim(wanted=(PERPLEXITY, COHERENCE), coherence_share=0.75)
    assert any("rejects 33.33% of good texts" in one for one in warnings([found], aim))
    assert value(found) == 2
    assert found.harmed == 1
    # Of a mean that is not above 0 there is no share.
    found = base(good(-0.2, 0.1, about=COHERENCE), COHERENCE, coherence_share=0.75)
    assert found.settings[0].why == "the mean of good text is not above 0"


def test_a_profile_with_enough_texts_has_its_own() -> None:
    samples = good(*map(float, range(1, 11))) + good(20.0, 30.0, profile="code")
    tables = calibrate(samples, Aim(wanted=(PERPLEXITY,), least=5))
    assert [(each.name, each.own()) for each in tables] == [
        ("base", {"perplexity_max": 30.0}),
        ("chat", {"perplexity_max": 10.0}),
        ("code", {}),
    ]
    code = tables[2].settings[0]
    # What the profile gets from the file that is written.
    written = read_tables(document(tables, Aim(), scoring_model="m"))
    assert code.value == thresholds("code", deployment=written).perplexity_max
    assert code.why == "only 2 good texts have this score"


def test_what_a_profile_switches_off_stays_off_and_says_nothing_of_others() -> None:
    samples = good(*map(float, range(1, 11))) + good(*[90.0, 95.0] * 9, profile="code")
    deployment = {"base": {"perplexity_max": 0.0}, "code": {"perplexity_max": 0.0}}
    tables = calibrate(samples, Aim(wanted=(PERPLEXITY,), least=5), deployment)
    assert [(each.name, each.own()) for each in tables] == [
        ("base", {"perplexity_max": 10.0}),
        ("chat", {"perplexity_max": 10.0}),
        ("code", {}),
    ]
    assert tables[2].settings[0].value == 0


def test_what_is_kept_counts_toward_the_rate() -> None:
    """Two of these are rejected by a threshold that the deployment has set."""
    share = BY_KEY["duplicate_paragraphs_max"]
    samples = good(*map(float, range(1, 99))) + good(0.9, 0.9, about=share)
    deployment = {"base": {share.key: 0.8}}
    for rate, harmed in ((0.02, 2), (0.05, 4)):
        found = calibrate(samples, Aim(wanted=(PERPLEXITY, share), rate=rate, least=1), deployment)[
            0
        ]
        assert found.settings[1].source == "kept"
        assert (found.settings[1].harmed, found.harmed) == (2, harmed)
    # More than is allowed: nothing else is let go, and that is said.
    aim = Aim(wanted=(PERPLEXITY, share), rate=0.01, least=1)
    found = calibrate(samples, aim, deployment)[0]
    assert found.settings[0].harmed == 0
    assert any("rejects 2 of 100 good texts, more than" in one for one in warnings([found], aim))


signed = st.one_of(
    st.floats(-1e5, 1e5).map(lambda number: round(number, 3)), st.sampled_from([0.0, 1.0, -1.0])
)
texts = st.builds(
    Sample,
    profile=st.sampled_from(["chat", "summary"]),
    good=st.sampled_from([True, True, True, False]),
    kind=st.just("x"),
    scores=st.fixed_dictionaries(
        {},
        optional={
            WINDOW.score: st.one_of(st.floats(0, 1e5), st.sampled_from([0.0, 1.0])),
            RELEVANCE.score: signed,
            COHERENCE.score: signed,
        },
    ),
)
WANTED = (WINDOW, RELEVANCE, COHERENCE)
OFF = {"base": {each.key: 0.0 for each in CALIBRATED}}


@settings(max_examples=200)
@given(st.lists(texts, max_size=60), st.floats(0.001, 0.5))
def test_the_sample_keeps_to_the_rate_and_no_threshold_is_wider_than_it_must_be(
    samples: list[Sample], rate: float
) -> None:
    aim = Aim(rate=rate, least=2, wanted=WANTED)
    found = calibrate(samples, aim, OFF)[0]
    goods = [sample for sample in samples if sample.good]
    assert found.harmed == sum(rejected(found.settings, sample) for sample in goods)
    assert found.harmed <= rate * len(goods) + 1e-9
    # Where what is expected is over the rate, nothing is let go that could be kept.
    assert found.expected <= rate + 1e-9 or not found.drawn or not found.harmed
    for each in found.settings:
        if each.is_set:
            assert each.harmed <= rate * each.n_good + 1e-9
            # Rounded, it stands at a good text: the next one in is none that it has let pass.
            ours = [s.scores[each.about.score] for s in goods if each.about.score in s.scores]
            passing = [one for one in ours if not _beyond(each.about, each.value, one)]
            worst = max(passing) if each.about.bad == "above" else min(passing)
            assert math.isclose(worst, each.value, rel_tol=1e-3, abs_tol=1e-4)


def _beyond(about: Calibrated, limit: float, score: float) -> bool:
    return score > limit if about.bad == "above" else score < limit


@settings(max_examples=100)
@given(st.lists(texts, max_size=60), st.floats(0.001, 0.5), st.floats(0.001, 0.5))
def test_a_higher_rate_makes_no_threshold_looser(
    samples: list[Sample], one: float, other: float
) -> None:
    low, high = (
        calibrate(samples, Aim(rate=rate, wanted=WANTED, least=1), OFF)[0]
        for rate in sorted((one, other))
    )
    for sample in samples:
        assert rejected(high.settings, sample) or not rejected(low.settings, sample)


@settings(max_examples=100)
@given(st.lists(texts, max_size=60), st.floats(0.001, 0.5))
def test_what_is_written_is_read_and_in_force(samples: list[Sample], rate: float) -> None:
    aim = Aim(rate=rate, least=5, wanted=WANTED)
    tables = calibrate(samples, aim, OFF)
    written = read_tables(document(tables, aim, scoring_model="two\nlines"))
    for each in tables:
        assert written.get(each.name, {}) == each.own()
        if each.name != "base":
            merged = {
                "base": {**OFF["base"], **written.get("base", {})},
                **{name: rows for name, rows in written.items() if name != "base"},
            }
            force = thresholds(each.name, deployment=merged)
            assert [getattr(force, one.about.key) for one in each.settings] == [
                one.value for one in each.settings
            ]


def test_a_score_that_is_not_there_and_a_threshold_that_is_off_reject_nothing() -> None:
    assert not rejects(PERPLEXITY, 1.0, Sample("chat", True, "x", {}))
    assert not rejects(PERPLEXITY, 0.0, good(9.0)[0])
    assert rejects(PERPLEXITY, 1.0, good(9.0)[0])
    assert not rejects(PERPLEXITY, 9.0, good(9.0)[0])


def test_what_can_be_expected_of_too_few_is_said_and_of_enough_nothing() -> None:
    aim = Aim(wanted=(PERPLEXITY,))
    few = good(*map(float, range(1, 501))) + bad(2e3)
    (said,) = warnings([base(few, margin=False)], aim)
    assert said == (
        "[base]: 500 good texts are too few for 0.1000%. One threshold at the worst of them "
        "rejects about 0.200% of new ones, with 95% confidence at most 0.597%; 999 would do"
    )
    (said,) = warnings([base(few)], aim)
    assert "0.597%; the margin, where NOW has a +, brings that near the rate" in said
    for count in (999, 1000, 5000, 60_000):
        enough = good(*(n / 100 for n in range(1, count + 1)))
        assert list(warnings([base(enough + bad(2e3))], aim)) == []
    # Nor does one without bad texts say what is found.
    assert any("no bad text has this score" in one for one in warnings([base(enough)], aim))


def test_too_few_texts_change_the_base_no_more_than_a_profile() -> None:
    aim = Aim(wanted=(PERPLEXITY, WINDOW), least=3)
    (found, chat) = calibrate(good(1.0, 2.0) + bad(9.0), aim)
    assert found.own() == chat.own() == {}
    assert found.settings[0].value == thresholds("off").perplexity_max
    assert list(warnings([found, chat], aim)) == [
        "[base] has too few good texts (2) and stays as it is; it takes 3, or fewer with --least",
        "[chat] has too few good texts (2) and keeps to [base]",
    ]
    assert calibrate(good(1.0, 2.0, 3.0), aim)[0].own() == {"perplexity_max": 3.0}
    # Enough of them, but not with this score.
    some = good(1.0, 2.0, 3.0) + good(1.0, about=WINDOW)
    said = list(warnings(calibrate(some, aim)[:1], aim))
    assert any("perplexity_window_max stays at" in one and "only 1 good" in one for one in said)


def test_the_table_the_plot_and_the_json() -> None:
    samples = good(*map(float, range(1, 101))) + bad(50.0, 200.0) + bad(300.0, kind="noise")
    aim = Aim(wanted=(PERPLEXITY,), rate=0.03, least=50)
    tables = calibrate(samples, aim)
    lines = list(report(tables, table, width=80, full=False))
    row = next(one for one in lines if one.startswith("base     perplexity_max"))
    assert row.split()[3:6] == [">", "98", "100"]
    assert "66.67% (20.77% to 93.85%)" in row
    assert any(
        one.split() == ["noise", "1", "1", "100.00%", "(20.65%", "to", "100.00%)"] for one in lines
    )
    assert sum("[base] perplexity_max = 98: bad above it" in one for one in lines) == 1
    assert not any("[chat]" in one for one in lines)
    assert any("[chat]" in one for one in report(tables, table, width=80, full=True))
    found = json.loads(json.dumps(as_json(tables, aim)))["profiles"]["base"]
    setting = found["thresholds"]["perplexity_max"]
    assert (setting["value"], setting["false_positives"], setting["n_good"]) == (98, 2, 100)
    assert setting["by_class"]["salad"]["recall"] == 0.5
    assert (found["false_positives"], found["n_bad"], found["found"]) == (2, 3, 2)


def test_the_file_says_what_each_threshold_rests_on() -> None:
    samples = good(*map(float, range(1, 101))) + bad(50.0, 200.0)
    aim = Aim(wanted=(PERPLEXITY,), rate=0.03)
    text = document([base(samples, rate=0.03)], aim, scoring_model="small\nmodel")
    assert tomllib.loads(text) == {"base": {"perplexity_max": 98.0}}
    assert "# Scoring model: smallmodel." in text
    assert "2 of them rejected by any (2.97% of all such expected, at most 6.16% with" in text
    assert "# 100 good, 2 above (at most 6.16%); 50.00% of 2 bad." in text
