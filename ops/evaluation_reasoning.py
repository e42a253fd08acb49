"""The reasoning guard against labelled traces: what a cut saves, and what it costs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec

from ..guards.gate import Gate, Step
from ..guards.profiles import Profile
from ..guards.reasoning.guard import reasoning_cap, reasoning_gates
from ..schemas.reasoning import Effort
from .evaluation import Judged, Labelled, judge, ninth
from .intervals import percent

_START: Final = "<think>"
_END: Final = "</think>"
# Tokens behind the onset that a loop should be found within.
SOON: Final = 256
# Tokens of a round that is short. A loop shows with its third copy: a long one can't do so soon.
SHORT: Final = 64
# No text is so long, whatever staleness costs.
_NO_CAP: Final = 1 << 40


class Cut(NamedTuple):
    """A trace that was judged: how many `tokens` it has in all, and where it was cut, if it was:
    at token `kept`, the finding's onset. `lost`: tokens before the onset of the loop that the cut
    takes along, for a good trace all that were written before the finding; `left`: tokens of the
    loop that stay. None where that is not known."""

    judged: Judged
    tokens: int
    kept: int | None = None
    lost: int | None = None
    left: int | None = None

    @property
    def delay(self) -> int | None:
        """Tokens from the onset to the finding, for a loop that was found."""
        return self.judged.delay[1] if self.judged.found and self.judged.delay else None


def inside(line: Labelled) -> Labelled:
    """The reasoning alone. Where the text begins with the tag it goes to the first end tag, for
    what stands behind is the answer; else an end tag at the end is left out. `token_ids` are taken
    to be those of the reasoning."""
    text, before = line.text, 0
    if line.token_ids is not None:
        return line
    if text.lstrip().startswith(_START):
        before = len(text) - len(text.lstrip()) + len(_START)
        text = text[before:].split(_END, 1)[0]
    elif text.rstrip().endswith(_END):
        text = text.rstrip().removesuffix(_END)
    onset = None if line.onset is None else max(0, line.onset - before)
    return msgspec.structs.replace(line, text=text, onset=onset)


def guard(profile: Profile, effort: Effort | None) -> Gate | None:
    """The gates as a worker would have them, fresh; None where the profile has the guard off.
    Without an effort there is no cap, and only repetition counts."""
    if profile.reasoning_mode == "off":
        return None
    cap = _NO_CAP if effort is None else reasoning_cap(profile, effort)
    return reasoning_gates(profile, cap)


def judge_reasoning(line: Labelled, steps: Sequence[Step], gate: Gate | None) -> Cut:
    """Stream one trace through the guard up to the first finding. `line` is one that `inside`
    gave, `steps` all its tokens."""
    judged = judge(line, steps, (lambda _: None) if gate is None else gate.feed)
    finding = judged.finding
    if finding is None:
        return Cut(judged, len(steps))
    kept = finding.tokens[0]
    if line.label == "good":
        return Cut(judged, len(steps), kept, judged.tokens - kept)
    if judged.delay is None:
        return Cut(judged, len(steps), kept)
    onset = judged.tokens - judged.delay[1]
    return Cut(judged, len(steps), kept, max(0, onset - kept), max(0, kept - onset))


def cuts_summary(cuts: Iterable[Cut]) -> dict[str, Any]:
    """What the cuts come to, overall and by class."""
    classes: defaultdict[str, list[Cut]] = defaultdict(list)
    for cut in cuts:
        classes[cut.judged.line.kind].append(cut)
    every = [cut for some in classes.values() for cut in some]
    return {
        **_rates(every),
        "by_class": {kind: _rates(some) for kind, some in sorted(classes.items())},
    }


def _rates(cuts: list[Cut]) -> dict[str, Any]:
    loops = [cut for cut in cuts if cut.judged.line.label == "bad"]
    found = [cut for cut in loops if cut.judged.found]
    dated = [cut for cut in loops if cut.judged.line.onset is not None]
    delays = [cut.delay for cut in found if cut.delay is not None]
    soon = sum(delay <= SOON for delay in delays)
    short = [cut for cut in dated if cut.judged.line.unit and cut.judged.line.unit <= SHORT]
    soon_short = sum(cut.delay is not None and cut.delay <= SOON for cut in short)
    saved = sum(cut.tokens - cut.judged.tokens for cut in found)
    tokens = sum(cut.tokens for cut in loops)
    harmed = [cut for cut in cuts if cut.judged.line.label == "good" and cut.kept is not None]
    return {
        "n_dated": len(dated),
        "within_256": soon,
        "within_256_share": soon / len(dated) if dated else None,
        # Of those whose round is short.
        "n_short": len(short),
        "short_within_256": soon_short,
        "short_within_256_share": soon_short / len(short) if short else None,
        "delay_tokens": _spread(delays),
        "loop_tokens": tokens,
        "tokens_saved": saved,
        "tokens_saved_share": saved / tokens if tokens else None,
        "good_thought_lost": _spread([cut.lost for cut in found if cut.lost is not None]),
        "loop_kept": _spread([cut.left for cut in found if cut.left is not None]),
        # Of good traces that were cut.
        "good_traces_cut_back_by": _spread([cut.lost for cut in harmed if cut.lost is not None]),
    }


def _spread(values: list[int]) -> dict[str, float | None]:
    return {
        "median": median(values) if values else None,
        "ninth": ninth(values),
        "most": max(values, default=None),
    }


def cuts_report(result: dict[str, Any], table: Callable[[Any], Iterator[str]]) -> Iterator[str]:
    """What the cuts come to, as lines for a person. Classes without loops are left out."""
    head = (
        "CLASS",
        "IN TIME",
        "SHORT ONES",
        "DELAY",
        "9 OF 10",
        "SAVED",
        "THOUGHT LOST",
        "LOOP KEPT",
    )
    rows: list[tuple[str, ...]] = [head]
    for kind, of in [*result["by_class"].items(), ("all", result)]:
        if not of["loop_tokens"]:
            continue
        delay = of["delay_tokens"]
        rows.append(
            (
                kind,
                percent(of["within_256_share"]),
                percent(of["short_within_256_share"]),
                _tokens(delay["median"]),
                _tokens(delay["ninth"]),
                percent(of["tokens_saved_share"]),
                _two(of["good_thought_lost"]),
                _two(of["loop_kept"]),
            )
        )
    if len(rows) == 1:
        return
    yield from table(rows)
    yield ""
    yield f"IN TIME: found within {SOON} tokens of the onset, of all loops whose onset is given."
    yield f"SHORT ONES: the same of those whose round, `unit`, has {SHORT} tokens or fewer."
    yield "SAVED: tokens behind the finding, of all tokens of the traces that loop."
    yield "THOUGHT LOST, LOOP KEPT: tokens before and behind the onset; median and 9 of 10."


def _tokens(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _two(spread: dict[str, float | None]) -> str:
    return f"{_tokens(spread['median'])}, {_tokens(spread['ninth'])}"
