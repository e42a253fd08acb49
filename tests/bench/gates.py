"""What all streaming gates cost a token, by the length of the text.

    python -m tests.bench.gates [--rounds N] [--tokens 100 1000 ...] [--json]

The text is this project's own documents and sources, in the tokens of the embedded model; nothing
is generated. Only the gates are timed, not the tokenizer. Each length is fed to fresh gates, short
ones so often that a round lasts; the best round counts, for what else the machine does only adds.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from sluicegate.guards.gate import Step
from sluicegate.guards.pipeline import streaming_gates
from sluicegate.guards.profiles import profile
from sluicegate.ops.console import table
from sluicegate.ops.embedded_model import resolve_model
from sluicegate.worker.model_tokenizer import ModelTokenizer, load_tokenizer

PROFILES: Final = ("chat", "code", "data")
LENGTHS: Final = (100, 1_000, 10_000, 100_000)  # tokens
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


def measure(
    stream: Sequence[Step], vocabulary: int, lengths: Sequence[int], rounds: int
) -> list[Cost]:
    """Every profile at every length; rounds go over all lengths, so that they share the weather."""
    costs: list[Cost] = []
    for name in PROFILES:
        thresholds = profile(name)
        best = dict.fromkeys(lengths, float("inf"))
        for _ in range(rounds):
            for length in lengths:
                times = max(1, _ROUND // length)
                part = stream[:length]
                began = time.process_time()
                for _ in range(times):
                    feed = streaming_gates(thresholds, vocabulary_size=vocabulary).feed
                    for step in part:
                        feed(step)
                spent = time.process_time() - began
                best[length] = min(best[length], spent / (times * len(part)) * 1e6)
        first = best[lengths[0]]
        costs += [Cost(name, length, best[length], best[length] / first) for length in lengths]
    return costs


def main(words: list[str]) -> None:
    """Print a table in Markdown, or with --json the numbers."""
    parser = argparse.ArgumentParser(prog="tests.bench.gates", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    loaded = load_tokenizer(resolve_model(None))
    stream = steps(loaded, max(asked.tokens))
    costs = measure(stream, len(loaded.tokenizer), asked.tokens, asked.rounds)
    if asked.json:
        print(msgspec.json.encode([cost._asdict() for cost in costs]).decode())
        return
    rows: list[tuple[Any, ...]] = [("profile", "tokens", "µs a token", "against the shortest")]
    rows += [(c.profile, f"{c.tokens:,}", f"{c.microseconds:.2f}", f"{c.ratio:.2f}") for c in costs]
    for line in table(rows):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
