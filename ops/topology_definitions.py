"""The topology, and the users of its roles, as RabbitMQ's own definitions: what `rabbitmqctl
import_definitions` and the management UI take. Pure, but for the salt of a password's hash."""

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ..schemas.topology import Binding, Queue, Topology
from .topology_roles import Role, declared

# RabbitMQ's default since 3.6 (rabbit_password_hashing_sha256): 4 bytes of salt, then the SHA-256
# of salt and password, all in base64.
HASHING: Final = "rabbit_password_hashing_sha256"
_SALT_BYTES: Final = 4
_HASH: Final = re.compile(r"[A-Za-z0-9+/]{48}")


def definitions(
    wanted: Topology,
    vhost: str,
    roles: Sequence[Role] = (),
    *,
    users: bool = False,
    hashes: Mapping[str, str] | None = None,
    prefix: str = "",
) -> dict[str, Any]:
    """What stands in a virtual host; with roles their rights besides, and the queues that stand
    with them; with `users` the users themselves. A user without a hash can't log in by a password,
    and `prefix` goes before each name."""
    beside = [each for role in roles for each in declared(wanted.names, role)]
    queues = [*wanted.queues, *(each for each in beside if isinstance(each, Queue))]
    bindings = [*wanted.bindings, *(each for each in beside if isinstance(each, Binding))]
    made: dict[str, Any] = {"vhosts": [{"name": vhost}]}
    if users:
        made["users"] = [_user(role, prefix, (hashes or {}).get(role.name, "")) for role in roles]
    if roles:
        made["permissions"] = [
            {
                "user": prefix + role.name,
                "vhost": vhost,
                "configure": role.configure,
                "write": role.write,
                "read": role.read,
            }
            for role in roles
        ]
        made["topic_permissions"] = [
            {
                "user": prefix + role.name,
                "vhost": vhost,
                "exchange": topic.exchange,
                "write": topic.write,
                "read": topic.read,
            }
            for role in roles
            for topic in role.topics
        ]
    made["exchanges"] = [
        {
            "name": each.name,
            "vhost": vhost,
            "type": each.kind,
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        }
        for each in wanted.exchanges
    ]
    made["queues"] = [
        {
            "name": each.name,
            "vhost": vhost,
            "durable": True,
            "auto_delete": False,
            "arguments": dict(each.arguments),
        }
        for each in _once(queues)
    ]
    made["bindings"] = [
        {
            "source": each.exchange,
            "vhost": vhost,
            "destination": each.queue,
            "destination_type": "queue",
            "routing_key": each.routing_key,
            "arguments": dict(each.arguments),
        }
        for each in bindings
    ]
    return made


def hashed(password: str, salt: bytes | None = None) -> str:
    """A password as RabbitMQ keeps it."""
    salt = os.urandom(_SALT_BYTES) if salt is None else salt
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def is_hash(text: str) -> bool:
    """Whether it is a hash as `hashed` makes it: 36 bytes in base64."""
    return _HASH.fullmatch(text) is not None


def _user(role: Role, prefix: str, password_hash: str) -> dict[str, Any]:
    return {
        "name": prefix + role.name,
        "password_hash": password_hash,
        "hashing_algorithm": HASHING,
        "tags": list(role.tags),
    }


def _once(queues: Iterable[Queue]) -> list[Queue]:
    return list({each.name: each for each in queues}.values())
