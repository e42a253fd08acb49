"""`sluice tokens`: what a model must never produce, and why."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import click

from ..guards.denied import Denial
from . import console
from .embedded_model import resolve_model

_REASONS: Final = {
    Denial.PADDING: "fills up batches",
    Denial.UNKNOWN: "stands for what the vocabulary lacks",
    Denial.OPENING: "opens a text, never goes on with one",
    Denial.MASK: "stands for a word to be guessed",
    Denial.RESERVED: "kept in reserve, never trained",
    Denial.UNDECODABLE: "has no text at all",
    Denial.BEYOND_TOKENIZER: "only the padded embedding has it",
}
# A reason may have tens of thousands of ids; the first few ranges show what they are.
_SHOWN: Final = 12


@click.command(name="tokens")
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print every id with its reason as JSON.")
def command(model: str | None, as_json: bool) -> None:
    """Print the token ids that MODEL must never produce, each with the reason.

    MODEL is a folder or a hub name; without it SLUICE_MODEL, else the embedded model. Ids that end
    a text are free, even where padding has the same id.

    \b
    Examples:
      sluice tokens
      sluice tokens Qwen/Qwen3-0.6B --json | jq '.denied | length'
    """
    from ..worker.model_tokenizer import load_tokenizer  # noqa: PLC0415  what `--help` doesn't need

    loaded = load_tokenizer(resolve_model(model))
    denied = loaded.denied()
    texts = {token: _text(loaded.tokenizer.convert_ids_to_tokens(token)) for token in denied}
    if as_json:
        console.print_json(
            {
                "model": loaded.name,
                "vocabulary_size": loaded.vocabulary_size,
                "tokenizer_size": len(loaded.tokenizer),
                "stop_ids": sorted(loaded.stop_ids),
                "denied": [
                    {"id": token, "token": texts[token], "reason": reason.value}
                    for token, reason in denied.items()
                ],
            }
        )
        return
    by_reason: defaultdict[Denial, list[int]] = defaultdict(list)
    for token, reason in denied.items():
        by_reason[reason].append(token)
    click.echo(
        f"{loaded.name}: {len(denied)} of {loaded.vocabulary_size} ids denied; "
        f"free to end a text: {', '.join(map(str, sorted(loaded.stop_ids))) or 'none'}"
    )
    rows = [("REASON", "IDS", "WHICH", "WHY")]
    for reason in Denial:
        if ids := by_reason[reason]:
            shown = list(ranges(ids))
            which = ", ".join(
                f"{first} {texts[first] or ''}".strip() if first == last else f"{first}-{last}"
                for first, last in shown[:_SHOWN]
            )
            more = ", ..." if len(shown) > _SHOWN else ""
            rows.append((reason.value, str(len(ids)), which + more, _REASONS[reason]))
    for line in console.table(rows):
        click.echo(line)
    sys.stdout.flush()


def ranges(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending ids as first and last of each unbroken row."""
    first = last = ids[0]
    for token in ids[1:]:
        if token != last + 1:
            yield first, last
            first = token
        last = token
    yield first, last


def _text(token: object) -> str | None:
    return None if token is None else str(token)
