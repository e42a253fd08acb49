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
from .control import CancelJob, Pause, Resume, Scope, Target
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
    HandoverRecord,
    Lineage,
    SegmentRecord,
    TripRecord,
)
from .mutations import Mutation
from .progress import Progress
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
from .services import ServiceEvent, ServiceKind, ServiceState
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
    "HandoverRecord",
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
    "Pause",
    "Progress",
    "Reason",
    "Reasoned",
    "Reasoning",
    "ReasoningRecord",
    "Rejected",
    "Resume",
    "Retrying",
    "Round",
    "RoundEnded",
    "RoundSample",
    "Rules",
    "Sampling",
    "Scope",
    "SegmentRecord",
    "ServiceEvent",
    "ServiceKind",
    "ServiceState",
    "SluiceError",
    "Stop",
    "StructuredOutput",
    "Target",
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
