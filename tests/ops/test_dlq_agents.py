"""Dead agent jobs: how they are listed, told, exported and sent back."""

import asyncio
import json
import os
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractRobustConnection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sluicegate.ops.dlq_again import again, twin
from sluicegate.ops.dlq_again_agents import ANEW, GOES_ON
from sluicegate.ops.dlq_changes import Changes, parse_sets
from sluicegate.ops.dlq_export import labelled, whole
from sluicegate.ops.dlq_filter import Filter
from sluicegate.ops.dlq_letter import Letter
from sluicegate.ops.dlq_replay import NothingToReplay, attempts_of
from sluicegate.ops.dlq_sending import Refusal, Sending
from sluicegate.ops.dlq_story import TEXT_SHOWN, story
from sluicegate.ops.dlq_tables import listed
from sluicegate.schemas import (
    AgentContext,
    AgentJob,
    DeadLetter,
    InvalidMessage,
    Names,
    Origin,
    Reason,
    decode,
    encode,
)
from sluicegate.schemas.topology import DEAD_DELIVERY_LIMIT, DELIVERY_LIMIT
from sluicegate.worker.config import Config

from ..schemas.agent_messages import contexts
from .agent_letters import HOSTILE, TASK, agent_job, ended, hostile, partial, round_, scene
from .dlq_letters import LIMIT_S, NOW, bury, drained, job, moved, ready, rejected, view

NAMES = Names()
UNDER_WAY = moved("delivery_limit", NAMES.agents)
LATER = NOW + timedelta(hours=8)
# What would act on a terminal in place of being shown.
DRIVES = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]"


def sent(letter: Letter, changes: Changes | None = None) -> Sending:
    sending = again(letter, NAMES, changes or Changes(), LATER)
    assert isinstance(sending, Sending), sending
    return sending


def refused(letter: Letter, changes: Changes) -> str:
    refusal = again(letter, NAMES, changes, LATER)
    assert isinstance(refusal, Refusal)
    return refusal.why


def sets(*pairs: tuple[str, str]) -> Changes:
    return Changes(sets=parse_sets(pairs))


def told(letter: Letter, *, limit: int = TEXT_SHOWN) -> str:
    lines = story(letter, now=LATER, width=100, colour=False, text_limit=limit)
    return "\n".join(lines)


class TestView:
    def test_the_letter_of_its_service(self) -> None:
        head = view(ended()).head
        assert (head.kind, head.id, head.job_id) == ("letter", "letter-of-agent-1", "agent-1")
        assert (head.reason, head.gate, head.flaw) == ("breaker_tripped", "watchdog", "cycle")
        assert (head.worker, head.profile, head.lane) == ("agents-1", "chat", "interactive")
        assert (head.rounds, head.attempts) == (5, 0)

    def test_where_the_watchdog_found_nothing_nothing_is_said(self) -> None:
        quiet = scene(rounds=scene().execution.rounds[:1])
        assert view(ended(agent=quiet)).head.flaw is None
        spent = view(ended(reason=Reason.BUDGET_SPENT)).head
        assert (spent.gate, spent.flaw) == ("", None)

    def test_what_the_broker_buried_says_what_it_is(self) -> None:
        new = view(agent_job(), moved("delivery_limit", NAMES.new_agents)).head
        assert (new.kind, new.job_id, new.reason, new.rounds) == (
            "agent_job",
            "agent-1",
            "delivery_limit",
            0,
        )
        assert NAMES.new_agents in new.sentence
        way = view(scene(), UNDER_WAY).head
        assert (way.kind, way.rounds, way.worker) == ("agent_context", 5, "agents-1")

    def test_one_that_is_not_valid_here_is_ours_all_the_same(self) -> None:
        body = encode(scene()).replace(b'"revision":11', b'"revision":"x"')
        letter = view(body, UNDER_WAY)
        assert (letter.head.kind, letter.head.job_id) == ("raw", "agent-1")
        assert "It is not valid for this side" in letter.head.sentence
        assert "It is one of our messages" in letter.advice

    def test_what_its_service_could_not_read(self) -> None:
        letter = view(
            DeadLetter(
                job_id="agent-9",
                reason=Reason.MISSING_FIELD,
                field="$.task",
                detail="is required",
                at=NOW,
                origin=Origin(stage="decode", worker="agents-1", queue=NAMES.new_agents),
                raw_body=b'{"type": "agent_job", "id": "agent-9"}',
                raw_body_bytes=38,
            )
        )
        assert (letter.head.kind, letter.head.rounds) == ("letter", None)
        assert "agent_job" in told(letter)
        assert refused(letter, Changes()) == "it has no job that could be read"

    def test_a_table_says_how_far_each_came(self) -> None:
        heads = [view(ended()).head, view(rejected()).head]
        _, agent, text = listed(heads, LATER)
        assert "breaker_tripped" in agent
        assert "  agent, 5 rounds  chat" in agent
        assert "agent-1" in agent
        assert "rounds" not in text

    @pytest.mark.parametrize(
        ("wanted", "fits"),
        [
            (Filter(reasons=("breaker_*",)), True),
            (Filter(reasons=("budget_spent",)), False),
            (Filter(jobs=("agent-1",)), True),
            (Filter(gates=("watchdog",)), True),
            (Filter(flaws=("repeat",)), True),
            (Filter(flaws=("similarity",)), False),
            (Filter(workers=("agents-*",)), True),
            (Filter(profiles=("chat",)), True),
            (Filter(lane="batch"), False),
            (Filter(metadata=(("shop", "berlin"),)), True),
            (Filter(metadata=(("shop", "bonn"),)), False),
        ],
    )
    def test_filters(self, wanted: Filter, fits: bool) -> None:
        assert wanted.fits(view(ended()), LATER) is fits
        assert wanted.fits(view(scene(), UNDER_WAY), LATER) is (fits and not wanted.reasons)


