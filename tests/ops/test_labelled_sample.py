"""The frozen sample through the gates: what they find of it, and that they harm nothing."""

from collections import Counter
from pathlib import Path

import pytest
from sluicegate.guards.coherence import Acting
from sluicegate.guards.pipeline import streaming_gates
from sluicegate.guards.profiles import profile
from sluicegate.ops.embedded_model import ensure_embedded_model
from sluicegate.ops.evaluation import Judged, judge, parse
from sluicegate.worker.model_tokenizer import load_tokenizer

SAMPLE = Path(__file__).parents[1] / "data" / "labelled_sample.jsonl"
# Faults that leave no doubt.
SHARP = ("controls", "loop:", "nan:", "out-of-range", "replacement", "special")
# Faults of which some are missed, with the least share that is found.
BLUNT = {"mojibake": 0.8, "wrong-tokenizer": 0.8}


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    with SAMPLE.open("rb") as file:
        lines, problems = parse(file)
    assert problems == []
    loaded = load_tokenizer(str(ensure_embedded_model()))
    denied = loaded.denied()
    found: list[Judged] = []
    for line in lines:
        thresholds = profile(line.profile or "chat")
        gates = streaming_gates(thresholds, vocabulary_size=len(loaded.tokenizer), denied=denied)
        acting = Acting(
            gates, findings=thresholds.coherence_findings, span=thresholds.coherence_span
        )
        ids = loaded.encode(line.text) if line.token_ids is None else line.token_ids
        found.append(judge(line, loaded.steps(ids), acting.feed, thresholds))
    return found


def test_the_sample_is_small_and_wide() -> None:
    assert SAMPLE.stat().st_size <= 300_000
    with SAMPLE.open("rb") as file:
        lines, _ = parse(file)
    classes = Counter(line.kind for line in lines)
    assert sum(kind.startswith("language:") for kind in classes) >= 30
    assert sum(line.label == "bad" for line in lines) >= 70


@pytest.mark.engine
def test_no_good_text_is_touched(judged: list[Judged]) -> None:
    touched = [(one.line.id, one.finding) for one in judged if one.line.label == "good"]
    assert touched
    assert [one for one in touched if one[1] is not None] == []


@pytest.mark.engine
def test_every_sharp_fault_is_found(judged: list[Judged]) -> None:
    sharp = [one for one in judged if one.line.label == "bad" and one.line.kind.startswith(SHARP)]
    assert len(sharp) >= 40
    assert [one.line.id for one in sharp if not one.found] == []


@pytest.mark.engine
@pytest.mark.parametrize("kind", BLUNT)
def test_most_of_the_blunt_faults_are_found(judged: list[Judged], kind: str) -> None:
    some = [one.found for one in judged if one.line.kind == kind]
    assert sum(some) >= BLUNT[kind] * len(some) > 0
