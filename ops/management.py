"""RabbitMQ's management API, as far as comparing the topology needs it. Read only."""

import base64
import contextlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Generator
from email.utils import mktime_tz, parsedate_tz
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct
from yarl import URL

from ..producer import tls
from ..schemas.topology import Binding
from .topology_check import ExchangeBinding, Observed, Properties

TIMEOUT_S: Final = 5.0
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

T = TypeVar("T")


class NoManagement(Exception):
    """The API can't be used; the message says why, without any credentials."""


class Access(Struct, frozen=True):
    """Where the API is and who asks. Its repr keeps the password to itself. `broker_url`: by whose
    parameters for TLS an https:// API is checked."""

    url: str
    user: str
    password: str
    vhost: str
    broker_url: str = ""

    def __repr__(self) -> str:
        return f"Access(url={self.url!r}, user={self.user!r}, vhost={self.vhost!r})"


class _Overview(Struct):
    cluster_name: str = ""


class _Exchange(Struct):
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, Any] = {}


class _Queue(Struct):
    name: str
    durable: bool
    auto_delete: bool
    exclusive: bool = False
    type: str = "classic"
    arguments: dict[str, Any] = {}


class Depth(Struct):
    """How a queue stands. Numbers are null until the broker has counted for the first time."""

    name: str
    messages_ready: int | None = None
    messages_unacknowledged: int | None = None
    consumers: int = 0


class _Ruled(Struct):
    name: str
    arguments: dict[str, Any] = {}
    # An empty list where there is none, in some versions.
    effective_policy_definition: dict[str, Any] | list[Any] | None = None


class Node(Struct):
    """How a node of the broker stands. Sizes are bytes."""

    name: str
    running: bool = True
    mem_alarm: bool = False
    disk_free_alarm: bool = False
    disk_free: int = 0
    fd_used: int = 0
    fd_total: int = 0


class _Binding(Struct):
    source: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: dict[str, Any] = {}


def access(amqp_url: str, management_url: str | None) -> Access:
    """How to reach the API: as told, or else on the broker's host at the usual port.

    Credentials in `management_url` are used where there are any, otherwise the broker's. Where the
    broker is spoken to by TLS, so is the API: the password must not travel in the clear. Raises
    ValueError for an address that is none.
    """
    broker = URL(amqp_url)
    if management_url:
        url = _parsed(management_url)
    elif broker.scheme == "amqps":
        url = URL.build(scheme="https", host=broker.host or "", port=15671)
    else:
        url = URL.build(scheme="http", host=broker.host or "", port=15672)
    return Access(
        url=str(url.with_user(None)).rstrip("/"),
        user=url.user or broker.user or "guest",
        password=(url.password if url.user else broker.password) or "guest",
        vhost=broker.path[1:] or "/",
        broker_url=amqp_url,
    )


def _parsed(management_url: str) -> URL:
    try:
        url = URL(management_url)
    except ValueError:
        raise ValueError(_NOT_A_URL) from None  # the parser's error may quote a password
    plain = url.with_query(None).with_fragment(None)
    # An @ after the host is most likely a password's.
    if url.scheme not in ("http", "https") or not url.host or url != plain or "@" in url.raw_path:
        raise ValueError(_NOT_A_URL)
    return url


_NOT_A_URL: Final = (
    "the management API's address must look like http://host:15672, with user:password@ before "
    "the host where it has a login of its own, and each of : / ? # @ in that percent-encoded"
)


def observe(to: Access, *, cluster_name: str | None) -> Observed:
    """Everything in the virtual host. Blocks for seconds at most. Raises NoManagement.

    `cluster_name` is what the broker called itself over AMQP: the usual port may belong to another
    broker on the same host, whose topology would be compared by mistake.
    """
    opener = _opener(to)
    overview = _get(opener, to, "overview", _Overview)
    if cluster_name and overview.cluster_name and overview.cluster_name != cluster_name:
        raise NoManagement(f"{to.url} belongs to another broker")
    vhost = quote(to.vhost, safe="")
    exchanges = _get(opener, to, f"exchanges/{vhost}", list[_Exchange])
    wanted = "name,durable,auto_delete,exclusive,type,arguments"
    queues = _get(opener, to, f"queues/{vhost}?columns={wanted}", list[_Queue])
    bindings = _get(opener, to, f"bindings/{vhost}", list[_Binding])
    return Observed(
        exchanges={exchange.name: _exchange_properties(exchange) for exchange in exchanges},
        queues={queue.name: _queue_properties(queue) for queue in queues},
        bindings=tuple(
            Binding(each.source, each.destination, each.routing_key, each.arguments)
            for each in bindings
            if each.destination_type == "queue" and each.source
        ),
        exchange_bindings=tuple(
            ExchangeBinding(each.source, each.destination, each.routing_key)
            for each in bindings
            if each.destination_type == "exchange" and each.source
        ),
    )


