"""Every error of ours has one root, so that a caller can catch the lot."""

from .reasons import Reason


class SluiceError(Exception):
    """The root of every error that sluicegate raises on purpose."""


class InvalidMessage(SluiceError, ValueError):
    """A message can't be taken: which field, why, and the limit it broke.

    `reason` is the code that goes into results and dead letters, `field` a JSON path such as
    `$.sampling.temperature` (`$` where the body as a whole is at fault).
    """

    def __init__(self, reason: Reason, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}" if field else detail)
        self.reason = reason
        self.field = field
        self.detail = detail
