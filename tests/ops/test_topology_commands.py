"""`sluice topology` as a program on a real broker: what it creates, sees, says, leaves alone."""

import asyncio
import base64
import json
import os
import sys
import urllib.request
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import aiormq
import pytest
import pytest_asyncio
from aiormq.exceptions import ChannelNotFoundEntity
from sluicegate.ops import management, top_depths
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import declare
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import Names, reply, topology
from yarl import URL

from ..conftest import apply_namespace

pytestmark = pytest.mark.broker

PROGRAM = Path(sys.executable).parent / "sluice"
LIMIT_S = 30.0
STRANGE = "is no part of the topology"
ASTRAY = f"{STRANGE}: messages are copied, or go astray"

Channel = aiormq.abc.AbstractChannel
Do = Callable[[Channel], Awaitable[object]]


class Ended(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.stdout)

    @property
    def differences(self) -> list[str]:
        return [each["text"] for each in self.data["differences"]]


async def sluice(*arguments: str) -> Ended:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=kept,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def check(url: str, namespace: str, *more: str, management: str | None = None) -> Ended:
    where = ["--amqp-url", url, "--namespace", namespace]
    if management is not None:
        where += ["--management-url", management]
    return await sluice("topology", "check", *where, *more)


async def apply(url: str, namespace: str, *more: str) -> Ended:
    return await sluice("topology", "apply", "--amqp-url", url, "--namespace", namespace, *more)


async def on_broker(url: str, *steps: Do) -> None:
    """Each step on a channel of one connection."""
    connection = await connect(url, timeout_s=LIMIT_S, name="topology command test")
    try:
        for step in steps:
            channel = await open_channel(connection, timeout_s=LIMIT_S)
            await step(channel)
            await channel.close()
    finally:
        await close(connection)


async def clean(url: str, namespace: str) -> None:
    made = topology(namespace)

    async def remove(channel: Channel) -> None:
        for queue in made.queues:
            await channel.queue_delete(queue.name)
        for exchange in made.exchanges:
            await channel.exchange_delete(exchange.name)

    await on_broker(url, remove)


@pytest_asyncio.fixture(scope="module")
async def managed_broker() -> AsyncGenerator[PrivateBroker]:
    """A broker with the management API."""
    async with PrivateBroker(plugins=["rabbitmq_management"]) as broker:
        yield broker


@pytest_asyncio.fixture
async def empty(broker_url: str, bare_namespace: str) -> AsyncGenerator[str]:
    """A namespace with nothing in it, cleaned afterwards."""
    yield bare_namespace
    await clean(broker_url, bare_namespace)


@pytest_asyncio.fixture
async def managed(managed_broker: PrivateBroker, bare_namespace: str) -> AsyncGenerator[str]:
    """The same on the broker with the management API."""
    yield bare_namespace
    await clean(managed_broker.url, bare_namespace)


class TestShow:
    async def test_it_names_everything_and_needs_no_broker(self) -> None:
        ended = await sluice("topology", "show", "--namespace", "n.v2")
        assert ended.code == 0
        made = topology("n.v2")
        for each in (*made.exchanges, *made.queues):
            assert each.name in ended.stdout
        assert "x-match=all, rung=30s" in ended.stdout

    async def test_as_json_it_is_the_topology(self) -> None:
        shown = (await sluice("topology", "show", "--json")).data
        made = topology()
        assert [each["name"] for each in shown["queues"]] == [each.name for each in made.queues]
        assert [each["arguments"] for each in shown["queues"]] == [
            each.arguments for each in made.queues
        ]
        assert len(shown["bindings"]) == len(made.bindings)
        assert {each["name"]: each["kind"] for each in shown["exchanges"]} == {
            each.name: each.kind for each in made.exchanges
        }


