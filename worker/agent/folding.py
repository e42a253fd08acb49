"""The context window: when older rounds are summed up, down to where, and what takes their place.

Rounds go whole and seldom: there is room for some more after each time. What they came to stands in
the ledger, whatever the summary says.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ...schemas import AgentContext, Round, ToolSpec
from ...schemas.agents import Memory
from ..dialects.dialect import Dialect, Told, Turn
from . import ledger
from .body import ContextFull, within_limit
from .ledger import LEDGER_BYTES
from .shortening import shortened, shorter_round
from .summary import SUMMARY_CHARS, plain_summary, summary_text, usable
from .window import conversation, memory_text, told_in_full

__all__ = [
    "ContextFull",
    "Fold",
    "folded",
    "plan_folding",
    "reductions",
    "summary_turns",
    "within_limit",
]

# Of a summary, in tokens, and as a share of the model's context.
_SUMMARY_TOKENS: Final = 512
_SUMMARY_SHARE: Final = 1 / 8
# Where fewer rounds than wished for can stay, this share of the room is left for the next ones.
_SLACK: Final = 1 / 8
# The headings around a summary.
_AROUND: Final = 32
# What is left of each result, and at last of the rest of a round and of the ledger, where a single
# round is too long. Characters; bytes for the ledger.
_RESULTS: Final = (4_000, 1_000, 300)
_LEAST: Final = ((300, 4_000), (100, 1_000), (60, 0))
# Of each result, for the model that sums up.
_EXCERPTS: Final = (2_000, 600, 200, 80)

replace = msgspec.structs.replace


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done to a context that is too long.

    Rounds up to number `through` go. `results`, `rest`: characters that each result, and each other
    text, of the rounds that stay is cut to; None: left whole. `ledger_bytes` is the bound of the
    ledger, `changed` names the tools that change something. `excerpt`: characters of each text of
    the rounds that go which the model is shown that sums them up; None: no model is to be asked,
    for nothing goes, or nothing of it fits. `answer_tokens`: what the summary may have.
    """

    through: int
    results: int | None = None
    rest: int | None = None
    ledger_bytes: int = LEDGER_BYTES
    changed: tuple[str, ...] = ()
    excerpt: int | None = None
    answer_tokens: int = 0
    why: str = ""


def plan_folding(
    context: AgentContext,
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    *,
    room_tokens: int,
    keep: int,
    fold_after: int,
    reserve_tokens: int = 0,
) -> Fold | None:
    """How to make the context shorter, or None where it is short enough.

    It is too long with more than `fold_after` rounds in full, or where prompt (by the dialect, with
    template and `tools`), answer and `reserve_tokens` are more than `room_tokens`, the model's
    context. An answer claims the job's `max_tokens`, and half of the context at most. `keep` rounds
    stay; where that is too long, fewer, down to one, and if possible so that there is room for the
    next; then its results are cut short; then the rest of it, and the ledger. Raises ContextFull
    where even that does not fit.

    A summary that turns out longer than it was given room for is met by asking again: each fold
    takes at least a round away, or is exact. One prompt where nothing is to be done.
    """
    rounds = told_in_full(context)
    claim = answer_claim(context, room_tokens)
    limit = room_tokens - claim - reserve_tokens
    turns = conversation(context, tools, room_tokens=room_tokens)
    tokens = dialect.prompt(turns, tools).tokens
    forced = tokens > limit
    if not forced and len(rounds) <= max(keep, fold_after):
        return None
    if forced:
        why = (
            f"a prompt of {tokens:,} tokens and an answer of {claim:,} with {reserve_tokens:,} in "
            f"reserve are more than {room_tokens:,}"
        )
    else:
        why = f"{len(rounds)} rounds in full are more than {fold_after}"
    most = min(keep, len(rounds) - 1) if forced else keep
    answer_tokens = max(1, min(_SUMMARY_TOKENS, int(room_tokens * _SUMMARY_SHARE)))
    second: Fold | None = None
    for fold in reductions(context, tools, most=most, least=1):
        shorter = _carried_out(context, fold, None)
        goes = fold.through > context.execution.memory.through
        turns = conversation(shorter, tools, room_tokens=room_tokens)
        left = limit - dialect.prompt(turns, tools).tokens - (answer_tokens + _AROUND) * goes
        if left < 0:
            continue
        plan = replace(fold, answer_tokens=answer_tokens, why=why)
        stay = len(told_in_full(shorter))
        if not goes or stay >= keep or left >= limit * _SLACK:
            return _with_excerpt(context, plan, dialect, tools, room_tokens) if goes else plan
        second = second or plan
        if stay == 1:
            break
    if second is not None:
        return _with_excerpt(context, second, dialect, tools, room_tokens)
    raise ContextFull(_what_takes_room(context, dialect, tools, room_tokens, claim, reserve_tokens))


