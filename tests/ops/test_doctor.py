"""`sluice doctor`: each thing that bites is made to, seen, and told with its remedy."""

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops import doctor_broker, doctor_host, doctor_model
from sluicegate.ops.broker_program import require_programs
from sluicegate.ops.doctor_findings import Finding, is_healthy, line, note, ok, summary, trouble
from sluicegate.ops.doctor_model import Told
from sluicegate.ops.doctor_rights import ROLES, Role, needs
from sluicegate.ops.management import Depth
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.topology_roles import roles
from sluicegate.producer import Producer
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import GenerationJob, Names
from sluicegate.worker.config import Config

from ..conftest import apply_namespace

PROGRAM = Path(sys.executable).parent / "sluice"
NAMES = Names("test.doctor")


class TestHost:
    def test_this_machine_can_run_the_tests(self) -> None:
        found = {each.name: each for each in doctor_host.look(Config(metrics_port=0))}
        assert found["python"].verdict == found["packages"].verdict == "ok"
        assert found["status port"].verdict == "ok"

    def test_little_memory(self, tmp_path: Path) -> None:
        told = tmp_path / "meminfo"
        told.write_text("MemTotal: 9 kB\nMemAvailable:  102400 kB\n")
        assert doctor_host.memory(told).verdict == "trouble"
        told.write_text("MemAvailable:  10240000 kB\n")
        assert doctor_host.memory(told).verdict == "ok"
        assert doctor_host.memory(tmp_path / "none").verdict == "unknown"

    def test_a_port_that_is_taken(self) -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            found = doctor_host.port(Config(metrics_port=holder.getsockname()[1]))
        assert found.verdict == "note"
        assert "metrics_port" in found.remedy

    def test_a_host_that_is_not_this_one(self) -> None:
        found = doctor_host.port(Config(metrics_host="192.0.2.1"))
        assert (found.verdict, "metrics_host" in found.remedy) == ("trouble", True)

    def test_few_open_files(self) -> None:
        assert doctor_host.descriptors(Config(lanes="batch=100000000")).verdict == "trouble"

    @given(st.floats(-1e9, 1e9))
    def test_clocks_apart(self, off_s: float) -> None:
        found = doctor_host.clock_beside(2e9, 2e9 + off_s)
        assert found.verdict == ("ok" if abs((2e9 + off_s) - 2e9) <= 5 else "trouble")


class TestTransport:
    @pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9:1", "[::1]:5672", "localhost", ""])
    def test_on_this_host(self, host: str) -> None:
        assert doctor_broker.transport(f"amqp://me:word@{host}/").verdict == "ok"

    @pytest.mark.parametrize("host", ["localhost.example", "127.example", "192.0.2.1", "[fd00::1]"])
    def test_over_a_network(self, host: str) -> None:
        assert doctor_broker.transport(f"amqp://me:word@{host}/").verdict == "note"

    @pytest.mark.parametrize(
        "said", ["", "?no_verify_ssl=0", "?no_verify_ssl=never", "?cafile=/no_verify_ssl"]
    )
    def test_a_certificate_that_is_checked(self, said: str) -> None:
        assert doctor_broker.transport(f"amqps://me:word@192.0.2.1/{said}").verdict == "ok"

    def test_any_certificate(self) -> None:
        assert doctor_broker.transport("amqps://h/?no_verify_ssl=1").verdict == "trouble"


class TestModel:
    told = Told(
        model="m",
        max_model_len=8192,
        vocabulary=100,
        denied=2,
        sentinels=5,
        has_plugin=True,
        has_template=True,
        device="cpu",
        device_free=8 * 2**30,
        device_total=16 * 2**30,
    )

    def verdicts(self, told: Told, config: Config | None = None) -> dict[str, str]:
        found = doctor_model.findings(told, config or Config(), 2**30)
        return {each.name: each.verdict for each in found}

    def test_healthy(self) -> None:
        assert set(self.verdicts(self.told).values()) == {"ok"}

    def test_what_it_may_lack(self) -> None:
        lacking = Told(model="m", device="cpu", device_free=2**30, device_total=2**31)
        assert self.verdicts(lacking) == {
            "model": "ok",
            "tokenizer": "note",
            "plug-in": "note",
            "model memory": "trouble",
        }

    def test_a_device_in_use(self) -> None:
        told = Told(model="m", device="GPU", device_free=40 * 2**30, device_total=80 * 2**30)
        assert self.verdicts(told)["model memory"] == "trouble"
        lower = Config(gpu_memory_utilization=0.4)
        assert self.verdicts(told, lower)["model memory"] == "ok"

    async def test_no_such_model(self) -> None:
        found = [each async for each in doctor_model.look(Config(model="./no-such-folder"))]
        assert [(each.name, each.verdict) for each in found] == [("model", "trouble")]

    @pytest.mark.engine
    async def test_vllm_is_asked(self) -> None:
        found = {each.name: each async for each in doctor_model.look(Config(enforce_eager=True))}
        assert {each.verdict for each in found.values()} == {"ok"}
        assert "in force" in found["plug-in"].said
        assert "8,192" in found["model"].said

    def test_what_vllm_refuses(self) -> None:
        refused = Told(trouble="vLLM does not know an engine argument; check engine_args")
        assert self.verdicts(refused) == {"model": "trouble"}