class TestApply:
    async def test_it_creates_all_and_then_nothing(self, broker_url: str, empty: str) -> None:
        first = await apply(broker_url, empty, "--json")
        assert first.code == 0
        made = topology(empty)
        everything = [
            *(f"exchange {each.name}" for each in made.exchanges),
            *(f"queue {each.name}" for each in made.queues),
        ]
        assert (first.data["created"], first.data["present"]) == (everything, [])
        second = await apply(broker_url, empty, "--json")
        assert second.code == 0
        assert (second.data["created"], second.data["present"]) == ([], everything)
        assert (await check(broker_url, empty)).code == 0

    async def test_it_completes_what_is_half_there(self, broker_url: str, empty: str) -> None:
        await apply(broker_url, empty)
        names = Names(empty)
        await on_broker(
            broker_url,
            lambda channel: channel.queue_delete(names.dead),
            lambda channel: channel.exchange_delete(names.events),
        )
        ended = await apply(broker_url, empty)
        assert ended.code == 0
        assert f"created: exchange {names.events}\ncreated: queue {names.dead}\n" in ended.stdout
        made = topology(empty)
        there = len(made.exchanges) + len(made.queues) - 2
        assert f"2 created, {there} were there already" in ended.stdout

    async def test_it_creates_nothing_where_something_differs(
        self, broker_url: str, empty: str
    ) -> None:
        names = Names(empty)
        arguments: dict[str, Any] = {"x-queue-type": "quorum", "x-max-length": 5}
        await on_broker(
            broker_url,
            lambda channel: channel.queue_declare(names.dead, durable=True, arguments=arguments),
        )
        before = await check(broker_url, empty, "--json")
        ended = await apply(broker_url, empty)
        assert ended.code == 1
        assert f"queue {names.dead}: x-max-length is 5, should be 1000000" in ended.stdout
        assert ended.stderr.startswith("Error: 3 properties on the broker differ, so nothing was")
        assert "Traceback" not in ended.stderr
        assert (await check(broker_url, empty, "--json")).data == before.data

    async def test_no_broker(self, bare_namespace: str) -> None:
        ended = await apply("amqp://u:secret@127.0.0.1:1/", bare_namespace, "--json")
        assert (ended.code, ended.stdout) == (3, "")
        assert ended.stderr.startswith("Error: can't reach amqp://u:***@127.0.0.1:1/")
        assert ended.stderr.count("\n") == 1


