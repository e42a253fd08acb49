"""The baseline: what gates look like when nobody has measured them.

    python -m tests.bench.naive_gates FILE.jsonl [--json]

Four rules that recur in home-made filters, on the file that `sluice evaluate` takes, with the same
table by class: a token that decodes alone to U+FFFD is broken; a character outside a list of
ordinary ones is garbage; a piece equal to the one before it is a loop; so is a text of which one
word is more than 30%.
"""

import argparse
import string
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
from sluicegate.guards.finding import Finding, Flaw, Level
from sluicegate.guards.gate import Step
from sluicegate.ops.console import table
from sluicegate.ops.embedded_model import resolve_model
from sluicegate.ops.evaluation import judge, parse, report, summary
from sluicegate.worker.model_tokenizer import load_tokenizer

# Generous as such lists go: all of Latin, and what word processors put in.
_LIST: Final = frozenset(
    string.printable + "".join(map(chr, range(0xA1, 0x250))) + "‘’“”„–—…•€™\u00a0"
)
_SHARE: Final = 0.3
_WORDS: Final = 10  # in a shorter text each word is a large share


class NaiveGates:
    """All four, in this order. `alone` is what each token decodes to by itself."""

    def __init__(self, alone: dict[int, str], tokenizer: Any) -> None:
        self._alone, self._tokenizer = alone, tokenizer
        self._before = ""
        self._words: Counter[str] = Counter()
        self._word = ""

    def feed(self, step: Step) -> Finding | None:
        """The first rule that the token breaks."""
        piece = self._decoded(step.token_id)
        before, self._before = self._before, piece
        flaw = None
        if "\ufffd" in piece:
            flaw = Flaw.REPLACEMENT_CHARACTER
        elif any(one not in _LIST for one in step.text):
            flaw = Flaw.DENIED_CHARACTER
        elif piece.strip() and piece == before:
            flaw = Flaw.CHARACTER_RUN
        elif self._too_frequent(step.text):
            flaw = Flaw.WORD_RUN
        if flaw is None:
            return None
        end = step.offset + len(step.text)
        return Finding(
            gate="naive",
            level=Level.TEXT,
            flaw=flaw,
            tokens=(step.position, step.position + 1),
            chars=(step.offset, end),
            score=1,
            threshold=1,
        )

    def _decoded(self, token: int) -> str:
        if token not in self._alone:
            known = 0 <= token < len(self._tokenizer)
            self._alone[token] = self._tokenizer.decode([token]) if known else ""
        return self._alone[token]

    def _too_frequent(self, text: str) -> bool:
        *whole, self._word = (self._word + text).split(" ")
        self._words.update(filter(None, (one.strip(string.whitespace) for one in whole)))
        total = self._words.total()
        return bool(whole) and total > _WORDS and max(self._words.values()) > _SHARE * total


def evaluate(path: Path) -> dict[str, Any]:
    """The summary of a file, as `sluice evaluate --json` has it."""
    with path.open("rb") as file:
        lines, problems = parse(file)
    if problems:
        raise SystemExit("\n".join(problems))
    loaded = load_tokenizer(resolve_model(None))
    alone: dict[int, str] = {}
    return summary(
        [
            judge(
                line,
                loaded.steps(
                    loaded.encode(line.text) if line.token_ids is None else line.token_ids
                ),
                NaiveGates(alone, loaded.tokenizer).feed,
            )
            for line in lines
        ]
    )


def main(words: list[str]) -> None:
    """Print the table, or with --json the summary."""
    parser = argparse.ArgumentParser(prog="tests.bench.naive_gates", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    result = evaluate(asked.file)
    if asked.json:
        print(msgspec.json.encode(result).decode())
        return
    for line in report(result, table):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
