"""What the doctor asks the broker. Nothing is changed there."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from ipaddress import ip_address

from aio_pika.abc import AbstractRobustConnection
from aiormq.exceptions import AuthenticationError, InvalidFrameError, ProbableAuthenticationError
from msgspec import Struct
from yarl import URL

from ..producer.connection import close, cluster_name, connect, safe_url, server_version
from ..producer.errors import AccessRefused, BrokerError
from ..producer.tls import is_checked, tls_error
from ..producer.versions import WrongBroker, remarks, require_version
from ..schemas.topology import LANES, MAX_QUEUE_LENGTH, Names, topology
from ..worker import consumer_timeout
from ..worker.config import Config
from . import doctor_rights, management
from .doctor_findings import Finding, note, ok, trouble, unknown
from .doctor_host import clock_beside
from .doctor_rights import Role
from .topology_check import BINDINGS_UNSEEN, compare
from .topology_observed import observe

_NEARLY_FULL = 0.8
_REFUSED = (AuthenticationError, ProbableAuthenticationError)
_API_ADVICE = "enable rabbitmq_management, or name it with --management-url"


class Asking(Struct, frozen=True):
    """What is asked for: by which configuration, as which roles, and where the API is."""

    config: Config
    roles: Sequence[Role]
    api: management.Access

    @property
    def names(self) -> Names:
        """Every name on the broker."""
        return Names(self.config.namespace)


async def look(asking: Asking) -> AsyncGenerator[Finding]:
    """All of it, one by one; where the broker can't be reached that is the only finding."""
    config = asking.config
    try:
        connection = await connect(
            config.amqp_url, timeout_s=config.connect_timeout_s, name="sluice doctor"
        )
    except BrokerError as error:
        yield trouble("broker", str(error), _way_in(error))
        return
    try:
        yield version(connection, config.amqp_url)
        yield transport(config.amqp_url)
        yield await drift(connection, asking)
        for role in asking.roles:
            yield await doctor_rights.look(connection, role, asking.names)
        yield await patience(connection, asking)
        for each in await asyncio.to_thread(_told_by_api, asking):
            yield each
    except BrokerError as error:
        yield trouble("broker", f"lost while it was asked: {error}", "look at its log, ask again")
    finally:
        await close(connection)


def _way_in(error: BrokerError) -> str:
    """What to do where the broker does not let us in, or isn't there."""
    cause = error.__cause__
    # As `connect` reads it: a virtual host that is none for this user.
    no_vhost = isinstance(cause, InvalidFrameError) and "Connection.Close" in str(cause)
    if isinstance(error, AccessRefused) or isinstance(cause, _REFUSED) or no_vhost:
        return "put user, password and virtual host as the broker knows them into amqp_url"
    if tls_error(error) is not None:
        return "as it says; docs/security.md has each case"
    return "start it, or set amqp_url (SLUICE_AMQP_URL)"


def version(connection: AbstractRobustConnection, url: str) -> Finding:
    """Whether the server can do what is needed."""
    told = server_version(connection)
    said = f"RabbitMQ {told} at {safe_url(url)}"
    try:
        require_version(told)
    except WrongBroker as error:
        return trouble("broker", f"{said}: {error}", "upgrade it")
    bites = [each for each in remarks(told) if "upgrade" in each]
    if bites:
        return note("broker", f"{said}: {'; '.join(bites)}", "upgrade it")
    return ok("broker", said)


def transport(url: str) -> Finding:
    """Whether passwords and texts travel in the clear."""
    parsed = URL(url)
    if parsed.scheme == "amqps":
        if not is_checked(parsed):
            return trouble(
                "transport", "TLS, but any certificate is believed", "take no_verify_ssl away"
            )
        return ok("transport", "TLS, the certificate is checked")
    if _is_here(parsed.host or "localhost"):
        return ok("transport", "in the clear, on this host")
    return note("transport", "in the clear, over a network", "use amqps://, see docs/security.md")


