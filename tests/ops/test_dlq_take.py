"""Sending letters back and clearing them away on a real broker: exactly those, once, whatever
happens to the program."""

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aio_pika.abc import AbstractRobustConnection
from aiormq import spec
from msgspec import structs
from sluicegate.ops import dlq_take
from sluicegate.ops.dlq_changes import Changes
from sluicegate.ops.dlq_queue import looking
from sluicegate.ops.dlq_take import clear_away, send_back
from sluicegate.producer.connection import close_channel, open_channel
from sluicegate.producer.errors import QueueFull, TopologyMissing
from sluicegate.schemas import (
    Candidate,
    GenerationJob,
    GenerationResult,
    Names,
    decode,
    encode,
    reply,
    topology,
)
from sluicegate.worker.config import Config

from .dlq_letters import (
    LIMIT_S,
    NOW,
    bury,
    candidate,
    drained,
    job,
    left,
    moved,
    numbered,
    on_the_way,
    ready,
    rejected,
    result,
    unroutable,
    written_again,
)

pytestmark = pytest.mark.broker

PROGRAM = Path(sys.executable).parent / "sluice"
AS_IT_WAS = Changes()


async def keys(config: Config, fits: Callable[[str], bool] = lambda _: True) -> set[str]:
    async with looking(config) as look:
        return {
            dead.letter.head.key
            async for dead in look.letters()
            if fits(dead.letter.head.job_id or "")
        }


async def back(config: Config, chosen: set[str], changes: Changes = AS_IT_WAS) -> dlq_take.Taken:
    return await send_back(config, chosen, changes, stop=asyncio.Event(), progress=lambda _: None)


