"""Exchanges, queues and bindings, as data.

Why it is so: every queue of work is a quorum queue with an explicit delivery limit, because
defaults differ between broker versions. Work queues dead-letter only to the terminal exchange,
never to the retry path: the broker drops a message that comes round a dead-letter cycle, without a
word. A retry is a fresh publish by a worker, with one delayed hop. Tunables are queue arguments, so
the names carry a version: a change of arguments is a new version of the names.

Agents have three queues and a log. What is under way goes from queue to queue by transactions, in
which a full queue would drop a message without a word: those have no limit of length, and what is
new waits apart, in a queue that has. The log is a stream: reading it changes nothing. So are those
of what operators say to services, which who starts later must know as well.
"""

from typing import Final, Literal, get_args

from msgspec import Struct

from .jobs import Lane

LANES: Final[tuple[Lane, ...]] = get_args(Lane)
DEFAULT_NAMESPACE: Final = "sluice.v1"

# Retry rungs: a message waits that long, then goes back to where its routing key says. Seconds.
RUNGS: Final[dict[str, int]] = {"5s": 5, "30s": 30, "2m": 120, "10m": 600}

DELIVERY_LIMIT: Final = 5
# "Unlimited" is said as a large number: 3.x reads -1 as 0, and each look of an operator counts.
DEAD_DELIVERY_LIMIT: Final = 1_000_000
MAX_QUEUE_LENGTH: Final = 1_000_000
JOURNAL_MAX_AGE: Final = "7D"
JOURNAL_MAX_BYTES: Final = 2_000_000_000
# Who starts reads the logs of control from the beginning: tens of thousands of messages at most.
CONTROL_LOG_MAX_AGE: Final = "7D"
CONTROL_LOG_MAX_BYTES: Final = 20_000_000
PAUSES_LOG_MAX_BYTES: Final = 5_000_000
# A stream forgets by whole segments, and keeps the one that it writes.
CONTROL_SEGMENT_BYTES: Final = 1_000_000
TOOL_QUEUE_EXPIRES_MS: Final = 24 * 60 * 60 * 1000
PRIVATE_REPLY_EXPIRES_MS: Final = 30 * 60 * 1000

# First word of the routing keys of what services say, which are at most 255 bytes long.
SERVICES: Final = "_services"
_SERVICE_CHARS: Final = 50

ExchangeKind = Literal["direct", "topic", "fanout", "headers"]
Argument = str | int | bool


class Exchange(Struct, frozen=True):
    """A durable exchange."""

    name: str
    kind: ExchangeKind


class Queue(Struct, frozen=True):
    """A durable queue with its `x-` arguments."""

    name: str
    arguments: dict[str, Argument]

    @property
    def is_stream(self) -> bool:
        """Whether it is a log, which keeps what was read."""
        return self.arguments.get("x-queue-type") == "stream"


class Binding(Struct, frozen=True):
    """From an exchange to a queue. `arguments` only for a headers exchange."""

    exchange: str
    queue: str
    routing_key: str = ""
    arguments: dict[str, Argument] = {}


