"""docs/deploy.md and ops/deploy/: files that parse and fit the code, metrics, TLS."""

import configparser
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs
from prometheus_client import Counter, Gauge, Histogram
from sluicegate.ops import cmd_agent_run, cmd_checker, console
from sluicegate.ops.embedded_model import REQUIREMENT
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.settings import FIELDS, OTHER_VARIABLES
from sluicegate.producer import BrokerUnreachable, InvalidMessage, Producer, Reason
from sluicegate.producer.confirms import ConfirmedPublisher
from sluicegate.producer.connection import close, connect
from sluicegate.rollback import default_retry_table
from sluicegate.schemas import Names
from sluicegate.schemas.limits import MAX_OUTCOME_BYTES
from sluicegate.schemas.topology import DELIVERY_LIMIT, RUNGS
from sluicegate.worker import metrics
from sluicegate.worker.config import Config, check
from sluicegate.worker.scoring import Limits
from sluicegate.worker.service import ExitCode
from sluicegate.worker.sickness import Ailment, Rules
from sluicegate.worker.stall import PREFILL_TOKENS_S

from .conftest import Certificates
from .pages import ROOT, blocks, read, section, table

TEXT = read("docs/deploy.md")
FOLDER = ROOT / "ops/deploy"
UNITS = sorted(FOLDER.glob("*.service"))
DEFAULT = Config()
# Settling what is interrupted, closing engine and connection, at most: see worker/service.py.
REST_S = 50
NEEDED_S = DEFAULT.drain_grace_s + DEFAULT.publish_timeout_s + REST_S
VARIABLES = {field.variable for field in FIELDS.values()} | set(OTHER_VARIABLES)


def service(unit: Path) -> dict[str, str]:
    """The settings of a unit's service, `Environment` aside, by their names in small letters."""
    parser = configparser.RawConfigParser(strict=False, delimiters="=")
    parser.read_string(unit.read_text(encoding="utf-8"))
    return dict(parser["Service"])


