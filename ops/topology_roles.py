"""Who may do what on the broker: one user for each role, with what its work needs. Pure.

RabbitMQ matches a pattern anywhere in a name, hence `^` and `$`. A user may declare and delete what
`configure` matches; publish to exchanges, and bind queues, that `write` matches; consume queues,
and bind to exchanges, that `read` matches. On a topic exchange the routing key is matched besides:
of what is published by `write`, of a binding by `read`.
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ..schemas.topology import LANES, Names, reply, tool

NOTHING: Final = "^$"
ANY: Final = ".*"
# Names that a program gives its own queues: drawn, 64 bits.
_DRAWN: Final = "[0-9a-f]{16}"


class Topic(Struct, frozen=True):
    """Routing keys on a topic exchange, as patterns."""

    exchange: str
    write: str = NOTHING
    read: str = NOTHING


class Role(Struct, frozen=True):
    """A user, what it is for, and its rights as patterns. `tags` are those of the management API;
    `reply`: the backend whose queue of results stands with it, `tool`: the tool whose queue does.
    """

    name: str
    work: str
    configure: str
    write: str
    read: str
    topics: tuple[Topic, ...] = ()
    tags: tuple[str, ...] = ()
    reply: str = ""
    tool: str = ""


def roles(names: Names, replies: Sequence[str] = (), tools: Sequence[str] = ()) -> tuple[Role, ...]:
    """Every role under a namespace; one more for each backend with a queue of its own, and for each
    tool that is served elsewhere."""
    return (
        _operator(names),
        *_services(names),
        _publisher(names),
        _watcher(names),
        *(_backend(names, key) for key in replies),
        *(_tool_server(names, name) for name in tools),
    )


def _operator(names: Names) -> Role:
    exchanges = [
        names.jobs,
        names.retry,
        names.results,
        names.events,
        names.control,
        names.pauses,
        names.dlx,
        names.tools,
    ]
    queues = [names.dead, names.approvals, names.journal, names.control_log, names.pauses_log]
    locks = [rf"{_is(each)}\.looking" for each in (names.dead, names.approvals)]
    everything = rf"^{_is(names.namespace)}(\..*)?$"
    return Role(
        name="operator",
        work="`sluice topology`, `dlq`, `top`, `cancel`, `pause`, `resume`, `agent approvals`",
        configure=everything,
        write=everything,
        read=_one_of(*map(_is, [*exchanges, *queues]), *locks, _feeds(names)),
        topics=(
            Topic(names.events, NOTHING, ANY),
            Topic(names.results, NOTHING, ANY),
        ),
        tags=("management",),
    )


def _services(names: Names) -> tuple[Role, ...]:
    said = (names.control, names.pauses)
    logs = (names.control_log, names.pauses_log)
    out = (names.results, names.events, names.dlx)
    topics = (Topic(names.events, ANY), Topic(names.results, ANY))
    # Answers of the model, and of tools that are served elsewhere.
    own = rf"{_is(names.results)}\.(agents|private)-{_DRAWN}"
    approvals = rf"{_is(names.approvals)}\.looking"
    return (
        Role(
            name="worker",
            work="`sluice worker`",
            configure=NOTHING,
            write=_one_of(*map(_is, (names.jobs, names.retry, *out, *said))),
            read=_one_of(*(_is(names.jobs_queue(lane)) for lane in LANES), *map(_is, logs)),
            topics=topics,
        ),
        Role(
            name="checker",
            work="`sluice checker`",
            configure=NOTHING,
            write=_one_of(*map(_is, (names.retry, *out, *said))),
            read=_one_of(*map(_is, (names.checks, *logs))),
            topics=topics,
        ),
        Role(
            name="agent",
            work="`sluice agent run`",
            configure=_one_of(approvals, own),
            write=_one_of(*map(_is, (names.jobs, *out, *said, names.tools)), own),
            read=_one_of(
                *map(_is, (names.agents, names.new_agents, names.approvals, names.journal)),
                *map(_is, (names.results, *logs)),
                own,
            ),
            topics=(
                Topic(names.events, ANY),
                Topic(names.results, ANY, rf"^(agents|private)-{_DRAWN}$"),
            ),
        ),
    )


def _publisher(names: Names) -> Role:
    own = rf"{_is(names.results)}\.(private|file)-{_DRAWN}"
    return _asking(
        names,
        own,
        rf"(private|file)-{_DRAWN}",
        name="publisher",
        work="`Producer(url)`, `sluice submit`",
    )


def _backend(names: Names, key: str) -> Role:
    return _asking(
        names,
        _is(names.results_queue(key)),
        _is(key),
        name=key,
        work=f'`Producer(url, reply="{key}")`, `sluice results --reply {key}`',
        reply=key,
    )


def _asking(names: Names, own: str, key: str, *, name: str, work: str, reply: str = "") -> Role:
    """Publishes jobs, and gets what becomes of them: on a queue of its own, by a key of its own."""
    feeds = _feeds(names)
    heard = map(_is, (names.results, names.events, names.control))
    return Role(
        name=name,
        work=work,
        configure=_one_of(own, feeds),
        write=_one_of(*map(_is, (names.jobs, names.control, names.dlx)), own, feeds),
        read=_one_of(*heard, own, feeds),
        topics=(
            Topic(names.events, NOTHING, rf"^{key}\.#$"),
            Topic(names.results, NOTHING, f"^{key}$"),
        ),
        reply=reply,
    )


def _watcher(names: Names) -> Role:
    feeds = _feeds(names)
    return Role(
        name="watcher",
        work="`sluice watch`, `sluice top`",
        configure=_one_of(feeds),
        write=_one_of(feeds),
        read=_one_of(_is(names.events), feeds),
        topics=(Topic(names.events, NOTHING, ANY),),
    )


def _tool_server(names: Names, name: str) -> Role:
    queue = _is(names.tool_queue(name))
    return Role(
        name=f"tool-{name}",
        work=f"`sluice agent serve-tools` with the tool `{name}`",
        configure=_one_of(queue),
        # It answers where the request says, by the default exchange.
        write=_one_of("amq[.]default", queue, _is(names.events)),
        read=_one_of(_is(names.tools), queue, _is(names.control_log), _is(names.pauses_log)),
        topics=(Topic(names.events, r"^_services\."),),
        tool=name,
    )


def declared(names: Names, role: Role) -> list[object]:
    """The queue, and its binding, that stand with a role."""
    if role.reply:
        return list(reply(names, role.reply))
    return list(tool(names, role.tool)) if role.tool else []


def _feeds(names: Names) -> str:
    """The queues of whoever follows events."""
    return rf"{_is(names.events)}\.{_DRAWN}"


def _is(name: str) -> str:
    return re.escape(name)


def _one_of(*patterns: str) -> str:
    return f"^({'|'.join(patterns)})$"
