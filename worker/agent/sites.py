"""What an agent job works with, by its own words and this deployment's settings."""

from collections.abc import Mapping
from typing import Any

from ...guards.watchdog_thresholds import BadWatchdog, read_watchdog, task_types, watchdog
from ...schemas import AgentJob, InvalidMessage, Reason
from ..config import Config, ConfigError, file_text
from ..dialects.choose import Dialects
from ..tools.registry import Registry
from .moves import Site


class Sites:
    """Makes a job's site, or says why there can be none here."""

    def __init__(
        self,
        dialects: Dialects,
        registry: Registry,
        tables: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._dialects = dialects
        self._registry = registry
        self._tables = tables

    def of(self, job: AgentJob) -> Site:
        """The site of a job. Raises InvalidMessage, naming the field."""
        specs = self._registry.specs
        missing = [name for name in job.tools if name not in specs]
        if missing:
            there = ", ".join(specs) or "none"
            raise InvalidMessage(
                Reason.TOOL_UNAVAILABLE,
                "$.tools",
                f"no tool {', '.join(missing)} is registered here; there are: {there}",
            )
        try:
            thresholds = watchdog(job.task_type, job.watchdog, deployment=self._tables)
        except BadWatchdog as error:
            known = job.task_type in task_types(self._tables)
            field = "$.watchdog" if known else "$.task_type"
            raise InvalidMessage(Reason.INVALID_FIELD, field, str(error)) from error
        return Site(
            dialect=self._dialects.of(job),
            specs=tuple(specs[name] for name in dict.fromkeys(job.tools)),
            known=frozenset(specs),
            validate=self._registry.validate,
            thresholds=thresholds,
            holds=job.format == "grammar",
        )


def watchdog_tables(config: Config) -> dict[str, dict[str, Any]] | None:
    """The deployment's own thresholds of the watchdog. Raises ConfigError."""
    if not config.watchdog_file:
        return None
    try:
        return read_watchdog(file_text(config.watchdog_file, "watchdog_file"))
    except BadWatchdog as error:
        raise ConfigError(f"watchdog_file {config.watchdog_file}: {error}") from error
