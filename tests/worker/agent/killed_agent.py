"""An agent service that ends by SIGKILL at a chosen place, as a program of its own.

Its tools write each effect down in a file, with the effect id, so that they can be counted.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from sluicegate.schemas import AgentContext, ToolCall, ToolResult, ToolSpec
from sluicegate.schemas.agents import Dispatched, Entry, Returned
from sluicegate.worker.agent import effects, service, step
from sluicegate.worker.agent.journal import Journal
from sluicegate.worker.agent.moves import Goes, Move, Site
from sluicegate.worker.config import Config
from sluicegate.worker.tools.context import ToolContext
from sluicegate.worker.tools.registry import Registry
from sluicegate.worker.tools.tool import Tool, tool

# "answered": the model has answered, and its calls are not kept yet. "intended": they are kept, and
# nothing is written down of making them. "noted": it is, and the tool has not begun. "done": the
# tool has done it, and nobody knows. "returned": its result is written down, and the job is where
# it was. "closed": the next context is published.
Point = Literal["answered", "intended", "noted", "done", "returned", "closed", "never"]
POINTS: tuple[Point, ...] = ("answered", "intended", "noted", "done", "returned", "closed")


class Order(Struct, frozen=True, kw_only=True):
    """What to run, and where it ends."""

    config: Config
    point: Point
    effects: str


def die() -> None:
    """As the kernel ends a process when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


def tools(effects_file: str, point: Point = "never") -> list[Tool]:
    """Two tools with an effect: one that may be run twice, and one that must not."""

    def did(name: str, context: ToolContext) -> str:
        with Path(effects_file).open("a", encoding="utf-8") as file:
            file.write(f"{name} {context.effect_id}\n")
        if point == "done":
            die()
        return f"{name} is done"

    @tool(idempotent=True)
    async def put(what: str, context: ToolContext) -> str:
        """Put something, as often as you like."""
        del what
        return did("put", context)

    @tool(changes_state=True)
    async def pay(what: str, context: ToolContext) -> str:
        """Pay for something."""
        del what
        return did("pay", context)

    @tool(idempotent=True)
    async def look(what: str) -> str:
        """Look something up."""
        return f"{what} is there"

    return [put, pay, look]


class _DoomedJournal(Journal):
    point: Point = "never"

    async def write(self, job_id: str, entry: Entry) -> None:
        if self.point == "intended" and isinstance(entry, Dispatched):
            die()
        await super().write(job_id, entry)
        if self.point == "returned" and isinstance(entry, Returned):
            die()


class _DoomedStepper(step.Stepper):
    point: Point = "never"

    async def step(
        self,
        context: AgentContext,
        site: Site,
        *,
        again: bool,
        held: effects.Held = lambda: True,
    ) -> Move:
        move = await super().step(context, site, again=again, held=held)
        begun = context.orchestration.phase == "thinking" and isinstance(move, Goes)
        if self.point == "answered" and begun:
            die()
        if self.point == "closed" and context.orchestration.phase == "calling":
            # The broker carries it out by itself, a moment later than it is asked to.
            asyncio.get_running_loop().call_later(0.2, die)
        return move


class _DoomedEffects(effects.Effects):
    point: Point = "never"

    async def make(
        self, job_id: str, number: int, call: ToolCall, spec: ToolSpec, held: effects.Held
    ) -> ToolCall:
        if self.point == "noted":
            self._caller = _never
        return await super().make(job_id, number, call, spec, held)


async def _never(*_: object) -> ToolResult:
    die()
    raise AssertionError


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    for doomed in (_DoomedJournal, _DoomedStepper, _DoomedEffects):
        doomed.point = order.point
    service.Journal = _DoomedJournal
    service.Stepper = _DoomedStepper
    service.Effects = _DoomedEffects
    signal.alarm(60)
    registry = Registry(tools(order.effects, order.point))
    asyncio.run(service.Orchestrator(order.config, registry).run())


if __name__ == "__main__":
    main()
