"""Gates against labelled texts: what they find, what they miss, and what they harm."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from statistics import median, quantiles
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from ..guards.finding import Finding
from ..guards.gate import Step
from ..guards.output import judge_output
from ..guards.profiles import Profile, profile_names
from ..schemas import FinishReason, Rules
from .intervals import percent, wilson, with_interval


class Labelled(Struct, frozen=True, kw_only=True):
    """One line of a file to evaluate. `token_ids`, where they are known, are streamed in place of
    the text's own: a special token has no text. `onset`, where it is known, is the character that
    the fault begins with. `rules`, `finish_reason` (None: it ended by itself) and `tokens` (None:
    they are counted) are for the checks of whole texts, `unit`, the tokens of one round of a loop,
    is for reasoning."""

    id: str | int
    text: str
    label: Literal["good", "bad"]
    kind: str = msgspec.field(name="class", default="none")
    profile: str | None = None
    prompt: str | None = None
    token_ids: list[int] | None = None
    onset: int | None = None
    rules: Rules = Rules()
    finish_reason: FinishReason | None = None
    tokens: Annotated[int, Meta(ge=0)] | None = None
    unit: Annotated[int, Meta(ge=1)] | None = None


class Judged(NamedTuple):
    """What the gates said about a text: the first finding that would be acted on, the text up to
    there, and the cost. `delay` is how far behind the onset of the fault that was, in characters
    and in tokens; None where the onset is not known."""

    line: Labelled
    finding: Finding | None
    text: str
    tokens: int
    seconds: float
    delay: tuple[int, int] | None = None

    @property
    def early(self) -> bool:
        """Whether a bad text was stopped while it was still good: by luck, not by judgement."""
        return self.line.label == "bad" and self.delay is not None and self.delay[1] <= 0

    @property
    def found(self) -> bool:
        """Whether a fault was found that was there."""
        return self.line.label == "bad" and self.finding is not None and not self.early

    @property
    def wrong(self) -> bool:
        """Whether a good text was touched or a fault missed."""
        return not self.found if self.line.label == "bad" else self.finding is not None


def parse(lines: Iterable[bytes]) -> tuple[list[Labelled], list[str]]:
    """The texts of a file of JSON Lines, and what is wrong with it, by line. Blank lines are
    skipped."""
    texts: list[Labelled] = []
    problems: list[str] = []
    names = profile_names()
    for number, raw in enumerate(lines, 1):
        line = (raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw).strip()
        if not line:
            continue
        try:
            text = msgspec.json.decode(line, type=Labelled)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            problems.append(f"line {number}: {error}")
            continue
        if text.profile is not None and text.profile not in names:
            problems.append(
                f"line {number}: {text.profile!r} is no profile; there are {', '.join(names)}"
            )
            continue
        texts.append(text)
    return texts, problems


def judge(
    line: Labelled,
    steps: Iterable[Step],
    feed: Callable[[Step], Finding | None],
    thresholds: Profile | None = None,
) -> Judged:
    """Stream one text through what `feed` feeds, fresh gates, up to the first finding. With
    thresholds a text that none of them stops is judged as a whole, as one that ended by itself."""
    seen: list[str] = []
    waiting = coming = 0  # tokens since the last text, and those seen when the onset came
    seconds = 0.0
    finding = None
    for step in steps:
        seen.append(step.text)
        # A token without text belongs to the fault if no good text comes after it.
        before = line.onset is not None and step.offset + len(step.text) <= line.onset
        if before and (step.text or step.offset < (line.onset or 0)):
            coming = len(seen)
        waiting = 0 if step.text else waiting + 1
        began = time.perf_counter()
        finding = feed(step)
        seconds += time.perf_counter() - began
        if finding is not None:
            break
    text = "".join(seen)
    if finding is None and thresholds is not None:
        began = time.perf_counter()
        finding = judge_output(
            thresholds,
            text,
            tokens=len(seen),
            pending=waiting,
            finish_reason=line.finish_reason or "stop",
            structured=False,
        )
        seconds += time.perf_counter() - began
    delay = None
    if finding is not None and line.onset is not None:
        delay = (len(text) - line.onset, len(seen) - coming)
    return Judged(line, finding, text, len(seen), seconds, delay)


def summary(judged: list[Judged]) -> dict[str, Any]:
    """The whole evaluation as one JSON object."""
    classes: defaultdict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        classes[one.line.kind].append(one)
    tokens = sum(one.tokens for one in judged)
    seconds = sum(one.seconds for one in judged)
    return {
        **_rates(judged),
        "by_class": {kind: _rates(some) for kind, some in sorted(classes.items())},
        "speed": {
            "tokens": tokens,
            "seconds": round(seconds, 4),
            "microseconds_per_token": round(seconds / tokens * 1e6, 3) if tokens else None,
        },
    }


def _rates(judged: list[Judged]) -> dict[str, Any]:
    good = [one for one in judged if one.line.label == "good"]
    bad = [one for one in judged if one.line.label == "bad"]
    alarms = sum(one.finding is not None for one in good)
    found = [one for one in bad if one.found]
    findings = [one.finding for one in found if one.finding is not None]
    delays = [one.delay for one in found if one.delay is not None]
    return {
        "n_good": len(good),
        "n_bad": len(bad),
        "false_positives": alarms,
        "false_positive_rate": alarms / len(good) if good else None,
        "false_positive_interval": wilson(alarms, len(good)),
        "found": len(found),
        "recall": len(found) / len(bad) if bad else None,
        "recall_interval": wilson(len(found), len(bad)),
        # Stopped before the fault began: no find.
        "early": sum(one.early for one in bad),
        # By the gates: where the faults begin, and by where they are seen, in characters.
        "median_onset": median(one.chars[0] for one in findings) if findings else None,
        "median_found_at": median(len(one.text) for one in found) if found else None,
        # Against the onset that the file gives.
        "median_delay_chars": median(chars for chars, _ in delays) if delays else None,
        "median_delay_tokens": median(tokens for _, tokens in delays) if delays else None,
        "delay_tokens_90": ninth([tokens for _, tokens in delays]),
        "found_by": _by_gate(findings),
        "false_positives_by": _by_gate(one.finding for one in good if one.finding is not None),
    }


def ninth(values: list[int]) -> float | None:
    """What nine of ten are not above; None for no values."""
    if len(values) < 2:
        return values[0] if values else None
    return quantiles(values, n=10, method="inclusive")[8]


def _by_gate(findings: Iterable[Finding]) -> dict[str, int]:
    return dict(Counter(f"{one.gate}: {one.flaw.value}" for one in findings).most_common())


def mistakes(judged: Iterable[Judged]) -> Iterator[dict[str, Any]]:
    """Misses and false alarms, in order, each with the span marked."""
    for one in judged:
        if not one.wrong:
            continue
        finding = one.finding
        yield {
            "id": one.line.id,
            "label": one.line.label,
            "class": one.line.kind,
            "mistake": mistake(one),
            "flaw": finding.flaw.value if finding else None,
            "chars": finding.chars if finding else None,
            "detail": finding.detail if finding else None,
            "text": marked(one.text, finding.chars if finding else None),
        }


def mistake(one: Judged) -> str:
    """What kind of one it is."""
    if one.line.label == "good":
        return "false alarm"
    return "too early" if one.early else "miss"


def marked(text: str, span: tuple[int, int] | None, around: int = 60) -> str:
    """A piece of the text in one line with the span in ⟦brackets⟧; long ones lose their middle."""
    if span is None:
        return _short(text, 2 * around)
    start, end = span
    before, after = text[max(0, start - around) : start], text[end : end + around]
    return f"{_line(before)}⟦{_short(text[start:end], 2 * around)}⟧{_line(after)}"


def _short(text: str, length: int) -> str:
    if len(text) <= length:
        return _line(text)
    half = length // 2
    return f"{_line(text[:half])} … {_line(text[-half:])}"


def _line(text: str) -> str:
    """Nothing that would upset a terminal."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def report(result: dict[str, Any], table: Callable[[Any], Iterator[str]]) -> Iterator[str]:
    """The result as lines for a person."""
    rows = [("CLASS", "GOOD", "FALSE", "BAD", "FOUND", "RECALL", "FOUND AT", "AFTER ONSET", "BY")]
    for kind, of in [*result["by_class"].items(), ("all", result)]:
        by = ", ".join(f"{gate} {count}" for gate, count in of["found_by"].items())
        alarms = ", ".join(f"{gate} {count}" for gate, count in of["false_positives_by"].items())
        rows.append(
            (
                kind,
                str(of["n_good"]),
                str(of["false_positives"]),
                str(of["n_bad"]),
                str(of["found"]),
                percent(of["recall"]),
                _whole(of["median_found_at"]),
                _after(of),
                by or (f"false: {alarms}" if alarms else "-"),
            )
        )
    yield from table(rows)
    yield ""
    yield f"recall               {with_interval(result['recall'], result['recall_interval'])}"
    rate = with_interval(result["false_positive_rate"], result["false_positive_interval"])
    yield f"false positive rate  {rate}"
    speed = result["speed"]
    cost = speed["microseconds_per_token"]
    shown = "-" if cost is None else f"{cost:.1f}"
    yield f"speed                {shown} µs a token over {speed['tokens']} tokens"


def _after(of: dict[str, Any]) -> str:
    """How far behind the onset, by the median."""
    if of["median_delay_chars"] is None:
        return "-"
    return f"{_whole(of['median_delay_chars'])} ch, {_whole(of['median_delay_tokens'])} tok"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
