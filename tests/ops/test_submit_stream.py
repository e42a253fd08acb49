"""Streamed text: the answer on standard output, the reasoning beside it."""

from typing import TextIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sluicegate.ops.submit_stream import StreamedText
from sluicegate.schemas import Delta
from sluicegate.schemas.lineage import Channel

PIECES = st.lists(st.text("ab \n", min_size=1, max_size=5), max_size=6)


def plain(text: str, _stream: TextIO) -> str:
    return text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES, PIECES)
def test_standard_output_is_the_answer(
    capsys: pytest.CaptureFixture[str], thoughts: list[str], answers: list[str]
) -> None:
    capsys.readouterr()
    shown = StreamedText(plain)
    channels: dict[Channel, list[str]] = {"reasoning": thoughts, "content": answers}
    for channel, pieces in channels.items():
        for number, piece in enumerate(pieces):
            offset = len("".join(pieces[:number]))
            shown.show(Delta(offset=offset, text=piece, channel=channel))
    shown.end_reasoning()
    printed = capsys.readouterr()
    answer, thought = "".join(answers), "".join(thoughts)
    assert (printed.out, shown.answer) == (answer, answer)
    head, between = "[reasoning]\n", "\n[answer]\n" if answers else "\n"
    assert printed.err == (f"{head}{thought}{between}" if thoughts else "")


def test_an_attempt_begun_anew_begins_both_anew(capsys: pytest.CaptureFixture[str]) -> None:
    shown = StreamedText(plain)
    shown.show(Delta(offset=0, text="Hm.", channel="reasoning"))
    shown.show(Delta(offset=0, text="It is"))
    shown.show(Delta(offset=0, text="So?", channel="reasoning"))
    shown.show(Delta(offset=0, text="No."))
    shown.end_reasoning()
    printed = capsys.readouterr()
    assert printed.out == "It isNo."
    assert printed.err == (
        "[reasoning]\nHm.\n[answer]\n\n[the attempt was begun anew]\n[reasoning]\nSo?\n[answer]\n"
    )
    assert shown.answer == "No."
