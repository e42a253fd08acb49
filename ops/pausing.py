"""What `sluice pause` and `sluice resume` have in common: the target, and how it is shown."""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, TypeVar, get_args

import click
import msgspec

from ..schemas import Names, Pause, Target
from ..schemas.limits import MAX_DETAIL
from ..schemas.services import ServiceKind
from ..schemas.topology import LANES
from . import console
from .plain_text import one_line

R = TypeVar("R")

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_S: Final = 365 * 86400
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)")
_TOOL: Final = "tools."


class Duration(click.ParamType[float]):
    """Seconds, or a number with a unit: 90s, 10m, 2h, 1d."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds, or click's own error about the flag."""
        found = _DURATION.fullmatch(str(value).strip())
        seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else 0.0
        if not 0 < seconds <= _LONGEST_S:
            self.fail(f"{value!r} is no duration such as 90s, 10m, 2h or 1d.", param, ctx)
        return seconds


def target_options(function: Callable[..., R]) -> Callable[..., R]:
    """The flags that name a target."""
    options = (
        click.option("--all", "everything", is_flag=True, help="All services."),
        click.option(
            "--kind", type=click.Choice(get_args(ServiceKind)), help="All services of a kind."
        ),
        click.option(
            "--worker", "service", metavar="NAME", help="One service, of any kind, by its name."
        ),
        click.option("--lane", type=click.Choice(LANES), help="The queue of a lane."),
        click.option(
            "--queue", metavar="QUEUE", help="A queue: jobs.batch, checks, agents, tools.NAME ..."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def target_of(
    names: Names,
    *,
    everything: bool,
    kind: str | None,
    service: str | None,
    lane: Any,
    queue: str | None,
) -> Target | None:
    """The one target that was named; None where none was. Raises UsageError."""
    named: list[Target] = []
    if everything:
        named.append(Target("all"))
    if kind is not None:
        named.append(Target("kind", kind))
    if service is not None:
        named.append(_service(service))
    if lane is not None:
        named.append(Target("queue", names.jobs_queue(lane)))
    if queue is not None:
        named.append(Target("queue", _whole_name(names, queue)))
    if len(named) > 1:
        raise click.UsageError("Name one target: --all, --kind, --worker, --lane or --queue.")
    return named[0] if named else None


def _service(name: str) -> Target:
    target = Target("service", name)
    try:
        # What is too long is nobody's name, and no service could read it.
        msgspec.convert(msgspec.to_builtins(target), Target)
    except msgspec.ValidationError as error:
        raise click.UsageError(f"{one_line(name, 128)!r} is no service's name: {error}") from error
    if not name.strip():
        raise click.UsageError("A service's name is not empty; --all means all of them.")
    return target


def _whole_name(names: Names, queue: str) -> str:
    short = queue.removeprefix(f"{names.namespace}.")
    known = [
        each.removeprefix(f"{names.namespace}.")
        for each in (
            *map(names.jobs_queue, LANES),
            names.checks,
            names.new_agents,
            names.agents,
        )
    ]
    if short not in known and not (short.startswith(_TOOL) and short != _TOOL):
        raise click.UsageError(
            f"No service consumes queue {one_line(queue, 128)!r}. These are consumed: "
            f"{', '.join(known)}, {_TOOL}NAME."
        )
    return f"{names.namespace}.{short}"


def shown(target: Target) -> str:
    """A target in words."""
    return "everything" if target.scope == "all" else f"{target.scope} {one_line(target.name, 128)}"


def table(pauses: Iterable[Pause], now: datetime) -> Iterable[str]:
    """What is paused, a line each."""
    rows = [("paused", "by", "since", "until", "reason")]
    for each in pauses:
        until = _clock(each.until, now) if each.until is not None else "resumed"
        row = (shown(each.target), one_line(each.by, 64), _clock(each.at, now), until)
        rows.append((*row, one_line(each.reason, MAX_DETAIL)))
    return console.table(rows)


def as_data(pause: Pause) -> dict[str, Any]:
    """For programs."""
    return {
        "scope": pause.target.scope,
        "name": pause.target.name,
        "by": pause.by,
        "at": pause.at,
        "until": pause.until,
        "reason": pause.reason,
    }


def _clock(at: datetime, now: datetime) -> str:
    local = at.astimezone()
    same_day = local.date() == now.astimezone().date()
    return f"{local:%H:%M:%S}" if same_day else f"{local:%Y-%m-%d %H:%M}"