def environment(unit: Path) -> dict[str, str]:
    """What a unit sets in the environment; it may do so on several lines."""
    lines = re.findall(r"^Environment=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    pairs = [pair.partition("=") for line in lines for pair in line.split()]
    return {name: value for name, _, value in pairs}


# What the service of a unit is started by.
STARTED_BY = {"worker": "worker", "checker": "checker", "agent": "agent run"}
PORT = cmd_checker.PORT


def kind_of(unit: Path) -> str:
    """`worker`, `checker` or `agent`."""
    return unit.stem.removeprefix("sluicegate-").removesuffix("@")


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_units_give_a_service_time_to_drain(path: Path) -> None:
    said = service(path)
    assert said["killmode"] == "mixed"
    assert seconds(said["timeoutstopsec"]) >= NEEDED_S
    assert said["restart"] == "on-failure"
    # Bad settings are not worth another try, which a worker that ran never ends with; nor is one
    # that has tried itself.
    assert said["restartpreventexitstatus"] == f"{console.USAGE} {ExitCode.QUARANTINED}"
    assert console.USAGE not in set(ExitCode)
    assert said["execstart"] == f"/opt/sluicegate/bin/sluice {STARTED_BY[kind_of(path)]}"
    assert said["environmentfile"] == f"/etc/sluicegate/{kind_of(path)}.env"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_units_set_what_can_be_set(path: Path) -> None:
    said = environment(path)
    ours = {name for name in said if name.startswith("SLUICE_")}
    assert {"SLUICE_CONFIG", "SLUICE_LOG_FORMAT"} <= ours <= VARIABLES
    port = said.get("SLUICE_METRICS_PORT", str(DEFAULT.metrics_port))
    assert port == {
        "sluicegate-worker": str(DEFAULT.metrics_port),
        "sluicegate-worker@": "947%i",
        "sluicegate-checker": "9465",
        "sluicegate-agent": "9466",
    }.get(path.stem)


def test_the_page_names_the_ports_of_the_other_units() -> None:
    ports = {
        kind: environment(FOLDER / f"sluicegate-{kind}.service")["SLUICE_METRICS_PORT"]
        for kind in ("checker", "agent")
    }
    said = f"the unit of the checker has {ports['checker']}, that of the agent service "
    assert f"{said}{ports['agent']}" in " ".join(TEXT.split())
    # Neither a single worker's nor one of those of sluicegate-worker@.
    used = {*map(int, ports.values())}
    assert len(used) == len(ports)
    assert not used & {DEFAULT.metrics_port, *range(9470, 9480)}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_units(path: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not here")
    # The program is not where the unit says.
    copy = tmp_path / path.name.replace("@", "@0")
    copy.write_text(path.read_text().replace("/opt/sluicegate/bin/sluice", "/bin/true"))
    done = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert copy.name not in done.stderr


def test_the_units_differ_in_what_tells_the_instances_apart() -> None:
    one, many = (path.read_text().splitlines() for path in UNITS if kind_of(path) == "worker")
    added = [line for line in many if line not in one]
    assert len(many) == len(one) + 2
    assert all(re.search(r"%i|^#", line) for line in added)


def compose() -> Any:
    return yaml.safe_load(read("ops/deploy/compose.yaml"))


def test_the_compose_file_fits_the_code() -> None:
    services: dict[str, Any] = compose()["services"]
    assert set(services) == {"rabbitmq", "topology", "worker", "checker", "agent"}
    assert services["topology"]["command"] == ["topology", "apply"]
    port = DEFAULT.metrics_port
    assert f"127.0.0.1:{port}:{port}" in services["worker"]["ports"]
    # A port of the host would stand in the way of a second one.
    assert "ports" not in services["checker"]
    assert "ports" not in services["agent"]
    assert services["agent"]["command"] == STARTED_BY["agent"].split()
    for name, own in (("worker", port), ("checker", PORT), ("agent", cmd_agent_run.PORT)):
        each = services[name]
        assert seconds(each["stop_grace_period"]) >= NEEDED_S
        assert each["init"] is True
        probe = each["healthcheck"]["test"][-1]
        assert f"http://127.0.0.1:{own}/readyz" in probe
        compile(probe, "healthcheck", "exec")
    batch = services["checker"]["environment"]["SLUICE_CHECK_BATCH"]
    assert batch == f"${{SLUICE_CHECK_BATCH:-{DEFAULT.check_batch}}}"
    agent = services["agent"]["environment"]
    assert agent["SLUICE_MODEL"] == services["worker"]["environment"]["SLUICE_MODEL"]
    assert agent["SLUICE_AGENT_SLOTS"] == f"${{SLUICE_AGENT_SLOTS:-{DEFAULT.agent_slots}}}"
    for each in services.values():
        for name in each["environment"]:
            assert name in VARIABLES or not name.startswith("SLUICE_")


def test_the_compose_file_names_files_that_are_there() -> None:
    targets = re.findall(r"^FROM \S+ AS (\w+)$", read("ops/deploy/Dockerfile"), flags=re.MULTILINE)
    assert targets == ["gpu", "cpu", "checker"]
    builds = [compose()["x-image"]["build"], compose()["services"]["checker"]["build"]]
    for build in builds:
        context = (FOLDER / build["context"]).resolve()
        assert context == ROOT
        assert context / build["dockerfile"] == FOLDER / "Dockerfile"
    assert [build["target"] for build in builds] == ["gpu", "checker"]
    mounted = [
        volume.split(":")[0]
        for each in compose()["services"].values()
        for volume in each.get("volumes", ())
        if volume.startswith(".")
    ]
    assert mounted == ["./rabbitmq.conf"]
    assert (FOLDER / mounted[0]).is_file()


def test_the_image_has_the_versions_of_the_project() -> None:
    dockerfile = read("ops/deploy/Dockerfile")
    project = tomllib.loads(read("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    (gpu,) = extras["gpu"]
    for extra in re.findall(r'"\.\[(\w+)\]"', dockerfile):
        assert extra in extras
    version = re.search(r"vllm-openai:v([\d.]+)", dockerfile)
    assert version is not None
    least = re.search(r">=(\d+\.\d+)", gpu)
    assert least is not None
    assert version[1].startswith(least[1])
    assert dockerfile.count(REQUIREMENT) == 2
    assert REQUIREMENT in TEXT
    commands = re.findall(r'^CMD \["(\w+)"\]$', dockerfile, re.MULTILINE)
    assert commands == ["worker", "worker", "checker"]
    for name in re.findall(r"(SLUICE_\w+)=", dockerfile):
        assert name in VARIABLES
    worker, checker = str(DEFAULT.metrics_port), str(PORT)
    exposed = re.findall(r"^EXPOSE (\d+)$", dockerfile, re.MULTILINE)
    assert exposed == [worker, worker, checker]
    agent = cmd_agent_run.PORT
    assert f"where none is set, a checker {checker}, an agent service {agent}" in TEXT


def test_the_notes_on_kubernetes_fit_the_code() -> None:
    (text,) = blocks(section(TEXT, "Kubernetes"), "yaml")
    spec = yaml.safe_load(text)["spec"]
    assert spec["terminationGracePeriodSeconds"] >= NEEDED_S
    (worker,) = spec["containers"]
    assert worker["ports"] == [{"name": "status", "containerPort": DEFAULT.metrics_port}]
    start = worker["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= DEFAULT.engine_start_timeout_s
    assert worker["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert worker["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {each["name"] for each in worker["env"]} <= VARIABLES


def test_the_numbers_of_the_settings_are_their_defaults() -> None:
    check(DEFAULT)
    for name, number in re.findall(r"`(\w+)`\s+\(default (\d+)\)", TEXT):
        assert getattr(DEFAULT, name) == int(number), name
    assert re.search(rf"`metrics_port` \(default {DEFAULT.metrics_port}\)", TEXT)
    assert f"+ {REST_S} seconds" in TEXT
    assert DELIVERY_LIMIT == 5
    assert "Work queues, that of the checks among them, give a message back five times" in TEXT


def test_the_settings_of_the_checker_are_told() -> None:
    wanted = {
        f"`{field.name}`"
        for field in structs.fields(Config)
        if field.name.startswith(("check", "scoring", "embedding", "retry"))
    }
    _defaults(table(section(TEXT, "Settings"), "setting").rows, wanted)


def test_the_settings_of_the_agent_service_are_told() -> None:
    wanted = {f"`{field.name}`" for field in FIELDS.values() if field.topic == "Agents"}
    _defaults(table(section(TEXT, "Agent services"), "setting").rows, wanted)


def test_the_settings_of_tls_and_of_texts_are_told() -> None:
    of_tls = {f"`{name}`" for name in FIELDS if re.fullmatch(r"amqp_\w+_file", name)}
    _defaults(table(section(TEXT, "TLS"), "setting").rows, of_tls)
    of_texts = {f"`{field.name}`" for field in FIELDS.values() if field.topic == "Texts"}
    _defaults(table(section(TEXT, "Texts"), "setting").rows, of_texts)


def test_the_settings_of_the_engines_health_are_told() -> None:
    wanted = {f"`{field.name}`" for field in FIELDS.values() if field.topic == "Engine's health"}
    assert len(wanted) == 7
    _defaults(table(section(TEXT, "The engine's health"), "setting").rows, wanted)
    text = section(TEXT, "The engine's health")
    rules = Rules()
    assert f"the last {rules.numeric_of} attempts" in text
    assert f"by {PREFILL_TOKENS_S:g} tokens a second" in text
    (row,) = (row for row in table(TEXT, "metric").rows if "quarantines" in row[0])
    assert set(re.findall(r"`(\w+)`", row[3])) == {each.value for each in Ailment}


def _defaults(rows: tuple[tuple[str, ...], ...], wanted: set[str]) -> None:
    assert {row[0] for row in rows} == wanted
    for name, default, meaning in rows:
        value = getattr(DEFAULT, name.strip("`"))
        assert default == (f"{value:g}" if isinstance(value, int | float) else default)
        assert bool(value) or default in ("none", "the embedded model", "0")
        assert meaning


def test_the_bounds_of_the_scoring_model_are_told() -> None:
    text = " ".join(section(TEXT, "Checkers").split())
    assert f"one forward pass of {Limits().batch:,} tokens" in text
    assert f"Of a long text {Limits().text:,} tokens are scored" in text


def test_the_rungs_and_the_limits_of_retries_are_told() -> None:
    text = section(TEXT, "Retry rungs")
    names = Names()
    first, *others = RUNGS
    assert f"`{names.retry}`" in text
    assert f"`{names.retry_queue(first)}`" in text
    assert all(f"`{rung}`" in text for rung in others)
    # The first faults climb the rungs, the others stay on the last.
    faults = default_retry_table().limits.faults
    (waits,) = (row[1] for row in table(text, "what happened").rows if "engine failed" in row[0])
    climb = [*RUNGS.values(), *[max(RUNGS.values())] * (faults - len(RUNGS))]
    told = [f"{wait} s" if wait < 60 else f"{wait // 60} min" for wait in climb]
    assert waits == f"{', '.join(told)}, each less up to a fifth by lot"
    assert faults == 5
    assert "The sixth fault of the engine under one attempt" in text


def test_the_brokers_configuration_fits_the_settings() -> None:
    lines = read("ops/deploy/rabbitmq.conf").splitlines()
    said = dict(line.split(" = ") for line in lines if line and not line.startswith("#"))
    assert int(said["consumer_timeout"]) == DEFAULT.consumer_timeout_s * 1000
    assert int(said["max_message_size"]) > MAX_OUTCOME_BYTES


@pytest.mark.broker
async def test_the_brokers_configuration_is_in_force(docs_broker: PrivateBroker) -> None:
    connection = await connect(docs_broker.url, timeout_s=10, name="tests")
    try:
        with pytest.raises(InvalidMessage) as caught:
            await ConfirmedPublisher(connection).publish(
                Names().dlx, "", b"x" * 8_388_609, kind="x", correlation_id=None, timeout_s=10
            )
    finally:
        await close(connection)
    assert caught.value.reason is Reason.TOO_LARGE


@pytest.mark.broker
async def test_tls_as_the_page_has_it(
    docs_broker: PrivateBroker, certificates: Certificates | None
) -> None:
    if certificates is None:
        pytest.skip("the program openssl is missing")
    assert docs_broker.running
    url = f"amqps://guest:guest@localhost:{certificates.port}/"
    async with Producer(f"{url}?cafile={certificates.certificate}") as producer:
        assert producer.reply_key
    with pytest.raises(BrokerUnreachable, match="certificate"):
        async with Producer(url):
            pass
    # The name is checked, too: the certificate is not for this one.
    other = url.replace("localhost", "127.0.0.1")
    with pytest.raises(BrokerUnreachable, match="certificate"):
        async with Producer(f"{other}?cafile={certificates.certificate}"):
            pass


def test_every_metric_is_told() -> None:
    wanted: dict[str, tuple[str, str]] = {}
    for each in vars(metrics).values():
        if isinstance(each, Counter | Gauge | Histogram):
            described = next(iter(each.describe()))
            # A counter is described without the ending that it is shown with.
            name = described.name + ("_total" if described.type == "counter" else "")
            labels: tuple[str, ...] = vars(each)["_labelnames"]
            wanted[f"`{name}`"] = (described.type, ", ".join(f"`{label}`" for label in labels))
    assert len(wanted) > 10
    told = {row[0]: (row[1], row[2]) for row in table(TEXT, "metric").rows}
    assert told == wanted
    assert all(row[3] for row in table(TEXT, "metric").rows)


def test_every_path_of_the_status_port_is_told() -> None:
    told = {row[0] for row in table(TEXT, "path").rows}
    source = read("worker/status_server.py")
    assert told == {f"`{path}`" for path in re.findall(r'"(/\w+)"', source)}