def _is_here(host: str) -> bool:
    """Whether what goes to this host stays on the machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def drift(connection: AbstractRobustConnection, asking: Asking) -> Finding:
    """Whether the topology stands as this version wants it."""
    wanted = topology(asking.config.namespace)
    # Without the API there is still what AMQP tells; why it can't be asked stands at the queues.
    seen = await observe(connection, wanted, asking.api, api_is_given=False)
    differences = compare(wanted, seen)
    if differences:
        shown = "; ".join(map(str, differences[:5]))
        more = f" and {len(differences) - 5} more" if len(differences) > 5 else ""
        kinds = {each.kind for each in differences}
        remedy = "sluice topology apply" if kinds == {"missing"} else "sluice topology check"
        return trouble("topology", f"{shown}{more}", remedy)
    unseen = [each for each in seen.unchecked if not each.startswith(BINDINGS_UNSEEN)]
    if unseen:
        more = f" and {len(unseen) - 1} more" if len(unseen) > 1 else ""
        return unknown(
            "topology",
            f"namespace {asking.config.namespace} is there; not compared: {unseen[0]}{more}",
            "ask by the operator's user, or `sluice topology check`",
        )
    whole = "" if seen.bindings is not None else ", as far as AMQP tells: bindings were not seen"
    return ok("topology", f"namespace {asking.config.namespace} as it should be{whole}")


async def patience(connection: AbstractRobustConnection, asking: Asking) -> Finding:
    """Whether what services hold fits the broker's consumer timeout, by its own value."""
    config, name = asking.config, "consumer timeout"
    real_s = await consumer_timeout.asked(
        consumer_timeout.command(config), cluster_name(connection)
    )
    of = "the broker's own value"
    try:
        by_queue = await asyncio.to_thread(management.patience, asking.api)
    except management.NoManagement:
        by_queue = {}
    ours = {f"{config.namespace}.jobs.{lane}" for lane in LANES} | {
        asking.names.checks,
        asking.names.agents,
    }
    ruled = {queue: value for queue, value in by_queue.items() if queue in ours}
    if ruled:
        queue, least_s = min(ruled.items(), key=lambda each: each[1])
        if real_s is None or least_s < real_s:
            real_s, of = least_s, f"that of queue {queue}"
    longest = {
        "attempt_timeout_s": config.attempt_timeout_s,
        "check_timeout_s": config.check_timeout_s,
        "agent_step_timeout_s": config.agent_step_timeout_s,
    }
    limit_s = real_s if real_s is not None else config.consumer_timeout_s
    for setting, value in longest.items():
        if 2 * value >= limit_s:
            return trouble(
                name,
                f"{limit_s:g} s ({of if real_s is not None else 'consumer_timeout_s'}), and "
                f"{setting} is {value:g}: the broker takes work away while it is done",
                "raise consumer_timeout in rabbitmq.conf (milliseconds), or lower the setting to "
                f"less than {limit_s / 2:g}",
            )
    if real_s is None:
        return unknown(
            name,
            f"the broker was not asked; consumer_timeout_s says {limit_s:g} s, which would do",
            "set rabbitmqctl to a command that may ask it, or run this on the broker's host",
        )
    said = "none" if real_s == consumer_timeout.NEVER else f"{real_s:g} s"
    return ok(name, f"{said} ({of}), and nothing is held for half as long")


def _told_by_api(asking: Asking) -> list[Finding]:
    try:
        depths = management.depths(asking.api)
    except management.NoManagement as error:
        return [
            unknown("queues", str(error), _API_ADVICE),
            unknown("alarms of broker", "the management API was not asked", _API_ADVICE),
            unknown("clock of broker", "the management API was not asked", _API_ADVICE),
        ]
    return [queues(depths, asking.names), _alarms(asking.api), _clock(asking.api)]


def queues(depths: Sequence[management.Depth], names: Names) -> Finding:
    """Whether somebody takes what waits, and nothing is nearly full."""
    bad: list[str] = []
    prefix = f"{names.namespace}."
    waits = 0
    for each in depths:
        if not each.name.startswith(prefix) or each.name in _kept(names):
            continue
        ready = each.messages_ready or 0
        waits += ready
        if ready > _NEARLY_FULL * MAX_QUEUE_LENGTH:
            bad.append(f"{each.name} is nearly full ({ready:,} of {MAX_QUEUE_LENGTH:,})")
        elif ready and not each.consumers and each.name in _consumed(names):
            bad.append(f"{ready:,} wait in {each.name}, and nobody takes them")
    dead = next((each.messages_ready or 0 for each in depths if each.name == names.dead), 0)
    if bad:
        return trouble(
            "queues",
            "; ".join(bad),
            "start a worker, checker or agent service for it, or `sluice resume` a paused one",
        )
    if dead:
        return note("queues", f"{dead:,} dead letters", "sluice dlq list")
    return ok("queues", f"{waits:,} messages wait, none without somebody to take them")


def _kept(names: Names) -> set[str]:
    """Logs, which keep what was read."""
    return {names.journal, names.control_log, names.pauses_log}


def _consumed(names: Names) -> set[str]:
    return {
        *(names.jobs_queue(lane) for lane in LANES),
        names.checks,
        names.agents,
        names.new_agents,
    }


def _alarms(api: management.Access) -> Finding:
    name = "alarms of broker"
    try:
        nodes = management.nodes(api)
    except management.NoManagement as error:
        return unknown(
            name,
            str(error),
            "give --management-url a user with the tag `monitoring`: `management` is too little",
        )
    bad = [
        *(f"{each.name} does not run" for each in nodes if not each.running),
        *(f"{each.name} has no memory left" for each in nodes if each.mem_alarm),
        *(f"{each.name} has no disk left" for each in nodes if each.disk_free_alarm),
    ]
    if bad:
        return trouble(
            name, "; ".join(bad), "nothing can be published until the node has room again"
        )
    full = [each.name for each in nodes if each.fd_used > _NEARLY_FULL * max(each.fd_total, 1)]
    if full:
        return trouble(name, f"{', '.join(full)}: descriptors nearly used up", "raise its limit")
    return ok(name, f"none on {len(nodes)} node(s)")


def _clock(api: management.Access) -> Finding:
    try:
        theirs_s = management.date(api)
    except management.NoManagement as error:
        return unknown("clock of broker", str(error), _API_ADVICE)
    if theirs_s is None:
        return unknown(
            "clock of broker", "the management API does not tell the time", "compare them by hand"
        )
    return clock_beside(theirs_s, time.time())
