"""Async tools, in the service's own loop: cancelled when their time is over, and left behind where
they do not hear it."""

import asyncio
import gc
import logging
from pathlib import Path
from typing import Any

import pytest
from sluicegate.guards.signatures import fingerprint
from sluicegate.schemas.limits import MAX_TOOL_RESULT_CHARS
from sluicegate.schemas.tools import ToolStatus
from sluicegate.worker.tools import ToolContext, tool
from sluicegate.worker.tools.runner import Runner

from .calls import CONTEXT, WAIT_S, Call


@tool(volatile=("took_s",))
async def answer(value: Any) -> Any:
    """Say it back."""
    await asyncio.sleep(0)
    return {"value": value, "took_s": 1.0}


@tool
async def fails(how: str) -> str:
    """Fail."""
    match how:
        case "error":
            raise ValueError("no such file")
        case "exit":
            raise SystemExit(2)
        case "interrupt":
            raise KeyboardInterrupt
        case "cancelled":
            raise asyncio.CancelledError
        case "closed":
            raise GeneratorExit
        case _:
            raise ExceptionGroup("several", [ValueError("one")])


class Stubborn:
    """Tools that do not hear their cancellation, until they are let go."""

    def __init__(self) -> None:
        self.enough = asyncio.Event()
        self.ended = 0

        @tool
        async def deaf() -> str:
            """Ignore a cancellation, and fail in the end."""
            while not self.enough.is_set():
                try:
                    await self.enough.wait()
                except asyncio.CancelledError:
                    continue
            self.ended += 1
            raise ValueError("nobody hears of this")

        @tool
        async def slow_to_end() -> str:
            """Tidy up for a moment when cancelled."""
            try:
                await self.enough.wait()
            finally:
                await asyncio.sleep(0.01)
                self.ended += 1
            return "never"

        self.deaf = deaf
        self.slow_to_end = slow_to_end


async def test_what_it_returns_is_json(call: Call) -> None:
    result = await call(answer, value=[1, "é"])
    assert result.content == '{"value":[1,"é"],"took_s":1.0}'
    assert result.fingerprint == fingerprint(result.content, ("took_s",))
    assert result.fingerprint != fingerprint(result.content, ())


async def test_an_error_is_one_line_in_the_log(
    call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "sluicegate"):
        await call(fails, how="error")
    told = [each for each in caplog.records if "fails" in each.getMessage()]
    assert [each.levelname for each in told] == ["INFO", "DEBUG"]
    assert told[0].getMessage() == "tool fails raised ValueError: no such file"
    assert [each.exc_info is not None for each in told] == [False, True]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("error", "ValueError: no such file"),
        ("exit", "SystemExit: 2"),
        ("interrupt", "KeyboardInterrupt"),
        ("cancelled", "cancelled itself"),
        ("closed", "GeneratorExit"),
        ("several", "several"),
    ],
)
async def test_whatever_it_raises_is_an_error_to_the_model(how: str, said: str, call: Call) -> None:
    result = await call(fails, how=how)
    assert result.status is ToolStatus.ERROR
    assert said in result.content


class Odd(str):
    """Text that is not to be looked at."""

    def __len__(self) -> int:
        raise ValueError("no length")

    def __str__(self) -> str:
        raise ValueError("no text")

    def __eq__(self, other: object) -> bool:
        raise ValueError("not equal")

    __hash__ = str.__hash__


class Unclassed:
    """An object that does not say what it is."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


class Wordless(Exception):
    """An error that raises when it is asked for its message; or ends the process."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class Message(str):
    """A message that is neither there nor not."""

    def __bool__(self) -> bool:
        raise ValueError("neither")

    __len__ = __bool__


class Undecided(Exception):
    """An error with such a message."""

    def __str__(self) -> str:
        return Message("so")


@tool
async def gives(what: str) -> Any:
    """Give back what is hard to take."""
    match what:
        case "text":
            return Odd("it")
        case "object":
            return Unclassed()
        case "wordless":
            raise Wordless
        case _:
            raise Undecided


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ("text", ToolStatus.OK, "it"),
        ("object", ToolStatus.ERROR, ""),
        ("wordless", ToolStatus.ERROR, "can't be looked at"),
        ("undecided", ToolStatus.ERROR, ""),
    ],
)
async def test_whatever_it_gives_back_nothing_is_raised(
    what: str, status: ToolStatus, said: str, call: Call
) -> None:
    result = await call(gives, what=what)
    assert result.status is status
    assert said in result.content
    assert result.content


