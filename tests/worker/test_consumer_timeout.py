"""Work must fit the broker's consumer timeout: by what the broker itself says."""

import asyncio
import os
import shlex
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops.broker_program import require_programs
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import Producer
from sluicegate.schemas import GenerationJob
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.consumer_timeout import NEVER, asked, command, read, told_by, with_real
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker

from ..conftest import apply_namespace

NAMESPACE = "test.timeout"
# What rabbitmqctl of 3.10.8 prints.
SAID = '{<<"rabbit@host">>,{ok,1800000}}\n'


class TestAnswer:
    def test_seconds(self) -> None:
        assert read(SAID, "rabbit@host") == 1800

    def test_another_broker_does_not_count(self) -> None:
        assert read(SAID, "rabbit@other") is None

    @pytest.mark.parametrize("value", ["undefined", "{ok,undefined}", "{ok,false}"])
    def test_none_at_all(self, value: str) -> None:
        assert read(f'{{<<"rabbit@host">>,{value}}}', "rabbit@host") == NEVER

    @given(st.text())
    def test_any_other_words_are_no_answer(self, words: str) -> None:
        assert read(words, None) is None

    def test_what_the_broker_says_when_it_takes_a_delivery_away(self) -> None:
        words = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
        assert told_by(f"{words}Timeout value used: 5000 ms. See the guide") == 5
        assert told_by("connection or channel lost") is None


class TestCommand:
    def test_only_the_usual_node_of_this_host_is_asked_by_itself(self) -> None:
        assert command(Config(amqp_url="amqp://broker.example/")) == []
        assert command(Config(amqp_url="amqp://localhost:5673/")) == []

    def test_none(self) -> None:
        assert command(Config(rabbitmqctl="none")) == []

    def test_as_told(self) -> None:
        told = Config(amqp_url="amqp://broker.example/", rabbitmqctl="ssh mq 'sudo rabbitmqctl'")
        assert command(told) == ["ssh", "mq", "sudo rabbitmqctl"]

    def test_no_command(self) -> None:
        with pytest.raises(ConfigError, match="no command"):
            command(Config(rabbitmqctl="'"))

    @pytest.mark.parametrize("words", [["/no/such/program"], ["false"], ["echo", "nonsense"]])
    async def test_what_can_not_be_asked_is_not_known(self, words: list[str]) -> None:
        assert await asked(words, None) is None

    async def test_without_a_timeout_the_setting_stands(self) -> None:
        assert with_real(Config(), NEVER) == with_real(Config(), None) == Config()


@pytest_asyncio.fixture(scope="module")
async def impatient() -> AsyncGenerator[PrivateBroker]:
    """A broker that takes deliveries away after two seconds."""
    async with PrivateBroker(config="consumer_timeout = 2000") as broker:
        # It looks at its clocks once a minute otherwise.
        await broker.control("eval", "application:set_env(rabbit, channel_tick_interval, 500).")
        await apply_namespace(broker.url, NAMESPACE)
        yield broker


def ctl(broker: PrivateBroker) -> str:
    """The command that asks this node."""
    node = broker._started_node()  # pyright: ignore[reportPrivateUsage]
    told = {
        name: value
        for name, value in node.environment(os.environ).items()
        if name == "HOME" or name.startswith(("ERL_", "RABBITMQ_"))
    }
    program = require_programs()[0].with_name("rabbitmqctl")
    return shlex.join(
        [
            "env",
            *(f"{name}={value}" for name, value in told.items()),
            str(program),
            "--node",
            node.name,
        ]
    )


def worker(broker: PrivateBroker, rabbitmqctl: str, engine: ScriptedEngine) -> Worker:
    return Worker(
        Config(
            amqp_url=broker.url,
            namespace=NAMESPACE,
            rabbitmqctl=rabbitmqctl,
            engine="scripted",
            metrics_port=0,
            drain_grace_s=0,
            canary_prompt="",
        ),
        engine,
    )


@pytest.mark.broker
async def test_the_brokers_own_value_refuses_a_worker_at_its_start(
    impatient: PrivateBroker,
) -> None:
    service = worker(impatient, ctl(impatient), ScriptedEngine())
    async with asyncio.timeout(30):
        with pytest.raises(ConfigError, match=r"attempt_timeout_s .* consumer_timeout_s \(2\)"):
            await service.run()


@pytest.mark.broker
async def test_a_worker_that_could_not_ask_ends_when_the_broker_loses_patience(
    impatient: PrivateBroker,
) -> None:
    service = worker(impatient, "none", ScriptedEngine(step_s=120))
    async with Producer(impatient.url, namespace=NAMESPACE) as producer:
        running = asyncio.create_task(service.run())
        await producer.publish(GenerationJob(prompt="long"))
        async with asyncio.timeout(30):
            with pytest.raises(ConfigError, match=r"consumer_timeout_s \(2\)"):
                await running
