"""Lines to jobs: what is filled in, what is refused, and what stays the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops.submit_lines import ParsedLines, parse_lines
from sluicegate.schemas import Reasoning


def parse(*lines: object, **sampling: object) -> ParsedLines:
    encoded = [
        line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines
    ]
    return parse_lines(encoded, defaults={"lane": "batch"}, sampling=sampling)


def test_a_line_needs_no_more_than_a_prompt() -> None:
    (job,), problems = parse({"prompt": "Why?"})
    assert problems == []
    assert job.prompt == "Why?"
    assert job.lane == "batch"
    assert len(job.id) == 36


def test_what_a_line_says_is_stronger_than_the_flags() -> None:
    jobs, problems = parse(
        {"prompt": "a", "lane": "interactive", "sampling": {"temperature": 0.5}},
        {"prompt": "b"},
        temperature=0.0,
        max_tokens=7,
    )
    assert problems == []
    first, second = jobs
    assert (first.lane, first.sampling.temperature, first.sampling.max_tokens) == (
        "interactive",
        0.5,
        7,
    )
    assert (second.sampling.temperature, second.sampling.max_tokens) == (0.0, 7)


def test_reasoning_is_filled_in_as_sampling_is() -> None:
    lines = [
        b'{"prompt": "a", "reasoning": {"effort": 200}}',
        b'{"prompt": "b", "reasoning": {"mode": "off", "wrap_up": ""}}',
        b'{"prompt": "c"}',
    ]
    jobs, problems = parse_lines(
        lines, defaults={}, sampling={}, reasoning={"effort": "low", "mode": "observe"}
    )
    assert problems == []
    assert [job.reasoning for job in jobs] == [
        Reasoning(effort=200, mode="observe"),
        Reasoning(effort="low", mode="off", wrap_up=""),
        Reasoning(effort="low", mode="observe"),
    ]


def test_ids_come_from_the_content_and_tell_copies_apart() -> None:
    lines = [{"prompt": "a"}, {"prompt": "b"}, {"prompt": "a"}, {"prompt": "a", "id": "mine"}]
    ids = [job.id for job in parse(*lines).jobs]
    assert len(set(ids)) == 4
    assert ids[3] == "mine"
    assert [job.id for job in parse(*lines).jobs] == ids
    # An insertion elsewhere, or another order of the keys, changes nothing.
    again = [job.id for job in parse({"prompt": "new"}, *lines).jobs]
    assert again[1:] == ids
    one = {"prompt": "a", "profile": "code"}
    assert parse(one).jobs[0].id == parse(dict(reversed(one.items()))).jobs[0].id
    assert parse({"prompt": "a"}, max_tokens=3).jobs[0].id != ids[0]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"prompt": ""}, "line 2: $.prompt: there is nothing to answer"),
        ({"prompt": 7}, "line 2: $.prompt: "),
        ({"promt": "x"}, "line 2: $.promt: is no field of a job; did you mean prompt?"),
        ({"prompt": "x", "max_token": 3}, "did you mean sampling.max_tokens?"),
        (
            {"prompt": "x", "reasoning": {"efort": "low"}},
            "line 2: $.reasoning.efort: is no field of a job; did you mean effort?",
        ),
        ({"prompt": "x", "reasoning": {"effort": "huge"}}, "line 2: $.reasoning.effort"),
        ({"prompt": "x", "zzz": 3}, "line 2: $.zzz: is no field of a job"),
        (
            {"prompt": "x", "sampling": {"temprature": 1}},
            "line 2: $.sampling.temprature: is no field of a job; did you mean temperature?",
        ),
        ({"prompt": "x", "sampling": {"temperature": 9}}, "line 2: $.sampling.temperature: "),
        ({"prompt": "x", "sampling": 3}, "line 2: $.sampling: "),
        (
            {"prompt": "x", "sampling": {"structured_output": {"regexp": "a"}}},
            "line 2: $.sampling.structured_output.regexp: ",
        ),
        (
            {"messages": [{"role": "user", "content": "x", "name": "y"}]},
            "line 2: $.messages[0].name: is no field",
        ),
        ({"prompt": "x", "attempt": 2}, "line 2: $.attempt: is written by the system"),
        ({"prompt": "x", "reply_to": "a"}, "line 2: $.reply_to: is written by the system"),
        ({"prompt": "x", "type": "delta"}, "line 2: $.type: "),
        ({"prompt": "x", "schema_version": 99}, "line 2: $.schema_version: 99 is newer"),
        ({"prompt": "x", "id": "no.dots"}, "line 2: $.id: "),
        ({"prompt": "x", "id": "first"}, "line 2: $.id: 'first' is the id of line 1 too"),
        ({"prompt": "x" * 1_100_000}, "the limit is 1,048,576"),
        ([1], "line 2: $: a line must be a JSON object"),
        (b'{"prompt": NaN}\n', "line 2: $.prompt: must be a finite number"),
        (b'{"prompt": "\xff"}\n', "line 2: $.prompt: is not UTF-8 at character 0"),
        (
            b'{"prompt": "x", "metadata": {"a": [1e999]}}\n',
            "line 2: $.metadata.a[0]: must be a finite number; this one is too large",
        ),
        (b'{"prompt": "x"\n', "line 2: $: Input data was truncated"),
        (b"\xff\xfe\n", "line 2: $: "),
        (b"[" * 5000 + b"\n", "line 2: $: nested too deeply"),
        ({"prompt": "a\x00b"}, "line 2: $.prompt: must not contain"),
        ({"prompt": "a\ud800b"}, "line 2: $.prompt: "),
    ],
)
def test_each_fault_is_told_with_line_and_field(line: object, problem: str) -> None:
    jobs, problems = parse({"prompt": "x", "id": "first"}, line, {"prompt": "after"})
    assert len(jobs) == 2
    (told,) = problems
    assert problem in told
    assert told.startswith("line 2: $")


def test_blank_lines_a_byte_order_mark_and_a_missing_last_newline_are_fine() -> None:
    jobs, problems = parse(b'\xef\xbb\xbf{"prompt": "a"}\r\n', b"\n", b"  \n", b'{"prompt": "b"}')
    assert problems == []
    assert [job.prompt for job in jobs] == ["a", "b"]


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_told_from_a_job(lines: list[bytes]) -> None:
    jobs, problems = parse_lines(lines, defaults={}, sampling={})
    first = [line.removeprefix(b"\xef\xbb\xbf") for line in lines[:1]]
    filled = [line for line in [*first, *lines[1:]] if line.strip()]
    assert len(jobs) + len(problems) == len(filled)
    assert all(problem.startswith("line ") for problem in problems)
