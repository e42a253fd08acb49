"""How long the broker lets a delivery be held: its own value, where it can be asked.

AMQP does not tell it, and neither does the management API; `rabbitmqctl` does, for whoever may run
it. Where nobody may, the setting `consumer_timeout_s` is what counts, and what the broker says when
it takes a delivery away (see `told_by`).
"""

import asyncio
import contextlib
import logging
import math
import os
import re
import shlex
import shutil
from typing import Final

from msgspec import structs
from yarl import URL

from .config import Config, ConfigError

log = logging.getLogger(__name__)

NEVER: Final = math.inf
_PORT: Final = 5672
_ASK_S: Final = 15.0
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Debian's own refuses whoever is not root or rabbitmq; the one in /usr/lib runs as its caller.
_PROGRAMS: Final = ("/usr/lib/rabbitmq/bin/rabbitmqctl", "rabbitmqctl")
# The cluster's name with it: another node on this host may answer.
_QUESTION: Final = "{rabbit_nodes:cluster_name(), application:get_env(rabbit, consumer_timeout)}."
_ANSWER: Final = re.compile(
    r'\{<<"(?P<cluster>[^"]*)">>,\s*(?:\{ok,(?P<value>\w+)\}|undefined)\}', re.ASCII
)
_TOLD: Final = re.compile(r"[Tt]imeout value used:? (\d+) ms")


def command(config: Config) -> list[str]:
    """What asks the broker's node; nothing where it is not to be asked, or can't be from here.
    Raises ConfigError."""
    if config.rabbitmqctl == "none":
        return []
    if config.rabbitmqctl:
        try:
            return shlex.split(config.rabbitmqctl)
        except ValueError as error:
            raise ConfigError(
                f"rabbitmqctl: {config.rabbitmqctl!r} is no command: {error}"
            ) from None
    url = URL(config.amqp_url)
    if url.host not in _LOCAL or (url.port or _PORT) != _PORT:
        # The program asks this host's usual node.
        return []
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    return [found] if found is not None else []


async def asked(asking: list[str], cluster_name: str | None) -> float | None:
    """The broker's consumer timeout in seconds, `NEVER` where it has none; None where it can't be
    told: no answer in time, no right to ask, or another broker that answers."""
    if not asking:
        return None
    said = await _said([*asking, "--quiet", "eval", _QUESTION])
    return None if said is None else read(said, cluster_name)


def read(said: str, cluster_name: str | None) -> float | None:
    """The seconds in an answer; None where it is none, or that of another broker."""
    found = _ANSWER.search(said)
    if found is None or (cluster_name is not None and found["cluster"] != cluster_name):
        return None
    value = found["value"]
    if value is None or not value.isdecimal():
        return NEVER
    return int(value) / 1000


def told_by(reason: str) -> float | None:
    """The seconds that a broker names when it takes a delivery away; None in any other reason."""
    found = _TOLD.search(reason)
    return int(found[1]) / 1000 if found is not None else None


def with_real(config: Config, real_s: float | None) -> Config:
    """The configuration with the broker's own value, where it is known."""
    if real_s is None or real_s == config.consumer_timeout_s:
        return config
    if real_s == NEVER:
        log.info("the broker has no consumer timeout")
        return config
    log.info(
        "the broker's consumer timeout is %g s, consumer_timeout_s says %g: the broker's counts",
        real_s,
        config.consumer_timeout_s,
    )
    return structs.replace(config, consumer_timeout_s=real_s)


async def _said(words: list[str]) -> str | None:
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=os.environ,
            start_new_session=True,
        )
    except OSError as error:
        log.info("the broker's consumer timeout can't be asked: %s", error)
        return None
    try:
        async with asyncio.timeout(_ASK_S):
            said, _ = await process.communicate()
    except TimeoutError:
        log.info("the broker's consumer timeout can't be asked: no answer within %g s", _ASK_S)
        return None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return said.decode(errors="replace") if process.returncode == 0 else None