def nodes(to: Access) -> list[Node]:
    """Every node of the cluster, which takes the tag `monitoring`. Errors as `depths`."""
    wanted = "name,running,mem_alarm,disk_free_alarm,disk_free,fd_used,fd_total"
    return _get(_opener(to), to, f"nodes?columns={wanted}", list[Node])


def patience(to: Access) -> dict[str, float]:
    """Consumer timeouts by queue, in seconds, where an argument or a policy sets one (RabbitMQ 3.12
    and later). Errors as `depths`."""
    wanted = "name,arguments,effective_policy_definition"
    path = f"queues/{quote(to.vhost, safe='')}?columns={wanted}"
    found: dict[str, float] = {}
    for queue in _get(_opener(to), to, path, list[_Ruled]):
        policy = queue.effective_policy_definition
        rules: dict[str, Any] = policy if isinstance(policy, dict) else {}
        values = (queue.arguments.get("x-consumer-timeout"), rules.get("consumer-timeout"))
        told = [each / 1000 for each in values if isinstance(each, int)]
        if told:
            found[queue.name] = min(told)
    return found


def date(to: Access) -> float | None:
    """The time on the API's host, in Unix seconds; None where it does not tell. Errors as
    `depths`."""
    with _answered(_opener(to), to, "overview") as answer:
        told = parsedate_tz(answer.headers.get("Date", ""))
    return None if told is None else float(mktime_tz(told))


def depths(to: Access) -> list[Depth]:
    """Every queue of the virtual host. Blocks for seconds at most. Raises NoManagement."""
    wanted = "name,messages_ready,messages_unacknowledged,consumers"
    path = f"queues/{quote(to.vhost, safe='')}?columns={wanted}"
    return _get(_opener(to), to, path, list[Depth])


def _exchange_properties(exchange: _Exchange) -> Properties:
    return {
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        **exchange.arguments,
    }


def _queue_properties(queue: _Queue) -> Properties:
    return {
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive,
        "x-queue-type": queue.type,
        **queue.arguments,
    }


def _opener(to: Access) -> urllib.request.OpenerDirector:
    """Follows no redirect, which would take the credentials to another host, and knows no proxy:
    the broker's network is not the web. Raises NoManagement."""
    opener = urllib.request.OpenerDirector()
    if to.url.startswith("https:"):
        try:
            context = tls.context_of(URL(to.broker_url))
        except tls.BadTlsFile as error:
            raise NoManagement(str(error)) from None
        opener.add_handler(urllib.request.HTTPSHandler(context=context))
    for handler in (
        urllib.request.HTTPHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _get(opener: urllib.request.OpenerDirector, to: Access, path: str, kind: type[T]) -> T:
    with _answered(opener, to, path) as answer:
        try:
            return msgspec.json.decode(answer.read(MAX_ANSWER_BYTES), type=kind)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise NoManagement(f"{to.url} is no management API of RabbitMQ") from None


@contextlib.contextmanager
def _answered(
    opener: urllib.request.OpenerDirector, to: Access, path: str
) -> Generator[http.client.HTTPResponse]:
    token = base64.b64encode(f"{to.user}:{to.password}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310  `access` admits http and https alone
        f"{to.url}/api/{path}", headers={"Authorization": f"Basic {token}"}
    )
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403):
            why = f"refused user {to.user}, who needs the tag `management`"
        else:
            why = f"answered {error.code}"
        raise NoManagement(f"{to.url} {why}") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLError):
            raise NoManagement(tls.explained(to.url, error.reason)) from None
        raise NoManagement(f"{to.url} can't be reached: {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise NoManagement(f"{to.url} can't be reached: {error}") from None