class TestStory:
    def test_of_one_that_was_ended(self) -> None:
        text = told(view(ended()))
        for said in (
            TASK,
            "Never promise a refund.",
            "query_orders, send_mail",
            "task type analysis",
            "tokens=50000, rounds=9",
            "shop=berlin",
            "breaker_tripped: three warnings in a row",
            "tripped, asked to terminate: three warnings",
            "2,150 of 50,000",
            "5 of 9",
            "4 of 100 (query_orders 4)",
            "rounds up to 2 are summed up; calls: 1 ok, 1 timeout",
            "Seventeen orders are late.",
            "● round 4",
            "430 tokens",
            "score 5, warning",
            'query_orders {"late":true}: ok, 0.2 s “17 orders”',
            "found: cycle 3 against 2, 3 points",
            "reminded: You asked query_orders three times.",
            'send_mail {"to":"ann"}: denied (denied by bob) “bob said no”',
            "── what is done, and what is not",
            "  not done:",
            "Step 5: I look at the orders.",
            "── what would help",
            "task_type",
        ):
            assert said in text, said

    def test_what_was_done_is_apart_from_what_was_not(self) -> None:
        _, done, rest = re.split(r"\n  (?:done|not done):\n", told(view(ended())))
        assert "round 1: query_orders" in done
        assert "send_mail" not in done
        assert "round 5: send_mail" in rest

    def test_of_one_that_nobody_began(self) -> None:
        text = told(view(agent_job(), moved("delivery_limit", NAMES.new_agents)))
        assert TASK in text
        assert "the rounds" not in text
        assert "delivery_limit in queue sluice.v1.agents.new" in text

    def test_of_many_rounds_the_last_are_told_and_all_with_full(self) -> None:
        made = agent_job()
        rounds = tuple(round_(made, number) for number in range(1, 41))
        letter = view(ended(agent=scene(rounds=rounds)))
        short = told(letter)
        assert "(the last 12 of 40 rounds; --full has all)" in short
        assert "● round 28 " not in short
        assert "● round 29 " in short
        full = told(letter, limit=sys.maxsize)
        assert full.count("● round ") == 40

    @pytest.mark.parametrize("limit", [TEXT_SHOWN, sys.maxsize])
    def test_nothing_that_a_tool_or_a_model_said_drives_the_terminal(self, limit: int) -> None:
        letter = view(hostile())
        text = told(letter, limit=limit)
        assert not re.search(DRIVES, text)
        assert "owned" in text
        row = list(listed([letter.head], LATER))[-1]
        assert "\x1b" not in row


