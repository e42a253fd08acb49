"""Hostile dead letters through `sluice dlq`, as an operator runs it at a terminal."""

import asyncio
import os
import pty
import re
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from aio_pika.abc import AbstractRobustConnection
from sluicegate.producer.connection import close, connect, open_channel
from sluicegate.schemas import Names
from sluicegate.schemas.codec import encode

from .examples import examples
from .hostile import NOT_JSON
from .poison import ACTING, poisoned
from .test_consumers import fire

pytestmark = pytest.mark.broker

PROGRAM = Path(sys.executable).parent / "sluice"
LIMIT_S = 60.0
# Our own colours, and a line that is taken away.
_OURS = re.compile(rb"\x1b\[[0-9;]*m|\r\x1b\[K|\r\n|\r(?=[a-z])")
Sluice = Callable[..., str]


@pytest_asyncio.fixture
async def dead(broker_url: str, namespace: str) -> AsyncGenerator[int]:
    """How many lie there: bodies of every kind, sound but hostile, and such that are none."""
    connection: AbstractRobustConnection = await connect(
        broker_url, timeout_s=LIMIT_S, name="hostile letters"
    )
    bodies = [encode(poisoned(body, kind)) for kind, body in examples()]
    bodies += [body[:10_000] for body in NOT_JSON] + [ACTING.encode(), b"\x1b[2J\xff\x00" * 9]
    channel = await open_channel(connection, confirms=True, timeout_s=LIMIT_S)
    for body in bodies:
        await fire(channel, Names(namespace).dlx, "", body)
    yield len(bodies)
    await close(connection)


async def at_a_terminal(url: str, namespace: str, *arguments: str) -> tuple[int, str]:
    """The exit status, and what was on the screen, where only we may have acted."""
    ours, theirs = pty.openpty()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SLUICE")},
        "SLUICE_AMQP_URL": url,
        "SLUICE_NAMESPACE": namespace,
        "TERM": "xterm",
    }
    reading = asyncio.create_task(asyncio.to_thread(_all_of, ours))
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    async with asyncio.timeout(LIMIT_S):
        status = await process.wait()
        seen = await reading
    text = _OURS.sub(b"\n", seen).decode()
    bad = [char for char in text if not char.isprintable() and char not in "\n\t"]
    assert not [char for char in bad if char not in "\u200c\u200d\xa0"], ascii(text[-3_000:])
    return status, text


def _all_of(terminal: int) -> bytes:
    seen = b""
    try:
        while data := os.read(terminal, 65_536):
            seen += data
    except OSError:
        pass  # its other side is closed
    os.close(terminal)
    return seen


async def test_nothing_of_them_reaches_the_screen(
    dead: int, broker_url: str, namespace: str, tmp_path: Path
) -> None:
    where = (broker_url, namespace)
    status, text = await at_a_terminal(*where, "dlq", "list", "--limit", "0")
    assert status == 0
    assert "dead letters shown" in text
    found = re.findall(r"^([0-9a-f]{8}[\w-]*)", text, re.MULTILINE)
    assert len(found) > 20
    for arguments in (
        ("dlq", "list", "--json", "--limit", "0"),
        ("dlq", "stats"),
        ("dlq", "show", found[0]),
        ("dlq", "show", found[-1], "--json"),
        ("dlq", "export", "--raw", "-o", str(tmp_path / "dead.jsonl")),
        ("report", "--dead", str(tmp_path / "dead.jsonl"), "-o", str(tmp_path / "page.html")),
    ):
        status, text = await at_a_terminal(*where, *arguments)
        assert status == 0, text
    status, text = await at_a_terminal(*where, "dlq", "requeue", "--reason", "*", "--yes")
    assert status in {0, 1}, text
    status, text = await at_a_terminal(*where, "dlq", "purge", "--all", "--yes")
    assert status == 0, text
    status, text = await at_a_terminal(*where, "dlq", "list")
    assert "0 of 0 dead letters shown" in text or "no dead letters" in text.lower(), text
    assert dead
