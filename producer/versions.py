"""What a RabbitMQ server can and can't do for us, by its version. Pure."""

from typing import Final, NamedTuple

from .errors import BrokerError

OLDEST: Final = (3, 10, 0)
NEVER: Final = (999, 0, 0)

_Version = tuple[int, int, int]


class _Remark(NamedTuple):
    since: _Version
    before: _Version
    text: str


class WrongBroker(BrokerError):
    """The broker is too old to keep the promises made here."""


# Only what an operator should act on, or would look for in vain.
_REMARKS: Final = (
    _Remark(
        OLDEST,
        (3, 12, 0),
        "this version knows no consumer timeout per queue, only one for the whole node: 30 "
        "minutes, unless `consumer_timeout` in rabbitmq.conf says otherwise; that fits any "
        "attempt_timeout_s under 15 minutes",
    ),
    _Remark(
        (3, 12, 0),
        (4, 3, 0),
        "the consumer timeout is 30 minutes, unless `consumer_timeout` in rabbitmq.conf or the "
        "policy key `consumer-timeout` says otherwise; that fits any attempt_timeout_s under 15 "
        "minutes",
    ),
    _Remark(
        (3, 13, 0),
        (3, 13, 3),
        "this version may drop messages that are dead-lettered twice: upgrade to 3.13.3 or later",
    ),
    _Remark(
        OLDEST,
        (4, 0, 0),
        "quorum queues of this version ignore message priorities: use lanes",
    ),
    _Remark(
        (4, 3, 0),
        (4, 3, 3),
        "dead-lettering may get stuck in this version: upgrade to 4.3.3 or later",
    ),
    _Remark(
        (4, 3, 0),
        (4, 3, 7),
        "after a consumer timeout this version may keep the consumer's old tag: upgrade to 4.3.7 "
        "or later",
    ),
    _Remark(
        (4, 3, 0),
        NEVER,
        "a job that is handed back does not count towards the delivery limit in this version, and "
        "neither does a consumer timeout: give jobs a deadline",
    ),
)


def refusal(version: _Version) -> str | None:
    """Why this server can't be used at all, and what to do; None where it can.

    A server that does not tell its version (0, 0, 0) is given the benefit of the doubt.
    """
    if version == (0, 0, 0) or version >= OLDEST:
        return None
    return (
        f"RabbitMQ {_dotted(version)} is too old: at least {_dotted(OLDEST)} is needed, which "
        "brought message TTL and at-least-once dead-lettering to quorum queues. Upgrade the broker"
    )


def require_version(version: _Version) -> None:
    """Raise WrongBroker where this server can't be used."""
    if why := refusal(version):
        raise WrongBroker(why)


def remarks(version: _Version) -> list[str]:
    """What this server can't do, or needs for it, one sentence each."""
    if version == (0, 0, 0):
        return ["the server does not tell its version, so what it can do was not checked"]
    if refusal(version):
        return []
    return [remark.text for remark in _REMARKS if remark.since <= version < remark.before]


def _dotted(version: _Version) -> str:
    return ".".join(map(str, version))
