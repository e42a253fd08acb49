"""What scoring candidates in batches gains over one by one, and the memory it takes.

    python -m tests.bench.checker [--candidates N] [--batch N ...] [--rounds N] [--threads N]
                                  [--dtype NAME] [--json]

Candidates have answers of 20 to 200 tokens of the embedded model, short ones as frequent as long
ones, cut from this project's own documents, each with a prompt. Only scoring is timed, for all that
the checks want: by itself, behind its prompt, sentence by sentence. "One by one" is the same scorer
with one candidate at a time, whose passes are one batch already; "pass by pass" has even these one
after another, as a checker without batches would. Every way has the same model, threads and
candidates, in one process, and its turn in every round; ratios are within a round.
"""

import argparse
import random
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import torch
from msgspec import Struct
from sluicegate.guards.checks.scores import TextScores
from sluicegate.ops.console import table
from sluicegate.ops.embedded_model import resolve_model
from sluicegate.worker.model_tokenizer import load_tokenizer
from sluicegate.worker.scoring import Limits, ScoreRequest, Wants
from sluicegate.worker.scoring_model import TransformersScorer

from .gates import ordinary_text
from .report import Machine, Spread, machine

ANSWER: Final = (20, 200)  # tokens
_PROMPTS: Final = (
    "What does this part do, and why is it done so?",
    "Write the next section of the handbook for operators.",
    "Explain to a new colleague how the pieces fit together, and which faults it guards against.",
)
_EVERYTHING: Final = Wants()
# One row a pass: no row is shorter than this, and two together are always longer.
_PASS_BY_PASS: Final = Limits(batch=1)


class Turn(Struct, frozen=True):
    """One way's turn. `batch` 0: pass by pass."""

    batch: int
    round: int
    seconds: float


class Line(Struct, frozen=True, kw_only=True):
    """One way over all rounds. `ratio`: against one by one in the same round; `peak_mib`: the most
    memory the process had by the end of its first turn, the ways before it included."""

    batch: int
    per_s: Spread
    ratio: Spread
    peak_mib: int


class Report(Struct, frozen=True, kw_only=True):
    """Everything, as `--json` prints it. `loaded_mib`: the process with the model, before any
    scoring."""

    candidates: int
    tokens: int
    threads: int
    dtype: str
    loaded_mib: int
    machine: Machine
    lines: list[Line]
    turns: list[Turn]


def candidates(number: int) -> list[ScoreRequest]:
    """So many, the same in every run."""
    draw = random.Random(1)
    loaded = load_tokenizer(resolve_model(None))
    text = ordinary_text(60_000)
    least, most = ANSWER
    found: list[ScoreRequest] = []
    for at in range(number):
        length = round(least * (most / least) ** draw.random())
        begin = text.find("\n", draw.randrange(len(text) - 8 * most)) + 1
        ids = loaded.encode(text[begin : begin + 8 * most])[:length]
        answer: str = loaded.tokenizer.decode(ids)
        found.append(ScoreRequest(_PROMPTS[at % len(_PROMPTS)], answer))
    return found


def measure(
    scorers: dict[int, TransformersScorer], requests: Sequence[ScoreRequest], rounds: int
) -> tuple[list[Turn], dict[int, int]]:
    """Every way, by its batch, in every round, in turn; and the peak after the first turn of each.
    The first pass of each is not timed."""
    turns: list[Turn] = []
    peaks: dict[int, int] = {}
    for number in range(rounds):
        for batch, scorer in scorers.items():
            if not number:
                score(scorer, requests[:2], batch)
            began = time.perf_counter()
            score(scorer, requests, batch)
            turns.append(Turn(batch, number, time.perf_counter() - began))
            peaks.setdefault(batch, peak_mib())
    return turns, peaks


def score(
    scorer: TransformersScorer, requests: Sequence[ScoreRequest], batch: int
) -> list[TextScores]:
    """All of them, `batch` at a time."""
    size = max(1, batch)
    return [
        each
        for at in range(0, len(requests), size)
        for each in scorer.score(requests[at : at + size], _EVERYTHING)
    ]


def summary(turns: Sequence[Turn], peaks: dict[int, int], number: int) -> list[Line]:
    """A line for each way, in the order in which they first ran."""
    base = {turn.round: turn.seconds for turn in turns if turn.batch == 1}
    lines: list[Line] = []
    for batch, peak in peaks.items():
        own = [turn for turn in turns if turn.batch == batch]
        lines.append(
            Line(
                batch=batch,
                per_s=Spread.of([number / turn.seconds for turn in own]),
                ratio=Spread.of([base[turn.round] / turn.seconds for turn in own]),
                peak_mib=peak,
            )
        )
    return lines


def peak_mib() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main(words: list[str]) -> None:
    """Print a table in Markdown, or with --json the numbers."""
    parser = argparse.ArgumentParser(prog="tests.bench.checker", description=__doc__)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--batch", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(words)
    requests = candidates(asked.candidates)
    here = machine("none", private_broker=False)
    model = str(resolve_model(None))
    own: dict[str, Any] = {"threads": asked.threads, "dtype": asked.dtype}
    scorer = TransformersScorer(model, **own)
    loaded = peak_mib()
    scorers = {1: scorer, 0: TransformersScorer(model, limits=_PASS_BY_PASS, **own)}
    scorers |= dict.fromkeys(asked.batch, scorer)
    turns, peaks = measure(scorers, requests, asked.rounds)
    tokens = sum(len(each.logprobs) for each in score(scorer, requests, max(asked.batch)))
    report = Report(
        candidates=len(requests),
        tokens=tokens,
        threads=torch.get_num_threads(),
        dtype=asked.dtype,
        loaded_mib=loaded,
        machine=here,
        lines=summary(turns, peaks, len(requests)),
        turns=turns,
    )
    if asked.json:
        print(msgspec.json.encode(report).decode())
        return
    show(report)


def show(report: Report) -> None:
    """Print the report for people, in Markdown."""
    rows: list[tuple[Any, ...]] = [("way", "candidates/s", "against one by one", "peak, MiB")]
    for line in report.lines:
        name = {0: "pass by pass", 1: "one by one"}.get(line.batch, f"batches of {line.batch}")
        rate, ratio = line.per_s, line.ratio
        rows.append(
            (
                name,
                f"{rate.median:.2f} ({rate.min:.2f}–{rate.max:.2f})",
                f"{ratio.median:.2f} ({ratio.min:.2f}–{ratio.max:.2f})",
                f"{line.peak_mib:,}",
            )
        )
    for text in table(rows):
        print(text)
    here = report.machine
    print(
        f"\n{report.candidates} candidates, {report.tokens:,} tokens of answers; {report.dtype}, "
        f"{report.threads} threads; {report.loaded_mib:,} MiB with the model, before scoring.\n"
        f"{here.cpus} CPUs ({here.cpu}), {here.memory_gib:g} GiB, {here.system}, "
        f"Python {here.python}; load average before: {here.load:g}."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
