"""Agent jobs that wait for a person: who waits, and a person's decision.

The waiting job is a message in a queue that nobody consumes. To see it is a look, which changes
nothing. To decide is to take its message, and to publish the context with the decision for it, in
one transaction: whoever is killed meanwhile has done both or neither, and of two who decide at the
same time the second finds that nothing waits. When the clock decides, see `sweeper`.
"""

from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct, structs

from ...producer.secrecy import OPEN, Secrecy
from ...producer.taking import Taking
from ...schemas.agents import AgentContext
from ...schemas.errors import InvalidMessage, SluiceError
from ...schemas.topology import Names
from .approval_queue import CONNECT_TIMEOUT_S, Moving, Seen, each, in_hand
from .deciding import WaitingCall, decided, expired, soonest, waiting

__all__ = [
    "Decided",
    "NotWaiting",
    "TimedOut",
    "Waiting",
    "WaitingCall",
    "WaitingJob",
    "decide",
    "decided",
    "expired",
    "list_waiting",
    "short_name",
    "soonest",
    "waiting",
]

_SHOWN: Final = 20
_LONGEST_ID: Final = 40


class NotWaiting(SluiceError):
    """No such job, or call, waits for anybody. The message says which do."""


class TimedOut(SluiceError):
    """The time to decide is over, which means no."""


class WaitingJob(Struct, frozen=True):
    """An agent job that waits, and its calls that do: one at least."""

    job_id: str
    revision: int
    task: str
    since: datetime | None
    calls: tuple[WaitingCall, ...]


class Waiting(Struct, frozen=True):
    """Everything that waits, the longest first. `unreadable`: messages that are no context; they
    go to the dead letters as soon as anybody decides, or an agent service comes by."""

    jobs: tuple[WaitingJob, ...]
    unreadable: int = 0


class Decided(Struct, frozen=True):
    """What was done: the context that was published, the calls decided, those whose time had been
    over before, and those that wait yet."""

    context: AgentContext
    calls: tuple[WaitingCall, ...]
    late: tuple[WaitingCall, ...] = ()
    left: tuple[WaitingCall, ...] = ()


async def list_waiting(url: str, names: Names, *, timeout_s: float = CONNECT_TIMEOUT_S) -> Waiting:
    """What waits on the broker at `url`, which is reached in `timeout_s` seconds. Changes nothing.

    Raises BrokerUnreachable, TopologyMissing, AccessRefused, SomebodyLooks, LookLost.
    """
    jobs: dict[str, WaitingJob] = {}
    unreadable = 0
    async with in_hand(url, names, timeout_s=timeout_s) as look, aclosing(each(look)) as found:
        async for seen in found:
            context = seen.context
            if isinstance(context, InvalidMessage):
                unreadable += 1
            elif calls := waiting(context):
                known = jobs.get(context.id)
                if known is None or known.revision < context.revision:
                    jobs[context.id] = WaitingJob(
                        context.id,
                        context.revision,
                        context.job.task,
                        context.orchestration.waiting_since,
                        calls,
                    )
    return Waiting(tuple(jobs.values()), unreadable)


