"""The trace that a job belongs to (W3C trace context), where the backend that publishes traces."""

import importlib.util
from functools import cache


def current_traceparent() -> str | None:
    """The trace context of the caller, as OpenTelemetry has it; None where there is none, or the
    backend does not use it. Nothing of it is loaded that the backend has not."""
    if not _is_traced():
        return None
    from opentelemetry import trace  # noqa: PLC0415  an extra

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


@cache
def _is_traced() -> bool:
    # Importing takes half a tenth of a second, so not with the producer.
    try:
        return importlib.util.find_spec("opentelemetry.trace") is not None
    except ModuleNotFoundError:
        return False
