"""The connection to the broker: made within a time limit, kept alive, its password never shown."""

import asyncio
import contextlib
import logging
import re
from collections.abc import Generator
from typing import Final, NamedTuple

import aiormq
from aio_pika.abc import AbstractRobustConnection
from aio_pika.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelInvalidStateError,
    InvalidFrameError,
    ProbableAuthenticationError,
)
from aio_pika.robust_connection import RobustConnection
from yarl import URL

from . import tls, tolerance
from .errors import BrokerUnreachable, seconds
from .tasks import see_through

tolerance.install()
log = logging.getLogger(__name__)

# A broker that comes back should find its clients soon, and not all in a tight loop.
RECONNECT_INTERVAL_S: Final = 1.0
CLOSE_TIMEOUT_S: Final = 5.0
ABANDON_LIMIT_S: Final = 2.0

# What a lost connection looks like from inside a call. `RuntimeError` includes aiormq's
# "channel is closed"; `TimeoutError` and the socket's errors are `OSError`.
CONNECTION_LOST: Final = (AMQPError, OSError, RuntimeError)


@contextlib.contextmanager
def lost_not_cancelled() -> Generator[None]:
    """Tell a lost connection from a cancellation of ours.

    A connection that its heartbeat kills cancels whoever waits on it: a bare CancelledError comes
    out of the call. Inside this context it becomes a ConnectionAbortedError instead.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > before:
            raise
        raise ConnectionAbortedError("the connection was lost while waiting") from error


class Version(NamedTuple):
    """A server's version, comparable: `server_version(c) >= (3, 12)`."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


async def connect(
    url: str, *, timeout_s: float, heartbeat_s: int = 30, name: str
) -> AbstractRobustConnection:
    """A connection that reconnects by itself once it stood. `name` is what operators see. With
    amqps:// the broker's certificate is checked; the URL's parameters for it: `tls.context_of`.

    Raises BrokerUnreachable within `timeout_s` seconds when the first attempt fails.
    """
    target = _with_defaults(url, heartbeat_s=heartbeat_s, name=name)
    connection = RobustConnection(target, client_properties={"product": "sluicegate"})
    if target.scheme == "amqps":
        connection.kwargs["transport_factory"] = tls.CheckedTls()
        if not tls.is_checked(target):
            log.warning("no_verify_ssl: whoever answers as %s is believed", safe_url(url))
    attempt = asyncio.ensure_future(connection.connect(timeout=timeout_s))
    try:
        with lost_not_cancelled():
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(attempt)
    except BaseException as error:
        # Without this its reconnecting task would outlive us.
        await see_through(_abandon(connection, attempt))
        if isinstance(error, Exception):
            raise BrokerUnreachable(_unreachable(url, error, timeout_s)) from error
        raise
    return connection


async def _abandon(connection: AbstractRobustConnection, attempt: asyncio.Future[None]) -> None:
    # Cancelled at the moment it succeeds, aiormq forgets the connection that it has just opened.
    await asyncio.wait([attempt], timeout=ABANDON_LIMIT_S)
    attempt.cancel()
    await asyncio.gather(attempt, return_exceptions=True)
    await _close(connection)


async def close(connection: AbstractRobustConnection) -> None:
    """Close in good order, but never hang on a broker that is gone. Cancellation waits for it."""
    await see_through(_close(connection))


async def _close(connection: AbstractRobustConnection) -> None:
    # It may be gone already, or not answer; either way there is nothing left to say.
    with contextlib.suppress(*CONNECTION_LOST), lost_not_cancelled():
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await connection.close()


async def open_channel(
    connection: AbstractRobustConnection, *, confirms: bool = False, timeout_s: float
) -> aiormq.abc.AbstractChannel:
    """A plain channel: it dies with its connection and asks the broker, never a cache.

    aio-pika's robust channels answer a passive declaration from memory and reopen behind one's
    back; whoever wants to know what became of a message needs neither. Raises BrokerUnreachable.
    """
    if connection.is_closed:
        raise BrokerUnreachable(f"the connection to {address(connection)} was closed on this side")
    try:
        with lost_not_cancelled():
            async with asyncio.timeout(timeout_s):
                await connection.ready()
                transport = connection.transport
                if transport is None:
                    raise BrokerUnreachable(f"no connection to {address(connection)}")
                return await transport.connection.channel(
                    publisher_confirms=confirms, on_return_raises=confirms
                )
    except CONNECTION_LOST as error:
        raise BrokerUnreachable(f"no channel to {address(connection)}: {_cause(error)}") from error


async def close_channel(channel: aiormq.abc.AbstractChannel) -> None:
    """Close a channel; one that is closed, or whose broker is gone, is no error."""
    with contextlib.suppress(*CONNECTION_LOST), lost_not_cancelled():
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await channel.close()