class TestCheck:
    async def test_equal(self, broker_url: str, namespace: str) -> None:
        ended = await check(broker_url, namespace, "--json")
        assert ended.code == 0
        assert (ended.data["equal"], ended.data["complete"]) == (True, False)
        assert ended.differences == []
        # What can't be seen is said, and how it could be.
        (unchecked,) = ended.data["unchecked"]
        assert unchecked.startswith("bindings: ")
        assert "SLUICE_MANAGEMENT_URL" in unchecked
        said = (await check(broker_url, namespace)).stdout
        assert said.endswith("Equal, as far as could be checked. The bindings were not.\n")

    async def test_an_api_that_was_named_must_answer(self, broker_url: str, namespace: str) -> None:
        ended = await check(broker_url, namespace, "--json", management="http://127.0.0.1:1")
        assert (ended.code, ended.stdout) == (3, "")
        assert ended.stderr.startswith("Error: the management API: http://127.0.0.1:1 can't be")

    async def test_everything_missing_is_named_and_nothing_created(
        self, broker_url: str, empty: str
    ) -> None:
        made = topology(empty)
        for _ in range(2):  # a second time: the first has created nothing
            ended = await check(broker_url, empty, "--json")
            assert ended.code == 1
            assert ended.differences == [
                *(f"exchange {each.name}: missing" for each in made.exchanges),
                *(f"queue {each.name}: missing" for each in made.queues),
            ]
        for queue in made.queues:
            with pytest.raises(ChannelNotFoundEntity):
                await on_broker(
                    broker_url,
                    lambda channel, name=queue.name: channel.queue_declare(name, passive=True),
                )

    async def test_every_difference_is_named_and_nothing_changed(
        self, broker_url: str, empty: str
    ) -> None:
        await make_differences(broker_url, empty)
        first = await check(broker_url, empty, "--json")
        assert first.code == 1
        assert first.differences == expected_differences(empty)
        assert (await check(broker_url, empty, "--json")).data == first.data
        # Where the type differs the arguments can't be compared, and that is said.
        assert [each for each in first.data["unchecked"] if "checks" in each]

    @pytest.mark.parametrize(
        ("arguments", "kind"),
        [
            ({"x-queue-type": "quorum", "x-max-length": 7}, "quorum"),
            ({}, "classic"),
            ({"x-max-priority": 3}, "classic"),
        ],
    )
    async def test_a_journal_that_is_no_stream(
        self, broker_url: str, empty: str, arguments: dict[str, Any], kind: str
    ) -> None:
        await apply(broker_url, empty)
        journal = Names(empty).journal
        await on_broker(
            broker_url,
            lambda channel: channel.queue_delete(journal),
            lambda channel: channel.queue_declare(journal, durable=True, arguments=arguments),
        )
        ended = await check(broker_url, empty, "--json")
        assert ended.code == 1
        said = f"queue {journal}: x-queue-type is {kind}, should be stream"
        assert said in ended.differences
        assert all(each.startswith(f"queue {journal}: ") for each in ended.differences)
        assert (await check(broker_url, empty, "--json")).data == ended.data

    async def test_names_too_long_for_the_brokers_answers(
        self, broker_url: str, empty: str
    ) -> None:
        """AMQP cuts an error's text off after 255 bytes; what is lost must not be guessed."""
        long = f"{empty}.".ljust(100, "x")  # the longest namespace
        try:
            missing = await check(broker_url, long, "--json")
            assert {each["kind"] for each in missing.data["differences"]} == {"missing"}
            assert len(missing.differences) == len(topology().exchanges) + len(topology().queues)
            names = Names(long)
            arguments: dict[str, Any] = {"x-queue-type": "quorum", "x-max-length": 5}
            await on_broker(
                broker_url,
                lambda channel: channel.queue_declare(
                    names.dead, durable=True, arguments=arguments
                ),
            )
            ended = await check(broker_url, long, "--json")
            different = [each for each in ended.differences if "missing" not in each]
            assert different == [
                f"queue {names.dead}: x-overflow is (untold), should be reject-publish",
                f"queue {names.dead}: x-max-length is 5, should be 1000000",
            ]
            assert any("too long" in each for each in ended.data["unchecked"])
            await on_broker(broker_url, lambda channel: channel.queue_delete(names.dead))
            assert (await apply(broker_url, long)).code == 0
            assert (await check(broker_url, long)).code == 0
        finally:
            await clean(broker_url, long)

    async def test_a_queue_of_someone_elses(self, broker_url: str, empty: str) -> None:
        name = Names(empty).dead
        connection = await connect(broker_url, timeout_s=LIMIT_S, name="owner")
        try:
            channel = await open_channel(connection, timeout_s=LIMIT_S)
            await channel.queue_declare(name, exclusive=True)
            ended = await check(broker_url, empty, "--json")
        finally:
            await close(connection)
        assert f"queue {name}: exclusive is true, should be false" in ended.differences

    async def test_no_broker(self, bare_namespace: str) -> None:
        ended = await check("amqp://u:secret@127.0.0.1:1/", bare_namespace)
        assert (ended.code, ended.stdout) == (3, "")
        assert "secret" not in ended.stderr


