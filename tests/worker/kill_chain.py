"""A message that one service after another dies on, and what lies on the broker afterwards."""

import json
import re
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec
from pamqp.commands import Basic
from sluicegate.schemas import topology
from sluicegate.schemas.topology import RUNGS
from sluicegate.worker.config import Config

from .conftest import Desk
from .killed import Nursery, Order, Point

Place = Literal["dead", "result", "candidate", "retry"]

# Of a message, what tells when, where and by whom it was written; in its copies all else is the
# same, but for numbers in a sentence, such as how large it was with all that.
_PASSING = {
    "at",
    "started_at",
    "ended_at",
    "finished_at",
    "enqueued_at",
    "timings",
    "engine_s",
    "seconds",
    "wait_s",
    "worker",
    "checker",
    "redelivered",
    "trace",
}


@dataclass
class Found:
    """A message taken from a queue for good."""

    message: dict[str, Any]
    headers: dict[str, Any]
    essence: str


@dataclass
class Chain:
    """Runs services of one kind in one namespace, and gathers what they leave, by place."""

    desk: Desk
    nursery: Nursery
    config: Config
    service: Literal["worker", "checker"]
    found: dict[Place, list[Found]] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        """Where the service takes its work from."""
        names = self.desk.names
        return names.checks if self.service == "checker" else names.jobs_queue("interactive")

    async def kill(self, *points: Point, comes_back: int = 1, gather: bool = True) -> None:
        """Run a service for each point, one after the other; each ends there by SIGKILL, and then
        so many messages wait for the next one. `gather`: what it has left is taken away."""
        for point in points:
            await self.end_one(point)
            await self.desk.until_depth(self.queue, comes_back)
            if gather:
                await self.gather()

    async def end_one(self, point: Point) -> None:
        """Run a service until it ends by SIGKILL."""
        order = Order(service=self.service, point=point, config=self.config)
        assert await self.nursery.run(order) == -signal.SIGKILL

    async def gather(self) -> None:
        """Take what lies anywhere, but for the work itself."""
        names = self.desk.names
        places: list[tuple[Place, str]] = [
            ("dead", names.dead),
            ("result", names.results_queue("default")),
            ("candidate", names.checks),
            *(("retry", names.retry_queue(rung)) for rung in RUNGS),
        ]
        for place, queue in places:
            if queue != self.queue:
                self.found.setdefault(place, []).extend(await self._everything(queue))

    async def left(self) -> dict[str, int]:
        """How many of each are found. Nothing is left anywhere else."""
        await self.gather()
        depths = {
            queue.name: await self.desk.depth(queue.name)
            for queue in topology(self.config.namespace).queues
            # Logs are read, and never emptied.
            if not queue.is_stream
        }
        assert not any(depths.values()), depths
        return dict(+Counter({place: len(found) for place, found in self.found.items()}))

    def only(self, place: Place) -> dict[str, Any]:
        """What lies at a place: one message, of which all there are copies."""
        found = self.found[place]
        assert len({each.essence for each in found}) == 1, [each.essence for each in found]
        return found[0].message

    async def _everything(self, queue: str) -> list[Found]:
        channel = await self.desk.channel()
        taken: list[Found] = []
        while True:
            message = await channel.basic_get(queue, no_ack=True)
            if not isinstance(message.delivery, Basic.GetOk):
                break
            headers = dict(message.header.properties.headers or {})
            try:
                body = msgspec.json.decode(message.body)
            except msgspec.DecodeError:
                body = {"raw": bytes(message.body).decode()}
            taken.append(Found(body, headers, json.dumps(_essence(body), sort_keys=True)))
        await channel.close()
        return taken


def _essence(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {
            key: re.sub(r"[\d,.]+", "0", each) if key == "detail" else _essence(each)
            for key, each in fields.items()
            if key not in _PASSING
        }
    if isinstance(value, list):
        return [_essence(each) for each in cast("list[Any]", value)]
    return value


def points_of(leaves: Iterable[object]) -> tuple[Point, ...]:
    """Every place at which a settlement with these publications can be cut."""
    return (
        ("consumed", "between", "published")
        if len(tuple(leaves)) > 1
        else ("consumed", "published")
    )


def copies(leaves: tuple[Place, ...]) -> dict[str, int]:
    """How often each was published where a service was killed at each of the points, and the next
    one was not."""
    return dict(zip(leaves, (len(points_of(leaves)), 2), strict=False))
