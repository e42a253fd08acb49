"""What can go wrong between a publisher and the broker. Each message says what to do."""

from collections.abc import Sequence

from ..schemas.errors import SluiceError


class BrokerError(SluiceError):
    """The root of everything that the broker, or the way to it, did not do."""


class BrokerUnreachable(BrokerError):
    """There is no broker at the other end, or not in time. Nothing was published."""


class AccessRefused(BrokerError):
    """The broker knows this user and does not let it do this."""


class TopologyMissing(BrokerError):
    """Exchanges or queues that must stand on the broker do not."""

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = tuple(missing)
        super().__init__(
            f"missing on the broker: {', '.join(missing)}. "
            "Create them with `sluice topology apply`, or check the namespace and the virtual host"
        )


class TopologyConflict(BrokerError):
    """Something of the same name stands on the broker, with other properties."""


class Unroutable(BrokerError):
    """The broker has no queue for this routing key and gave the message back. It is not stored."""


class QueueFull(BrokerError):
    """The queue refused the message: it is at its length limit. It is not stored; come back later.

    Some of the messages published at the same moment may have been taken: a quorum queue notices
    its limit a little late.
    """


class PublishLost(BrokerError):
    """The broker did not confirm in time: the message may be stored, or may not.

    Publishing again with the same job id is safe: consumers drop the duplicate.
    """


class ProducerClosed(SluiceError):
    """The producer was closed, or was never opened: use it inside `async with`."""


class ResultTimeout(SluiceError, TimeoutError):
    """No result came in the time given. The job is not lost: the result can still arrive."""

    def __init__(self, job_id: str, timeout_s: float) -> None:
        self.job_id = job_id
        self.timeout_s = timeout_s
        super().__init__(
            f"no result of job {job_id} after {timeout_s:g} s. It can still arrive: "
            "call result() again, or look whether a worker runs"
        )