class Names(Struct, frozen=True):
    """Every name on the broker, under one namespace."""

    namespace: str = DEFAULT_NAMESPACE

    @property
    def jobs(self) -> str:
        """Direct exchange for work: jobs by lane, and checks."""
        return self.namespace

    @property
    def retry(self) -> str:
        """Headers exchange: the header `rung` picks the wait, the routing key where to after."""
        return f"{self.namespace}.retry"

    @property
    def results(self) -> str:
        """Exchange for results: the routing key is the job's `reply_to`. Of kind topic, for only
        there can a user's rights say which keys it may bind; no key holds a dot or a wildcard."""
        return f"{self.namespace}.results"

    @property
    def events(self) -> str:
        """Topic exchange for events: `<reply_to>.<job id>.<kind>` of jobs, and of services
        `_services.<name>.<what>`."""
        return f"{self.namespace}.events"

    @property
    def control(self) -> str:
        """Fanout exchange of cancellations."""
        return f"{self.namespace}.control"

    @property
    def control_log(self) -> str:
        """The stream of cancellations, which every service reads from its beginning on."""
        return f"{self.namespace}.control.log"

    @property
    def pauses(self) -> str:
        """Fanout exchange of pauses and of what lifts them."""
        return f"{self.namespace}.pauses"

    @property
    def pauses_log(self) -> str:
        """Their stream, read in the same way. Cancellations can't push a pause out of it."""
        return f"{self.namespace}.pauses.log"

    @property
    def dlx(self) -> str:
        """Fanout exchange, terminal: whatever comes here stays in the dead queue."""
        return f"{self.namespace}.dlx"

    @property
    def dead(self) -> str:
        """The queue of dead letters."""
        return f"{self.namespace}.dead"

    @property
    def tools(self) -> str:
        """Direct exchange for calls of tools elsewhere: the routing key is the tool's name."""
        return f"{self.namespace}.tools"

    @property
    def agents_key(self) -> str:
        """Routing key of agent jobs under way, to their next step."""
        return "agents"

    @property
    def agents(self) -> str:
        """The queue of agent jobs under way."""
        return f"{self.namespace}.agents"

    @property
    def new_agents_key(self) -> str:
        """Routing key of agent jobs that nobody has begun."""
        return "agents.new"

    @property
    def new_agents(self) -> str:
        """Their queue."""
        return f"{self.namespace}.agents.new"

    @property
    def approvals_key(self) -> str:
        """Routing key of agent jobs that wait for a person."""
        return "agents.approvals"

    @property
    def approvals(self) -> str:
        """Their queue, which nobody consumes."""
        return f"{self.namespace}.agents.approvals"

    @property
    def journal_key(self) -> str:
        """Routing key of entries of the journal."""
        return "agents.journal"

    @property
    def journal(self) -> str:
        """The stream of what agent jobs did."""
        return f"{self.namespace}.agents.journal"

    def tool_queue(self, name: str) -> str:
        """Queue of a tool that is served elsewhere."""
        return f"{self.namespace}.tools.{name}"

    @property
    def checks_key(self) -> str:
        """Routing key of candidates."""
        return "checks"

    @property
    def checks(self) -> str:
        """The queue of candidates that wait for a heavy check."""
        return f"{self.namespace}.checks"

    def jobs_key(self, lane: Lane) -> str:
        """Routing key of a lane."""
        return f"jobs.{lane}"

    def jobs_queue(self, lane: Lane) -> str:
        """Queue of a lane."""
        return f"{self.namespace}.jobs.{lane}"

    def retry_queue(self, rung: str) -> str:
        """Queue of a retry rung."""
        return f"{self.namespace}.retry.{rung}"

    def results_queue(self, reply_to: str) -> str:
        """Queue of a backend's results."""
        return f"{self.namespace}.results.{reply_to}"

    def event_key(self, reply_to: str, job_id: str, kind: str) -> str:
        """Routing key of an event. Neither part can hold a dot: their patterns forbid it."""
        return f"{reply_to}.{job_id}.{kind}"

    def service_key(self, service: str, what: str) -> str:
        """Routing key of what a service says of itself. No reply key begins with an underscore."""
        return f"{SERVICES}.{service.replace('.', '-')[:_SERVICE_CHARS]}.{what}"


class Topology(Struct, frozen=True):
    """What must stand on the broker, each tuple in an order that is safe to declare in."""

    names: Names
    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]
    bindings: tuple[Binding, ...]


def topology(namespace: str = DEFAULT_NAMESPACE) -> Topology:
    """The whole topology under a namespace. The dead end comes first: nothing may die before it."""
    names = Names(namespace)
    rungs = [
        (
            _rung(names, rung, wait_s),
            Binding(names.retry, names.retry_queue(rung), "", {"x-match": "all", "rung": rung}),
        )
        for rung, wait_s in RUNGS.items()
    ]
    work = [(_work(names, names.jobs_queue(lane)), names.jobs_key(lane)) for lane in LANES] + [
        (_work(names, names.checks), names.checks_key),
        (_work(names, names.new_agents), names.new_agents_key),
        (_under_way(names, names.agents), names.agents_key),
        (_under_way(names, names.approvals, DEAD_DELIVERY_LIMIT), names.approvals_key),
        (_journal(names), names.journal_key),
    ]
    reply_queue, reply_binding = reply(names, "default")
    return Topology(
        names=names,
        exchanges=(
            Exchange(names.dlx, "fanout"),
            Exchange(names.jobs, "direct"),
            Exchange(names.retry, "headers"),
            Exchange(names.results, "topic"),
            Exchange(names.events, "topic"),
            Exchange(names.control, "fanout"),
            Exchange(names.pauses, "fanout"),
            Exchange(names.tools, "direct"),
        ),
        queues=(
            _dead(names),
            *(queue for queue, _ in work),
            *(queue for queue, _ in rungs),
            _control_log(names),
            _pauses_log(names),
            reply_queue,
        ),
        bindings=(
            Binding(names.dlx, names.dead),
            *(Binding(names.jobs, queue.name, key) for queue, key in work),
            *(binding for _, binding in rungs),
            Binding(names.control, names.control_log),
            Binding(names.pauses, names.pauses_log),
            reply_binding,
        ),
    )


