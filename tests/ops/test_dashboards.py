"""ops/dashboards/ and the example for KEDA: files that parse, name what exists, and are told of."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Counter, Gauge, Histogram
from sluicegate.worker import metrics
from sluicegate.worker.config import Config, slots

from ..docs.pages import anchor, headings, read, section
from ..docs.test_deploy import NEEDED_S
from .private_prometheus import PROMTOOL

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "ops/dashboards"
RULES = yaml.safe_load((FOLDER / "rules.yaml").read_text())
TESTS = yaml.safe_load((FOLDER / "rules_test.yaml").read_text())
DASHBOARD = json.loads((FOLDER / "sluicegate.json").read_text())
ALERTS = {
    rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule
}
RECORDED = {
    rule["record"]: rule for group in RULES["groups"] for rule in group["rules"] if "record" in rule
}
OPERATIONS = read("docs/operations.md")
DEFAULT = Config()
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="the program promtool is missing")


def exported() -> Iterator[tuple[str, set[str]]]:
    """Every metric of ours, with the names that its series have."""
    for each in vars(metrics).values():
        if isinstance(each, Counter | Gauge | Histogram):
            described = next(iter(each.describe()))
            endings = {"counter": ("_total",), "gauge": ("",)}.get(
                described.type, ("_bucket", "_sum", "_count")
            )
            yield described.name, {f"{described.name}{ending}" for ending in endings}


def queries() -> list[str]:
    targets = [target for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [
        *(rule["expr"] for rule in (*ALERTS.values(), *RECORDED.values())),
        *(target["expr"] for target in targets),
    ]


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_takes_the_rules_and_the_example() -> None:
    promtool("check", "rules", "rules.yaml")
    promtool("check", "config", "prometheus.yaml")


@needs_promtool
def test_alerts_fire_on_faults_and_on_nothing_else() -> None:
    promtool("test", "rules", "rules_test.yaml")


def test_each_alert_is_tried_on_a_fault_and_on_a_healthy_deployment() -> None:
    healthy, *faults = TESTS["tests"]
    silent = [each for each in healthy["alert_rule_test"] if not each.get("exp_alerts")]
    assert len(silent) == len(healthy["alert_rule_test"])
    assert {each["alertname"] for each in silent} == set(ALERTS)
    fired = {
        each["alertname"]
        for test in faults
        for each in test["alert_rule_test"]
        if each.get("exp_alerts")
    }
    before = {
        each["alertname"]
        for test in faults
        for each in test["alert_rule_test"]
        if not each.get("exp_alerts")
    }
    assert fired == before == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_says_what_it_is_and_leads_to_what_to_do(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning")
    said = rule["annotations"]
    assert said["summary"]
    assert said["description"]
    page, _, place = said["runbook"].partition("#")
    assert page == "docs/operations.md"
    assert place == anchor(f"`{name}`")
    told = re.findall(r"^- \*\*(\w+):\*\* \S", section(OPERATIONS, f"`{name}`"), re.MULTILINE)
    assert told == ["Means", "See", "Do"]


def test_no_alert_is_told_that_is_gone() -> None:
    found = {each.strip("`") for each in headings(OPERATIONS) if each.startswith("`Sluice")}
    assert found == set(ALERTS)


def test_queries_name_what_is_exported_and_all_of_it() -> None:
    series = dict(exported())
    known = {name for names in series.values() for name in names}
    text = "\n".join(queries())
    named = set(re.findall(r"\bsluice_\w+", text))
    assert named <= known
    assert set(re.findall(r"\bsluice:[\w:]+", text)) <= set(RECORDED)
    assert [name for name, names in series.items() if not names & named] == []


def test_panels_the_text_names_are_there() -> None:
    titles = {panel["title"] for panel in DASHBOARD["panels"]}
    alerts = " ".join(section(OPERATIONS, "Alerts").split())
    parts = re.findall(r'panels? ("[^"]+"(?: and "[^"]+")?)', alerts)
    named = {name for part in parts for name in re.findall(r'"([^"]+)"', part)}
    assert len(named) > 5
    assert named <= titles


def test_the_dashboard_can_be_imported() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used - {"__rate_interval", "__all"} == variables
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert grid["x"] + grid["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        for target in panel.get("targets", ()):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_the_example_scrapes_every_kind_of_service() -> None:
    (scrape,) = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"]
    assert scrape["job_name"] == "sluicegate"
    first = DEFAULT.metrics_port
    targets = [f"127.0.0.1:{port}" for port in range(first, first + 4)]
    assert scrape["static_configs"] == [{"targets": targets}]


def keda() -> tuple[dict[str, Any], dict[str, Any], str]:
    """The scaled object, the deployment, and the file as text."""
    text = read("ops/deploy/keda.yaml")
    scaled, deployment = yaml.safe_load_all(text)
    return scaled, deployment, text


def test_workers_that_are_taken_away_have_time_to_end() -> None:
    scaled, deployment, _ = keda()
    spec = deployment["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] >= NEEDED_S
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert "replicas" not in deployment["spec"]
    down = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] >= DEFAULT.attempt_timeout_s
    (policy,) = down["policies"]
    assert policy["value"] == 1
    assert policy["periodSeconds"] >= spec["terminationGracePeriodSeconds"]
    # Nobody would count the queues.
    assert scaled["spec"]["minReplicaCount"] >= 1
    assert spec["containers"][0]["ports"][0]["containerPort"] == DEFAULT.metrics_port


def test_scaling_counts_what_is_unacknowledged() -> None:
    scaled, _, text = keda()
    (trigger,) = scaled["spec"]["triggers"]
    wanted = trigger["metadata"]
    assert "sluice:jobs_outstanding:sum" in RECORDED
    assert "sluice:jobs_outstanding:sum" in wanted["query"]
    # Without data KEDA must not read zero.
    assert wanted["ignoreNullValues"] == "false"
    assert int(wanted["threshold"]) == slots(DEFAULT)
    commented = re.findall(
        r"^    # ( *\S.*)$", text[text.index("# In place of it") :], re.MULTILINE
    )
    start = next(index for index, line in enumerate(commented) if line.startswith("- type"))
    (other,) = yaml.safe_load("\n".join(commented[start : start + 8]))
    assert other["type"] == "rabbitmq"
    assert other["metadata"]["protocol"] == "http"
    assert other["metadata"]["excludeUnacknowledged"] == "false"
