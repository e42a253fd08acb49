"""What all streaming gates cost a token, by the length of the text.

    python -m tests.bench.gates [--rounds N] [--tokens 100 1000 ...] [--reasoning] [--json]

The text is this project's own documents and sources, in the tokens of the embedded model; nothing
is generated. Only the gates are timed, not the tokenizer. Each length is fed to fresh gates, short
ones so often that a round lasts; the best round counts, for what else the machine does only adds.

With --reasoning it is the gates over reasoning, on a trace that goes on making progress, beside a
loop that does nothing with each token but look at it and remember it.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from sluicegate.guards.gate import Step
from sluicegate.guards.pipeline import streaming_gates
from sluicegate.guards.profiles import profile
from sluicegate.guards.reasoning.guard import reasoning_gates
from sluicegate.ops.console import table
from sluicegate.ops.embedded_model import resolve_model
from sluicegate.worker.model_tokenizer import ModelTokenizer, load_tokenizer

PROFILES: Final = ("chat", "code", "data")
LENGTHS: Final = (100, 1_000, 10_000, 100_000)  # tokens
REASONING_LENGTHS: Final = (1_000, 10_000, 50_000)
_ROUND: Final = 20_000  # tokens that a round has at least
_ROOT: Final = Path(__file__).parents[2]


class Cost(NamedTuple):
    """Microseconds a token, and against the shortest length."""

    profile: str
    tokens: int
    microseconds: float
    ratio: float


def ordinary_text(most: int) -> str:
    """So many characters of the project's documents and sources, in order of their names."""
    text: list[str] = []
    for pattern in ("docs/*.md", "*.md", "*/*.py", "tests/*/*.py"):
        for path in sorted(_ROOT.glob(pattern)):
            text.append(path.read_text(encoding="utf-8"))
            if sum(map(len, text)) > most:
                return "".join(text)[:most]
    return "".join(text)


def steps(loaded: ModelTokenizer, most: int) -> list[Step]:
    """So many steps of ordinary text."""
    ids = loaded.encode(ordinary_text(6 * most))[:most]
    return list(loaded.steps(ids))


def reasoning_steps(loaded: ModelTokenizer, most: int) -> list[Step]:
    """So many steps of a trace that works through numbers one after the other and tells of it."""
    text: list[str] = []
    length, number = 0, 10
    prose = iter(ordinary_text(6 * most).split(". "))
    while length < 6 * most:
        number += 1
        squares = ", ".join(f"{number}*{factor} = {number * factor}" for factor in range(2, 5))
        part = (
            f"Check n={number}: {squares}. Wait, let me see whether {number} mod 7 is "
            f"{number % 7}. It is. {next(prose, 'So on it goes')}.\n\n"
        )
        text.append(part)
        length += len(part)
    return list(loaded.steps(loaded.encode("".join(text))[:most]))


def baseline() -> Callable[[Step], object]:
    """What the least gate does: it looks at the token, and remembers it."""
    seen: list[int] = []

    def feed(step: Step) -> None:
        if step.text:
            seen.append(step.token_id)

    return feed


def measure(
    stream: Sequence[Step], vocabulary: int, lengths: Sequence[int], rounds: int
) -> list[Cost]:
    """Every profile at every length."""
    costs: list[Cost] = []
    for name in PROFILES:
        thresholds = profile(name)
        costs += _costs(
            name,
            lambda thresholds=thresholds: (
                streaming_gates(thresholds, vocabulary_size=vocabulary).feed
            ),
            stream,
            lengths,
            rounds,
        )
    return costs


def measure_reasoning(stream: Sequence[Step], lengths: Sequence[int], rounds: int) -> list[Cost]:
    """The gates over reasoning, and the loop that does nothing."""
    thresholds = profile("chat")
    most = max(lengths)
    return [
        *_costs("baseline", baseline, stream, lengths, rounds),
        *_costs(
            "reasoning", lambda: reasoning_gates(thresholds, most).feed, stream, lengths, rounds
        ),
    ]


def _costs(
    name: str,
    fresh: Callable[[], Callable[[Step], object]],
    stream: Sequence[Step],
    lengths: Sequence[int],
    rounds: int,
) -> list[Cost]:
    """Rounds go over all lengths, so that they share the weather."""
    best = dict.fromkeys(lengths, float("inf"))
    for _ in range(rounds):
        for length in lengths:
            times = max(1, _ROUND // length)
            part = stream[:length]
            began = time.process_time()
            for _ in range(times):
                feed = fresh()
                for step in part:
                    feed(step)
            spent = time.process_time() - began
            best[length] = min(best[length], spent / (times * len(part)) * 1e6)
    first = best[lengths[0]]
    return [Cost(name, length, best[length], best[length] / first) for length in lengths]


def main(words: list[str]) -> None:
    """Print a table in Markdown, or with --json the numbers."""
    parser = argparse.ArgumentParser(prog="tests.bench.gates", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, nargs="+")
    parser.add_argument("--reasoning", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    loaded = load_tokenizer(resolve_model(None))
    lengths = asked.tokens or (REASONING_LENGTHS if asked.reasoning else LENGTHS)
    if asked.reasoning:
        stream = reasoning_steps(loaded, max(lengths))
        costs = measure_reasoning(stream, lengths, asked.rounds)
    else:
        stream = steps(loaded, max(lengths))
        costs = measure(stream, len(loaded.tokenizer), lengths, asked.rounds)
    if asked.json:
        print(msgspec.json.encode([cost._asdict() for cost in costs]).decode())
        return
    rows: list[tuple[Any, ...]] = [("profile", "tokens", "µs a token", "against the shortest")]
    rows += [(c.profile, f"{c.tokens:,}", f"{c.microseconds:.2f}", f"{c.ratio:.2f}") for c in costs]
    for line in table(rows):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
