"""What can go wrong between a publisher and the broker. Each message says what to do."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..schemas.errors import InvalidMessage, SluiceError

if TYPE_CHECKING:
    from .handle import Handle


def seconds(value: float) -> str:
    """A duration as it is said in messages: `10 s`, not `9.99987 s`."""
    return f"{round(value, 2):g} s"


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
            f"no result of job {job_id} after {seconds(timeout_s)}. It can still arrive: "
            "wait again, and look whether a worker runs"
        )


class ResultUnreadable(SluiceError):
    """A result has come that can't be decoded. It was put with the dead letters."""

    def __init__(self, job_id: str, why: InvalidMessage) -> None:
        self.job_id = job_id
        self.reason = why.reason
        self.field = why.field
        super().__init__(
            f"the result of job {job_id} can't be read: {why}. "
            "Are worker and backend of the same version?"
        )


class ForkedProducer(SluiceError):
    """A producer was opened before this process was forked, and can't be used here."""

    def __init__(self, opened_in: int) -> None:
        super().__init__(
            f"this producer was opened in process {opened_in}, before the fork: its connection and "
            "thread stayed there. Open one in each process, for example in Gunicorn's post_fork"
        )


class PublishManyFailed(SluiceError):
    """Not all jobs of a batch were published.

    `published` maps the position of each job that was published to its handle, `failures` that of
    each that was tried in vain to its error. All others were not tried. A job whose failure is a
    PublishLost may be stored all the same; publishing it again with the same id is safe.
    """

    def __init__(
        self,
        published: "Mapping[int, Handle]",
        failures: Mapping[int, Exception],
        total: int | None,
    ) -> None:
        self.published = dict(published)
        self.failures = dict(failures)
        self.total = total
        first = min(self.failures)
        count = f"{len(self.published)} of {total}" if total is not None else len(self.published)
        super().__init__(
            f"{count} jobs were published, {len(self.failures)} failed, the rest was not tried. "
            f"Job number {first} (from 0): {self.failures[first]}"
        )
        self.__cause__ = self.failures[first]
