"""What Prometheus knows of a time span, for a report: rates, latencies, trips, retries."""

import base64
import http.client
import math
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from msgspec import Struct
from yarl import URL

from .report_charts import counts, lines, seconds
from .report_html import esc, section, table

TIMEOUT_S: Final = 20.0
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_SAID_CHARS: Final = 400
_POINTS: Final = 120
_LEAST_STEP_S: Final = 15
_SERIES_SHOWN: Final = 6
_QUANTILES: Final = (0.5, 0.95, 0.99)
_LATENCIES: Final = {
    "queue": "sluice_queued_seconds",
    "first token": "sluice_first_token_seconds",
    "engine": "sluice_engine_seconds",
    "end to end": "sluice_end_to_end_seconds",
    "gates, per token": "sluice_gate_seconds",
}
_TOTALS: Final = (
    ("Trips by level", "level", "sluice_gate_trips_total", "level"),
    ("Trips by flaw", "flaw", "sluice_gate_trips_total", "flaw"),
    ("Trips by action", "action", "sluice_gate_trips_total", "action"),
    ("Tokens by kind", "kind", "sluice_tokens_total", "kind"),
    ("Retries by reason", "reason", "sluice_retries_total", "reason"),
    ("Dead letters by reason", "reason", "sluice_dead_letters_total", "reason"),
    ("Verdicts", "outcome", "sluice_verdicts_total", "outcome"),
)


class NoPrometheus(Exception):
    """It can't be asked; the message says why, without any credentials."""


class Window(Struct, frozen=True):
    """A time span with two ends."""

    since: datetime
    until: datetime

    @property
    def seconds(self) -> int:
        """How long it is, a minute at least."""
        return max(60, math.ceil((self.until - self.since).total_seconds()))

    @property
    def step_s(self) -> int:
        """Between two points of a chart."""
        return max(_LEAST_STEP_S, math.ceil(self.seconds / _POINTS))


