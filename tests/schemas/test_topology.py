"""What must hold of the topology whatever it is called. Pure; the real broker is met elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.schemas import Names, Topology, reply, topology
from sluicegate.schemas.topology import (
    DEAD_DELIVERY_LIMIT,
    DEFAULT_NAMESPACE,
    DELIVERY_LIMIT,
    LANES,
    RUNGS,
    Exchange,
    Queue,
    tool,
)

namespaces = st.from_regex(r"[a-z][a-z0-9_.-]{0,40}", fullmatch=True)
reply_keys = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_:-]{0,20}", fullmatch=True)
tool_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", fullmatch=True)


def under_way(made: Topology) -> set[str]:
    """Queues that are filled in transactions, in which a full one drops without a word."""
    return {made.names.agents, made.names.approvals}


@given(namespaces)
def test_every_queue_is_a_quorum_queue_that_says_its_limits(namespace: str) -> None:
    made = topology(namespace)
    for queue in made.queues:
        if queue.is_stream:
            continue
        assert queue.arguments["x-queue-type"] == "quorum"
        # Defaults differ between versions; -1 means 0 on 3.x; a full queue must say so.
        assert int(queue.arguments["x-delivery-limit"]) > 0
        assert queue.arguments["x-overflow"] == "reject-publish"
        assert ("x-max-length" in queue.arguments) == (queue.name not in under_way(made))
        assert int(queue.arguments.get("x-max-length", 1)) > 0


@given(namespaces)
def test_what_is_a_log_is_a_stream_and_forgets(namespace: str) -> None:
    made = topology(namespace)
    names = made.names
    streams = {queue.name: queue.arguments for queue in made.queues if queue.is_stream}
    assert set(streams) == {names.journal, names.control_log, names.pauses_log}
    segment = "x-stream-max-segment-size-bytes"
    for arguments in streams.values():
        # A stream without a limit fills the disk; of what a quorum queue has it knows nothing.
        assert int(arguments["x-max-length-bytes"]) > 0
        assert set(arguments) <= {"x-queue-type", "x-max-age", "x-max-length-bytes", segment}
        # It forgets by whole segments: the limit must be several of them.
        assert int(arguments["x-max-length-bytes"]) >= 4 * int(arguments.get(segment, 500_000_000))
    # A pause holds until it is lifted, however long that takes.
    assert "x-max-age" not in streams[names.pauses_log]


@given(namespaces)
def test_an_approval_may_be_looked_at_often_and_a_step_be_tried_a_few_times(namespace: str) -> None:
    made = topology(namespace)
    limits = {queue.name: queue.arguments.get("x-delivery-limit") for queue in made.queues}
    assert limits[made.names.approvals] == DEAD_DELIVERY_LIMIT
    assert limits[made.names.agents] == limits[made.names.new_agents] == DELIVERY_LIMIT


@given(namespaces)
def test_nothing_that_some_version_refuses_or_misreads(namespace: str) -> None:
    for queue in topology(namespace).queues:
        assert not {"x-max-priority", "x-single-active-consumer", "x-queue-mode"} & set(
            queue.arguments
        )
        assert -1 not in queue.arguments.values()


def work_of(names: Names) -> list[str]:
    return [
        *map(names.jobs_queue, LANES),
        names.checks,
        names.new_agents,
        names.agents,
        names.approvals,
    ]


@given(namespaces)
def test_work_dies_into_the_terminal_exchange_alone(namespace: str) -> None:
    made = topology(namespace)
    work = work_of(made.names)
    by_name = {queue.name: queue for queue in made.queues}
    for name in work:
        assert by_name[name].arguments["x-dead-letter-exchange"] == made.names.dlx
        assert by_name[name].arguments["x-dead-letter-strategy"] == "at-least-once"
    assert "x-dead-letter-exchange" not in by_name[made.names.dead].arguments
    assert [b.queue for b in made.bindings if b.exchange == made.names.dlx] == [made.names.dead]


@given(namespaces)
def test_no_dead_letter_comes_round(namespace: str) -> None:
    """The broker drops, without a word, what comes back to a queue it has died in: from a work
    queue no chain of dead-letterings may lead back to it."""
    made = topology(namespace)
    leads_to = {
        queue.name: {
            binding.queue
            for binding in made.bindings
            if binding.exchange == queue.arguments.get("x-dead-letter-exchange")
        }
        for queue in made.queues
    }
    for work in work_of(made.names):
        reached: set[str] = set()
        frontier = leads_to[work]
        while frontier := frontier - reached:
            reached |= frontier
            frontier = {target for name in frontier for target in leads_to[name]}
        assert work not in reached


@given(namespaces)
def test_a_rung_waits_and_leads_back_to_the_jobs(namespace: str) -> None:
    made = topology(namespace)
    by_name = {queue.name: queue for queue in made.queues}
    for rung, seconds in RUNGS.items():
        arguments = by_name[made.names.retry_queue(rung)].arguments
        assert arguments["x-message-ttl"] == seconds * 1000
        assert arguments["x-dead-letter-exchange"] == made.names.jobs
        # The job's own key must survive the wait.
        assert "x-dead-letter-routing-key" not in arguments


def test_the_rungs_last_as_long_as_their_names_say() -> None:
    assert RUNGS == {"5s": 5, "30s": 30, "2m": 120, "10m": 600}


@given(namespaces)
def test_every_binding_has_both_ends(namespace: str) -> None:
    made = topology(namespace)
    exchanges = {exchange.name: exchange for exchange in made.exchanges}
    queues = {queue.name for queue in made.queues}
    for binding in made.bindings:
        assert binding.queue in queues
        kind = exchanges[binding.exchange].kind
        assert bool(binding.arguments) == (kind == "headers")
        if binding.arguments:
            assert binding.arguments["x-match"] == "all"
    assert {binding.queue for binding in made.bindings} == queues


@given(namespaces)
def test_the_dead_end_stands_first(namespace: str) -> None:
    made = topology(namespace)
    assert made.exchanges[0] == Exchange(made.names.dlx, "fanout")
    assert made.queues[0].name == made.names.dead
    assert (made.bindings[0].exchange, made.bindings[0].queue) == (made.names.dlx, made.names.dead)


@given(namespaces)
def test_names_are_unique_and_stay_in_their_namespace(namespace: str) -> None:
    made = topology(namespace)
    for names in ([e.name for e in made.exchanges], [q.name for q in made.queues]):
        assert len(names) == len(set(names))
        assert all(name == namespace or name.startswith(f"{namespace}.") for name in names)
        assert all(len(name) <= 255 for name in names)


def test_the_default_names_are_the_documented_ones() -> None:
    assert topology().names.namespace == DEFAULT_NAMESPACE == "sluice.v1"
    assert [queue.name for queue in topology().queues] == [
        "sluice.v1.dead",
        "sluice.v1.jobs.interactive",
        "sluice.v1.jobs.batch",
        "sluice.v1.checks",
        "sluice.v1.agents.new",
        "sluice.v1.agents",
        "sluice.v1.agents.approvals",
        "sluice.v1.agents.journal",
        "sluice.v1.retry.5s",
        "sluice.v1.retry.30s",
        "sluice.v1.retry.2m",
        "sluice.v1.retry.10m",
        "sluice.v1.control.log",
        "sluice.v1.pauses.log",
        "sluice.v1.results.default",
    ]


@given(namespaces, reply_keys)
def test_a_reply_queue_is_bound_by_its_key(namespace: str, key: str) -> None:
    names = Names(namespace)
    queue, binding = reply(names, key)
    assert queue.name == names.results_queue(key)
    assert (binding.exchange, binding.queue, binding.routing_key) == (
        names.results,
        queue.name,
        key,
    )
    assert "x-expires" not in queue.arguments
    private, _ = reply(names, key, private=True)
    assert int(private.arguments["x-expires"]) > 0


def test_the_default_reply_queue_is_like_any_other() -> None:
    made = topology()
    queue, binding = reply(made.names, "default")
    assert queue in made.queues
    assert binding in made.bindings


@given(namespaces, tool_names)
def test_a_tool_has_a_queue_by_its_name_that_goes_when_nobody_serves_it(
    namespace: str, name: str
) -> None:
    names = Names(namespace)
    queue, binding = tool(names, name)
    assert isinstance(queue, Queue)
    assert (binding.exchange, binding.queue, binding.routing_key) == (names.tools, queue.name, name)
    assert queue.name == f"{names.tools}.{name}"
    assert int(queue.arguments["x-expires"]) > 0
    # Nobody waits for an old request: it may go, and is no dead letter.
    assert "x-dead-letter-exchange" not in queue.arguments
    assert queue.name not in {each.name for each in topology(namespace).queues}


@given(namespaces, reply_keys, reply_keys)
def test_an_event_key_has_as_many_words_as_it_should(
    namespace: str, reply_to: str, job: str
) -> None:
    key = Names(namespace).event_key(reply_to, job, "delta")
    assert key.split(".") == [reply_to, job, "delta"]


def test_a_topology_is_data_that_cannot_change() -> None:
    with pytest.raises(AttributeError):
        topology().queues = ()  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(topology(), Topology)