def answer_claim(context: AgentContext, room_tokens: int) -> int:
    """The tokens that an answer must have room for."""
    return min(context.job.sampling.max_tokens, max(1, room_tokens // 2))


def reductions(
    context: AgentContext, tools: Sequence[ToolSpec], *, most: int, least: int
) -> Iterator[Fold]:
    """Ways to make a context shorter, each shorter than the one before: from `most` rounds in full
    down to `least`, then these cut short, and at last the ledger with them."""
    changed = ledger.changing(tools)
    rounds = told_in_full(context)
    least = min(least, len(rounds))
    before = context.execution.memory.through
    through = before
    for kept in range(max(least, min(most, len(rounds))), least - 1, -1):
        through = rounds[-kept - 1].number if kept < len(rounds) else before
        if kept == 0:
            through = rounds[-1].number if rounds else before
        yield Fold(through=through, changed=changed)
    if least:
        for results in _RESULTS:
            yield Fold(through=through, changed=changed, results=results)
    for rest, ledger_bytes in _LEAST:
        yield Fold(
            through=through, changed=changed, results=rest, rest=rest, ledger_bytes=ledger_bytes
        )


def _with_excerpt(
    context: AgentContext,
    fold: Fold,
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    room_tokens: int,
) -> Fold:
    """The fold with as long an excerpt as the model that sums up has room for."""
    for excerpt in _EXCERPTS:
        plan = replace(fold, excerpt=excerpt)
        prompt = dialect.prompt(summary_turns(context, plan), tools)
        if prompt.tokens + fold.answer_tokens <= room_tokens:
            return plan
    return fold


def _going(context: AgentContext, fold: Fold) -> tuple[Round, ...]:
    return tuple(this for this in told_in_full(context) if this.number <= fold.through)


def summary_turns(context: AgentContext, fold: Fold) -> tuple[Turn, ...]:
    """What a model is asked in order to sum up the rounds that go, with the summary of those that
    went before. The plan has room for it with the job's tools in the prompt, too: with them its
    beginning is that of the conversation, for the prefix cache."""
    text = summary_text(context, _going(context, fold), fold.excerpt or _EXCERPTS[-1])
    system = context.job.system
    return (*([Told("system", system)] if system.strip() else []), Told("user", text))


def folded(context: AgentContext, fold: Fold, summary: str | None) -> AgentContext:
    """The context without the rounds that go. `summary` is what a model made of them; for None, or
    what can't be a summary, there is one made from the record. Each call of a round that goes has
    its entry in the ledger, or is counted in `ledger_dropped`."""
    text = usable(summary) if summary is not None else None
    going = _going(context, fold)
    if text is None and going:
        # As long as one by a model may be, a token being a character or more.
        room = min(SUMMARY_CHARS, fold.answer_tokens or SUMMARY_CHARS)
        text = plain_summary(context.execution.memory, going, room)
    return _carried_out(context, fold, text)


def _carried_out(context: AgentContext, fold: Fold, summary: str | None) -> AgentContext:
    execution = context.execution
    memory = execution.memory
    going = _going(context, fold)
    entries = tuple(entry for this in going for entry in ledger.entries(this))
    kept, gone = ledger.bounded(
        (*memory.ledger, *entries), fold.changed, max_bytes=fold.ledger_bytes
    )
    text = (summary or "") if going else memory.summary
    if fold.rest is not None:
        text = shortened(text, max(fold.rest, fold.answer_tokens))
    memory = Memory(
        summary=text,
        ledger=kept,
        through=max(memory.through, fold.through),
        ledger_dropped=memory.ledger_dropped + gone,
    )
    rounds = tuple(
        shorter_round(this, results=fold.results, said=fold.rest, arguments=fold.rest)
        for this in execution.rounds
        if this.number > memory.through
    )
    return replace(context, execution=replace(execution, memory=memory, rounds=rounds))


def _what_takes_room(
    context: AgentContext,
    dialect: Dialect,
    tools: Sequence[ToolSpec],
    room_tokens: int,
    claim: int,
    reserve_tokens: int,
) -> str:
    job = context.job

    def length(turns: Sequence[Turn], told: Sequence[ToolSpec] = ()) -> int:
        return dialect.prompt(turns, told).tokens

    task: list[Turn] = [Told("user", job.task)]
    first: list[Turn] = [Told("system", job.system), *task] if job.system.strip() else task
    memory = memory_text(context, tools, room_tokens)
    known: list[Turn] = first if memory is None else [*first, Told("user", memory)]
    parts = {
        "task": length(task),
        "system": length(first) - length(task),
        "tools": length(first, tools) - length(first),
        "memory": length(known) - length(first),
        "rounds": length(conversation(context, tools, room_tokens=room_tokens)) - length(known),
        "answer": claim,
        "reserve": reserve_tokens,
    }
    told = ", ".join(f"{name} {max(0, tokens):,}" for name, tokens in parts.items() if tokens > 0)
    return (
        f"The conversation does not fit the model's context of {room_tokens:,} tokens, however far "
        f"it is cut short. Before that it takes: {told}."
    )
