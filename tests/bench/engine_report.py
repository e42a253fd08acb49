"""What the engine's turns come to, and how it is shown. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from .report import Spread

PLAIN = "plain"
GATED = "gated"


class BenchFailed(Exception):
    """A turn did not end as it must."""


class EngineTurn(Struct, frozen=True, kw_only=True):
    """One contender's run of `concurrency` requests at once. `tokens` are those delivered."""

    contender: str
    round: int
    concurrency: int
    tokens: int
    wall_s: float
    texts: tuple[str, ...]
    trips: int = 0
    wasted_tokens: int = 0

    @property
    def rate(self) -> float:
        """Tokens delivered per second."""
        return self.tokens / self.wall_s


class EngineLine(Struct, frozen=True, kw_only=True):
    """One concurrency. Rates in tokens per second; `ratio` is gated against plain in the same
    round. `same_texts`: the share of texts that both made alike; less than all of them where the
    order of additions in a batch differs, or a gate tripped."""

    concurrency: int
    plain: Spread
    gated: Spread
    ratio: Spread
    trips: int
    wasted_tokens: int
    same_texts: float


class RollbackTurn(Struct, frozen=True, kw_only=True):
    """Going back `back` tokens in an answer of `tokens`, three ways. Seconds to the first new
    token: resumed with the prefix cache, resumed without reading it, and generated again from the
    prompt, up to that token."""

    prompt_tokens: int
    tokens: int
    back: int
    cached_tokens: int
    resumed_s: float
    uncached_s: float
    again_s: float


class RollbackLine(Struct, frozen=True, kw_only=True):
    """The cost of one rollback. Milliseconds, and tokens of the prompt that was sent."""

    tokens: int
    back: int
    prompt_tokens: Spread
    cached_tokens: Spread
    resumed_ms: Spread
    uncached_ms: Spread
    again_ms: Spread


class Place(Struct, frozen=True, kw_only=True):
    """Where it was measured. `load` is the load average, over a minute, before the first turn."""

    cpu: str
    cpus: int
    system: str
    load: float
    model: str
    device: str
    libraries: dict[str, str]


class EngineReport(Struct, frozen=True, kw_only=True):
    """Everything, as `--json` prints it."""

    rounds: int
    max_tokens: int
    profile: str
    place: Place
    lines: list[EngineLine]
    rollback: RollbackLine
    turns: list[EngineTurn]
    rollbacks: list[RollbackTurn]


def engine_lines(turns: Sequence[EngineTurn]) -> list[EngineLine]:
    """A line for each concurrency, in the order in which they first ran. Every round must have both
    contenders."""
    return [
        _line([turn for turn in turns if turn.concurrency == concurrency])
        for concurrency in dict.fromkeys(turn.concurrency for turn in turns)
    ]


def _line(turns: Sequence[EngineTurn]) -> EngineLine:
    plain = {turn.round: turn for turn in turns if turn.contender == PLAIN}
    gated = {turn.round: turn for turn in turns if turn.contender == GATED}
    pairs = [(plain[number], gated[number]) for number in plain]
    alike = [
        one == other
        for left, right in pairs
        for one, other in zip(left.texts, right.texts, strict=True)
    ]
    return EngineLine(
        concurrency=turns[0].concurrency,
        plain=Spread.of([left.rate for left, _ in pairs]),
        gated=Spread.of([right.rate for _, right in pairs]),
        ratio=Spread.of([right.rate / left.rate for left, right in pairs]),
        trips=sum(right.trips for _, right in pairs),
        wasted_tokens=sum(right.wasted_tokens for _, right in pairs),
        same_texts=sum(alike) / len(alike),
    )


def rollback_line(turns: Sequence[RollbackTurn]) -> RollbackLine:
    """Over all rounds, of which there is at least one."""

    def spread(values: Iterator[float]) -> Spread:
        return Spread.of(list(values))

    return RollbackLine(
        tokens=turns[0].tokens,
        back=turns[0].back,
        prompt_tokens=spread(turn.prompt_tokens for turn in turns),
        cached_tokens=spread(turn.cached_tokens for turn in turns),
        resumed_ms=spread(1000 * turn.resumed_s for turn in turns),
        uncached_ms=spread(1000 * turn.uncached_s for turn in turns),
        again_ms=spread(1000 * turn.again_s for turn in turns),
    )


def engine_tables(report: EngineReport) -> Iterator[str]:
    """The report for people, in Markdown, line by line."""
    yield (
        f"{report.rounds} rounds, at most {report.max_tokens} tokens a request, profile "
        f"{report.profile}. Median (least to most) over the rounds."
    )
    yield ""
    yield "| requests at once | plain, tokens/s | gated, tokens/s | ratio | trips | same texts |"
    yield "|---|---|---|---|---|---|"
    for line in report.lines:
        cells = (
            str(line.concurrency),
            _shown(line.plain, 1),
            _shown(line.gated, 1),
            _shown(line.ratio, 3),
            f"{line.trips}, {line.wasted_tokens} tokens wasted",
            f"{line.same_texts:.0%}",
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield (
        "Plain is `AsyncLLM.generate` as its users call it, text made by vLLM. Gated is a session "
        "with all streaming gates, its own text, checkpoints and streamed deltas. Both run in one "
        "process on one engine, which has the gates' plug-in loaded; plain requests don't use it."
    )
    yield ""
    back = report.rollback
    yield f"Going back {back.back} tokens in an answer of {back.tokens}, to the first new token:"
    yield ""
    yield "| | ms | tokens sent | read from the cache |"
    yield "|---|---|---|---|"
    sent = _shown(back.prompt_tokens, 0)
    yield f"| rollback | {_shown(back.resumed_ms, 0)} | {sent} | {_shown(back.cached_tokens, 0)} |"
    yield f"| rollback, cache not read | {_shown(back.uncached_ms, 0)} | {sent} | 0 |"
    yield f"| generated again from the prompt | {_shown(back.again_ms, 0)} | | |"
    yield ""
    place = report.place
    yield (
        f"{place.model} on {place.device}; {place.cpus} CPUs ({place.cpu}), {place.system}; load "
        f"average before: {place.load:g}."
    )
    yield ", ".join(f"{name} {number}" for name, number in place.libraries.items()) + "."


def _shown(spread: Spread, digits: int) -> str:
    low, middle, high = (f"{each:.{digits}f}" for each in (spread.min, spread.median, spread.max))
    return f"{middle} ({low}–{high})"