async def test_its_time_over_it_is_cancelled(call: Call) -> None:
    stubborn = Stubborn()
    result = await call(stubborn.slow_to_end, timeout_s=0.05)
    assert result.status is ToolStatus.TIMEOUT
    assert "longer than 0.05 s and was cancelled" in result.content
    assert not result.abandoned
    assert stubborn.ended == 1


async def test_one_that_does_not_hear_it_is_left_behind(
    runner: Runner, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn = Stubborn()
    with caplog.at_level(logging.WARNING):
        result = await call(stubborn.deaf, timeout_s=0.05)
        assert result.status is ToolStatus.TIMEOUT
        assert result.abandoned
        assert "may still run" in result.content
        assert runner.abandoned == 1
        # It ends, and in an error: that is nobody's business any more.
        stubborn.enough.set()
        await asyncio.sleep(0.01)
        gc.collect()
    assert stubborn.ended == 1
    assert runner.abandoned == 0
    assert "never retrieved" not in caplog.text


async def test_so_many_are_left_behind_and_no_more() -> None:
    runner = Runner(grace_s=0.01, max_abandoned=2)
    stubborn = Stubborn()
    results = [await runner.run(stubborn.deaf, {}, CONTEXT, timeout_s=0.01) for _ in range(3)]
    assert [each.abandoned for each in results] == [True, True, False]
    assert results[2].status is ToolStatus.ERROR
    assert "not run" in results[2].content
    stubborn.enough.set()
    await asyncio.sleep(0.01)
    assert stubborn.ended == 2
    assert (await runner.run(answer, {"value": 1}, CONTEXT)).ok


async def test_closing_ends_what_was_left_behind() -> None:
    """Otherwise the loop could not be closed, and the service not end."""
    runner = Runner(grace_s=0.05)
    stubborn = Stubborn()
    await runner.run(stubborn.deaf, {}, CONTEXT, timeout_s=0.01)
    async with asyncio.timeout(WAIT_S):
        await runner.close()
    assert runner.abandoned == 0
    assert stubborn.ended == 0


async def test_the_caller_cancelled_so_is_the_tool(runner: Runner) -> None:
    stubborn = Stubborn()
    running = asyncio.create_task(runner.run(stubborn.slow_to_end, {}, CONTEXT))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stubborn.ended == 1


async def test_the_caller_cancelled_in_the_grace(runner: Runner) -> None:
    stubborn = Stubborn()
    running = asyncio.create_task(runner.run(stubborn.deaf, {}, CONTEXT, timeout_s=0.01))
    await asyncio.sleep(0.1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert runner.abandoned == 1
    stubborn.enough.set()


async def test_its_own_time_is_the_most_there_is(runner: Runner) -> None:
    @tool(timeout_s=0.01)
    async def hasty() -> str:
        await asyncio.sleep(WAIT_S)
        return "never"

    async with asyncio.timeout(WAIT_S):
        result = await runner.run(hasty, {}, CONTEXT, timeout_s=WAIT_S * 2)
    assert result.status is ToolStatus.TIMEOUT


async def test_ten_megabytes_are_cut_and_say_so(call: Call) -> None:
    @tool
    async def large() -> str:
        return "x" * 9_999_999 + "!"

    result = await call(large)
    assert MAX_TOOL_RESULT_CHARS - 10 < len(result.content) <= MAX_TOOL_RESULT_CHARS
    assert result.content.endswith("of 10,000,000 characters]")
    assert result.whole_chars == 10_000_000
    assert result.fingerprint == fingerprint("x" * 9_999_999 + "!", ())


@pytest.mark.parametrize("ending", ["well", "badly", "late"])
async def test_its_folder_goes_with_it(ending: str, call: Call) -> None:
    seen: list[Path] = []

    @tool
    async def writes(context: ToolContext) -> str:
        seen.append(context.folder)
        (context.folder / "file").write_text("x")
        if ending == "badly":
            raise ValueError
        if ending == "late":
            await asyncio.sleep(WAIT_S)
        return context.effect_id

    result = await call(writes, timeout_s=0.05 if ending == "late" else None)
    assert result.ok == (ending == "well")
    assert seen
    assert not seen[0].exists()


async def test_many_at_once_share_nothing(runner: Runner) -> None:
    async with asyncio.timeout(WAIT_S):
        results = await asyncio.gather(
            *(runner.run(answer, {"value": number}, CONTEXT) for number in range(200))
        )
    assert [each.content for each in results] == [
        f'{{"value":{number},"took_s":1.0}}' for number in range(200)
    ]