class TestCheckWithManagement:
    async def test_equal(self, managed_broker: PrivateBroker, managed: str) -> None:
        await apply(managed_broker.url, managed)
        ended = await check(
            managed_broker.url, managed, "--json", management=managed_broker.management_url
        )
        assert (ended.code, ended.data["unchecked"], ended.data["notes"]) == (0, [], [])
        assert (ended.data["equal"], ended.data["complete"]) == (True, True)

    async def test_bindings_and_strangers(
        self, managed_broker: PrivateBroker, managed: str
    ) -> None:
        await apply(managed_broker.url, managed)
        names = Names(managed)
        arguments: dict[str, Any] = {"x-queue-type": "quorum"}
        await on_broker(
            managed_broker.url,
            lambda channel: channel.queue_unbind(
                names.jobs_queue("batch"), names.jobs, "jobs.batch"
            ),
            lambda channel: channel.queue_bind(names.dead, names.jobs, "jobs.dead"),
            lambda channel: channel.queue_bind(names.jobs_queue("batch"), names.dlx),
            lambda channel: channel.exchange_bind(names.jobs, names.dlx),
            lambda channel: channel.queue_declare(
                f"{managed}.odd", durable=True, arguments=arguments
            ),
            lambda channel: channel.queue_declare(
                names.results_queue("shop"), durable=True, arguments=arguments
            ),
        )
        try:
            ended = await check(
                managed_broker.url, managed, "--json", management=managed_broker.management_url
            )
        finally:
            await on_broker(
                managed_broker.url,
                lambda channel: channel.queue_delete(f"{managed}.odd"),
                lambda channel: channel.queue_delete(names.results_queue("shop")),
            )
        assert ended.code == 1
        assert ended.differences == [
            f"binding {managed} -> {managed}.jobs.batch (routing key jobs.batch): missing"
        ]
        assert ended.data["notes"] == [
            f"queue {managed}.odd {STRANGE}",
            f"1 more reply queue(s) under {managed}.results.*",
            f"binding {managed} -> {managed}.dead (routing key jobs.dead) {ASTRAY}",
            f"binding {managed}.dlx -> {managed}.jobs.batch {STRANGE}: dead jobs come back to life",
            f"binding {managed}.dlx -> exchange {managed} {STRANGE}",
        ]

    async def test_both_ways_of_looking_see_the_same(
        self, managed_broker: PrivateBroker, managed: str
    ) -> None:
        await make_differences(managed_broker.url, managed)
        over_amqp = await check(managed_broker.url, managed, "--json")
        over_http = await check(
            managed_broker.url, managed, "--json", management=managed_broker.management_url
        )
        assert over_http.data["unchecked"] == []
        seen = {each for each in over_http.differences if not each.startswith("binding ")}
        # A queue of another type is compared to the end only where the API shows it.
        assert set(over_amqp.differences) <= seen
        assert all(
            "checks" in each or "retry.2m" in each for each in seen - set(over_amqp.differences)
        )

    async def test_another_brokers_api_is_not_believed(
        self, broker_url: str, namespace: str, managed_broker: PrivateBroker
    ) -> None:
        ended = await check(
            broker_url, namespace, "--json", management=managed_broker.management_url
        )
        assert (ended.code, ended.stdout) == (3, "")
        assert "belongs to another broker" in ended.stderr

    async def test_a_login_that_is_refused(
        self, managed_broker: PrivateBroker, managed: str
    ) -> None:
        await apply(managed_broker.url, managed)
        api = URL(managed_broker.management_url).with_user("guest").with_password("wrong")
        ended = await check(managed_broker.url, managed, "--json", management=str(api))
        assert (ended.code, ended.stdout) == (3, "")
        assert "refused user guest" in ended.stderr
        assert "wrong" not in ended.stdout + ended.stderr

    async def test_a_user_without_rights(self, managed_broker: PrivateBroker, managed: str) -> None:
        await apply(managed_broker.url, managed)
        await asyncio.to_thread(add_user, managed_broker.management_url, "reader", "pw")
        url = str(URL(managed_broker.url).with_user("reader").with_password("pw"))
        ended = await check(url, managed, "--json")
        assert (ended.code, ended.differences) == (0, [])
        assert len(ended.data["unchecked"]) == 1 + len(topology().queues) + len(
            topology().exchanges
        )
        assert "may not configure" in ended.data["unchecked"][1]
        refused = await apply(url, managed)
        assert refused.code == 3
        assert "may not" in refused.stderr


async def make_differences(url: str, namespace: str) -> None:
    """Declare things by the right names with wrong properties."""
    made = topology(namespace)
    names = made.names
    by_name = {queue.name: dict(queue.arguments) for queue in made.queues}
    work: dict[str, Any] = by_name[names.jobs_queue("batch")]
    few: dict[str, Any] = {**work, "x-max-length": 5, "x-overflow": "drop-head", "x-expires": 99999}
    del few["x-delivery-limit"]
    single: dict[str, Any] = {**work, "x-single-active-consumer": True}
    stream: dict[str, Any] = {"x-queue-type": "stream", "x-max-age": "5D"}

    async def declare(channel: Channel) -> None:
        for exchange in made.exchanges:
            if exchange.name in (names.jobs, names.events, names.retry, names.control):
                continue
            await channel.exchange_declare(exchange.name, exchange_type=exchange.kind, durable=True)
        await channel.exchange_declare(names.jobs, exchange_type="topic", durable=True)
        await channel.exchange_declare(names.events, exchange_type="topic", auto_delete=True)
        await channel.exchange_declare(
            names.retry,
            exchange_type="headers",
            durable=True,
            arguments={"alternate-exchange": names.dlx},
        )
        await channel.queue_declare(names.jobs_queue("batch"), durable=True, arguments=few)
        await channel.queue_declare(names.jobs_queue("interactive"), durable=True, arguments=single)
        await channel.queue_declare(names.checks, durable=True)
        await channel.queue_declare(names.retry_queue("2m"), durable=True, arguments=stream)
        await channel.queue_declare(names.journal, durable=True, arguments=stream)
        logs = (names.control_log, names.pauses_log)
        for name in (names.dead, names.new_agents, names.results_queue("default"), *logs):
            arguments: dict[str, Any] = by_name[name]
            await channel.queue_declare(name, durable=True, arguments=arguments)

    await on_broker(url, declare)


