"""One trace shows the whole way of a job: sent by services over HTTP, read as a collector does."""

import asyncio
import threading
from collections.abc import Generator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from sluicegate.producer import Producer
from sluicegate.producer.tracing import current_traceparent
from sluicegate.schemas import GenerationJob, GenerationResult, Rules, Sampling
from sluicegate.worker import tracing
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.engine import Segment
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker

from .killed import ActingScorer

pytestmark = pytest.mark.broker


class Collector(ThreadingHTTPServer):
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[tuple[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/traces"


class _Handler(BaseHTTPRequestHandler):
    server: Collector  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            (service,) = (
                each.value.string_value
                for each in resource.resource.attributes
                if each.key == "service.name"
            )
            for scope in resource.scope_spans:
                self.server.spans += [(service, span) for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        del format, args


@pytest.fixture
def collector() -> Generator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def script(segment: Segment, _prompt: str) -> str:
    """What the rule wants, at the second attempt alone."""
    attempt = segment.request_id.split(":")[1]
    return "The first try says little." if attempt == "1" else "The second says Paris, at last."


async def test_a_job_that_is_retried_is_one_trace(
    collector: Collector, broker_url: str, namespace: str
) -> None:
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        traces_endpoint=collector.url,
    )
    worker = Worker(config, ScriptedEngine(script))
    checker = Checker(config, ActingScorer(harmless=True))
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("backend")
    result: GenerationResult | None = None
    running = [asyncio.create_task(worker.run()), asyncio.create_task(checker.run())]
    try:
        async with Producer(broker_url, namespace=namespace) as producer:
            with tracer.start_as_current_span("request") as request:
                handle = await producer.publish(
                    GenerationJob(
                        prompt="Where?",
                        checks="block",
                        rules=Rules(must_include=("Paris",)),
                        sampling=Sampling(max_tokens=64),
                    )
                )
            result = await handle.result(timeout=60)
    finally:
        worker.stop()
        checker.stop()
        await asyncio.gather(*running)
    assert result.ok
    assert result.attempt == 2
    told = request.get_span_context()
    trace_id, span_id = f"{told.trace_id:032x}", f"{told.span_id:016x}"
    assert result.traceparent == f"00-{trace_id}-{span_id}-{told.trace_flags:02x}"
    spans = sorted(
        (span for _, span in collector.spans), key=lambda each: each.start_time_unix_nano
    )
    assert [each.name for each in spans] == ["generate", "check", "generate", "check"]
    assert {each.trace_id.hex() for each in spans} == {trace_id}
    assert {each.parent_span_id.hex() for each in spans} == {span_id}
    assert all(each.end_time_unix_nano >= each.start_time_unix_nano for each in spans)
    attempts = [
        attribute.value.int_value
        for each in spans
        for attribute in each.attributes
        if attribute.key == "sluice.attempt"
    ]
    assert attempts == [1, 1, 2, 2]
    # The text is nobody's business but the backend's.
    assert not any(b"second says" in each.SerializeToString() for each in spans)


async def test_what_the_publisher_does_not_sample_is_not_sent(
    collector: Collector, broker_url: str, namespace: str
) -> None:
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        traces_endpoint=collector.url,
    )
    worker = Worker(config, ScriptedEngine())
    running = asyncio.create_task(worker.run())
    unsampled = f"00-{1:032x}-{2:016x}-00"
    try:
        async with Producer(broker_url, namespace=namespace) as producer:
            handle = await producer.publish(GenerationJob(prompt="x", traceparent=unsampled))
            assert (await handle.result(timeout=30)).traceparent == unsampled
    finally:
        worker.stop()
        await running
    assert collector.spans == []


async def test_a_collector_that_is_gone_is_in_nobodys_way(broker_url: str, namespace: str) -> None:
    config = Config(
        amqp_url=broker_url,
        namespace=namespace,
        engine="scripted",
        metrics_port=0,
        traces_endpoint="http://127.0.0.1:1/v1/traces",
    )
    worker = Worker(config, ScriptedEngine())
    running = asyncio.create_task(worker.run())
    async with Producer(broker_url, namespace=namespace) as producer:
        handle = await producer.publish(GenerationJob(prompt="x"))
        assert (await handle.result(timeout=30)).ok
    worker.stop()
    async with asyncio.timeout(30):
        assert await running == 0


async def test_a_span_of_any_time_takes_no_other_with_it(collector: Collector) -> None:
    """An attempt may have begun whenever a publisher says, in a progress that it made up."""
    spans = tracing.Tracing()
    spans.start(Config(traces_endpoint=collector.url), "worker", "w")
    now = datetime.now(UTC)
    for began in (datetime.min.replace(tzinfo=UTC), now, datetime.max.replace(tzinfo=UTC)):
        spans._span("generate", None, began, now, {})  # pyright: ignore[reportPrivateUsage]
    await spans.close()
    assert len(collector.spans) == 3


def test_without_a_trace_there_is_none() -> None:
    assert current_traceparent() is None
    assert not trace.get_current_span().get_span_context().is_valid


def test_what_it_takes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"sluicegate\[traces\]"):
        tracing.Tracing().start(Config(traces_endpoint="http://x/"), "worker", "w")
