"""Spans of what was done, for OpenTelemetry: made of the records when it is over.

Each attempt, check and step of an agent is a child of the span that published the job, so that one
trace shows the whole way of it, in order, whoever did which part. The job stays as it was asked: it
carries the publisher's context and no other. No text is in a span.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from ..schemas import AgentContext, GenerationJob, Verdict
from .config import Config, ConfigError
from .endings import Report

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

log = logging.getLogger(__name__)

_LAST_WAIT_S: Final = 2.0
_SEND_S: Final = 2.0
_NANO: Final = 1_000_000_000
# As far as a signed number of nanoseconds goes: the year 2262.
_LAST_NANO: Final = 2**63 - 1
Value = str | int | float | bool


class Tracing:
    """Where spans go: nowhere, until `start`."""

    def __init__(self) -> None:
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None
        self._users = 0

    def start(self, config: Config, kind: str, name: str) -> None:
        """Send spans to the endpoint of the configuration, if it names one, from a thread of its
        own. Raises ConfigError where what that takes is not installed."""
        self._users += 1
        if not config.traces_endpoint or self._provider is not None:
            return
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
                OTLPSpanExporter,
            )
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(
                f"traces_endpoint: {error}; pip install 'sluicegate[traces]'"
            ) from error
        resource = Resource.create({"service.name": f"sluice-{kind}", "service.instance.id": name})
        # The default sampler follows the publisher: what it does not sample is not sent.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=config.traces_endpoint, timeout=_SEND_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("sluicegate")
        log.info("spans go to %s", config.traces_endpoint.partition("?")[0])

    async def close(self) -> None:
        """Send what is left, for a few seconds at most, once nobody in this process needs it."""
        self._users -= 1
        if self._users:
            return
        provider, self._provider, self._tracer = self._provider, None, None
        if provider is not None:
            try:
                async with asyncio.timeout(_LAST_WAIT_S):
                    await asyncio.to_thread(provider.force_flush, int(_LAST_WAIT_S * 1000))
            except TimeoutError:
                log.warning("some spans could not be sent")
            await asyncio.to_thread(provider.shutdown)

    def attempt(self, job: GenerationJob, report: Report, kind: str) -> None:
        """An attempt at a text, with what its gates found as events. `kind`: what came of it."""
        record = report.record
        if self._tracer is None or record.ended_at is None:
            return
        usage = record.usage
        self._span(
            "generate",
            job.traceparent,
            record.started_at,
            record.ended_at,
            {
                "messaging.system": "rabbitmq",
                "messaging.message.conversation_id": job.id,
                "gen_ai.request.model": record.model,
                "gen_ai.usage.input_tokens": usage.prompt_tokens,
                "gen_ai.usage.output_tokens": usage.completion_tokens,
                "sluice.attempt": record.attempt,
                "sluice.lane": job.lane,
                "sluice.outcome": kind,
                "sluice.segments": len(record.segments),
                "sluice.wasted_tokens": usage.wasted_tokens,
                "sluice.engine_s": report.timings.engine_s,
            },
            events=[
                (
                    f"gate {trip.gate}",
                    {
                        "sluice.flaw": trip.flaw.value,
                        "sluice.level": int(trip.level),
                        "sluice.action": trip.action,
                        "sluice.token": trip.tokens[0],
                        "sluice.kept": trip.kept,
                    },
                )
                for trip in record.trips
            ],
            failed=kind in ("failed", "rejected", "expired"),
        )

    def check(self, job: GenerationJob, verdict: Verdict, attempt: int) -> None:
        """A look at a whole text, with the checks that were not content as events."""
        ended = verdict.at.timestamp()
        self._span(
            "check",
            job.traceparent,
            ended - verdict.seconds,
            ended,
            {
                "messaging.system": "rabbitmq",
                "messaging.message.conversation_id": job.id,
                "sluice.attempt": attempt,
                "sluice.mode": job.checks,
                "sluice.verdict": verdict.outcome,
            },
            events=[
                (
                    f"check {each.check.partition(':')[0]}",
                    {"sluice.flaw": each.flaw.value if each.flaw is not None else ""},
                )
                for each in verdict.checks
                if each.outcome in ("rejected", "failed")
            ],
            failed=verdict.outcome == "rejected",
        )

    def step(self, context: AgentContext, took_s: float) -> None:
        """A step of an agent job that has just ended, as `context` stood before it."""
        phase, ended = context.orchestration.phase, time.time()
        self._span(
            f"agent {phase}",
            context.job.traceparent,
            ended - took_s,
            ended,
            {
                "messaging.system": "rabbitmq",
                "messaging.message.conversation_id": context.id,
                "sluice.phase": phase,
                "sluice.round": len(context.execution.rounds),
            },
        )

    def _span(
        self,
        name: str,
        traceparent: str | None,
        began: datetime | float,
        ended: datetime | float,
        attributes: Mapping[str, Value],
        *,
        events: list[tuple[str, dict[str, Value]]] | None = None,
        failed: bool = False,
    ) -> None:
        if self._tracer is None:
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        carrier = {"traceparent": traceparent} if traceparent else {}
        span = self._tracer.start_span(
            name,
            context=TraceContextTextMapPropagator().extract(carrier),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            start_time=_nanoseconds(began),
        )
        for event, details in events or ():
            span.add_event(event, details, timestamp=_nanoseconds(ended))
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=_nanoseconds(ended))


# Of this process, as the metrics are.
TRACING: Final = Tracing()


def _nanoseconds(moment: datetime | float) -> int:
    seconds = moment.timestamp() if isinstance(moment, datetime) else moment
    # A progress that somebody made up may begin at any time, and what can't be encoded takes the
    # spans of other jobs with it.
    return max(0, min(int(seconds * _NANO), _LAST_NANO))
