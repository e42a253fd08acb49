"""RabbitMQ's management API, as far as comparing the topology needs it. Read only."""

import base64
import http.client
import urllib.error
import urllib.request
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct
from yarl import URL

from ..schemas.topology import Binding
from .topology_check import ExchangeBinding, Observed, Properties

TIMEOUT_S: Final = 5.0
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

T = TypeVar("T")


class NoManagement(Exception):
    """The API can't be used; the message says why, without any credentials."""


class Access(Struct, frozen=True):
    """Where the API is and who asks. Its repr keeps the password to itself."""

    url: str
    user: str
    password: str
    vhost: str

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
    overview = _get(to, "overview", _Overview)
    if cluster_name and overview.cluster_name and overview.cluster_name != cluster_name:
        raise NoManagement(f"{to.url} belongs to another broker")
    vhost = quote(to.vhost, safe="")
    exchanges = _get(to, f"exchanges/{vhost}", list[_Exchange])
    wanted = "name,durable,auto_delete,exclusive,type,arguments"
    queues = _get(to, f"queues/{vhost}?columns={wanted}", list[_Queue])
    bindings = _get(to, f"bindings/{vhost}", list[_Binding])
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


def _plain_opener() -> urllib.request.OpenerDirector:
    """Follows no redirect, which would take the credentials to another host, and knows no proxy:
    the broker's network is not the web."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


_OPENER: Final = _plain_opener()


def _get(to: Access, path: str, kind: type[T]) -> T:
    token = base64.b64encode(f"{to.user}:{to.password}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310  `access` admits http and https alone
        f"{to.url}/api/{path}", headers={"Authorization": f"Basic {token}"}
    )
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            body = answer.read(MAX_ANSWER_BYTES)
        return msgspec.json.decode(body, type=kind)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403):
            why = f"refused user {to.user}, who needs the tag `management`"
        else:
            why = f"answered {error.code}"
        raise NoManagement(f"{to.url} {why}") from None
    except urllib.error.URLError as error:
        raise NoManagement(f"{to.url} can't be reached: {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise NoManagement(f"{to.url} can't be reached: {error}") from None
    except msgspec.MsgspecError:
        raise NoManagement(f"{to.url} is no management API of RabbitMQ") from None
