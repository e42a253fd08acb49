"""The client a backend installs: publish generation jobs, await results, follow events.

    from sluicegate.producer import GenerationJob, Producer

    async with Producer("amqp://user:password@localhost/") as producer:
        handle = await producer.publish(GenerationJob(prompt="Why is the sky blue?"))
        result = await handle.result(timeout=60)
        print(result.text if result.ok else result.outcome)

`BlockingProducer` is the same for code without an event loop. Nothing here needs torch or vLLM.
"""

from ..schemas import (
    Accepted,
    Cancelled,
    ChatMessage,
    Completed,
    Delta,
    Expired,
    Failed,
    Finished,
    GenerationJob,
    GenerationResult,
    Interrupted,
    InvalidMessage,
    JobEvent,
    Judged,
    Lane,
    Outcome,
    Reason,
    Reasoned,
    Reasoning,
    ReasoningRecord,
    Rejected,
    Retrying,
    Rules,
    Sampling,
    SluiceError,
    StructuredOutput,
    Timings,
    Usage,
    Verdict,
    content_id,
    new_id,
)
from .blocking import BlockingHandle, BlockingProducer
from .errors import (
    AccessRefused,
    BrokerError,
    BrokerUnreachable,
    ForkedProducer,
    ProducerClosed,
    PublishLost,
    PublishManyFailed,
    QueueFull,
    ResultTimeout,
    ResultUnreadable,
    TopologyConflict,
    TopologyMissing,
    Unroutable,
)
from .handle import Handle
from .producer import Producer
from .watching import watch

__all__ = [
    "Accepted",
    "AccessRefused",
    "BlockingHandle",
    "BlockingProducer",
    "BrokerError",
    "BrokerUnreachable",
    "Cancelled",
    "ChatMessage",
    "Completed",
    "Delta",
    "Expired",
    "Failed",
    "Finished",
    "ForkedProducer",
    "GenerationJob",
    "GenerationResult",
    "Handle",
    "Interrupted",
    "InvalidMessage",
    "JobEvent",
    "Judged",
    "Lane",
    "Outcome",
    "Producer",
    "ProducerClosed",
    "PublishLost",
    "PublishManyFailed",
    "QueueFull",
    "Reason",
    "Reasoned",
    "Reasoning",
    "ReasoningRecord",
    "Rejected",
    "ResultTimeout",
    "ResultUnreadable",
    "Retrying",
    "Rules",
    "Sampling",
    "SluiceError",
    "StructuredOutput",
    "Timings",
    "TopologyConflict",
    "TopologyMissing",
    "Unroutable",
    "Usage",
    "Verdict",
    "content_id",
    "new_id",
    "watch",
]
