"""`sluice dlq` ended in the middle of many letters: none is lost, none is there twice."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from aio_pika.abc import AbstractRobustConnection
from sluicegate.producer.connection import close_channel, open_channel
from sluicegate.schemas import (
    GenerationJob,
    Names,
    decode,
)
from sluicegate.worker.config import Config

from .dlq_letters import LIMIT_S, bury, drained, left, numbered, on_the_way, ready

pytestmark = pytest.mark.broker

PROGRAM = Path(sys.executable).parent / "sluice"


class TestKilled:
    """The command as a program, ended in the middle of many letters."""

    COUNT = 600

    async def start(self, config: Config, *arguments: str) -> asyncio.subprocess.Process:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE")}
        return await asyncio.create_subprocess_exec(
            PROGRAM,
            "dlq",
            *arguments,
            "--all",
            "--yes",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**kept, "SLUICE_AMQP_URL": config.amqp_url, "SLUICE_NAMESPACE": config.namespace},
        )

    async def until_some_are_sent(self, connection: AbstractRobustConnection, names: Names) -> None:
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        async with asyncio.timeout(LIMIT_S):
            while True:
                stands = await channel.queue_declare(names.retry_queue("5s"), passive=True)
                if (stands.message_count or 0) > 20:
                    break
        await close_channel(channel)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    async def test_requeue(
        self,
        connection: AbstractRobustConnection,
        config: Config,
        names: Names,
        number: signal.Signals,
    ) -> None:
        letters = numbered(self.COUNT)
        await bury(connection, names, letters)
        process = await self.start(config, "requeue")
        await self.until_some_are_sent(connection, names)
        process.send_signal(number)
        _, error = await process.communicate()
        stay = await left(config)
        bodies = await drained(connection, on_the_way(names), self.COUNT - len(stay))
        sent = [decode(body, GenerationJob).id for body in bodies]
        assert stay, "it was done before it could be killed"
        assert len(sent) + len(stay) == self.COUNT
        assert sorted([*sent, *map(str, stay)]) == [letter.job_id for letter in letters]
        assert stay == [letter.job_id for letter in letters][len(sent) :]
        if number != signal.SIGKILL:
            assert process.returncode == 130
            assert f"Stopped: {len(sent)} sent back, {len(stay)} left." in error.decode()
        again = await self.start(config, "requeue")
        out, _ = await again.communicate()
        assert again.returncode == 0
        assert f"{len(stay)} sent back" in out.decode()
        bodies = await drained(connection, on_the_way(names), len(stay))
        rest = [decode(body, GenerationJob).id for body in bodies]
        assert sorted(rest) == stay  # some of them have gone on to the jobs queue by now
        assert await left(config) == []

    async def test_purge(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        letters = numbered(self.COUNT)
        await bury(connection, names, letters)
        process = await self.start(config, "purge")
        async with asyncio.timeout(LIMIT_S):
            while await ready(connection, names.dead):  # until it holds them for good
                await asyncio.sleep(0)
        process.kill()
        await process.communicate()
        stay = await left(config)
        assert stay == [letter.job_id for letter in letters][self.COUNT - len(stay) :]
        again = await self.start(config, "purge")
        await again.communicate()
        assert again.returncode == 0
        assert await left(config) == []
