"""Getting to the broker, or saying quickly and clearly why not."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from sluicegate.producer import BrokerUnreachable, Producer
from sluicegate.producer.connection import (
    Version,
    close,
    connect,
    open_channel,
    parse_version,
    safe_url,
    server_version,
)

from .waiting import nothing_left

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "url",
    [
        f"amqp://guest:{SECRET}@127.0.0.1:1/",
        f"amqp://guest:{SECRET}@no-such-host.invalid/",
        f"https://guest:{SECRET}@127.0.0.1/",
        f"guest:{SECRET}@127.0.0.1",
        f"amqp://guest:{SECRET}@[::1/",
        f"amqp://guest:{SECRET}@127.0.0.1:port/",
        f"amqp://guest:{SECRET}/pw@127.0.0.1/",
        f"amqp://guest:1/{SECRET}@127.0.0.1/",
        f"amqp://guest:{SECRET}#pw@127.0.0.1/",
        "",
    ],
)
async def test_an_unreachable_broker_is_said_soon_and_without_the_password(url: str) -> None:
    began = time.monotonic()
    with pytest.raises(BrokerUnreachable) as failure:
        async with Producer(url, connect_timeout_s=3):
            pass
    assert time.monotonic() - began < 4
    assert [said for said in _said(failure.value) if SECRET in said] == []


def _said(error: BaseException | None) -> Iterator[str]:
    """What a traceback says of an error and of what led to it, the lines of the source left out."""
    while error is not None:
        yield repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


async def test_a_server_that_never_answers_is_given_up() -> None:
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with nothing_left():
            began = time.monotonic()
            with pytest.raises(BrokerUnreachable, match=r"no answer from .* in 0\.5 s"):
                await connect(f"amqp://127.0.0.1:{port}/", timeout_s=0.5, name="test")
            assert time.monotonic() - began < 3
    finally:
        for writer in held:
            writer.close()
            await writer.wait_closed()
        server.close()
        await server.wait_closed()


@pytest.mark.broker
async def test_a_refused_login_and_a_missing_virtual_host_are_told_apart(broker_url: str) -> None:
    wrong = broker_url.replace("guest:guest", f"guest:{SECRET}")
    with pytest.raises(BrokerUnreachable, match="refused the login") as failure:
        await connect(wrong, timeout_s=5, name="test")
    assert SECRET not in str(failure.value)
    with pytest.raises(BrokerUnreachable, match="no such virtual host"):
        await connect(f"{broker_url}nowhere", timeout_s=5, name="test")


@pytest.mark.broker
async def test_what_the_url_says_is_stronger_than_the_defaults(broker_url: str) -> None:
    connection = await connect(f"{broker_url}?heartbeat=17&fail_fast=0", timeout_s=5, name="test")
    try:
        assert connection.transport is not None
        assert connection.transport.connection.connection_tune.heartbeat == 17
        assert server_version(connection) >= (3, 10)
    finally:
        await close(connection)
    with pytest.raises(BrokerUnreachable, match="closed on this side"):
        await open_channel(connection, timeout_s=5)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://user:pa:ss@host:5672/vhost", "amqp://user:***@host:5672/vhost"),
        ("amqps://u%40x:p%40ss@host/%2Fv?heartbeat=3", "amqps://u@x:***@host/%2Fv"),
        ("amqp://host", "amqp://host/"),
        ("amqp://user@host/", "amqp://user:***@host/"),
        ("amqp://user:p@ss@host/", "amqp://user:***@host/"),
        ("amqp://user:se cret@host/", "amqp://user:***@host/"),
        ("amqp://user:\"'<@host/", "amqp://user:***@host/"),
        ("amqp://user%3Asecret@host/", "amqp://user:***@host/"),
        ("amqp://host/?password=secret", "amqp://host/"),
        ("amqp://u:p@[::1]:5672/v", "amqp://u:***@[::1]:5672/v"),
        ("amqp://user:se/cret@host/", "(not a URL)"),
        ("amqp://user:12/secret@host/", "(not a URL)"),
        ("amqp://user:12#secret@host/", "(not a URL)"),
        ("amqp://user:12?secret@host/", "(not a URL)"),
        ("user:secret@host", "(not a URL)"),
        ("nonsense", "(not a URL)"),
        ("amqp://user:secret@[::1", "(not a URL)"),
        ("", "(not a URL)"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert safe_url(url) == shown


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.10.8", (3, 10, 8)),
        ("4.1.0-rc.1", (4, 1, 0)),
        ("4.2", (4, 2, 0)),
        ("3.10.8-1+deb12u1", (3, 10, 8)),
        ("unknown", (0, 0, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_versions_are_read_leniently_and_compared(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version
    assert parse_version("4.0.1") > parse_version("3.13.7") > Version(3, 9, 0)
