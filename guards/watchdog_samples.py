"""What of a round the watchdog is shown."""

from collections.abc import Mapping
from datetime import datetime

from ..schemas.agents import Round, RoundSample
from ..schemas.limits import MAX_SUMMARY_CHARS
from ..schemas.tools import ToolSpec
from .signatures import call_sample
from .watchdog_thresholds import Watchdog


def round_sample(
    done: Round,
    specs: Mapping[str, ToolSpec],
    rules: Watchdog,
    *,
    at: datetime,
    whole_s: float | None = None,
    called_at: Mapping[str, datetime] | None = None,
) -> RoundSample:
    """The sample of a round whose calls are closed. `specs`: the tools by name. `at`: when it
    ended. `whole_s`: seconds since its job was published, waiting and all, which count only without
    the switch `from_admission`. `called_at`: when a call was made, by effect id, where that is
    known."""
    times = called_at or {}
    usage = done.usage
    wall_s = done.engine_s + done.tools_s
    if not rules.from_admission and whole_s is not None:
        wall_s = whole_s
    return RoundSample(
        number=done.number,
        at=at,
        tokens=usage.prompt_tokens + usage.completion_tokens + usage.wasted_tokens,
        wall_s=wall_s,
        prose=(done.prose if rules.prose_only else done.said)[:MAX_SUMMARY_CHARS],
        calls=tuple(
            call_sample(
                call,
                specs.get(call.name),
                times.get(call.effect_id, at),
                noise=not rules.noise_is_nothing,
            )
            for call in done.calls
        ),
        failed=done.failure is not None,
    )
