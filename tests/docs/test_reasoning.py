"""What docs/reasoning.md names is there: keys, flaws, settings, metrics; and its examples work."""

import re

import msgspec
from sluicegate.guards.finding import Finding, Level
from sluicegate.guards.profiles import Profile, profile
from sluicegate.ops.settings import FIELDS
from sluicegate.rollback import default_table
from sluicegate.schemas import Flaw, Reasoning, ReasoningRecord
from sluicegate.worker import metrics

from .pages import blocks, code_spans, read, section, table

PAGE = read("docs/reasoning.md")
SPANS = code_spans(PAGE)


def test_keys_and_settings_exist() -> None:
    known = {*Profile.__struct_fields__, *FIELDS, *Flaw, "reasoning_long_loop_"}
    known |= {"reasoning_runaway", "reasoning_tokens", "reasoning_budget"}
    for span in SPANS:
        if re.fullmatch(r"reasoning_\w+", span):
            assert span in known, span


def test_every_key_and_flaw_of_reasoning_is_on_the_page() -> None:
    keys = {key for key in Profile.__struct_fields__ if key.startswith("reasoning_")}
    named = {span.replace("reasoning_loop_", "reasoning_long_loop_") for span in SPANS}
    # Between low and max stand the others.
    between = {"reasoning_medium", "reasoning_high"}
    assert keys - between <= named | set(SPANS)
    assert {flaw for flaw in Flaw if flaw.is_of_reasoning} <= set(SPANS)


def test_the_record_is_described() -> None:
    described = code_spans(section(PAGE, "What is written down"))
    assert set(ReasoningRecord.__struct_fields__) - {"text"} <= {*described}


def test_metrics_exist() -> None:
    names = {value._name for value in vars(metrics).values() if hasattr(value, "_name")}
    for name in re.findall(r"sluice_[a-z_]+(?=[{`])", PAGE):
        assert name.removesuffix("_total") in names, name


def test_the_ladder_is_the_tables() -> None:
    finding = Finding(
        gate="reasoning",
        level=Level.REASONING,
        flaw=Flaw.REASONING_CAP,
        tokens=(0, 1),
        chars=(0, 1),
        score=1,
        threshold=1,
    )
    rungs = default_table().row(finding).rungs
    *steps, end = table(PAGE, "").rows
    assert len(steps) == len(rungs)
    assert "ends" in end[1]
    for (_, _, changed), rung in zip(steps, rungs, strict=True):
        assert ("seed" in changed) == rung.changes.reseed


def test_the_examples_of_jobs_are_right() -> None:
    (example,) = [each for each in blocks(PAGE, "json") if "prompt" in each]
    asked = msgspec.json.decode(example, type=dict[str, object])["reasoning"]
    assert msgspec.convert(asked, Reasoning) == Reasoning(mode="cut", effort="low")
    (gates,) = re.findall(r"`\{\"gates\": (\{.*?\})\}`", PAGE)
    changed = profile("chat", msgspec.json.decode(gates))
    assert changed.reasoning_sentence_tokens == 0


def test_the_share_that_is_kept_for_the_answer() -> None:
    found = re.search(
        r"`max_tokens` (\d+) and a share of ([\d.]+) it is (\d+)", " ".join(PAGE.split())
    )
    assert found is not None
    assert int(found[3]) == int(int(found[1]) * (1 - float(found[2])))
    assert profile("chat").reasoning_answer_share == float(found[2])
