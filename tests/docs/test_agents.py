"""docs/agents.md says what the code says: options, budgets, metrics, thresholds, states, phases;
and its programs run."""

import asyncio
import inspect
import re
import sys
import types
from collections.abc import AsyncGenerator
from typing import Any, get_args

import msgspec
import pytest
import pytest_asyncio
from sluicegate.guards import circles, watchdog
from sluicegate.guards.breaker import decide
from sluicegate.guards.watchdog_thresholds import read_watchdog, task_types
from sluicegate.guards.watchdog_thresholds import watchdog as thresholds_of
from sluicegate.ops.columns import columns
from sluicegate.ops.demo_agent_script import TASK
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.settings import FIELDS
from sluicegate.schemas import Assessment, Budget, Decision
from sluicegate.schemas.agents import AgentJob, Degree, Finding, Phase
from sluicegate.schemas.topology import DEFAULT_NAMESPACE
from sluicegate.worker import metrics
from sluicegate.worker.config import Config
from sluicegate.worker.tools import Tool, tool
from sluicegate.worker.tools.examples import lookup

from ..worker.agent.troupe import Troupe, answer, call, script
from .pages import blocks, read, section, table
from .test_examples import run

PAGE = read("docs/agents.md")
README = read("README.md")
RULES = thresholds_of()


