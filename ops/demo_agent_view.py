"""What the demo of a runaway agent job prints. Pure."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from .agent_trace import WIDTH, drawn
from .columns import wrapped
from .console import table
from .demo_agent import AgentDemo, Run

_CELLS: Final[tuple[tuple[str, Callable[[Run], str]], ...]] = (
    ("ended as", lambda run: run.outcome),
    ("because", lambda run: run.reason),
    ("rounds", lambda run: f"{run.rounds:,}"),
    ("tool calls", lambda run: f"{run.tool_calls:,}"),
    ("tokens in", lambda run: f"{run.prompt_tokens:,}"),
    ("tokens out", lambda run: f"{run.completion_tokens:,}"),
    ("tokens in all", lambda run: f"{run.tokens:,}"),
    ("seconds", lambda run: f"{run.seconds:.1f}"),
)


def lines(demo: AgentDemo, *, width: int = WIDTH, colour: bool = False) -> Iterator[str]:
    """The trace of the job that was stopped, and what stopping it saved."""
    yield from drawn(demo.trace, width=width, colour=colour)
    yield ""
    yield "What it cost, and what it would have cost"
    yield ""
    yield from table(_rows(demo), indent="  ")
    yield ""
    stopped, runaway = demo.stopped, demo.runaway
    costs = (
        f"Both runs are measured. The second ended because {runaway.rounds} rounds were all it "
        f"might use. At its pace an hour of it is {runaway.in_an_hour(runaway.rounds):,} rounds, "
        f"{runaway.in_an_hour(runaway.tool_calls):,} calls and "
        f"{runaway.in_an_hour(runaway.tokens):,} tokens; the first was stopped after "
        f"{stopped.seconds:.1f} s, with its work kept."
    )
    played = (
        "The model is played by a script: it shows the watchdog, not a model. A token is a byte of "
        f"text here, and the script speaks {demo.chunk} bytes every {demo.step_s:g} s."
    )
    for number, text in enumerate((costs, played)):
        if number:
            yield ""
        yield from (f"  {line}" for line in wrapped(text, width - 2, most=9))


def _rows(demo: AgentDemo) -> Iterator[tuple[str, str, str]]:
    yield "", "watchdog on", "watchdog off"
    for label, cell in _CELLS:
        yield label, cell(demo.stopped), cell(demo.runaway)


def as_data(demo: AgentDemo) -> dict[str, Any]:
    """The same for programs."""
    return {
        "played_by_script": True,
        "bytes_per_step": demo.chunk,
        "step_s": demo.step_s,
        "watchdog_on": _run(demo.stopped),
        "watchdog_off": _run(demo.runaway),
        "trace": demo.trace,
    }


def _run(run: Run) -> dict[str, Any]:
    amounts = {"rounds": run.rounds, "tool_calls": run.tool_calls, "tokens": run.tokens}
    hour = {name: run.in_an_hour(number) for name, number in amounts.items()}
    return {**msgspec.structs.asdict(run), "tokens": run.tokens, "in_an_hour": hour}
