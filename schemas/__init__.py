"""Every message on the wire, its limits and codec, and the topology of the broker as data."""

from .codec import CONTENT_TYPE, Message, decode, encode, peek
from .control import CancelJob
from .dead_letters import DeadLetter, Origin
from .errors import InvalidMessage, SluiceError
from .events import Accepted, Delta, Finished, Interrupted, JobEvent
from .flaws import Flaw, Level
from .ids import content_id, new_id
from .jobs import ChatMessage, GenerationJob, Lane
from .lineage import AttemptRecord, FinishReason, Lineage, SegmentRecord, TripRecord
from .reasons import Reason
from .results import (
    Cancelled,
    Completed,
    Expired,
    Failed,
    GenerationResult,
    Outcome,
    Rejected,
    Timings,
    Usage,
)
from .sampling import Sampling, StructuredOutput
from .topology import Names, Topology, reply, topology
from .version import SCHEMA_VERSION

__all__ = [
    "CONTENT_TYPE",
    "SCHEMA_VERSION",
    "Accepted",
    "AttemptRecord",
    "CancelJob",
    "Cancelled",
    "ChatMessage",
    "Completed",
    "DeadLetter",
    "Delta",
    "Expired",
    "Failed",
    "FinishReason",
    "Finished",
    "Flaw",
    "GenerationJob",
    "GenerationResult",
    "Interrupted",
    "InvalidMessage",
    "JobEvent",
    "Lane",
    "Level",
    "Lineage",
    "Message",
    "Names",
    "Origin",
    "Outcome",
    "Reason",
    "Rejected",
    "Sampling",
    "SegmentRecord",
    "SluiceError",
    "StructuredOutput",
    "Timings",
    "Topology",
    "TripRecord",
    "Usage",
    "content_id",
    "decode",
    "encode",
    "new_id",
    "peek",
    "reply",
    "topology",
]
