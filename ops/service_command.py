"""What the commands of all services end with."""

from collections.abc import Callable

import click
from msgspec import structs

from ..schemas.errors import SluiceError
from ..worker.config import Config, ConfigError
from .console import CannotStart
from .settings import current_settings


def on_port(config: Config, port: int) -> Config:
    """The configuration with the status port of this kind of service, where none is set."""
    if current_settings().sources["metrics_port"].kind == "default":
        return structs.replace(config, metrics_port=port)
    return config


def serve(run: Callable[[Config], int], config: Config) -> None:
    """Run a service to its end, and exit with its code. Raises CannotStart, ConfigError."""
    try:
        code = run(config)
    except ConfigError:
        raise
    except SluiceError as error:
        raise CannotStart(str(error)) from error
    click.get_current_context().exit(code)
