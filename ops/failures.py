"""From an error to a line on stderr and an exit code. The one place that maps them."""

import traceback
from typing import cast

import click

from ..producer.errors import AccessRefused, BrokerUnreachable, TopologyMissing
from ..producer.versions import WrongBroker
from ..schemas.errors import InvalidMessage, SluiceError
from ..worker.config import ConfigError
from ..worker.engine import EngineUnavailable
from . import console
from .broker_program import BrokerNotInstalled
from .embedded_model import ModelUnavailable
from .plain_text import plain
from .private_broker import BrokerFailed
from .service_process import ServiceFailed

BAD_INPUT = (ConfigError, InvalidMessage)
NO_START = (
    AccessRefused,
    BrokerFailed,
    BrokerNotInstalled,
    BrokerUnreachable,
    EngineUnavailable,
    ModelUnavailable,
    TopologyMissing,
    ServiceFailed,
    WrongBroker,
    console.CannotStart,
)


def report(failure: Exception, *, debug: bool = False) -> int:
    """Say what failed and give the exit code. A traceback only where it was asked for."""
    if debug:
        trace = "".join(traceback.format_exception(failure))
        click.echo(plain(console.redact(trace)), err=True, nl=False)
    for leaf in _leaves(failure):
        console.error(_text(leaf, debug=debug))
    return exit_code(failure)


def exit_code(failure: Exception) -> int:
    """The exit code that belongs to an error."""
    return max(_code(leaf) for leaf in _leaves(failure))


def _leaves(failure: Exception) -> list[Exception]:
    """A task group wraps what went wrong in it; the user wants the thing itself."""
    if not isinstance(failure, ExceptionGroup):
        return [failure]
    group = cast("ExceptionGroup[Exception]", failure)
    return [leaf for inner in group.exceptions for leaf in _leaves(inner)]


def _text(failure: Exception, *, debug: bool) -> str:
    if isinstance(failure, SluiceError):
        return str(failure)
    if isinstance(failure, OSError) and failure.filename is not None:
        return f"{failure.filename}: {failure.strerror}"
    advice = "" if debug else " Run it again as `sluice --debug ...` for the traceback."
    return f"unexpected {type(failure).__name__}: {failure}.{advice}"


def _code(failure: Exception) -> int:
    if isinstance(failure, NO_START):
        return console.CANNOT_START
    names_a_file = isinstance(failure, OSError) and failure.filename is not None
    if isinstance(failure, BAD_INPUT) or names_a_file:
        return console.USAGE
    return console.FAILED