class TestSendingBack:
    def test_one_that_was_ended_begins_anew_with_effects_of_its_own(self) -> None:
        sending = sent(view(ended()))
        assert (sending.exchange, sending.routing_key) == (NAMES.retry, NAMES.new_agents_key)
        assert (sending.kind, sending.job_id, sending.note) == ("agent_job", "agent-1", ANEW)
        begun = decode(sending.body, AgentJob)
        assert begun == msgspec.structs.replace(agent_job(), attempt=2, enqueued_at=LATER)

    def test_one_that_nobody_began(self) -> None:
        letter = view(agent_job(), moved("delivery_limit", NAMES.new_agents))
        assert decode(sent(letter).body, AgentJob).attempt == 2

    def test_one_under_way_goes_on_where_it_was(self) -> None:
        before = scene()
        sending = sent(view(before, UNDER_WAY))
        assert (sending.routing_key, sending.kind) == (NAMES.agents_key, "agent_context")
        assert sending.note == GOES_ON
        after = decode(sending.body, AgentContext)
        # The hours among the dead letters are not charged to it.
        spent = after.orchestration.spent
        assert spent.waited_s == (LATER - NOW).total_seconds()
        assert after == msgspec.structs.replace(
            before,
            orchestration=msgspec.structs.replace(
                before.orchestration,
                spent=msgspec.structs.replace(before.orchestration.spent, waited_s=spent.waited_s),
            ),
        )

    def test_where_it_waited_for_a_person_already_that_clock_runs_on(self) -> None:
        before = scene()
        waits = msgspec.structs.replace(before.orchestration, phase="approving", waiting_since=NOW)
        before = msgspec.structs.replace(before, orchestration=waits)
        assert decode(sent(view(before, UNDER_WAY)).body, AgentContext) == before

    @pytest.mark.parametrize("letter", [view(ended()), view(scene(), UNDER_WAY)])
    def test_with_changes(self, letter: Letter) -> None:
        changes = sets(
            ("budget.tokens", "90000"),
            ("task_type", "coding"),
            ("format", "grammar"),
            ("tools", '["query_orders"]'),
            ("watchdog.rounds_max", "40"),
            ("sampling.temperature", "0.3"),
            ("reasoning.effort", "low"),
            ("gates.min_length", "5"),
        )
        changes = msgspec.structs.replace(changes, lane="batch", profile="code", deadline_in_s=60)
        body = sent(letter, changes).body
        made = (
            decode(body, AgentContext).job if b'"agent_context"' in body else decode(body, AgentJob)
        )
        assert (made.budget.tokens, made.budget.rounds) == (90_000, 9)
        assert (made.task_type, made.format, made.tools) == ("coding", "grammar", ("query_orders",))
        assert made.watchdog == {"rounds_max": 40}
        assert made.sampling.temperature == 0.3
        assert (made.reasoning.effort, made.gates) == ("low", {"min_length": 5})
        assert (made.lane, made.profile) == ("batch", "code")
        assert made.deadline == LATER + timedelta(seconds=60)

    def test_null_is_the_default(self) -> None:
        made = decode(sent(view(ended()), sets(("task_type", "null"))).body, AgentJob)
        assert made.task_type == "default"
        made = decode(sent(view(ended()), sets(("budget.tokens", "null"))).body, AgentJob)
        assert made.budget.tokens == 200_000

    def test_what_only_a_text_has_is_refused(self) -> None:
        why = refused(
            view(ended()), Changes(sets=parse_sets([("rules.json", "true")]), checks="off")
        )
        assert why == "it is an agent job, which has no rules.json, checks"

    def test_what_only_an_agent_has_is_refused_to_a_text(self) -> None:
        why = refused(view(rejected()), sets(("budget.tokens", "9"), ("task_type", "qa")))
        assert why == "it is one text, and no agent job: it has no task_type, budget.tokens"

    def test_a_deadline_that_passed(self) -> None:
        late = view(ended(agent=scene(job=agent_job(deadline=NOW))))
        assert "--no-deadline" in refused(late, Changes())
        assert decode(sent(late, Changes(no_deadline=True)).body, AgentJob).deadline is None

    @pytest.mark.parametrize(
        ("key", "value", "said"),
        [
            ("budget.token", "1", "did you mean budget.tokens"),
            ("budget.tokens", "0", "budget"),
            ("budget.tokens", "many", "budget"),
            ("task_type", "Q A", "agent job"),
            ("format", "xml", "agent job"),
            ("tools", '["a b"]', "agent job"),
            ("task", "x", "task_type, format, tools"),
            ("budget", "1", "budget.<name>"),
            ("watchdog", "1", "watchdog.<name>"),
        ],
    )
    def test_what_no_job_can_have_is_said_at_once(self, key: str, value: str, said: str) -> None:
        with pytest.raises(InvalidMessage, match=re.escape(said)):
            parse_sets([(key, value)])

    def test_numbers_that_are_used_up(self) -> None:
        last = view(ended(agent=scene(job=agent_job(attempt=10_000))))
        assert "10000" in refused(last, Changes()).replace(",", "")

    def test_its_result_that_found_no_reader_is_published_again(self) -> None:
        letter = view(
            ended(
                reason=Reason.RESULT_UNROUTABLE,
                result=partial(),
                origin=Origin(stage="deliver", worker="w", queue="q", routing_key="orders"),
            )
        )
        sending = sent(letter)
        assert (sending.exchange, sending.routing_key) == (NAMES.results, "orders")
        assert "nobody was written to" in told(letter)

    def test_a_letter_with_its_partial_result_still_begins_anew(self) -> None:
        assert sent(view(ended(result=partial()))).kind == "agent_job"

    def test_letters_of_one_attempt_are_one_job(self) -> None:
        letters = [view(ended()), view(scene(), UNDER_WAY), view(agent_job(), UNDER_WAY)]
        assert len({twin(letter, Changes()) for letter in letters}) == 1
        second = view(ended(agent=scene(job=agent_job(attempt=2))))
        assert twin(second, Changes()) != twin(letters[0], Changes())
        assert twin(view(job("agent-1")), Changes()) != twin(letters[0], Changes())

    @given(st.floats(0, 1e8))
    def test_a_clock_that_runs_ahead_takes_no_time_back(self, ahead_s: float) -> None:
        letter = view(scene(at=LATER + timedelta(seconds=ahead_s)), UNDER_WAY)
        assert decode(sent(letter).body, AgentContext).orchestration.spent.waited_s == 0.0


