"""Agent jobs at any point of their way: built by hand, and by hypothesis."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st
from sluicegate.schemas import (
    AgentContext,
    AgentJob,
    Budget,
    FinishReason,
    ParseFailure,
    Round,
    Sampling,
    StructuredOutput,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
    Usage,
)
from sluicegate.schemas.agents import Execution, LedgerEntry, Memory, Orchestration, Spent
from sluicegate.schemas.tools import RAN
from sluicegate.worker.dialects.dialect import Came, Parsed, Prompt, Said, Turn

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
READ = ToolSpec(name="read_file", description="Reads a file.", parameters={"type": "object"})
WRITE = ToolSpec(name="write_file", description="Writes one.", changes_state=True)
TOOLS = (READ, WRITE)

replace = msgspec.structs.replace


class PlainDialect:
    """One token is one byte; each turn is a line or more, and nothing is merged."""

    name = "plain"
    stop: tuple[str, ...] = ()
    openers = ("CALL",)
    spans: tuple[tuple[str, str], ...] = ()

    def __init__(self) -> None:
        self.prompts = 0

    def prompt(self, turns: Sequence[Turn], tools: Sequence[ToolSpec]) -> Prompt:
        self.prompts += 1
        told = "".join(f"TOOL {tool.name} {tool.description}\n" for tool in tools)
        text = told + "".join(map(self._turn, turns))
        return Prompt(text=text, tokens=len(text.encode()))

    def _turn(self, turn: Turn) -> str:
        match turn:
            case Said(text=text):
                return f"SAID {text}\n"
            case Came(calls=calls, failure=failure, reminder=reminder):
                came = "".join(
                    f"CAME {call.result.status if call.result else '?'} "
                    f"{call.result.content if call.result else ''}\n"
                    for call in calls
                )
                wrong = f"WRONG {failure.kind} {failure.detail}\n" if failure else ""
                return f"{came}{wrong}{reminder}\n"
            case _:
                return f"{turn.role.upper()} {turn.text}\n"

    def grammar(
        self, tools: Sequence[ToolSpec], *, may_answer: bool = True
    ) -> StructuredOutput | None:
        del tools, may_answer
        return None

    def parse(
        self, text: str, finish_reason: FinishReason | None, tools: Sequence[ToolSpec]
    ) -> Parsed:
        del finish_reason, tools
        return Parsed(answer=text)

    def answer(self, text: str) -> str:
        return text


def call(
    number: int,
    index: int = 0,
    *,
    name: str = "read_file",
    arguments: dict[str, Any] | None = None,
    status: ToolStatus | None = ToolStatus.OK,
    content: str = "some text",
) -> ToolCall:
    """A call; an open one where `status` is None."""
    return ToolCall(
        id=f"call-{number}-{index}",
        name=name,
        arguments={"path": f"{number}-{index}.txt"} if arguments is None else arguments,
        effect_id=f"e-{number}-{index}",
        result=None if status is None else ToolResult(status=status, content=content),
    )


def a_round(number: int, *calls: ToolCall, **fields: Any) -> Round:
    """A round; with one successful call where none are given and it did not fail."""
    if not calls and "failure" not in fields:
        calls = (call(number),)
    given: dict[str, Any] = {
        "said": f"I said this in round {number}.",
        "prose": f"I thought this in round {number}.",
        "usage": Usage(prompt_tokens=100, completion_tokens=10),
    }
    return Round(number=number, at=START, calls=calls, **{**given, **fields})


def context(
    *rounds: Round, memory: Memory | None = None, spent: Spent | None = None, **job: Any
) -> AgentContext:
    """A job that has come so far; what it spent is what its rounds did, unless it is given."""
    given: dict[str, Any] = {
        "id": "job",
        "task": "Look at the files.",
        "system": "You must not delete anything.",
        "tools": ("read_file", "write_file"),
        "sampling": Sampling(max_tokens=64),
    }
    agent = AgentJob(**{**given, **job})
    return AgentContext(
        id=agent.id,
        at=START,
        job=agent,
        execution=Execution(memory=memory or Memory(), rounds=rounds),
        orchestration=Orchestration(started_at=START, spent=spent or what_was_spent(rounds)),
    )


def what_was_spent(rounds: Sequence[Round]) -> Spent:
    """As it is counted on the way."""
    ran = [
        each for this in rounds for each in this.calls if each.result and each.result.status in RAN
    ]
    return Spent(
        usage=Usage.total(this.usage for this in rounds),
        tool_calls=len(ran),
        rounds=rounds[-1].number if rounds else 0,
    )


def grown(before: AgentContext, this: Round) -> AgentContext:
    """The job a round further."""
    spent = before.orchestration.spent
    more = what_was_spent([this])
    spent = replace(
        spent,
        usage=Usage.total((spent.usage, more.usage)),
        tool_calls=spent.tool_calls + more.tool_calls,
        rounds=this.number,
    )
    return replace(
        before,
        execution=replace(before.execution, rounds=(*before.execution.rounds, this)),
        orchestration=replace(before.orchestration, spent=spent),
    )


def later(seconds: float) -> datetime:
    """So long after the job began."""
    return START + timedelta(seconds=seconds)


# --- any job ---

# What tools give back is anything but NUL and half surrogate pairs; controls are in it.
any_text = st.text(
    st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=60
) | st.sampled_from(
    [
        "",
        "哈哈哈",
        "a\x1b[2Jb\x07",
        "\u202etxet",
        "👩\u200d👩\u200d👧",
        "line\nline\r\n",
        "x" * 3_000,
    ]
)
names = st.sampled_from(["read_file", "write_file", "no such tool", "", "ein Wort\n"])
closed_statuses = st.sampled_from(list(ToolStatus))
any_arguments = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.none() | st.integers(-(2**53), 2**53) | any_text,
    max_size=3,
)
failures = st.builds(
    ParseFailure,
    kind=st.sampled_from(["truncated", "malformed", "nothing", "mixed"]),
    detail=any_text.map(lambda text: text[:500]),
)


@st.composite
def calls_of(draw: st.DrawFn, number: int, statuses: Any, most: int = 4) -> tuple[ToolCall, ...]:
    """The calls of a round: as many as `most`, their ends as `statuses` has them."""
    return tuple(
        call(
            number,
            index,
            name=draw(names),
            arguments=draw(any_arguments),
            status=draw(statuses),
            content=draw(any_text),
        )
        for index in range(draw(st.integers(0, most)))
    )


@st.composite
def rounds_of(draw: st.DrawFn, number: int, statuses: Any = closed_statuses) -> Round:
    """A round: with calls, or one that could not be read, or neither."""
    calls = draw(calls_of(number, statuses))
    return a_round(
        number,
        *calls,
        said=draw(any_text),
        prose=draw(any_text),
        reminder=draw(any_text).strip()[:500],
        failure=None if calls else draw(st.none() | failures),
        usage=Usage(
            prompt_tokens=draw(st.integers(0, 5_000)),
            completion_tokens=draw(st.integers(0, 500)),
            wasted_tokens=draw(st.integers(0, 50)),
        ),
    )


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """What is left of the first rounds."""
    through = draw(st.integers(1, 6))
    ledger = tuple(
        LedgerEntry(
            round=draw(st.integers(1, through)),
            tool=draw(st.sampled_from(["", "read_file", "write_file"])),
            arguments='{"a":1}',
            status=draw(closed_statuses),
            result=draw(any_text)[:100],
        )
        for _ in range(draw(st.integers(0, 8)))
    )
    dropped = draw(st.integers(0, 5))
    return Memory(summary=draw(any_text), ledger=ledger, through=through, ledger_dropped=dropped)


@st.composite
def contexts(draw: st.DrawFn, *, most: int = 14, is_open: bool = False) -> AgentContext:
    """Any job: folded before or not, with up to `most` rounds in full. `is_open`: calls of the last
    one may be open."""
    memory = draw(st.just(Memory()) | memories())
    numbers = range(memory.through + 1, memory.through + 1 + draw(st.integers(0, most)))
    rounds = [draw(rounds_of(number)) for number in numbers]
    if is_open and rounds:
        number = rounds[-1].number
        calls = draw(calls_of(number, st.none() | closed_statuses, most=8))
        rounds[-1] = replace(rounds[-1], calls=calls, failure=None)
    spent = what_was_spent(rounds)
    more = draw(st.integers(0, 10_000))
    spent = replace(
        spent,
        usage=replace(spent.usage, prompt_tokens=spent.usage.prompt_tokens + more),
        rounds=numbers[-1] if numbers else memory.through,
    )
    return context(
        *rounds,
        memory=memory,
        spent=spent,
        task=draw(any_text.filter(lambda text: bool(text.strip()))),
        system=draw(any_text),
        budget=Budget(tokens=draw(st.integers(1, 100_000)), rounds=draw(st.integers(1, 60))),
    )
