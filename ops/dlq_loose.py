"""What a body that can't be decoded says of itself all the same. Pure."""

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..schemas import AgentContext, AgentJob, Candidate, DeadLetter, GenerationJob
from ..schemas.codec import tag_of
from ..schemas.errors import tame
from ..schemas.limits import MAX_ID_CHARS
from ..schemas.version import SCHEMA_VERSION

_LETTER: Final = tag_of(DeadLetter)
_OURS: Final = (
    _LETTER,
    *map(tag_of, (GenerationJob, Candidate, AgentJob, AgentContext)),
)
_REASON_CHARS: Final = 64


class Loose(Struct, frozen=True, kw_only=True):
    """Of what kind a body says that it is, and the words of a letter, each empty or None where it
    is not there or makes no sense. `is_newer`: written by a newer side than this one."""

    type: str = ""
    id: str = ""
    job_id: str | None = None
    reason: str = ""
    detail: str = ""
    at: datetime | None = None
    is_newer: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it says that it is one of the messages that may lie here."""
        return self.type in _OURS

    @property
    def unread(self) -> str:
        """Why it can't be read, in words."""
        if self.is_newer:
            return "This side is older than who wrote it, and can't read it"
        return "It is not valid for this side" if self.is_ours else "It can't be read"


class _Fields(Struct):
    type: Any = None
    schema_version: Any = None
    id: Any = None
    job_id: Any = None
    reason: Any = None
    detail: Any = None
    at: Any = None


def loose(body: bytes) -> Loose:
    """What can be told of a body. Never raises for what is in it. O(len(body))."""
    try:
        fields = msgspec.json.decode(body, type=_Fields)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return Loose()
    version, kind = fields.schema_version, _text(fields.type, _REASON_CHARS)
    # All that a letter says in codes grows with the versions, and a letter is always written by us:
    # what this side does not know comes from a newer one.
    newer = (isinstance(version, int) and version > SCHEMA_VERSION) or kind == _LETTER
    return Loose(
        type=kind,
        id=_text(fields.id, MAX_ID_CHARS),
        job_id=_text(fields.job_id, MAX_ID_CHARS) or None,
        reason=_text(fields.reason, _REASON_CHARS),
        detail=_text(fields.detail, 500),
        at=_time(fields.at),
        is_newer=newer and kind in _OURS,
    )


def _text(value: object, most: int) -> str:
    return tame(value, most) if isinstance(value, str) else ""


def _time(value: object) -> datetime | None:
    try:
        return msgspec.convert(value, datetime) if isinstance(value, str) else None
    except msgspec.ValidationError:
        return None