async def decide(  # noqa: PLR0913 - its words, and where it is said
    url: str,
    names: Names,
    job_id: str,
    state: Literal["approved", "denied"],
    *,
    calls: Collection[str] | None = None,
    by: str = "",
    why: str = "",
    timeout_s: float = CONNECT_TIMEOUT_S,
    secrecy: Secrecy = OPEN,
) -> Decided:
    """Decide calls of a job, named by their ids or effect ids; None: all that wait.

    Where a call waits yet, the job does; otherwise it goes on to the agents. Calls whose time is
    over are entered as such on the way. Raises NotWaiting (as the second of two who decide does)
    and TimedOut: then nothing is changed; the errors of `list_waiting`; InvalidMessage where what
    `by` or `why` say is not fit for a message. After BrokerUnreachable it is done, or not; to
    decide again tells.
    """
    async with in_hand(url, names, timeout_s=timeout_s) as look:
        newest: Seen | None = None
        context: AgentContext | None = None
        tags: list[int] = []
        others: list[str] = []
        unreadable: list[Seen] = []
        async with aclosing(each(look)) as found:
            async for seen in found:
                if isinstance(seen.context, InvalidMessage):
                    unreadable.append(seen)
                elif seen.context.id != job_id:
                    others.append(seen.context.id)
                else:
                    # More than one only after a broker died in the middle of a transaction.
                    tags.append(seen.tag)
                    if context is None or seen.context.revision > context.revision:
                        newest, context = seen, seen.context
        async with Taking(look) as taking:
            moving = Moving(look, taking, names, secrecy=secrecy)
            await moving.bury(unreadable)
            if newest is None or context is None:
                raise NotWaiting(f"job {_tame(job_id)} waits for nobody; {_those(others, 'jobs')}")
            done = _decided(context, calls, state, by=by, why=why, now=datetime.now(UTC))
            await moving.move(done.context, newest, tags)
    return done


def _decided(
    context: AgentContext,
    wanted: Collection[str] | None,
    state: Literal["approved", "denied"],
    *,
    by: str,
    why: str,
    now: datetime,
) -> Decided:
    """What a decision makes of a context. Raises NotWaiting, TimedOut."""
    every = waiting(context)
    chosen = every if wanted is None else _chosen(context.id, every, wanted)
    if not chosen:
        raise NotWaiting(f"no call of job {context.id} waits for anybody")
    in_time = tuple(one for one in chosen if one.expires_at > now)
    if not in_time:
        last = max(one.expires_at for one in chosen)
        raise TimedOut(
            f"timed out at {last.isoformat(timespec='seconds')}, which means no: "
            f"{', '.join(_tame(one.call.effect_id) for one in chosen)}"
        )
    late = tuple(one for one in every if one.expires_at <= now)
    after = context
    if late:  # calls in time wait yet, so it does
        after = decided(after, _effects(late), "timed_out", now=now)
        after = structs.replace(after, revision=context.revision)
    after = decided(after, _effects(in_time), state, by=by, why=why, now=now)
    return Decided(after, in_time, late, waiting(after))


def _chosen(
    job_id: str, every: Sequence[WaitingCall], wanted: Collection[str]
) -> tuple[WaitingCall, ...]:
    """The waiting calls of these names. Raises NotWaiting, and changes nothing where one is wrong:
    a yes that was half meant is none."""
    chosen: dict[str, WaitingCall] = {}
    for name in wanted:
        named = [one for one in every if name == one.call.effect_id]
        named = named or [one for one in every if name == one.call.id]
        if len(named) != 1:
            ids = [short_name(one, every) for one in every]
            said = "is several calls" if named else "is no call that waits"
            raise NotWaiting(f"{name!r} {said} of job {_tame(job_id)}; {_those(ids, 'calls')}")
        chosen[named[0].call.effect_id] = named[0]
    return tuple(chosen.values())


def short_name(one: WaitingCall, calls: Sequence[WaitingCall]) -> str:
    """By what a call is named among those that wait: its id, where that is one and can be typed in
    a shell, otherwise its effect id."""
    name = one.call.id
    several = sum(other.call.id == name for other in calls) > 1
    fit = name.isascii() and name.isprintable() and not set(name) & set(" '\"\\$`")
    if several or not fit or name.startswith("-") or len(name) > _LONGEST_ID:
        return one.call.effect_id
    return name


def _effects(calls: Sequence[WaitingCall]) -> frozenset[str]:
    return frozenset(one.call.effect_id for one in calls)


def _those(ids: Sequence[str], what: str) -> str:
    """Which do."""
    several = list(dict.fromkeys(ids))
    if not several:
        return "nothing does"
    more = f" and {len(several) - _SHOWN} more" if len(several) > _SHOWN else ""
    return f"the {what} that do: {', '.join(map(_tame, several[:_SHOWN]))}{more}"


def _tame(name: str) -> str:
    """A name for a message, in which nothing acts on a terminal."""
    return name if name.isprintable() else repr(name)
