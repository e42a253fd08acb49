"""One call of a tool: of one that is registered here, or of one that is served elsewhere."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from aio_pika.abc import AbstractRobustConnection

from ...schemas import Names, ToolCall, ToolResult, ToolSpec, ToolStatus
from ..tools.context import ToolContext
from ..tools.registry import Registry
from ..tools.remote import RemoteTools
from ..tools.runner import Runner


class ToolCaller:
    """Makes calls until it is closed; then nothing of them is left."""

    def __init__(
        self,
        registry: Registry,
        connection: AbstractRobustConnection,
        names: Names,
        on_death: Callable[[BaseException], None],
    ) -> None:
        self._registry = registry
        self._on_death = on_death
        self._runner = Runner()
        self._remote = RemoteTools(connection, names)

    @property
    def abandoned(self) -> int:
        """Calls that would not end, and were left behind."""
        return self._runner.abandoned

    async def __aenter__(self) -> Self:
        if any(spec.remote for spec in self._registry.specs.values()):
            await self._remote.start(self._on_death)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._remote.stop()
        await self._runner.close()

    async def __call__(
        self, spec: ToolSpec, call: ToolCall, job_id: str, number: int
    ) -> ToolResult:
        """What came of it. `spec` is the tool's, with the seconds that are left for it."""
        context = ToolContext(job_id=job_id, round=number, effect_id=call.effect_id)
        if spec.remote:
            return await self._remote.call(spec, call.arguments, context, spec.timeout_s)
        tool = self._registry.get(call.name)
        if tool is None:
            return ToolResult(status=ToolStatus.ERROR, content=f"{call.name} is not served here.")
        return await self._runner.run(tool, call.arguments, context, timeout_s=spec.timeout_s)

    async def release(self, job_id: str) -> None:
        """Have the tools let go of whatever they hold for a job."""
        await self._registry.release(job_id)