class _Series(Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _Data(Struct):
    result: list[_Series]


class _Answer(Struct):
    status: str
    data: _Data | None = None
    error: str = ""


class Told(Struct, frozen=True, kw_only=True):
    """What was told, by title. Rates and quantiles over time are lists of (Unix seconds, value)."""

    window: Window
    rates: dict[str, list[tuple[float, float]]]
    latencies: dict[str, tuple[float, float, float]]
    latency_lines: dict[str, list[tuple[float, float]]]
    totals: dict[str, dict[str, int]]


def ask(url: str, window: Window) -> Told:
    """Everything that the report shows. Blocks: some twenty questions, each within a time limit.
    `url` may hold user and password. Raises NoPrometheus."""
    client = _Client(url)
    step_s = window.step_s
    # A rate needs several scrapes, whatever the step.
    over = max(4 * step_s, 120)
    rates = client.range(f"60*sum by (outcome) (rate(sluice_results_total[{over}s]))", window)
    latencies: dict[str, tuple[float, float, float]] = {}
    for name, metric in _LATENCIES.items():
        values = [
            client.instant(
                f"histogram_quantile({share}, sum by (le) "
                f"(increase({metric}_bucket[{window.seconds}s])))",
                window,
            ).get("", math.nan)
            for share in _QUANTILES
        ]
        if all(map(math.isfinite, values)):
            latencies[name] = (values[0], values[1], values[2])
    lines_ = {
        f"P{share * 100:.0f}": points
        for share in _QUANTILES
        for points in client.range(
            f"histogram_quantile({share}, sum by (le) "
            f"(rate(sluice_end_to_end_seconds_bucket[{over}s])))",
            window,
        ).values()
    }
    return Told(
        window=window,
        rates=dict(list(rates.items())[:_SERIES_SHOWN]),
        latencies=latencies,
        latency_lines=lines_,
        totals={
            title: _whole(
                client.instant(f"sum by ({label}) (increase({metric}[{window.seconds}s]))", window)
            )
            for title, _, metric, label in _TOTALS
        },
    )


def html_of(told: Told) -> str:
    """The sections of the page."""
    rows = [(esc(name), *map(seconds, quantiles)) for name, quantiles in told.latencies.items()]
    latency = (
        table(("", "P50", "P95", "P99"), rows, numbers=(1, 2, 3))
        if rows
        else '<p class="soft">Nothing in this time.</p>'
    )
    note = (
        '<p class="soft">From Prometheus: quantiles are read off the buckets of histograms, totals '
        "are estimated from scrapes, so whole numbers are about right.</p>"
    )
    totals = "".join(
        f"<h3>{esc(title)}</h3>{counts(label, told.totals[title])}" for title, label, *_ in _TOTALS
    )
    return "".join(
        (
            section(
                "prometheus-rates",
                "Results a minute, from Prometheus",
                lines("Results a minute, by outcome", told.rates) + note,
            ),
            section(
                "prometheus-latency",
                "Latency, from Prometheus",
                latency
                + "<h3>End to end over time</h3>"
                + lines("End to end, seconds", told.latency_lines, unit=" s"),
            ),
            section("prometheus-totals", "Totals, from Prometheus", totals),
        )
    )


def _whole(values: Mapping[str, float]) -> dict[str, int]:
    counted = {
        name or "(none)": round(value)
        for name, value in values.items()
        if math.isfinite(value) and value >= 0.5
    }
    return dict(sorted(counted.items(), key=lambda item: -item[1]))


class _Client:
    def __init__(self, url: str) -> None:
        try:
            parsed = URL(url)
        except ValueError:
            raise NoPrometheus(_NOT_A_URL) from None
        if parsed.scheme not in ("http", "https") or not parsed.host or "@" in parsed.raw_path:
            raise NoPrometheus(_NOT_A_URL)
        self._base = str(parsed.with_user(None).with_query(None).with_fragment(None)).rstrip("/")
        self._headers: dict[str, str] = {}
        if parsed.user:
            token = base64.b64encode(f"{parsed.user}:{parsed.password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        # No redirect is followed, and no proxy asked: the credentials go where they were meant to.
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.HTTPHandler,
            urllib.request.HTTPSHandler,
            urllib.request.HTTPDefaultErrorHandler,
            urllib.request.HTTPErrorProcessor,
        ):
            self._opener.add_handler(handler())

    def range(self, query: str, window: Window) -> dict[str, list[tuple[float, float]]]:
        """Series over the window, by the values of their labels."""
        found = self._get(
            "query_range",
            query=query,
            start=window.since.timestamp(),
            end=window.until.timestamp(),
            step=window.step_s,
        )
        # What it was not asked for is no point of a chart: a time may be none of the calendar.
        first, last = window.since.timestamp(), window.until.timestamp() + window.step_s
        return {
            _name(each): [(at, _number(value)) for at, value in each.values if first <= at <= last]
            for each in found
        }

    def instant(self, query: str, window: Window) -> dict[str, float]:
        """Values at the end of the window, by the values of their labels."""
        found = self._get("query", query=query, time=window.until.timestamp())
        return {_name(each): _number(each.value[1]) for each in found if each.value is not None}

    def _get(self, path: str, **parameters: Any) -> list[_Series]:
        request = urllib.request.Request(  # noqa: S310  http and https alone
            f"{self._base}/api/v1/{path}?{urlencode(parameters)}", headers=self._headers
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                body = answer.read(MAX_ANSWER_BYTES)
            found = msgspec.json.decode(body, type=_Answer)
        except urllib.error.HTTPError as error:
            with error:
                said = re.sub(r"\s+", " ", error.read(_SAID_CHARS).decode(errors="replace"))
            raise NoPrometheus(f"{self._base} answered {error.code}: {said}") from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)
            raise NoPrometheus(f"{self._base} can't be reached: {why}") from None
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise NoPrometheus(f"{self._base} is no Prometheus") from None
        if found.status != "success" or found.data is None:
            said = re.sub(r"\s+", " ", found.error or found.status)[:_SAID_CHARS]
            raise NoPrometheus(f"{self._base} answered: {said}")
        return found.data.result


def _name(series: _Series) -> str:
    return ", ".join(series.metric.values())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


_NOT_A_URL: Final = (
    "the address of Prometheus must look like http://host:9090, with user:password@ before the "
    "host where it wants a login, and each of : / ? # @ in that percent-encoded"
)
