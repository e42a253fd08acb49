"""What must hold of every body, whatever is in it."""

from sluicegate.schemas import InvalidMessage, decode, encode, peek
from sluicegate.schemas.codec import Message

# A path into a message of the deepest nesting, each step of it cut short.
_LONGEST = 4_000


def check(body: bytes, kind: type[Message]) -> bool:
    """Whether it can be read. Raises AssertionError, or whatever came out of the codec beside a
    clear refusal."""
    peek(body)
    message = _read(body, kind)
    if isinstance(message, InvalidMessage):
        for said in (message.detail, message.field or "", str(message)):
            assert len(said) <= _LONGEST, said[:200]
            assert all(char.isprintable() for char in said), ascii(said[:200])
        return False
    again = encode(message)
    assert decode(again, kind) == message
    return True


def _read(body: bytes, kind: type[Message]) -> Message | InvalidMessage:
    try:
        return decode(body, kind)
    except InvalidMessage as error:
        return error