class TestQueues:
    def look(self, **depths: tuple[int, int]) -> Finding:
        seen = [
            Depth(f"{NAMES.namespace}.{name.replace('_', '.')}", ready, 0, consumers)
            for name, (ready, consumers) in depths.items()
        ]
        return doctor_broker.queues(seen, NAMES)

    def test_nobody_takes_what_waits(self) -> None:
        found = self.look(jobs_batch=(3, 0))
        assert found.verdict == "trouble"
        assert "3 wait in test.doctor.jobs.batch" in found.said

    def test_nearly_full(self) -> None:
        assert self.look(results_shop=(900_000, 1)).verdict == "trouble"

    def test_dead_letters(self) -> None:
        assert self.look(dead=(2, 0), jobs_batch=(5, 1)).verdict == "note"

    def test_logs_keep_what_was_read(self) -> None:
        found = self.look(control_log=(9, 0), agents_journal=(9, 0), pauses_log=(1, 0))
        assert "0 messages wait" in found.said

    def test_work_in_hand(self) -> None:
        assert self.look(jobs_batch=(5, 1), checks=(0, 0), results_shop=(7, 0)).verdict == "ok"


def test_what_is_told_has_no_control_characters() -> None:
    shown = "\n".join(line(trouble("broker", "a\x1b[31mb\nc", "\x07do")))
    assert shown.isprintable() or set(shown) - {"\n"} == set(filter(str.isprintable, shown))
    assert "\x1b" not in shown


def test_a_note_is_no_illness() -> None:
    assert is_healthy([ok("a", "b"), note("c", "d")])
    assert not is_healthy([ok("a", "b"), trouble("c", "d", "e")])
    assert "1 in the way" in summary([trouble("c", "d", "e")])


@pytest_asyncio.fixture(scope="module")
async def node() -> AsyncGenerator[PrivateBroker]:
    async with PrivateBroker(
        config="consumer_timeout = 1300000", plugins=["rabbitmq_management"]
    ) as broker:
        await apply_namespace(broker.url, NAMES.namespace)
        yield broker


def environment(broker: PrivateBroker) -> dict[str, str]:
    """In which `sluice doctor` asks this node."""
    inside = broker._started_node()  # pyright: ignore[reportPrivateUsage]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    ask = {
        name: value
        for name, value in inside.environment(os.environ).items()
        if name == "HOME" or name.startswith(("ERL_", "RABBITMQ_"))
    }
    program = require_programs()[0].with_name("rabbitmqctl")
    words = ["env", *(f"{name}={value}" for name, value in ask.items()), str(program)]
    return kept | {
        "SLUICE_AMQP_URL": broker.url,
        "SLUICE_NAMESPACE": NAMES.namespace,
        "SLUICE_MANAGEMENT_URL": broker.management_url,
        "SLUICE_RABBITMQCTL": shlex.join([*words, "--node", inside.name]),
        "SLUICE_METRICS_PORT": "0",
    }


