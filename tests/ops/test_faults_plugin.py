"""The faults' logits processors, driven through vLLM's own interface on CPU tensors."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from msgspec import to_builtins
from sluicegate.ops.faults import KEY, PAST_THE_MASK, Fault, Strike
from sluicegate.ops.faults_plugin import FaultsAfter, FaultsBefore
from vllm import SamplingParams
from vllm.v1.sample.logits_processor.interface import BatchUpdate, MoveDirectionality

# vLLM and what it imports warn of many things that are not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")

VOCABULARY = 50
IDS = (11, 12, 13)
Faults = FaultsBefore | FaultsAfter


def strike(kind: Fault, at: int = 2, length: int = 4, key: str = "") -> Strike:
    ids = IDS if kind not in (Fault.NAN, Fault.UNIFORM, Fault.SALAD) else ()
    return Strike(kind=kind, at=at, length=length, seed=5, ids=ids, key=key)


def make(kind: Fault) -> Faults:
    processor: Any = FaultsAfter if kind in PAST_THE_MASK else FaultsBefore
    made: Faults = processor(None, torch.device("cpu"), False)
    return made


def params(asked: Strike | None, temperature: float = 1.0) -> SamplingParams:
    extra = None if asked is None else {KEY: to_builtins(asked)}
    return SamplingParams(extra_args=extra, temperature=temperature)


def update(
    added: Sequence[tuple[int, SamplingParams, list[int]]] = (),
    removed: Sequence[int] = (),
    moved: Sequence[tuple[int, int, MoveDirectionality]] = (),
) -> BatchUpdate:
    return BatchUpdate(
        batch_size=4,
        added=[(row, asked, [1, 2], tokens) for row, asked, tokens in added],
        removed=removed,
        moved=moved,
    )


def rows(number: int = 4) -> torch.Tensor:
    return torch.randn((number, VOCABULARY), generator=torch.Generator().manual_seed(1)) * 5


def changed(processor: Faults) -> list[int]:
    before = rows()
    after = processor.apply(before.clone())
    return [row for row in range(4) if not torch.equal(before[row], after[row])]


@pytest.mark.parametrize("kind", Fault)
def test_only_the_row_that_asks_is_struck_and_only_in_its_time(kind: Fault) -> None:
    processor = make(kind)
    tokens: list[int] = []
    processor.update_state(
        update([(0, params(None), []), (2, params(strike(kind)), tokens), (3, params(None), [])])
    )
    struck: list[int] = []
    for position in range(10):
        if changed(processor):
            assert changed(processor) == [2]
            struck.append(position)
        tokens.append(-1)
        processor.update_state(None)
    assert struck == [2, 3, 4, 5]


@pytest.mark.parametrize("kind", Fault)
def test_the_other_processor_leaves_it_alone(kind: Fault) -> None:
    processor = FaultsBefore if kind in PAST_THE_MASK else FaultsAfter
    other: Faults = processor(None, torch.device("cpu"), False)  # pyright: ignore[reportArgumentType]
    other.update_state(update([(0, params(strike(kind, at=0)), [])]))
    assert changed(other) == []


def test_it_follows_the_request_when_rows_move_and_ends_with_it() -> None:
    processor = make(Fault.NAN)
    processor.update_state(update([(3, params(strike(Fault.NAN, at=0)), [])]))
    assert changed(processor) == [3]
    processor.update_state(update(moved=[(3, 1, MoveDirectionality.UNIDIRECTIONAL)]))
    assert changed(processor) == [1]
    processor.update_state(update([(0, params(None), [])], moved=[(0, 1, MoveDirectionality.SWAP)]))
    assert changed(processor) == [0]
    processor.update_state(update(removed=[0]))
    assert changed(processor) == []


def test_with_a_key_only_the_first_request_that_gets_there_is_struck() -> None:
    processor = make(Fault.NAN)
    early: list[int] = []
    once = strike(Fault.NAN, key="job")
    processor.update_state(update([(0, params(once), early)]))
    # It is stopped before the fault's time, by something else: the fault is still to come.
    assert changed(processor) == []
    processor.update_state(update([(1, params(once), first := [5, 6])], removed=[0]))
    assert changed(processor) == [1]
    first.append(0)
    assert changed(processor) == [1]
    processor.update_state(update([(2, params(once), [5, 6])], removed=[1]))
    assert changed(processor) == []
    processor.update_state(update([(3, params(strike(Fault.NAN, key="other")), [5, 6])]))
    assert changed(processor) == [3]


@pytest.mark.parametrize(
    "kind", [Fault.LOOP, Fault.MOJIBAKE, Fault.LANGUAGE, *sorted(PAST_THE_MASK)]
)
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0, 2.0])
def test_the_forced_ids_win_at_any_temperature(kind: Fault, temperature: float) -> None:
    processor = make(kind)
    tokens: list[int] = []
    asked = strike(kind, at=0, length=7)
    processor.update_state(update([(0, params(asked, temperature), tokens)]))
    for position in range(7):
        row = processor.apply(rows())[0]
        share = torch.softmax(row / (temperature or 1.0), -1)
        assert share.argmax() == IDS[position % 3]
        assert share.max() > 0.999
        tokens.append(-1)


@pytest.mark.parametrize("kind", [Fault.LOOP, Fault.MOJIBAKE, Fault.LANGUAGE])
def test_a_forced_id_that_is_banned_leaves_the_models_next_best(kind: Fault) -> None:
    processor = make(kind)
    processor.update_state(update([(0, params(strike(kind, at=0)), [])]))
    before = rows()
    row = processor.apply(before.clone())[0]
    row[IDS[0]] = -torch.inf
    before[0, IDS[0]] = -torch.inf
    assert torch.equal(row.argsort(), before[0].argsort())


def test_the_numeric_faults_are_what_they_say() -> None:
    made: dict[Fault, torch.Tensor] = {}
    for kind in (Fault.NAN, Fault.UNIFORM, Fault.SALAD):
        processor = make(kind)
        processor.update_state(update([(0, params(strike(kind, at=0)), [])]))
        wide = torch.zeros((1, 49152))
        wide[0, :3] = torch.tensor([30.0, 29.0, -torch.inf])
        made[kind] = processor.apply(wide)[0]
    assert made[Fault.NAN].isnan().all()
    assert (made[Fault.UNIFORM] == made[Fault.UNIFORM][0]).all()
    salad = torch.softmax(made[Fault.SALAD], -1)
    assert salad.max() < 0.01
    # Greedy must not find the model's own choice in it.
    assert int(salad.argmax()) > 1


def test_a_salad_is_seeded_and_differs_from_token_to_token() -> None:
    def picks() -> list[int]:
        processor = make(Fault.SALAD)
        tokens: list[int] = []
        processor.update_state(update([(0, params(strike(Fault.SALAD, at=0)), tokens)]))
        found: list[int] = []
        for _ in range(4):
            found.append(int(processor.apply(torch.zeros((1, 49152)))[0].argmax()))
            tokens.append(-1)
        return found

    assert picks() == picks()
    assert len(set(picks())) == 4


def test_an_order_that_cannot_be_read_is_refused_at_admission() -> None:
    FaultsBefore.validate_params(params(strike(Fault.NAN)))
    with pytest.raises(ValueError, match="kind"):
        FaultsBefore.validate_params(SamplingParams(extra_args={KEY: {"kind": "gremlins"}}))