def server_version(connection: AbstractRobustConnection) -> Version:
    """The broker's version as it told at connect; 0.0.0 when it did not or is no RabbitMQ."""
    return parse_version(_told(connection, "version") or "")


def cluster_name(connection: AbstractRobustConnection) -> str | None:
    """What the broker calls itself, as it told at connect; None where it did not."""
    return _told(connection, "cluster_name")


def _told(connection: AbstractRobustConnection, name: str) -> str | None:
    transport = connection.transport
    told = transport.connection.server_properties.get(name) if transport is not None else None
    if told is None:
        return None
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)


def parse_version(text: str) -> Version:
    """`3.10.8`, `4.1.0-rc.1`, `3.13` ... what can't be read counts as 0."""
    found = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", text)
    if found is None:
        return Version(0, 0, 0)
    major, minor, patch = (int(part or 0) for part in found.groups())
    return Version(major, minor, patch)


def address(connection: AbstractRobustConnection) -> str:
    """Where a connection goes, fit for logs and messages."""
    return safe_url(str(connection))


def safe_url(url: str) -> str:
    """The URL without password and query, fit for logs and messages; "(not a URL)" when in doubt
    which part is the password."""
    try:
        parsed = _parsed(url)
    except ValueError:
        return "(not a URL)"
    # An escaped colon would bring the password into the name.
    user = f"{parsed.user.partition(':')[0]}:***@" if parsed.user else ""
    port = f":{parsed.port}" if parsed.port else ""
    host = f"[{parsed.host}]" if ":" in (parsed.host or "") else parsed.host
    return f"{parsed.scheme}://{user}{host}{port}{parsed.raw_path}"


def parse_url(url: str) -> URL:
    """A broker's address. Raises ValueError, which says how it must look and quotes nothing."""
    try:
        parsed = _parsed(url)
    except ValueError:
        # The parser's own error quotes a part, and that may be the password's.
        raise ValueError(NOT_A_URL) from None
    if parsed.scheme not in ("amqp", "amqps"):
        raise ValueError(NOT_A_URL)
    return parsed


def _parsed(url: str) -> URL:
    parsed = URL(url)
    if not parsed.host or not re.fullmatch(r"[\w.:%-]+", parsed.host):
        raise ValueError("no host")
    # `user:1/2@host`: the name, it seems, of a host, and the rest of the password its path.
    if "@" in f"{parsed.raw_path}{parsed.raw_query_string}{parsed.raw_fragment}":
        raise ValueError("an @ after the host")
    return parsed


def _with_defaults(url: str, *, heartbeat_s: int, name: str) -> URL:
    try:
        parsed = parse_url(url)
    except ValueError as error:
        raise BrokerUnreachable(f"the broker's address {error}; set SLUICE_AMQP_URL") from None
    if parsed.scheme == "amqp" and parsed.query.keys() & set(tls.PARAMETERS.values()):
        raise BrokerUnreachable(
            f"files for TLS are set, and {safe_url(url)} is without: write amqps:// and the port "
            "for it, 5671 as a rule. Nothing was sent in the clear"
        )
    # What the URL itself says is stronger: it was written for this broker.
    defaults = {
        "heartbeat": str(heartbeat_s),
        "name": name,
        "reconnect_interval": str(RECONNECT_INTERVAL_S),
        # Otherwise a first connection that fails would be tried for ever.
        "fail_fast": "1",
    }
    return parsed.update_query({**defaults, **parsed.query, "fail_fast": "1"})


# In aiormq's words: somebody is there, and does not like what was said.
_HUNG_UP: Final = re.compile(r"unexpectedly closed|connection reset")

NOT_A_URL: Final = (
    "must look like amqp://host:5672/vhost (amqps:// for TLS), with user:password@ before the "
    "host, and each of : / ? # @ in user, password or vhost percent-encoded"
)


def _unreachable(url: str, error: Exception, timeout_s: float) -> str:
    where = safe_url(url)
    if (refused := tls.tls_error(error)) is not None:
        return tls.explained(where, refused)
    if isinstance(error, TimeoutError):
        return f"no answer from {where} in {seconds(timeout_s)}. Is RabbitMQ running there?"
    if isinstance(error, AuthenticationError | ProbableAuthenticationError):
        return f"{where} refused the login. Check user and password"
    if isinstance(error, InvalidFrameError) and "Connection.Close" in str(error):
        return f"{where} has no such virtual host, or not for this user. Check the end of the URL"
    hint = ""
    if isinstance(error, InvalidFrameError) or _HUNG_UP.search(str(error)):
        hint = f" {tls.hung_up(URL(url))}"
    return f"can't reach {where}: {_cause(error)}. Is RabbitMQ running there?{hint}"


def _cause(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ChannelInvalidStateError):
        return "the connection was lost"
    text = str(error.args[-1]) if error.args else ""
    return text.rstrip(".") or type(error).__name__
