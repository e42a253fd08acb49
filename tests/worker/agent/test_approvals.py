"""Jobs that wait for a person, on a real broker: seen, approved, denied, by one or by two."""

import asyncio
import random
import sys
import textwrap

import pytest
from aio_pika.abc import AbstractRobustConnection
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.producer import taking
from sluicegate.producer.connection import close, close_channel, connect, open_channel
from sluicegate.producer.errors import BrokerUnreachable, TopologyMissing
from sluicegate.producer.look import SomebodyLooks
from sluicegate.schemas import DeadLetter, Names, Reason, decode, encode
from sluicegate.schemas.limits import MAX_JOB_BYTES
from sluicegate.worker.agent import approval_queue
from sluicegate.worker.agent.approval_queue import in_hand
from sluicegate.worker.agent.approvals import (
    Decided,
    NotWaiting,
    TimedOut,
    decide,
    list_waiting,
)

from .waiting_jobs import (
    LIMIT_S,
    call,
    context,
    contexts,
    everywhere,
    many,
    publish,
    ready,
    states,
    taken,
    until,
)

pytestmark = pytest.mark.broker


class TestListing:
    async def test_it_changes_nothing(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        bodies = [encode(each) for each in many(30)]
        await publish(connection, names.approvals, [*bodies, b"\xff?"])
        for _ in range(12):  # more often than a queue of work delivers
            found = await list_waiting(broker_url, names)
            assert [job.job_id for job in found.jobs] == [f"job-{n:04d}" for n in range(30)]
            assert found.unreadable == 1
        assert await taken(connection, names.approvals) == [*bodies, b"\xff?"]
        assert await ready(connection, names.dead) == 0

    async def test_what_it_tells(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        old, new = context(revision=3), context(revision=4)
        first, second = call("b:2:x", 50), call("b:2:y", 40)
        other = context("b", first, call("b:2:z", None), second)
        await publish(connection, names.approvals, [new, old, other])
        found = await list_waiting(broker_url, names)
        assert [(job.job_id, job.revision) for job in found.jobs] == [("job-1", 4), ("b", 7)]
        calls = found.jobs[1].calls
        assert [(one.round, one.call) for one in calls] == [(2, first), (2, second)]
        assert found.jobs[1].since == other.orchestration.waiting_since
        assert found.jobs[1].task == "Pay the bills."

    async def test_none(self, names: Names, broker_url: str) -> None:
        assert (await list_waiting(broker_url, names)).jobs == ()


class TestDeciding:
    async def test_yes_goes_on(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        await publish(connection, names.approvals, many(5))
        done = await decide(broker_url, names, "job-0002", "approved", by="kim", why="fine")
        assert [one.call.effect_id for one in done.calls] == ["job-0002:2:a"]
        assert (done.late, done.left) == ((), ())
        waits, goes = await everywhere(connection, names)
        assert [each.id for each in waits] == ["job-0000", "job-0001", "job-0003", "job-0004"]
        assert goes == [done.context]
        (after,) = goes
        assert (after.revision, after.orchestration.phase) == (8, "calling")
        assert after.orchestration.waiting_since is None
        assert after.orchestration.spent.waited_s >= 70
        approval = after.execution.rounds[-1].calls[0].approval
        assert approval is not None
        assert (approval.state, approval.by, approval.why) == ("approved", "kim", "fine")

    async def test_a_part_waits_on(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        given = context("job-1", call("job-1:2:a"), call("job-1:2:b"), call("job-1:2:c"))
        await publish(connection, names.approvals, [given])
        done = await decide(broker_url, names, "job-1", "approved", calls=["b"])
        assert [one.call.id for one in done.left] == ["a", "c"]
        assert await ready(connection, names.agents) == 0
        (job,) = (await list_waiting(broker_url, names)).jobs
        assert (job.revision, [one.call.id for one in job.calls]) == (8, ["a", "c"])
        assert job.since == given.orchestration.waiting_since
        done = await decide(broker_url, names, "job-1", "denied", calls=["job-1:2:c"])
        assert [one.call.id for one in done.left] == ["a"]
        await decide(broker_url, names, "job-1", "approved")
        waits, goes = await everywhere(connection, names)
        assert (waits, [each.revision for each in goes]) == ([], [10])
        assert states(goes[0]) == ["approved", "approved", "denied"]

    async def test_twice_says_that_nothing_waits(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        await publish(connection, names.approvals, many(2))
        await decide(broker_url, names, "job-0000", "approved")
        with pytest.raises(NotWaiting, match=r"job-0000 waits for nobody; .*: job-0001"):
            await decide(broker_url, names, "job-0000", "approved")
        await decide(broker_url, names, "job-0001", "denied")
        with pytest.raises(NotWaiting, match="nothing does"):
            await decide(broker_url, names, "job-0001", "approved")
        assert [each.revision for each in await contexts(connection, names.agents)] == [8, 8]

    async def test_a_name_that_is_none_of_its_calls_changes_nothing(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        same = [call(f"job-1:2:{n}", id="same") for n in (0, 1)]
        given = context("job-1", *same, call("job-1:2:c"))
        await publish(connection, names.approvals, [given])
        for wrong, said in (("x", "no call that waits"), ("same", "several calls")):
            with pytest.raises(NotWaiting, match=said) as raised:
                await decide(broker_url, names, "job-1", "approved", calls=["c", wrong])
            # By what they can be called: two have one id.
            assert "the calls that do: job-1:2:0, job-1:2:1, c" in str(raised.value)
        assert await everywhere(connection, names) == ([given], [])

    async def test_too_late(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        given = context("job-1", call("job-1:2:a", -0.001), call("job-1:2:b"))
        await publish(connection, names.approvals, [given])
        with pytest.raises(TimedOut, match="timed out at 20"):
            await decide(broker_url, names, "job-1", "approved", calls=["a"])
        assert (await list_waiting(broker_url, names)).jobs[0].revision == 7
        done = await decide(broker_url, names, "job-1", "approved")
        assert [one.call.id for one in done.late] == ["a"]
        assert [one.call.id for one in done.calls] == ["b"]
        (after,) = await contexts(connection, names.agents)
        assert (states(after), after.revision) == (["timed_out", "approved"], 8)

    async def test_copies_of_a_job_are_one(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        """A broker that died in the middle of a transaction may leave such."""
        copies = [context(revision=revision) for revision in (4, 6, 6, 5)]
        await publish(connection, names.approvals, copies)
        await decide(broker_url, names, "job-1", "approved")
        waits, goes = await everywhere(connection, names)
        assert (waits, [each.revision for each in goes]) == ([], [7])

    async def test_words_that_fit_no_message_change_nothing(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        given = context()
        await publish(connection, names.approvals, [given])
        with pytest.raises(ValueError, match="not UTF-8"):
            await decide(broker_url, names, "job-1", "approved", by="\udc80")
        assert await everywhere(connection, names) == ([given], [])


class TestUnreadable:
    async def test_it_is_buried_and_in_nobodys_way(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        long = b'{"id": "long", "x": "%s"}' % (b"x" * MAX_JOB_BYTES)
        broken = [b"{", b'{"id": "j", "type": "job"}', long]
        await publish(connection, names.approvals, [*broken, context()])
        await decide(broker_url, names, "job-1", "approved")
        waits, goes = await everywhere(connection, names)
        assert (waits, len(goes)) == ([], 1)
        await until(connection, names.dead, 4)  # the broker keeps the long one whole
        bodies = await taken(connection, names.dead)
        letters = [decode(body, DeadLetter) for body in bodies if body != long]
        assert len(letters) == 3
        assert [letter.origin.stage for letter in letters] == ["agent"] * 3
        assert {letter.origin.queue for letter in letters} == {names.approvals}
        assert [letter.reason for letter in letters] == [
            Reason.MALFORMED_JSON,
            Reason.UNKNOWN_TYPE,
            Reason.MISSING_FIELD,
        ]
        assert [letter.job_id for letter in letters] == [None, "j", "long"]
        assert [letter.raw_body for letter in letters] == [*broken[:2], long[:1024]]
        assert [letter.raw_body_bytes for letter in letters] == [len(each) for each in broken]

    async def test_where_no_letter_can_be_written_it_stays(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        await publish(connection, names.approvals, [b"{", context()])
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        await channel.queue_unbind(names.dead, names.dlx)
        await decide(broker_url, names, "job-1", "approved")
        assert await taken(connection, names.approvals) == [b"{"]
        assert len(await contexts(connection, names.agents)) == 1
        await close_channel(channel)


class TestTwo:
    async def test_exactly_one_wins(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        await publish(connection, names.approvals, many(20))
        verdicts = ("approved", "denied", "approved")
        ends = await asyncio.gather(
            *(decide(broker_url, names, "job-0007", each, by=each) for each in verdicts),
            return_exceptions=True,
        )
        won = [each for each in ends if isinstance(each, Decided)]
        assert len(won) == 1
        assert sum(isinstance(each, NotWaiting) for each in ends) == 2
        waits, goes = await everywhere(connection, names)
        assert len(waits) == 19
        assert goes == [won[0].context]

    async def test_who_looks_too_long_is_told(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        broker_url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        await publish(connection, names.approvals, many(1))
        impatient = approval_queue.Patience(lock_s=0.3)
        monkeypatch.setattr(approval_queue, "Patience", lambda: impatient)
        async with in_hand(broker_url, names, timeout_s=LIMIT_S):
            with pytest.raises(SomebodyLooks, match="calls that wait for approval"):
                await decide(broker_url, names, "job-0000", "approved")
        await decide(broker_url, names, "job-0000", "approved")


class TestKilled:
    PROGRAM = textwrap.dedent("""
        import asyncio, sys
        from sluicegate.schemas import Names
        from sluicegate.worker.agent.approvals import decide

        async def main():
            for number in range(int(sys.argv[3])):
                print(number, flush=True)
                job_id = f"job-{number:04d}"
                await decide(sys.argv[1], Names(sys.argv[2]), job_id, "approved", calls=["a"])

        asyncio.run(main())
    """)

    @pytest.mark.parametrize("seed", range(8))
    async def test_each_job_is_there_once(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str, seed: int
    ) -> None:
        """The even ones go on, the odd ones wait for a second call."""
        count = 12
        given = [
            context(
                f"job-{n:04d}", *(call(f"job-{n:04d}:2:{each}") for each in ("a", "b")[: 1 + n % 2])
            )
            for n in range(count)
        ]
        await publish(connection, names.approvals, given)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", self.PROGRAM, broker_url, names.namespace, str(count)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        luck = random.Random(seed)
        for _ in range(luck.randint(1, 8)):
            assert await process.stdout.readline()
        await asyncio.sleep(luck.uniform(0, 0.12))  # somewhere in what follows the line
        process.kill()
        await process.wait()
        await until_nobody_holds_any(names, broker_url)
        waits, goes = await everywhere(connection, names)
        assert sorted([*(each.id for each in waits), *(each.id for each in goes)]) == [
            each.id for each in given
        ]
        assert all(each.id[-1] in "02468" for each in goes)
        for each in goes:
            assert (each.revision, states(each)) == (8, ["approved"])
        for each in waits:
            at_first = next(one for one in given if one.id == each.id)
            assert each == at_first or (each.revision, states(each)) == (8, ["approved", "waiting"])


async def until_nobody_holds_any(names: Names, url: str) -> None:
    """A look that is killed is over for the broker a moment later."""
    await list_waiting(url, names)


class TestTrouble:
    async def test_no_queue(self, broker_url: str, bare_namespace: str) -> None:
        for work in (
            list_waiting(broker_url, Names(bare_namespace)),
            decide(broker_url, Names(bare_namespace), "job-1", "approved"),
        ):
            with pytest.raises(TopologyMissing, match=r"agents\.approvals"):
                await work

    async def test_no_broker(self) -> None:
        with pytest.raises(BrokerUnreachable):
            await list_waiting("amqp://127.0.0.1:1/", Names("x"), timeout_s=2)

    async def test_nowhere_to_go(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        given = context()
        await publish(connection, names.approvals, [given])
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        await channel.queue_delete(names.agents)
        with pytest.raises(TopologyMissing, match=r"\.agents'"):
            await decide(broker_url, names, "job-1", "approved")
        assert await contexts(connection, names.approvals) == [given]
        await close_channel(channel)

    async def test_a_lost_binding_is_made_again(
        self, connection: AbstractRobustConnection, names: Names, broker_url: str
    ) -> None:
        await publish(connection, names.approvals, [context()])
        channel = await open_channel(connection, timeout_s=LIMIT_S)
        await channel.queue_unbind(names.agents, names.jobs, names.agents_key)
        await decide(broker_url, names, "job-1", "approved")
        waits, goes = await everywhere(connection, names)
        assert (len(waits), len(goes)) == (0, 1)
        await close_channel(channel)

    async def test_a_binding_that_goes_in_that_moment(
        self,
        connection: AbstractRobustConnection,
        names: Names,
        broker_url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        given = context()
        await publish(connection, names.approvals, [given])
        channel = await open_channel(connection, timeout_s=LIMIT_S)

        async def gone(*arguments: object, **more: object) -> int:
            waiting = await taking.require_way(*arguments, **more)  # pyright: ignore[reportArgumentType]
            await channel.queue_unbind(names.agents, names.jobs, names.agents_key)
            return waiting

        monkeypatch.setattr(approval_queue, "require_way", gone)
        with pytest.raises(TopologyMissing, match="binding"):
            await decide(broker_url, names, "job-1", "approved")
        assert await everywhere(connection, names) == ([given], [])
        await close_channel(channel)

    async def test_a_broker_that_is_killed_meanwhile_still_has_it(
        self, killable_broker: PrivateBroker, killable_namespace: str
    ) -> None:
        names = Names(killable_namespace)
        made = await connect(killable_broker.url, timeout_s=LIMIT_S, name="agent tests")
        await publish(made, names.approvals, many(3))
        await close(made)
        before = await list_waiting(killable_broker.url, names)
        await killable_broker.kill()
        with pytest.raises(BrokerUnreachable):
            await decide(killable_broker.url, names, "job-0001", "approved", timeout_s=3)
        await killable_broker.start()
        assert await list_waiting(killable_broker.url, names) == before
        await decide(killable_broker.url, names, "job-0001", "approved")
        made = await connect(killable_broker.url, timeout_s=LIMIT_S, name="agent tests")
        waits, goes = await everywhere(made, names)
        assert [each.id for each in waits] == ["job-0000", "job-0002"]
        assert [each.id for each in goes] == ["job-0001"]
        await close(made)
