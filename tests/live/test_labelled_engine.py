"""The part of the labelled set that the real engine writes, faults and all, in small."""

import asyncio
import json
import os
import sys
from collections import defaultdict
from typing import Any

import pytest
import pytest_asyncio
from sluicegate.ops.embedded_model import offline_environment

Lines = defaultdict[str, list[dict[str, Any]]]


@pytest_asyncio.fixture(scope="module")
async def lines(model: str, tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """A small set by class. In a process of its own: the engine must run in that process."""
    out = tmp_path_factory.mktemp("labelled")
    command = (sys.executable, "-m", "sluicegate.ops.labelled", str(out))
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--no-sources", "--scale", "0.02"),
        env=os.environ | offline_environment() | {"SLUICE_MODEL": model},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-4000:]
    by_class: Lines = defaultdict(list)
    for line in (out / "labelled.jsonl").read_bytes().splitlines():
        one = json.loads(line)
        by_class[one["class"]].append(one)
    # Each stage is kept, so that a run that was interrupted goes on behind it.
    written = sorted(path.name for path in (out / "model").iterdir())
    assert written == [
        f"{stage}.json"
        for stage in (
            "corrupt-cache",
            "hot",
            "loop-greedy",
            "nan-engine",
            "noisy-weights",
            "normal",
        )
    ]
    return by_class


def test_what_the_sound_model_wrote_is_good(lines: Lines) -> None:
    assert lines["model"]
    for line in lines["model"]:
        assert line["label"] == "good"
        assert line["prompt"]
        assert len(line["text"]) > 50


@pytest.mark.parametrize("kind", ["model:hot", "model:noisy-weights", "model:corrupt-cache"])
def test_a_fault_begins_behind_a_sound_beginning(lines: Lines, kind: str) -> None:
    assert lines[kind]
    sound = [line["text"] for line in lines["model"]]
    for line in lines[kind]:
        assert line["label"] == "bad"
        assert 0 < line["onset"] < len(line["text"])
        if kind != "model:corrupt-cache":  # there the fault comes two tokens later
            assert any(one.startswith(line["text"][: line["onset"]]) for one in sound)


def test_nan_logits_bring_token_0(lines: Lines) -> None:
    assert lines["nan:engine"]
    for line in lines["nan:engine"]:
        assert line["token_ids"][-8:] == [0] * 8


def test_the_greedy_model_loops(lines: Lines) -> None:
    for line in lines["loop:greedy"]:
        assert line["text"].count(line["text"][-12:]) >= 3