def expected_differences(namespace: str) -> list[str]:
    """What `make_differences` makes, as it is said."""
    n = namespace
    return [
        f"exchange {n}: type is topic, should be direct",
        f"exchange {n}.retry: alternate-exchange is {n}.dlx, should be not set",
        f"exchange {n}.events: durable is false, should be true",
        f"exchange {n}.events: auto_delete is true, should be false",
        f"exchange {n}.control: missing",
        f"queue {n}.jobs.interactive: x-single-active-consumer is true, should be not set",
        f"queue {n}.jobs.batch: x-delivery-limit is not set, should be 5",
        f"queue {n}.jobs.batch: x-overflow is drop-head, should be reject-publish",
        f"queue {n}.jobs.batch: x-max-length is 5, should be 1000000",
        f"queue {n}.jobs.batch: x-expires is 99999, should be not set",
        f"queue {n}.checks: x-queue-type is classic, should be quorum",
        f"queue {n}.checks: x-dead-letter-exchange is not set, should be {n}.dlx",
        f"queue {n}.checks: x-overflow is not set, should be reject-publish",
        f"queue {n}.checks: x-max-length is not set, should be 1000000",
        f"queue {n}.agents: missing",
        f"queue {n}.agents.approvals: missing",
        f"queue {n}.agents.journal: x-max-age is 5D, should be 7D",
        f"queue {n}.agents.journal: x-max-length-bytes is not set, should be 2000000000",
        f"queue {n}.retry.5s: missing",
        f"queue {n}.retry.30s: missing",
        f"queue {n}.retry.2m: x-queue-type is stream, should be quorum",
        f"queue {n}.retry.10m: missing",
    ]


def add_user(api: str, name: str, password: str) -> None:
    """A user who may read and write, but declare nothing."""
    token = base64.b64encode(b"guest:guest").decode()
    for path, body in (
        (f"users/{name}", {"password": password, "tags": ""}),
        (f"permissions/%2F/{name}", {"configure": "^$", "write": ".*", "read": ".*"}),
    ):
        request = urllib.request.Request(  # noqa: S310  our own broker's
            f"{api}api/{path}",
            data=json.dumps(body).encode(),
            method="PUT",
            headers={"Authorization": f"Basic {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S):  # noqa: S310
            pass


@pytest.mark.broker
async def test_the_management_api_tells_how_queues_stand(
    managed_broker: PrivateBroker, managed: str
) -> None:
    """For `sluice top`: those asked for, missing ones too, and reply queues besides."""
    await apply_namespace(managed_broker.url, managed)
    names = Names(managed)

    async def change(channel: Channel) -> None:
        await declare.declare_queue(channel, reply(names, "orders")[0])
        await channel.queue_delete(names.checks)

    await on_broker(managed_broker.url, change)
    api = management.access(managed_broker.url, managed_broker.management_url)
    asked = [names.dead, names.checks]
    told = await top_depths.by_management(api, managed, asked)
    assert [each.name for each in told[:2]] == asked
    assert told[0].ready == 0
    assert told[1].ready is None
    assert names.results_queue("orders") in [each.name for each in told[2:]]
    wrong = management.access("amqp://guest:no@127.0.0.1", managed_broker.management_url)
    with pytest.raises(management.NoManagement, match="refused user guest"):
        await top_depths.by_management(wrong, managed, asked)