def names(code: str, name: str) -> dict[str, Any]:
    """What a module with this code has."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    try:
        exec(compile(code, name, "exec"), vars(module))  # noqa: S102  our own page
    finally:
        del sys.modules[name]
    return vars(module)


def test_every_option_of_a_tool_is_told() -> None:
    options = [
        each
        for each in inspect.signature(tool).parameters.values()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    rows = table(section(PAGE, "Writing a tool"), "option").rows
    assert [row[0] for row in rows] == [f"`{each.name}`" for each in options]
    words = {False: "no", None: "none", (): "none"}
    told = {row[0].strip("`"): row[1] for row in rows}
    for each in options:
        if each.name not in ("name", "loop_key"):
            assert told[each.name] == words.get(each.default, f"{each.default}".removesuffix(".0"))


def test_the_tools_of_the_page_are_tools() -> None:
    (code,) = (each for each in blocks(section(PAGE, "Writing a tool"), "python"))
    made = {
        name: each for name, each in names(code, "shop_tools").items() if isinstance(each, Tool)
    }
    assert set(made) == {"stock", "refund"}
    assert made["stock"].spec.idempotent
    assert made["refund"].spec.needs_approval
    assert "context" not in made["refund"].spec.parameters["properties"]


def test_the_fields_of_a_budget_are_told() -> None:
    rows = table(section(PAGE, "Budgets"), "field").rows
    usual = msgspec.structs.asdict(Budget())
    assert {row[0].strip("`"): row[1] for row in rows} == {
        name: f"{value:g}" for name, value in usual.items()
    }


METRICS = {
    watchdog.ROUNDS: "rounds_points",
    watchdog.CALL_RATE: "call_rate_points",
    watchdog.TOKEN_RATE: "token_rate_points",
    watchdog.ROUND_SECONDS: "round_seconds_points",
    watchdog.REPEAT_RATE: "repeat_points",
    watchdog.SIMILARITY: "similarity_points",
    watchdog.COSINE: "similarity_points",
    circles.CYCLE: "circle_points",
    circles.FAILURES: "circle_points",
    circles.STALE: "circle_points",
    circles.ERRORS: "circle_points",
}


def test_every_metric_of_the_watchdog_is_told_with_its_points() -> None:
    rows = table(section(PAGE, "The watchdog"), "metric").rows
    assert {row[0].strip("`"): row[2] for row in rows} == {
        name: str(getattr(RULES, points)) for name, points in METRICS.items()
    }
    assert f"the last {RULES.repeat_window} calls" in PAGE


def test_the_task_types_are_told() -> None:
    said = section(PAGE, "Thresholds")
    for name in task_types():
        assert f"`{name}`" in said, name


def test_the_file_of_thresholds_is_one() -> None:
    (text,) = blocks(section(PAGE, "Thresholds"), "toml")
    tables = read_watchdog(text)
    for name in tables:
        assert thresholds_of(name, deployment=tables).rounds_max == tables[name]["rounds_max"]
    (job,) = re.findall(r"`(AgentJob\(.*?\))`", " ".join(section(PAGE, "Thresholds").split()))
    made = eval(job, {"AgentJob": AgentJob})  # noqa: S307  our own page
    assert thresholds_of(made.task_type, made.watchdog).rounds_max == 100


def edges(heading: str) -> set[tuple[str, str]]:
    (diagram,) = blocks(section(PAGE, heading).split("\n### ")[0], "mermaid")
    found = re.findall(r"^\s+(\S+) --> (\w+|\[\*\])", diagram, re.MULTILINE)
    assert len(found) == len(diagram.strip().splitlines()) - 1
    return set(found)


def assessed(score: int) -> Assessment:
    finding = Finding(metric="cycle", value=3, threshold=2, points=score)
    return Assessment(round=1, score=score, circling=bool(score), findings=(finding,) * bool(score))


def test_the_diagram_of_the_breaker_is_what_it_does() -> None:
    taken = {("[*]", Decision().state)}
    queue, seen = [Decision()], set[Decision]()
    while queue:
        before = queue.pop()
        if before in seen:
            continue
        seen.add(before)
        for score in (0, RULES.warn_score, RULES.trip_score):
            after = decide(before, assessed(score), RULES)
            if (after.state, score) != (before.state, 0) or before.state == "warning":
                taken.add((before.state, after.state))
            queue.append(after)
    # Nothing leads out of it but the end.
    assert ("tripped", "tripped") in taken
    taken = (taken - {("tripped", "tripped")}) | {("tripped", "[*]")}
    assert edges("The three degrees") == taken
    assert f"{RULES.warn_score} and more is a warning" in PAGE
    assert f"{RULES.trip_score} and more trips at once" in PAGE
    assert RULES.warnings_max == 3


def test_the_degrees_are_told_in_their_order() -> None:
    told = re.findall(r"^\d\. \*\*(\w+)\.\*\*", section(PAGE, "The three degrees"), re.MULTILINE)
    assert told == [each for each in get_args(Degree) if each != "none"]


def test_the_diagram_of_the_phases_has_them_all() -> None:
    found = edges("Phases")
    assert {state for edge in found for state in edge} - {"[*]"} == set(get_args(Phase))
    assert {to for origin, to in found if origin == "finishing"} == {"ending"}
    assert {origin for origin, to in found if to == "[*]"} == {"ending"}


def test_the_formats_are_told() -> None:
    formats = get_args(msgspec.structs.fields(AgentJob)[_field("format")].type)
    assert {row[0] for row in table(PAGE, "`format`").rows} == {f"`{each}`" for each in formats}


def _field(name: str) -> int:
    return AgentJob.__struct_fields__.index(name)


def test_settings_and_metrics_that_are_named_exist() -> None:
    known = {value._name for value in vars(metrics).values() if hasattr(value, "_name")}
    for name in re.findall(r"sluice_[a-z_]+(?=[{`])", PAGE):
        assert name.removesuffix("_total") in known, name
    for name in re.findall(r"`((?:agent|watchdog|embedding|tool_parser)\w*)`", PAGE):
        assert name in FIELDS or name == "watchdog", name
    config = Config()
    said = " ".join(section(PAGE, "The context window").split())
    assert f"`agent_keep_rounds` ({config.agent_keep_rounds})" in said
    assert f"`agent_fold_after` ({config.agent_fold_after})" in said


def test_the_trace_is_one_of_the_demos() -> None:
    trace, cost = blocks(section(PAGE, "Watching it"), "text")
    assert TASK in trace
    for part in ("→ warn", "→ degrade", "→ terminate", "partial after", "not allowed"):
        assert part in trace
    assert max(map(columns, trace.splitlines())) <= 80
    (rounds,) = re.findall(r"^  rounds +(\d+) +(\d+)$", cost, re.MULTILINE)
    assert int(rounds[0]) < int(rounds[1]) == Budget().rounds
    assert f"partial after {rounds[0]} rounds" in trace


# --- the programs ---


def play(number: int, prompt: str) -> str:
    del prompt
    return call("lookup", city="Lima") if number == 1 else answer("Yes: 10.1 and 2.1 million.")


@pytest_asyncio.fixture
async def services(docs_broker: PrivateBroker) -> AsyncGenerator[Troupe]:
    """A worker and an agent service with the example tools, under the default name."""
    config = Config(
        amqp_url=docs_broker.url, engine="scripted", metrics_port=0, max_model_len=100_000
    )
    troupe = Troupe(docs_broker.url, DEFAULT_NAMESPACE, config)
    await troupe.worker(script(play))
    await troupe.agents([lookup])
    yield troupe
    await troupe.stop()


@pytest.mark.broker
@pytest.mark.parametrize(("page", "heading"), [(PAGE, "A job"), (README, "Agent jobs")])
async def test_the_program_runs(
    docs_broker: PrivateBroker, services: Troupe, page: str, heading: str
) -> None:
    assert services.namespace == DEFAULT_NAMESPACE
    program = next(each for each in blocks(section(page, heading), "python") if "Producer" in each)
    assert len([line for line in program.splitlines() if line]) <= 10
    async with asyncio.timeout(60):
        assert (await run(program, docs_broker)).startswith("Yes: 10.1 and 2.1 million.")
