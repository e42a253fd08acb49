"""Sync tools, each call in a process of its own: what they do wrong stays there."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from sluicegate.guards.signatures import fingerprint
from sluicegate.schemas.limits import MAX_TOOL_RESULT_CHARS
from sluicegate.schemas.tools import ToolStatus
from sluicegate.worker.tools.runner import Runner

from .calls import CONTEXT, WAIT_S, Call, left_word, none_left


async def test_what_it_returns(faulty: ModuleType, call: Call) -> None:
    result = await call(faulty.fine, text="añ\n", times=2)
    assert (result.status, result.content) == (ToolStatus.OK, "añ\nañ\n")
    assert result.fingerprint == fingerprint("añ\nañ\n", ())
    assert result.seconds > 0
    structured = await call(faulty.structured, number=3)
    assert structured.content == '{"number":3,"nothing":null,"list":[3,null],"text":"é"}'


@pytest.mark.parametrize("what", ["hang", "hang_deaf", "hang_in_c"])
async def test_one_that_hangs_is_killed_with_all_it_started(
    what: str, faulty: ModuleType, call: Call, tmp_path: Path
) -> None:
    result = await call(getattr(faulty, what), timeout_s=2, folder=str(tmp_path))
    assert result.status is ToolStatus.TIMEOUT
    assert "longer than 2 s" in result.content
    assert not result.abandoned
    assert none_left(tmp_path)


async def test_cancelled_it_is_killed_too(
    faulty: ModuleType, runner: Runner, tmp_path: Path
) -> None:
    before = _descriptors()
    running = asyncio.create_task(runner.run(faulty.hang, {"folder": str(tmp_path)}, CONTEXT))
    await _until(lambda: "self" in left_word(tmp_path))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert none_left(tmp_path)
    assert _descriptors() == before


@pytest.mark.parametrize("pause_s", [0.0, 0.001, 0.01, 0.03, 0.1, 0.2])
async def test_cancelled_at_any_moment_nothing_is_left(
    pause_s: float, faulty: ModuleType, runner: Runner
) -> None:
    before = _descriptors()
    running = asyncio.create_task(runner.run(faulty.fine, {"text": "x"}, CONTEXT))
    await asyncio.sleep(pause_s)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert _descriptors() == before
    assert _children_of(os.getpid()) == []


async def test_one_that_kills_its_keeper_is_ended_from_here(
    faulty: ModuleType, call: Call, tmp_path: Path
) -> None:
    result = await call(faulty.kill_keeper, folder=str(tmp_path))
    assert result.status is ToolStatus.ERROR
    assert "signal 9, SIGKILL" in result.content
    await _until(lambda: none_left(tmp_path))


async def test_what_it_leaves_behind_is_killed(
    faulty: ModuleType, call: Call, tmp_path: Path
) -> None:
    result = await call(faulty.leave_behind, folder=str(tmp_path))
    assert (result.status, result.content) == (ToolStatus.OK, "done")
    assert none_left(tmp_path)


async def test_a_thread_of_it_is_not_waited_for(faulty: ModuleType, call: Call) -> None:
    assert (await call(faulty.leave_thread, timeout_s=20)).content == "done"


async def test_the_service_killed_nothing_of_it_lives_on(
    faulty: ModuleType, tmp_path: Path
) -> None:
    """SIGKILL gives a service no time to tidy up."""
    program = (
        "import asyncio, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import faulty\n"
        "from sluicegate.worker.tools import ToolContext\n"
        "from sluicegate.worker.tools.runner import Runner\n"
        "async def main():\n"
        "    context = ToolContext(job_id='j', round=1, effect_id='e')\n"
        f"    await Runner().run(faulty.hang, {{'folder': {str(tmp_path)!r}}}, context)\n"
        "asyncio.run(main())\n"
    )
    service = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    await _until(lambda: "self" in left_word(tmp_path))
    service.kill()
    await service.wait()
    await _until(lambda: none_left(tmp_path))


@pytest.mark.parametrize(
    ("what", "arguments", "said"),
    [
        ("raises", {"message": "no\x1b[31m such file"}, "ValueError: no?[31m such file"),
        ("raises_mute", {}, "_Mute: (its message can't be shown)"),
        ("exits", {"code": 3}, "exit status 3"),
        ("exits", {"code": 0}, "exit status 0"),
        ("exits_politely", {}, "SystemExit: 3"),
        ("interrupts", {}, "KeyboardInterrupt"),
        ("crashes", {}, "signal 11, SIGSEGV"),
        ("recursive", {}, "RecursionError"),
        ("writes_to_all", {}, "more than a result can have"),
    ],
)
async def test_one_that_fails_is_an_error_to_the_model(
    what: str, arguments: dict[str, Any], said: str, faulty: ModuleType, call: Call
) -> None:
    result = await call(getattr(faulty, what), **arguments)
    assert result.status is ToolStatus.ERROR
    assert said in result.content
    assert "Traceback" not in result.content
    assert result.fingerprint


async def test_the_traceback_is_in_the_log(
    faulty: ModuleType, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await call(faulty.raises, message="here")
    assert "Traceback" in caplog.text
    assert "ValueError: here" in caplog.text


async def test_a_long_message_is_cut(faulty: ModuleType, call: Call) -> None:
    result = await call(faulty.raises, message="x" * 50_000)
    assert len(result.content) <= 2_000


async def test_ten_megabytes_are_cut_and_say_so(faulty: ModuleType, call: Call) -> None:
    result = await call(faulty.large, size=10_000_000)
    assert result.status is ToolStatus.OK
    assert MAX_TOOL_RESULT_CHARS - 10 < len(result.content) <= MAX_TOOL_RESULT_CHARS
    assert result.content.endswith("of 10,000,000 characters]")
    assert result.whole_chars == 10_000_000
    assert result.fingerprint == fingerprint("x" * 9_999_999 + "!", ())
    # The fingerprint is of the whole: the ends differ, what is shown does not.
    assert result.fingerprint != fingerprint("x" * 10_000_000, ())


async def test_more_than_fits_is_an_error(faulty: ModuleType, call: Call) -> None:
    result = await call(faulty.large, size=70_000_000)
    assert result.status is ToolStatus.ERROR
    assert "70,000,000" in result.content


@pytest.mark.parametrize(
    ("what", "status", "content"),
    [
        ("bytes", ToolStatus.OK, '"AP8="'),
        ("nan", ToolStatus.OK, "null"),
        ("surrogate", ToolStatus.OK, "a\N{REPLACEMENT CHARACTER}b"),
        ("nul", ToolStatus.OK, "a\N{REPLACEMENT CHARACTER}b"),
        ("nothing", ToolStatus.OK, "null"),
        ("surrogate inside", ToolStatus.ERROR, "can't be said in JSON"),
        ("generator", ToolStatus.ERROR, "type generator"),
        ("object", ToolStatus.ERROR, "type object"),
        ("keys", ToolStatus.ERROR, "type dict"),
        ("deep", ToolStatus.ERROR, "too deeply"),
        ("circle", ToolStatus.ERROR, "too deeply"),
    ],
)
async def test_what_json_has_no_word_for(
    what: str, status: ToolStatus, content: str, faulty: ModuleType, call: Call
) -> None:
    result = await call(faulty.gives, what=what)
    assert result.status is status
    assert content in result.content
    msgspec.json.encode(result)


async def test_what_it_prints_goes_to_the_log_and_not_into_the_result(
    faulty: ModuleType, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        result = await call(faulty.prints)
    assert result.content == "true"
    assert '"content":"false"' in caplog.text
    assert "trouble" in caplog.text
    assert "from a child" in caplog.text


async def test_the_log_has_room_for_so_much_of_it(
    faulty: ModuleType, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        result = await call(faulty.chatters, lines=20_000)
    assert result.content == "done"
    assert len(caplog.messages) == 201
    assert caplog.messages[-1] == "chatters: 19800 more lines were printed"


async def test_one_that_closes_its_output_can_still_answer(faulty: ModuleType, call: Call) -> None:
    assert (await call(faulty.closes_output)).content == "done"


async def test_the_brokers_password_is_not_for_tools(
    faulty: ModuleType, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_AMQP_URL", "amqp://user:secret@host/")
    monkeypatch.setenv("THEIR_OWN", "kept")
    result = await call(faulty.environment)
    seen = msgspec.json.decode(result.content, type=dict[str, str])
    assert seen["THEIR_OWN"] == "kept"
    assert "secret" not in result.content


async def test_there_is_nothing_to_read(faulty: ModuleType, call: Call) -> None:
    assert (await call(faulty.read_input)).content == ""


async def test_its_folder_is_its_own_and_goes_with_it(faulty: ModuleType, call: Call) -> None:
    results = [await call(faulty.uses_folder, text=text) for text in ("one", "two")]
    seen = [msgspec.json.decode(each.content) for each in results]
    assert [each["was"] for each in seen] == [["file"], ["file"]]
    assert seen[0]["folder"] != seen[1]["folder"]
    assert not any(os.path.exists(each["folder"]) for each in seen)  # noqa: PTH110, ASYNC240
    assert {(each["job_id"], each["round"], each["effect_id"]) for each in seen} == {
        (CONTEXT.job_id, CONTEXT.round, CONTEXT.effect_id)
    }


async def test_what_waits_for_a_process_does_not_use_up_its_time(faulty: ModuleType) -> None:
    runner = Runner(max_children=1)
    calls = [runner.run(faulty.fine, {"text": "x"}, CONTEXT, timeout_s=5) for _ in range(8)]
    async with asyncio.timeout(WAIT_S):
        results = await asyncio.gather(*calls)
    assert [each.content for each in results] == ["x"] * 8


async def test_invalid_arguments_start_nothing(
    faulty: ModuleType, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    result = await call(faulty.fine, text=3)
    assert result.status is ToolStatus.INVALID_ARGUMENTS
    assert "`$.text`" in result.content


@pytest.mark.parametrize("text", ["a\ud800", object()])
async def test_arguments_that_are_no_json(text: Any, faulty: ModuleType, call: Call) -> None:
    assert (await call(faulty.anything, value=text)).status is ToolStatus.INVALID_ARGUMENTS


async def test_arguments_that_json_makes_others_of(faulty: ModuleType, call: Call) -> None:
    result = await call(faulty.halved, number=float("nan"))
    assert result.status is ToolStatus.INVALID_ARGUMENTS
    assert "$.number" in result.content


async def test_a_tool_of_a_script_is_told_what_to_do() -> None:
    program = (
        "import asyncio\n"
        "from sluicegate.worker.tools import tool, ToolContext\n"
        "from sluicegate.worker.tools.runner import Runner\n"
        "@tool\n"
        "def one() -> int:\n"
        "    return 1\n"
        "context = ToolContext(job_id='j', round=1, effect_id='e')\n"
        "print(asyncio.run(Runner().run(one, {}, context)).content)\n"
    )
    script = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=PIPE)
    async with asyncio.timeout(WAIT_S):
        said, _ = await script.communicate()
    assert b"put it into a module" in said


async def test_no_process_to_be_had_is_an_error(
    faulty: ModuleType, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    result = await call(faulty.fine, text="x")
    assert result.status is ToolStatus.ERROR
    assert "could not be run here" in result.content


async def test_a_keeper_without_an_order_leaves() -> None:
    """The service died before it could say what there is to do."""
    keeper = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "sluicegate.worker.tools.child", stdin=PIPE, stdout=PIPE
    )
    async with asyncio.timeout(WAIT_S):
        assert await keeper.communicate(b"") == (b"", None)
    assert keeper.returncode == 0


async def test_a_keeper_asked_to_end_does_so(faulty: ModuleType, tmp_path: Path) -> None:
    """As the kernel asks it where the thread that started it is gone."""
    runner = Runner()
    running = asyncio.create_task(runner.run(faulty.hang, {"folder": str(tmp_path)}, CONTEXT))
    await _until(lambda: "self" in left_word(tmp_path))
    os.kill(left_word(tmp_path)["keeper"], signal.SIGTERM)
    async with asyncio.timeout(WAIT_S):
        result = await running
    assert result.status is ToolStatus.ERROR
    assert "from outside" in result.content
    assert none_left(tmp_path)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _children_of(pid: int) -> list[str]:
    return [
        each.parent.name
        for each in Path("/proc").glob("[0-9]*/stat")
        for text in [_read(each)]
        if text.rpartition(")")[2].split()[1:2] == [str(pid)] and "tools.child" in _command(each)
    ]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _command(stat: Path) -> str:
    return _read(stat.with_name("cmdline"))


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)
