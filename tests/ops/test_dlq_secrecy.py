"""`sluice dlq` on letters whose texts are hidden: a program, a real broker."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from sluicegate.producer.connection import close, connect
from sluicegate.producer.sealing import sealing_key
from sluicegate.producer.secrecy import Secrecy
from sluicegate.schemas import GenerationJob, Names, decode

from .dlq_letters import LIMIT_S, bury, drained, rejected
from .test_dlq_command import Dlq

pytestmark = pytest.mark.broker

PROMPT = "Tell me of rivers."


@pytest.fixture
def dlq(broker_url: str, namespace: str) -> Dlq:
    return Dlq(broker_url, namespace)


@pytest_asyncio.fixture
async def connection(broker_url: str) -> AsyncGenerator[AbstractRobustConnection]:
    made = await connect(broker_url, timeout_s=LIMIT_S, name="dlq tests")
    yield made
    await close(made)


async def test_an_operator_with_the_key_does_all_and_one_without_nothing(
    dlq: Dlq, connection: AbstractRobustConnection, namespace: str, tmp_path: Path
) -> None:
    made = await dlq("keygen", str(tmp_path / "operator"), "--json")
    assert made.code == 0, made.err
    again = await dlq("keygen", str(tmp_path / "operator"))
    assert (again.code, "is there already" in again.err) == (3, True)
    private, public = tmp_path / "operator.key.pem", tmp_path / "operator.pub.pem"
    assert json.loads(made.out)["key"] == sealing_key(public).id

    names = Names(namespace)
    letter = rejected("order-1")
    sealed = Secrecy("encrypted", key=sealing_key(public)).letter(letter)
    gone = Secrecy("redacted").letter(rejected("order-2"))
    await bury(connection, names, [sealed, gone])

    shown = await dlq("show", "order-1")
    assert (shown.code, PROMPT in shown.out, "say --key FILE" in shown.out) == (0, False, True)
    key = ("--key", str(private))
    shown = await dlq("show", "order-1", *key)
    assert (PROMPT in shown.out, "opened with your key" in shown.out) == (True, True)

    exported = await dlq("export")
    assert exported.out == ""
    assert "2 of them have their texts redacted or encrypted" in exported.err
    exported = await dlq("export", *key)
    assert [line["prompt"] for line in exported.lines] == [PROMPT, PROMPT]
    raw = await dlq("export", "--raw", *key)
    assert [line["message"]["job"]["prompt"] == PROMPT for line in raw.lines] == [True, False]

    refused = await dlq("requeue", "--all", "--yes")
    assert refused.code == 1
    assert "say --key FILE" in refused.err
    assert "were redacted when it was written" in refused.err
    wrong = await dlq("list", "--key", str(public))
    assert (wrong.code, "holds no private key" in wrong.err) == (2, True)
    replayed = await dlq("replay", "order-2", "--engine", "scripted")
    assert (replayed.code, "there is nothing to run again" in replayed.err) == (1, True)

    sent = await dlq("requeue", "order-1", "--yes", *key)
    assert (sent.code, "1 sent back" in sent.out) == (0, True), sent
    (body,) = await drained(
        connection, [names.retry_queue("5s"), names.jobs_queue("interactive")], 1
    )
    assert decode(body, GenerationJob).prompt == PROMPT