class TestAnyScene:
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(contexts(), st.sampled_from(Reason))
    def test_it_is_told_tamely_and_sent_back_or_refused(
        self, any_scene: AgentContext, reason: Reason
    ) -> None:
        for letter in (
            view(ended(any_scene.id, agent=any_scene, reason=reason)),
            view(any_scene, UNDER_WAY),
        ):
            text = told(letter, limit=sys.maxsize)
            rows = "".join(listed([letter.head], LATER))
            assert not re.search(DRIVES, text + rows)
            json.loads(msgspec.json.encode(whole(letter)))
            Filter(flaws=("x",), workers=("x",)).fits(letter, LATER)
            sending = again(letter, NAMES, Changes(no_deadline=True), LATER)
            if isinstance(sending, Refusal):
                assert sending.why
            elif sending.kind == "agent_context":
                assert decode(sending.body, AgentContext).execution == any_scene.execution
            else:
                begun = decode(sending.body, AgentJob)
                assert begun.attempt == any_scene.job.attempt + 1


class TestOtherUses:
    def test_no_replay_here(self) -> None:
        with pytest.raises(NothingToReplay, match="its tools would do again what they did"):
            attempts_of(view(ended()))

    def test_no_text_of_it_is_labelled_bad(self) -> None:
        assert list(labelled(view(ended()))) == []

    def test_raw_has_everything(self) -> None:
        data = json.loads(msgspec.json.encode(whole(view(ended()))))
        assert (data["kind"], data["rounds"]) == ("letter", 5)
        assert len(data["message"]["agent"]["execution"]["rounds"]) == 3


async def sluice(config: Config, *arguments: str) -> tuple[int, str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).parent / "sluice",
        "dlq",
        *arguments,
        "--amqp-url",
        config.amqp_url,
        "--namespace",
        config.namespace,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**env, "COLUMNS": "100"},
    )
    async with asyncio.timeout(LIMIT_S):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.broker