def reply(names: Names, reply_to: str, *, private: bool = False) -> tuple[Queue, Binding]:
    """A backend's own queue of results.

    A private one is durable too, so that it outlives a reconnect or a restart of the broker; it
    goes away by itself when nobody has used it for half an hour.
    """
    arguments: dict[str, Argument] = {
        "x-queue-type": "quorum",
        "x-delivery-limit": DEAD_DELIVERY_LIMIT,
        "x-max-length": MAX_QUEUE_LENGTH,
        "x-overflow": "reject-publish",
    }
    if private:
        arguments["x-expires"] = PRIVATE_REPLY_EXPIRES_MS
    queue = Queue(names.results_queue(reply_to), arguments)
    return queue, Binding(names.results, queue.name, reply_to)


def tool(names: Names, name: str) -> tuple[Queue, Binding]:
    """The queue of a tool that is served elsewhere; it goes when nobody has served it for a day."""
    arguments: dict[str, Argument] = {
        "x-queue-type": "quorum",
        "x-delivery-limit": DELIVERY_LIMIT,
        "x-max-length": MAX_QUEUE_LENGTH,
        "x-overflow": "reject-publish",
        "x-expires": TOOL_QUEUE_EXPIRES_MS,
    }
    queue = Queue(names.tool_queue(name), arguments)
    return queue, Binding(names.tools, queue.name, name)


def _under_way(names: Names, name: str, delivery_limit: int = DELIVERY_LIMIT) -> Queue:
    return Queue(
        name,
        {
            "x-queue-type": "quorum",
            "x-delivery-limit": delivery_limit,
            "x-dead-letter-exchange": names.dlx,
            "x-dead-letter-strategy": "at-least-once",
            # There is no limit; the strategy wants this to be said.
            "x-overflow": "reject-publish",
        },
    )


def _journal(names: Names) -> Queue:
    return Queue(
        names.journal,
        {
            "x-queue-type": "stream",
            "x-max-age": JOURNAL_MAX_AGE,
            "x-max-length-bytes": JOURNAL_MAX_BYTES,
        },
    )


def _control_log(names: Names) -> Queue:
    return Queue(
        names.control_log,
        {
            "x-queue-type": "stream",
            "x-max-age": CONTROL_LOG_MAX_AGE,
            "x-max-length-bytes": CONTROL_LOG_MAX_BYTES,
            "x-stream-max-segment-size-bytes": CONTROL_SEGMENT_BYTES,
        },
    )


def _pauses_log(names: Names) -> Queue:
    """Without an age: a pause holds until it is lifted."""
    return Queue(
        names.pauses_log,
        {
            "x-queue-type": "stream",
            "x-max-length-bytes": PAUSES_LOG_MAX_BYTES,
            "x-stream-max-segment-size-bytes": CONTROL_SEGMENT_BYTES,
        },
    )


def _work(names: Names, name: str) -> Queue:
    return Queue(
        name,
        {
            "x-queue-type": "quorum",
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": names.dlx,
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-max-length": MAX_QUEUE_LENGTH,
        },
    )


def _rung(names: Names, rung: str, wait_s: int) -> Queue:
    return Queue(
        names.retry_queue(rung),
        {
            "x-queue-type": "quorum",
            "x-message-ttl": wait_s * 1000,
            "x-delivery-limit": DEAD_DELIVERY_LIMIT,
            "x-dead-letter-exchange": names.jobs,
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-max-length": MAX_QUEUE_LENGTH,
        },
    )


def _dead(names: Names) -> Queue:
    return Queue(
        names.dead,
        {
            "x-queue-type": "quorum",
            "x-delivery-limit": DEAD_DELIVERY_LIMIT,
            "x-overflow": "reject-publish",
            "x-max-length": MAX_QUEUE_LENGTH,
        },
    )
