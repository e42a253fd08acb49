"""Changed sampling: always valid, and nothing where nothing was to change."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.rollback import Changes, differences, mutate
from sluicegate.schemas import Sampling

samplings = st.builds(
    Sampling,
    temperature=st.floats(0, 2),
    top_p=st.floats(0, 1, exclude_min=True),
    top_k=st.integers(0, 1_000_000),
    min_p=st.floats(0, 1),
    repetition_penalty=st.floats(0, 2, exclude_min=True),
    seed=st.none() | st.integers(0, 2**40),
)
changes = st.builds(
    Changes,
    ban=st.booleans(),
    temperature_times=st.floats(0, 4),
    temperature_at_least=st.floats(0, 2),
    greedy=st.booleans(),
    top_p_at_most=st.floats(0.01, 1),
    top_k_at_most=st.integers(0, 1_000_000),
    repetition_penalty_by=st.floats(-1, 1),
    reseed=st.booleans(),
)


@settings(deadline=None)
@given(samplings, changes)
def test_what_comes_out_is_valid(sampling: Sampling, wanted: Changes) -> None:
    changed = mutate(sampling, wanted)
    assert msgspec.convert(msgspec.to_builtins(changed), Sampling) == changed
    assert msgspec.structs.replace(sampling, **differences(sampling, changed)) == changed
    assert changed.top_p <= sampling.top_p
    assert (changed.seed, changed.min_p) == (sampling.seed, sampling.min_p)


@settings(deadline=None)
@given(samplings)
def test_what_is_no_sampling_parameter_changes_nothing(sampling: Sampling) -> None:
    only_places = Changes(ban=True, guide="\n", reseed=True, tokens=8)
    assert mutate(sampling, only_places) is sampling
    assert mutate(sampling, Changes()) is sampling


@pytest.mark.parametrize(
    ("wanted", "changed"),
    [
        (Changes(temperature_times=0.5), {"temperature": 0.4}),
        (Changes(temperature_times=4.0), {"temperature": 2.0}),
        (Changes(temperature_at_least=1.0), {"temperature": 1.0}),
        (Changes(temperature_at_least=0.5), {}),
        (Changes(greedy=True, temperature_at_least=1.0), {"temperature": 0.0}),
        (Changes(top_p_at_most=0.5, top_k_at_most=20), {"top_p": 0.5, "top_k": 20}),
        (Changes(top_p_at_most=0.95, top_k_at_most=50), {}),
        (Changes(repetition_penalty_by=0.1), {"repetition_penalty": 1.2}),
        (Changes(repetition_penalty_by=1.0), {"repetition_penalty": 2.0}),
    ],
)
def test_each_change(wanted: Changes, changed: dict[str, float]) -> None:
    job = Sampling(temperature=0.8, top_p=0.9, top_k=40, repetition_penalty=1.1)
    assert differences(job, mutate(job, wanted)) == changed


def test_a_greedy_job_is_warmed_by_a_least_temperature_alone() -> None:
    greedy = Sampling(temperature=0.0)
    assert mutate(greedy, Changes(temperature_times=2.0)) is greedy
    assert mutate(greedy, Changes(temperature_at_least=0.7)).temperature == 0.7
