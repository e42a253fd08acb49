"""Every message on the wire, its limits and codec, and the topology of the broker as data."""

from .candidates import Candidate
from .codec import CONTENT_TYPE, Message, decode, encode, peek
from .control import CancelJob
from .dead_letters import DeadLetter, Origin
from .errors import InvalidMessage, SluiceError
from .events import Accepted, Delta, Finished, Interrupted, JobEvent, Judged, Reasoned, Retrying
from .flaws import Flaw, Level
from .ids import content_id, new_id
from .jobs import ChatMessage, GenerationJob, Lane
from .lineage import (
    AttemptRecord,
    FaultRecord,
    FinishReason,
    Lineage,
    SegmentRecord,
    TripRecord,
)
from .mutations import Mutation
from .reasoning import Reasoning, ReasoningRecord
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
)
from .rules import Rules
from .sampling import Sampling, StructuredOutput
from .topology import Names, Topology, reply, topology
from .usage import Usage
from .verdicts import CheckRecord, Evidence, Verdict
from .version import SCHEMA_VERSION

__all__ = [
    "CONTENT_TYPE",
    "SCHEMA_VERSION",
    "Accepted",
    "AttemptRecord",
    "CancelJob",
    "Cancelled",
    "Candidate",
    "ChatMessage",
    "CheckRecord",
    "Completed",
    "DeadLetter",
    "Delta",
    "Evidence",
    "Expired",
    "Failed",
    "FaultRecord",
    "FinishReason",
    "Finished",
    "Flaw",
    "GenerationJob",
    "GenerationResult",
    "Interrupted",
    "InvalidMessage",
    "JobEvent",
    "Judged",
    "Lane",
    "Level",
    "Lineage",
    "Message",
    "Mutation",
    "Names",
    "Origin",
    "Outcome",
    "Reason",
    "Reasoned",
    "Reasoning",
    "ReasoningRecord",
    "Rejected",
    "Retrying",
    "Rules",
    "Sampling",
    "SegmentRecord",
    "SluiceError",
    "StructuredOutput",
    "Timings",
    "Topology",
    "TripRecord",
    "Usage",
    "Verdict",
    "content_id",
    "decode",
    "encode",
    "new_id",
    "peek",
    "reply",
    "topology",
]