class TestSendBack:
    async def test_exactly_the_chosen_in_order(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        letters = numbered(20)
        await bury(connection, names, letters)
        chosen = await keys(config, lambda job_id: int(job_id[-1]) % 3 == 0)
        taken = await back(config, chosen, Changes(lane="batch"))
        assert (taken.done, taken.refused, taken.left, taken.stopped) == (8, (), 0, False)
        bodies = await drained(connection, on_the_way(names))
        sent = [decode(body, GenerationJob) for body in bodies]
        assert [each.id for each in sent] == [
            letter.job_id for letter in letters if int(str(letter.job_id)[-1]) % 3 == 0
        ]
        assert {(each.attempt, each.first_attempt, each.lane) for each in sent} == {(3, 3, "batch")}
        assert await left(config) == [
            letter.job_id for letter in letters if int(str(letter.job_id)[-1]) % 3
        ]

    async def test_what_is_sent_outlives_the_broker(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, numbered(1))
        assert (await back(config, await keys(config))).done == 1
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        async with asyncio.timeout(LIMIT_S):
            while True:
                for queue in on_the_way(names):
                    if isinstance(
                        (found := await channel.basic_get(queue, no_ack=True)).delivery,
                        spec.Basic.GetOk,
                    ):
                        break
                else:
                    continue
                break
        await close_channel(channel)
        assert found.header.properties.delivery_mode == 2

    async def test_a_worker_gets_it_by_its_lane(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, [rejected("a"), rejected("b", lane="batch")])
        await bury(connection, names, [candidate("c")], moved("delivery_limit", names.checks))
        assert (await back(config, await keys(config))).done == 3
        async with asyncio.timeout(LIMIT_S):
            for queue in (*on_the_way(names)[1:], names.checks):
                while not await ready(connection, queue):
                    await asyncio.sleep(0.1)
        for queue, job_id in zip(on_the_way(names)[1:], "ab", strict=True):
            (body,) = await drained(connection, [queue])
            assert decode(body, GenerationJob).id == job_id
        (body,) = await drained(connection, [names.checks])
        assert decode(body, Candidate) == candidate("c")

    async def test_copies_of_a_letter_are_one_job(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        one, other = rejected("one"), rejected("other")
        await bury(connection, names, [one, other, one, one])
        taken = await back(config, await keys(config, lambda job_id: job_id == "one"))
        assert taken.done == 1
        assert len(await drained(connection, on_the_way(names))) == 1
        assert await left(config) == ["other"]

    async def test_a_letter_that_was_written_again_is_one_job(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        first, second, third = written_again("one", 3)
        reduced = structs.replace(third, job=None, detail="too large")
        await bury(connection, names, [second, third, first, reduced, rejected("other")])
        taken = await back(config, await keys(config, lambda job_id: job_id == "one"))
        assert (taken.done, taken.left, taken.besides) == (1, 0, 0)
        (body,) = await drained(connection, on_the_way(names), 1)
        assert third.job is not None
        assert decode(body, GenerationJob).metadata == third.job.metadata  # the newest
        assert await left(config) == ["other"]

    async def test_letters_of_one_attempt_are_one_job(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        old = rejected("one", metadata={"n": 1})
        new = rejected("one", metadata={"n": 2}, at=NOW + timedelta(seconds=5))
        later = rejected("one", attempts=3)
        await bury(connection, names, [new, later, old])
        taken = await back(config, await keys(config))
        assert (taken.done, taken.left, taken.besides) == (2, 0, 1)
        bodies = await drained(connection, on_the_way(names), 2)
        sent = [decode(body, GenerationJob) for body in bodies]
        assert sorted((each.attempt, each.metadata.get("n", 0)) for each in sent) == [
            (3, 2),
            (4, 0),
        ]
        assert await left(config) == []

    async def test_twins_that_can_t_be_sent_stay_and_count_once(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, [rejected("a", deadline=NOW) for _ in range(2)])
        taken = await back(config, await keys(config))
        assert (taken.done, len(taken.refused), taken.left) == (0, 1, 0)
        assert await left(config) == ["a", "a"]

    async def test_a_result_goes_to_its_reader(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, [unroutable("a", "shop"), rejected("b")])
        taken = await back(config, await keys(config))
        assert taken.done == 1
        ((head, why),) = taken.refused
        assert (head.job_id, "routing key 'shop'" in why) == ("a", True)
        assert "`sluice results --reply shop`" in why
        assert await left(config) == ["a"]
        queue, binding = reply(names, "shop")
        await declare_queue(connection, queue.name, names.results, binding.routing_key)
        try:
            assert (await back(config, await keys(config))).done == 1
            (body,) = await drained(connection, [queue.name])
        finally:
            channel = await open_channel(connection, timeout_s=LIMIT_S)
            await channel.queue_delete(queue.name)
            await close_channel(channel)
        assert decode(body, GenerationResult) == result("a")
        assert await left(config) == []

    async def test_what_can_t_be_sent_stays(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, [b"\xff", encode(job("a", deadline=None)), b"{}"])
        taken = await back(config, await keys(config))
        assert (taken.done, len(taken.refused)) == (1, 2)
        assert await left(config) == [None, None]

    async def test_what_has_gone_is_told(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, numbered(3))
        chosen = await keys(config)
        assert (await back(config, chosen)).done == 3
        assert (await back(config, chosen)) == dlq_take.Taken(0, (), 3)

    async def test_stopped_at_once(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, numbered(30))
        stop = asyncio.Event()

        def progress(done: int) -> None:
            if done == 7:
                stop.set()

        chosen = await keys(config)
        taken = await send_back(config, chosen, AS_IT_WAS, stop=stop, progress=progress)
        assert (taken.done, taken.left, taken.stopped) == (7, 23, True)
        assert len(await left(config)) == 23


class TestTrouble:
    async def test_the_way_is_full(
        self,
        connection: AbstractRobustConnection,
        config: Config,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        await bury(connection, names, numbered(3))
        monkeypatch.setattr(dlq_take, "MAX_QUEUE_LENGTH", 199)
        with pytest.raises(QueueFull, match="jobs queue behind it"):
            await back(config, await keys(config))
        assert len(await left(config)) == 3

    async def test_a_full_jobs_queue_loses_nothing(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        queue = names.jobs_queue("interactive")
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        await channel.queue_delete(queue)
        (standing,) = [each for each in topology(names.namespace).queues if each.name == queue]
        arguments: dict[str, Any] = {**standing.arguments, "x-max-length": 1}
        await channel.queue_declare(queue, durable=True, arguments=arguments)
        await channel.queue_bind(queue, names.jobs, names.jobs_key("interactive"))
        await bury(connection, names, numbered(10))
        chosen = await keys(config)
        assert (await back(config, chosen)).done == 10
        # They wait on the rung, which a full queue does not touch, and there they all are.
        bodies = await drained(connection, on_the_way(names)[:1])
        assert len({decode(body, GenerationJob).id for body in bodies}) == 10
        await close_channel(channel)

    async def test_a_binding_that_is_gone_is_made_before_anything_is_at_stake(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, [job("a"), job("b")], moved("expired"))
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        await channel.queue_unbind(
            names.retry_queue("5s"),
            names.retry,
            "",
            arguments={"x-match": "all", "rung": "5s"},
        )
        await close_channel(channel)
        assert (await back(config, await keys(config))).done == 2
        assert len(await drained(connection, on_the_way(names), 2)) == 2
        assert await left(config) == []

    async def test_nothing_takes_them(
        self,
        connection: AbstractRobustConnection,
        config: Config,
        names: Names,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(dlq_take, "RUNG_HEADER", "another")  # so the binding is not made anew
        await bury(connection, names, [job("a"), job("b")], moved("expired"))
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        await channel.queue_unbind(
            names.retry_queue("5s"),
            names.retry,
            "",
            arguments={"x-match": "all", "rung": "5s"},
        )
        with pytest.raises(TopologyMissing, match="binding"):
            await back(config, await keys(config))
        await close_channel(channel)
        async with looking(config) as look:
            heads = [dead.letter.head async for dead in look.letters()]
        # The first was put back behind the other, and still tells why it died.
        assert [(head.job_id, head.reason) for head in heads] == [
            ("b", "expired"),
            ("a", "expired"),
        ]

    @pytest.mark.parametrize("what", ["queue", "exchange"])
    async def test_no_way(
        self, connection: AbstractRobustConnection, config: Config, names: Names, what: str
    ) -> None:
        await bury(connection, names, numbered(2))
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        if what == "queue":
            await channel.queue_delete(names.retry_queue("5s"))
        else:
            await channel.exchange_delete(names.retry)
        with pytest.raises(TopologyMissing, match=what):
            await back(config, await keys(config))
        await close_channel(channel)
        assert len(await left(config)) == 2


class TestClearAway:
    async def test_exactly_the_chosen(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        letters = numbered(250)
        twin = rejected("job-00007")
        await bury(connection, names, [*letters, letters[5], twin])
        chosen = await keys(config, lambda job_id: int(job_id[-5:]) % 10 == 5)
        taken = await clear_away(config, chosen, stop=asyncio.Event(), progress=lambda _: None)
        assert (taken.done, taken.left) == (25, 0)
        stay = [each.job_id for each in letters if not str(each.job_id).endswith("5")]
        assert await left(config) == [*stay, "job-00007"]
        assert await drained(connection, on_the_way(names)) == []

    async def test_all_that_was_written_again(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, [*written_again("one", 3), rejected("other")])
        chosen = await keys(config, lambda job_id: job_id == "one")
        taken = await clear_away(config, chosen, stop=asyncio.Event(), progress=lambda _: None)
        assert (taken.done, taken.left) == (1, 0)
        assert await left(config) == ["other"]

    async def test_stopped(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, numbered(30))
        stop = asyncio.Event()
        stop.set()
        taken = await clear_away(config, await keys(config), stop=stop, progress=lambda _: None)
        assert (taken.done, taken.left, taken.stopped) == (0, 30, True)
        assert len(await left(config)) == 30


async def declare_queue(
    connection: AbstractRobustConnection, name: str, exchange: str, key: str
) -> None:
    channel = await open_channel(connection, timeout_s=LIMIT_S)
    await channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    await channel.queue_bind(name, exchange, key)
    await close_channel(channel)
