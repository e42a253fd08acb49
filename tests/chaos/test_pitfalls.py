"""What no line of ours may do with the broker, for it loses messages or goes deaf in silence.

The rest of what bites has tests of its own; docs/reliability.md says which.
"""

import ast
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sluicegate.worker import loop_watch
from sluicegate.worker.loop_watch import LoopWatch

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for room in ("schemas", "producer", "worker", "ops")
    for path in (ROOT / room).rglob("*.py")
)
# Of the broker, none of these is asked for anywhere.
WORDS = ("x-single-active-consumer", "x-delayed", "amq.rabbitmq.reply-to", "ha-mode")
# The history that a broker writes into headers is shown to operators; no decision is built on it.
HISTORY = ("x-death", "x-first-death", "x-last-death")
SETTLING = ("basic_ack", "basic_nack", "basic_reject")
HINTS = (*WORDS, *HISTORY, *SETTLING, ".process()", "_qos", "queue_declare", "aio_pika.pool")


def faults(source: str, *, ops: bool = False) -> Iterator[str]:
    """What a module does that it must not."""
    tree = ast.parse(source)
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)):
                yield from _wrong_call(name, node)
            case ast.ImportFrom(module="aio_pika.pool") | ast.alias(name="aio_pika.pool"):
                yield "aio_pika.pool: consumers of its channels do not come back"
            case ast.Constant(value=str(text)) if id(node) not in said:
                bad = (*WORDS, *(() if ops else HISTORY))
                yield from (f"says {text}" for word in bad if text.startswith(word))
            case _:
                pass


def _wrong_call(name: str, call: ast.Call) -> Iterator[str]:
    given = {each.arg for each in call.keywords}
    if name == "process" and not call.args:
        yield "message.process(): cancelled, it rejects, and the job is gone"
    if name in SETTLING and "multiple" in given:
        yield f"{name}(multiple): settles the deliveries of others"
    if name in ("basic_qos", "set_qos") and "global_" in given:
        yield "a prefetch for the whole connection"
    if name == "queue_declare" and not {"passive", "durable", "exclusive"} & given:
        yield "a queue that is neither durable nor exclusive"


def test_no_module_does_it() -> None:
    found: dict[str, list[str]] = {}
    looked_at = 0
    for path in SOURCES:
        source = path.read_text(encoding="utf-8")
        # Parsing all there is takes longer than it is worth.
        if any(word in source for word in HINTS):
            looked_at += 1
            ops = path.is_relative_to(ROOT / "ops")
            found[str(path.relative_to(ROOT))] = list(faults(source, ops=ops))
    assert looked_at > 10
    assert {path: each for path, each in found.items() if each} == {}


@pytest.mark.parametrize(
    "line",
    [
        "async def f(m):\n    async with m.process():\n        pass",
        "channel.basic_ack(tag, multiple=True)",
        "channel.basic_nack(tag, multiple=False)",
        "channel.basic_qos(prefetch_count=1, global_=True)",
        "channel.queue_declare('q')",
        "from aio_pika.pool import Pool",
        "import aio_pika.pool",
        "arguments = {'x-single-active-consumer': True}",
        "headers['x-death']",
        "reply_to = 'amq.rabbitmq.reply-to'",
    ],
)
def test_it_would_be_seen(line: str) -> None:
    assert len(list(faults(line))) == 1
    assert any(hint in line for hint in HINTS)


def test_what_is_allowed_is_let_be() -> None:
    for line in (
        "channel.basic_ack(tag, wait=False)",
        "channel.queue_declare('q', passive=True)",
        '"""Not x-death, which is only talked about."""',
        "pool.process(1)",
    ):
        assert list(faults(line)) == []
    assert list(faults("headers['x-death']", ops=True)) == []


async def test_a_loop_that_is_busy_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats starve with it, and the broker ends the connection."""
    monkeypatch.setattr(loop_watch, "_STUCK_S", 0.05)
    monkeypatch.setattr(loop_watch, "_BEAT_S", 0.01)
    watch = LoopWatch()
    beating = asyncio.create_task(watch.run())
    try:
        await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251  the fault
        assert "stuck" in (watch.trouble() or "")
        async with asyncio.timeout(20):
            while watch.trouble() is not None:
                await asyncio.sleep(0.01)
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
