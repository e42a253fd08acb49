"""No escape sequence reaches an operator's screen: hostile text through all that prints."""

import io
import json
import logging
import re
import sys
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click
import pytest
from sluicegate.ops import (
    agent_text,
    agent_trace,
    cmd_agent_submit,
    cmd_watch,
    console,
    failures,
    pausing,
    reasoning_text,
)
from sluicegate.ops.agent_trace_read import gather, of_scene
from sluicegate.ops.dlq_letter import Properties, read_letter
from sluicegate.ops.dlq_story import story
from sluicegate.ops.dlq_tables import Tally, counted, listed
from sluicegate.ops.doctor_findings import Finding, summary
from sluicegate.ops.submit_prompt import printable, why_not
from sluicegate.ops.submit_stream import StreamedText
from sluicegate.ops.top_model import Model
from sluicegate.ops.top_render import render
from sluicegate.ops.topology_check import Difference
from sluicegate.ops.topology_report import Applied, Checked
from sluicegate.producer import Delta
from sluicegate.schemas import (
    AgentContext,
    DeadLetter,
    GenerationResult,
    JobEvent,
    JournalEntry,
    Names,
    Pause,
    ServiceEvent,
)
from sluicegate.schemas.codec import Message, encode, tag_of
from sluicegate.worker import logs

from .examples import examples
from .poison import ACTING, poisoned

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
POISONED: list[tuple[type[Message], Message]] = [
    (kind, poisoned(body, kind)) for kind, body in examples()
]
# Colours of our own.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def tag_of_message(message: Message) -> str:
    """For the names of tests."""
    return tag_of(type(message))


def of(kind: Any) -> list[Any]:
    """The poisoned messages of a kind."""
    return [message for known, message in POISONED if known is kind]


def assert_harmless(lines: Iterable[str], *, colour: bool = False) -> None:
    text = "\n".join(lines)
    assert text
    for char in _STYLE.sub("", text) if colour else text:
        if char in "\n\t":
            continue
        category = unicodedata.category(char)
        allowed = category not in ("Cc", "Cf", "Cs", "Zl", "Zp") or char in "\u200c\u200d"
        assert allowed, (hex(ord(char)), ascii(text[:2_000]))


def test_the_poison_is_in_there() -> None:
    """Each kind that people look at has it in some text."""
    with_poison = {kind for kind, message in POISONED if b"forged" in encode(message)}
    looked_at = (GenerationResult, JobEvent, ServiceEvent, DeadLetter, Pause, JournalEntry)
    assert with_poison >= {*looked_at, AgentContext}


@pytest.mark.parametrize("form", ["human", "json"])
def test_logs(form: Any) -> None:
    stream = io.StringIO()
    kind = logs.HumanFormatter if form == "human" else logs.JsonFormatter
    handler = logging.StreamHandler(stream)
    handler.setFormatter(kind())
    log = logging.getLogger("sluicegate.test")
    log.addHandler(handler)
    log.error("lost %s", ACTING, exc_info=ValueError(ACTING + "\ud800"))
    log.removeHandler(handler)
    text = stream.getvalue()
    assert "forged" in text
    assert_harmless([text])
    if form == "human":
        # What is said can't pass for a line of its own.
        assert not any(line.startswith("12:00:00") for line in text.splitlines())
    else:
        assert len(text.splitlines()) == 1


def test_errors_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    console.error(ACTING)
    console.warning(ACTING)
    console.print_json({ACTING: ACTING})
    failures.report(RuntimeError(ACTING), debug=True)
    out, err = capsys.readouterr()
    assert json.loads(out) == {ACTING: ACTING}
    assert_harmless([out])
    assert_harmless([err])


@pytest.mark.parametrize("json_too", [False, True])
def test_watch_and_submit(
    json_too: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    view, shown = cmd_watch.View(), StreamedText(printable)
    for event in of(JobEvent):
        view.show(event)
        if isinstance(event.event, Delta):
            shown.show(event.event)
    for result in of(GenerationResult):
        cmd_agent_submit.show(result, as_json=json_too)
        console.error(f"job {result.job_id} was {why_not(result.outcome)}")
        if result.agent is not None:
            click.echo(agent_text.in_a_line(result.agent))
        if result.reasoning_record is not None:
            click.echo(reasoning_text.in_a_line(result.reasoning_record))
    out, err = capsys.readouterr()
    assert "forged" in out
    assert_harmless([out], colour=True)
    assert_harmless([err], colour=True)


@pytest.mark.parametrize("message", [message for _, message in POISONED], ids=tag_of_message)
def test_dead_letters(message: Message) -> None:
    headers = {"x-death": [{"reason": ACTING, "queue": ACTING, "count": 1}], ACTING: ACTING}
    properties = Properties(
        message_id=ACTING,
        correlation_id=ACTING,
        message_type=ACTING,
        routing_key=ACTING,
        headers=headers,
    )
    for body in (encode(message), encode(message)[:-1], ACTING.encode()):
        letter = read_letter(body, properties)
        tally = Tally()
        tally.feed(letter.head)
        assert_harmless(story(letter, now=NOW, width=80, colour=False, text_limit=10**6))
        assert_harmless(listed([letter.head], NOW))
        assert_harmless(counted(tally.counts(), NOW))


def test_agents() -> None:
    lines = of(JournalEntry)
    for line in lines:
        for trace in gather(line.job_id, [line], NOW, patience_s=1.0):
            assert_harmless(agent_trace.drawn(trace))
    for context in of(AgentContext):
        assert_harmless(agent_trace.drawn(of_scene(context, ACTING)))
    assert_harmless([agent_trace.waiting_line(ACTING, {ACTING: ACTING}, NOW)])


def test_top() -> None:
    model = Model(Names("sluice"), "host", 0.0)
    for event in of(ServiceEvent):
        model.service(event, 0.0)
    for event in of(JobEvent):
        model.job(event, 0.0)
    model.broker(ACTING)
    picture = model.picture(1.0, NOW)
    assert_harmless([line.text for line in render(picture, 200)])


def test_pauses_findings_and_differences() -> None:
    assert_harmless(pausing.table(of(Pause), NOW))
    assert_harmless([summary([Finding("broker", "trouble", ACTING, ACTING)])])
    differences = [Difference("different", ACTING, ACTING, 1, ACTING)]
    said = [ACTING]
    applied = Applied(ACTING, ACTING, ACTING, said, said, 1, differences, said)
    checked = Checked(ACTING, ACTING, ACTING, differences, said, said, said, bindings_seen=True)
    for told in (applied, checked):
        assert_harmless(told.as_text())
