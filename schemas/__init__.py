"""Every message on the wire, its limits and codec, and the topology of the broker as data."""

from .agents import (
    AgentContext,
    AgentJob,
    AgentRecord,
    Assessment,
    Budget,
    CallSample,
    Decision,
    JournalEntry,
    Monitoring,
    ParseFailure,
    Round,
    RoundSample,
    Stop,
)
from .candidates import Candidate
from .codec import CONTENT_TYPE, Message, decode, encode, peek
from .control import CancelJob
from .dead_letters import DeadLetter, Origin
from .errors import InvalidMessage, SluiceError
from .events import (
    Accepted,
    ApprovalWanted,
    Delta,
    Finished,
    Interrupted,
    JobEvent,
    Judged,
    Reasoned,
    Retrying,
    RoundEnded,
)
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
    Partial,
    Rejected,
    Timings,
)
from .rules import Rules
from .sampling import Sampling, StructuredOutput
from .tools import (
    Approval,
    ToolCall,
    ToolReply,
    ToolRequest,
    ToolResult,
    ToolSpec,
    ToolStatus,
)
from .topology import Names, Topology, reply, topology
from .usage import Usage
from .verdicts import CheckRecord, Evidence, Verdict
from .version import SCHEMA_VERSION

__all__ = [
    "CONTENT_TYPE",
    "SCHEMA_VERSION",
    "Accepted",
    "AgentContext",
    "AgentJob",
    "AgentRecord",
    "Approval",
    "ApprovalWanted",
    "Assessment",
    "AttemptRecord",
    "Budget",
    "CallSample",
    "CancelJob",
    "Cancelled",
    "Candidate",
    "ChatMessage",
    "CheckRecord",
    "Completed",
    "DeadLetter",
    "Decision",
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
    "JournalEntry",
    "Judged",
    "Lane",
    "Level",
    "Lineage",
    "Message",
    "Monitoring",
    "Mutation",
    "Names",
    "Origin",
    "Outcome",
    "ParseFailure",
    "Partial",
    "Reason",
    "Reasoned",
    "Reasoning",
    "ReasoningRecord",
    "Rejected",
    "Retrying",
    "Round",
    "RoundEnded",
    "RoundSample",
    "Rules",
    "Sampling",
    "SegmentRecord",
    "SluiceError",
    "Stop",
    "StructuredOutput",
    "Timings",
    "ToolCall",
    "ToolReply",
    "ToolRequest",
    "ToolResult",
    "ToolSpec",
    "ToolStatus",
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