async def doctor(told: Mapping[str, str], *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [PROGRAM, "doctor", "--no-model", "--json", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env=dict(told),
            check=False,
        )

    ended = await asyncio.to_thread(run)
    assert ended.stdout, ended.stderr
    said = json.loads(ended.stdout)
    assert said["healthy"] is (ended.returncode == 0)
    return ended.returncode, {each["name"]: each for each in said["findings"]}


@pytest.mark.broker
async def test_a_broker_as_it_should_be(node: PrivateBroker) -> None:
    code, found = await doctor(environment(node), "--as", "worker", "--as", "operator")
    bad = [each for each in found.values() if each["verdict"] == "trouble"]
    assert (code, bad) == (0, [])
    for name in ("broker", "topology", "rights (worker)", "rights (operator)", "alarms of broker"):
        assert found[name]["verdict"] == "ok", name
    assert found["clock of broker"]["verdict"] == "ok"
    assert "1300 s (the broker's own value)" in found["consumer timeout"]["said"]
    assert "in the clear" in found["transport"]["said"]


@pytest.mark.broker
async def test_an_attempt_that_the_broker_would_cut_short(node: PrivateBroker) -> None:
    # The setting claims more than the broker gives.
    told = environment(node) | {"SLUICE_CONSUMER_TIMEOUT_S": "9000"}
    code, found = await doctor(told, "--attempt-timeout-s", "700")
    assert (code, found["consumer timeout"]["verdict"]) == (1, "trouble")
    assert "less than 650" in found["consumer timeout"]["remedy"]


@pytest.mark.broker
async def test_drift_and_rights_and_a_queue_that_nobody_takes_from(node: PrivateBroker) -> None:
    await node.control("add_user", "less", "less")
    await node.control("set_permissions", "less", "^$", r"\.results$", r"\.jobs\.batch$")
    await node.control("set_user_tags", "less", "monitoring")
    connection = await connect(node.url, timeout_s=20, name="tests")
    async with Producer(node.url, namespace=NAMES.namespace) as producer:
        await producer.publish(GenerationJob(prompt="nobody is there"))
    try:
        channel = await open_channel(connection, timeout_s=20)
        await channel.queue_delete(NAMES.checks)
        told = environment(node)
        told["SLUICE_AMQP_URL"] = node.url.replace("guest:guest", "less:less")
        # The broker counts for its API every few seconds.
        give_up = time.monotonic() + 20
        while True:
            code, found = await doctor(told)
            if found["queues"]["verdict"] == "trouble" or time.monotonic() > give_up:
                break
    finally:
        await close(connection)
        await apply_namespace(node.url, NAMES.namespace)
    assert code == 1
    assert NAMES.checks in found["topology"]["said"]
    assert found["topology"]["remedy"] == "sluice topology apply"
    assert f"read from queue {NAMES.jobs_queue('interactive')}" in found["rights (worker)"]["said"]
    assert NAMES.jobs_queue("batch") not in found["rights (worker)"]["said"]
    assert "nobody takes them" in found["queues"]["said"]


@pytest.mark.broker
async def test_a_user_that_may_not_compare_is_told_so_and_an_api_that_is_not_there_hides_nothing(
    node: PrivateBroker,
) -> None:
    await node.control("add_user", "small", "small")
    await node.control("set_permissions", "small", "^$", ".*", ".*")
    told = environment(node) | {"SLUICE_MANAGEMENT_URL": "http://127.0.0.1:1/"}
    small = told | {"SLUICE_AMQP_URL": node.url.replace("guest:guest", "small:small")}
    _, whole = await doctor(told)
    assert whole["topology"]["verdict"] == "ok"
    code, found = await doctor(small)
    assert (code, found["topology"]["verdict"]) == (0, "unknown")
    assert [
        each for each in found.values() if each["verdict"] == "unknown" and not each["remedy"]
    ] == []
    connection = await connect(node.url, timeout_s=20, name="tests")
    queue = NAMES.retry_queue("5s")
    try:
        channel = await open_channel(connection, timeout_s=20)
        await channel.queue_delete(queue)
        code, found = await doctor(small)
        assert (code, queue in found["topology"]["said"]) == (1, True)
        await channel.queue_declare(queue, durable=True)
        code, found = await doctor(told)
        assert (code, queue in found["topology"]["said"]) == (1, True)
        await channel.queue_delete(queue)
    finally:
        await close(connection)
        await apply_namespace(node.url, NAMES.namespace)


@pytest.mark.broker
async def test_a_login_that_is_refused_is_not_told_to_start_the_broker(node: PrivateBroker) -> None:
    told = environment(node)
    _, found = await doctor(
        told | {"SLUICE_AMQP_URL": node.url.replace("guest:guest", "guest:hidden")}
    )
    assert "password" in found["broker"]["remedy"]
    _, found = await doctor(told | {"SLUICE_AMQP_URL": f"{node.url}nowhere"})
    assert "virtual host" in found["broker"]["remedy"]
    _, found = await doctor(told | {"SLUICE_AMQP_URL": node.url.replace("amqp:", "amqps:")})
    assert "docs/security.md" in found["broker"]["remedy"]


@pytest.mark.parametrize("role", ROLES)
def test_it_asks_after_no_right_that_the_role_has_not(role: Role) -> None:
    """The users that `sluice topology definitions` prints are healthy."""
    (user,) = (each for each in roles(NAMES) if each.name == role)
    wanted = needs(role, NAMES)
    assert [each for each in wanted.writes if not re.search(user.write, each)] == []
    assert [each for each in wanted.reads if not re.search(user.read, each)] == []


@pytest.mark.broker
async def test_asking_leaves_no_trace(node: PrivateBroker) -> None:
    before = await node.control("list_queues", "name", "messages")
    roles = ("publisher", "worker", "checker", "agent", "operator")
    code, _ = await doctor(environment(node), *(word for role in roles for word in ("--as", role)))
    assert code in (0, 1)
    assert await node.control("list_queues", "name", "messages") == before


async def test_no_broker() -> None:
    told = dict(os.environ) | {"SLUICE_AMQP_URL": "amqp://me:hidden@127.0.0.1:1/"}
    code, found = await doctor(told)
    assert (code, found["broker"]["verdict"]) == (1, "trouble")
    assert "hidden" not in json.dumps(found)