class TestOnABroker:
    async def test_looked_at(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, [ended(), hostile(), rejected("text")])
        await bury(connection, names, [scene("agent-2")], moved("delivery_limit", names.agents))
        code, out, err = await sluice(config, "list")
        assert (code, out.count("  agent, "), "4 of 4" in err) == (0, 3, True)
        code, out, _ = await sluice(config, "list", "--reason", "breaker_tripped", "--json")
        heads = [json.loads(line) for line in out.splitlines()]
        assert {head["job_id"] for head in heads} == {"agent-1", "agent-h"}
        code, out, _ = await sluice(config, "show", "agent-2")
        assert (code, "● round 4" in out, "goes on where it was" in out) == (0, True, True)
        code, out, _ = await sluice(config, "show", "agent-h", "--full")
        assert (code, "\x1b" in out, "\u202e" in out) == (0, False, False)
        code, out, _ = await sluice(config, "show", "agent-h", "--json")
        assert json.loads(out)["message"]["agent"]["job"]["task"] == HOSTILE
        assert "\x1b" not in out
        code, out, err = await sluice(config, "export")
        assert (code, err) == (
            0,
            "2 lines, of 4 dead letters, 3 of them agent jobs, which --raw has\n",
        )
        code, out, err = await sluice(config, "export", "--raw")
        assert (code, len(out.splitlines()), err) == (0, 4, "4 lines, of 4 dead letters\n")
        code, out, _ = await sluice(config, "stats", "--json")
        assert json.loads(out)["reasons"]["breaker_tripped"] == 2

    async def test_sent_back(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        await bury(connection, names, [ended()])
        await bury(connection, names, [scene("agent-2")], moved("delivery_limit", names.agents))
        code, out, err = await sluice(
            config, "requeue", "--all", "--yes", "--set", "budget.tokens=90000"
        )
        assert code == 0, err
        assert "1 to agents.new" in out
        assert "1 to agents;" in out
        assert "with budget.tokens=90000" in out
        assert f"Warning: of 1 agent job: {ANEW}" in err
        assert f"Warning: of 1 agent job: {GOES_ON}" in err
        async with asyncio.timeout(LIMIT_S):
            for queue in (names.new_agents, names.agents):
                while not await ready(connection, queue):
                    await asyncio.sleep(0.1)
        (new,) = await drained(connection, [names.new_agents])
        (way,) = await drained(connection, [names.agents])
        begun = decode(new, AgentJob)
        assert (begun.id, begun.attempt, begun.budget.tokens) == ("agent-1", 2, 90_000)
        context = decode(way, AgentContext)
        assert (context.id, context.revision, context.job.budget.tokens) == ("agent-2", 11, 90_000)
        assert await ready(connection, names.dead) == 0

    async def test_one_that_ends_its_services_is_buried_and_found(
        self, connection: AbstractRobustConnection, config: Config, names: Names
    ) -> None:
        """As the broker does it: given back until it has enough of it."""
        body = encode(scene("agent-3"))
        channel = await connection.channel()
        await channel.default_exchange.publish(
            _message(body), routing_key=names.agents, mandatory=True
        )
        queue = await channel.get_queue(names.agents)
        async with asyncio.timeout(LIMIT_S):
            for _ in range(DELIVERY_LIMIT + 1):
                while (taken := await queue.get(fail=False)) is None:
                    await asyncio.sleep(0.05)
                await taken.nack(requeue=True)
            while not await ready(connection, names.dead):
                await asyncio.sleep(0.05)
        _, out, _ = await sluice(config, "list", "--json")
        given_up: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
        assert [(each["kind"], each["reason"]) for each in given_up] == [
            ("agent_context", "delivery_limit")
        ]

    async def test_one_that_waits_for_a_person_may_be_looked_at_often(
        self, connection: AbstractRobustConnection, names: Names
    ) -> None:
        channel = await connection.channel()
        await channel.default_exchange.publish(
            _message(encode(scene())), routing_key=names.approvals, mandatory=True
        )
        queue = await channel.get_queue(names.approvals)
        async with asyncio.timeout(LIMIT_S):
            for _ in range(3 * DELIVERY_LIMIT):
                while (taken := await queue.get(fail=False)) is None:
                    await asyncio.sleep(0.05)
                await taken.nack(requeue=True)
            while not await ready(connection, names.approvals):
                await asyncio.sleep(0.05)
        assert DEAD_DELIVERY_LIMIT > 3 * DELIVERY_LIMIT
        assert await ready(connection, names.dead) == 0


def _message(body: bytes) -> Message:
    return Message(body, delivery_mode=2)
