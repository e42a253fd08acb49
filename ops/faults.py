"""Faults to order: what goes wrong in an engine, put there on purpose, the same way every time.

Pure: what is to be done to which token. `faults_plugin` does it inside the engine, and only to
requests that ask for it.
"""

import random
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, to_builtins

from ..worker.engine import Segment
from ..worker.model_tokenizer import ModelTokenizer
from .console import CannotStart

KEY: Final = "sluicegate_fault"
BEFORE: Final = ("sluicegate.ops.faults_plugin:FaultsBefore",)
AFTER: Final = ("sluicegate.ops.faults_plugin:FaultsAfter",)


class Fault(StrEnum):
    """What can be ordered."""

    NAN = "nan"
    UNIFORM = "uniform"
    LOOP = "loop"
    SALAD = "salad"
    MOJIBAKE = "mojibake"
    SPECIAL = "special"
    LANGUAGE = "language"
    INVALID_ID = "invalid-id"
    REASONING_LOOP = "reasoning-loop"


MEANING: Final[dict[Fault, str]] = {
    Fault.NAN: "logits that are not numbers, as from a broken kernel or a poisoned KV cache",
    Fault.UNIFORM: "the same, made harmless by somebody's nan_to_num: every token is as likely",
    Fault.LOOP: "the same phrase round and round",
    Fault.SALAD: "a distribution that lost its shape: tokens drawn from anywhere",
    Fault.MOJIBAKE: "UTF-8 read as cp1252",
    Fault.SPECIAL: "special tokens, which bring no text",
    Fault.LANGUAGE: "a passage in another script, from somebody else's answer",
    Fault.INVALID_ID: "token ids that no answer has, as when the mask fails",
    Fault.REASONING_LOOP: "the same thought round and round, before any answer",
}
# The distribution itself is bad: our gate in the engine must see it, so it comes before.
NUMERIC: Final = frozenset({Fault.NAN, Fault.UNIFORM, Fault.SALAD})
# The gate's mask would undo these, so they come after it.
PAST_THE_MASK: Final = frozenset({Fault.SPECIAL, Fault.INVALID_ID})
# They strike in the reasoning before the answer, and the guard over it must see them.
IN_REASONING: Final = frozenset({Fault.REASONING_LOOP})
# In tokens. Where there is no entry, as many as there are ids to force.
_LENGTHS: Final = {
    Fault.NAN: 4,
    Fault.UNIFORM: 12,
    Fault.SALAD: 40,
    Fault.LOOP: 1000,
    Fault.REASONING_LOOP: 1000,
    Fault.SPECIAL: 16,
    Fault.INVALID_ID: 3,
}

_PHRASES: Final = (
    " and the light was on the water",
    " it is what it is because",
    " the same thing as before,",
    " for the sake of the argument",
    " over and over",
)
_THOUGHTS: Final = (
    " Wait, let me check that again.",
    " Actually, that is not quite right, so I have to start over.",
    " Hmm, but is that so?",
    " Let me think about it step by step once more.",
    " No, wait, I should look at the question again.",
)
# Characters that many texts have, each with a picture of two or three letters.
_PICTURED: Final = "éàâîôûçüñ’"
_PICTURES: Final = 12
_PASSAGES: Final = (
    " и я не был там, где поют птицы и растут высокие деревья",
    " я и он не были в парке, когда пошёл дождь и стало темно",
    " и ја не знам где је он, али ћу га наћи на обали реке",
    " η γη κι ο ήλιος και τα παιδιά παίζουν στην αμμουδιά",
    " кто и с кем был на берегу реки, я не знаю и знать не хочу",
)
PASSAGES: Final = len(_PASSAGES)


class CannotInject(CannotStart):
    """The model has no such tokens, so it can't have this fault."""


class Strike(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one request carries into the engine: at the request's tokens from number `at` on (from
    0), `length` of them, the fault strikes. `ids` are forced one after the other, round and round.
    With a `key` it strikes once: the first request that gets there has it, later ones don't."""

    kind: Fault
    at: int
    length: int
    seed: int
    ids: tuple[int, ...] = ()
    key: str = ""

    def covers(self, position: int) -> bool:
        """Whether this token of the request is struck."""
        return self.at <= position < self.at + self.length

    def token(self, position: int) -> int | None:
        """The id to force there; None where the fault is of another kind."""
        return self.ids[(position - self.at) % len(self.ids)] if self.ids else None


class Vocabulary(Struct, frozen=True, kw_only=True):
    """What a fault needs to know of a model's tokens. `silent` are legal and bring no text."""

    encode: Callable[[str], Sequence[int]]
    silent: tuple[int, ...]
    denied: tuple[int, ...]

    @classmethod
    def of(cls, loaded: ModelTokenizer) -> "Vocabulary":
        """Blocking, about a second: it looks at every id."""
        denied = loaded.denied()
        special: set[int] = set(loaded.tokenizer.get_added_vocab().values())
        # A sentinel would be taken for the message that it is.
        sentinels = set(loaded.sentinels(denied))
        return cls(
            encode=loaded.encode,
            silent=tuple(sorted(special - set(denied) - sentinels - loaded.stop_ids)),
            denied=tuple(sorted(set(denied) - sentinels or denied)),
        )


class Order(Struct, frozen=True, kw_only=True):
    """A fault in one answer: from its token `at` on (from 0), for `length` tokens. A `persistent`
    one strikes again after every rollback; others happen once, as most in the wild do."""

    kind: Fault
    at: int
    length: int
    seed: int = 0
    ids: tuple[int, ...] = ()
    # What `ids` spell, where they spell anything.
    text: str = ""
    persistent: bool = False

    def strike(self, position: int, key: str) -> Strike:
        """For a request that begins behind `position` tokens of the answer."""
        return Strike(
            kind=self.kind,
            at=max(0, self.at - position),
            length=self.length,
            seed=self.seed,
            ids=self.ids,
            key="" if self.persistent else key,
        )


def order(
    kind: Fault,
    vocabulary: Vocabulary,
    *,
    at: int,
    seed: int = 0,
    length: int | None = None,
    persistent: bool = False,
) -> Order:
    """The fault of a kind that a seed stands for. Raises CannotInject."""
    draw = random.Random(seed)  # noqa: S311  no secret is made
    text = _text(kind, draw)
    ids = tuple(vocabulary.encode(text)) if text else _textless(kind, vocabulary, draw)
    if not ids and kind not in NUMERIC:
        raise CannotInject(f"the model has no tokens for the fault {kind}")
    return Order(
        kind=kind,
        at=at,
        length=length or _LENGTHS.get(kind) or len(ids),
        seed=seed,
        ids=ids,
        text=text,
        persistent=persistent,
    )


def _text(kind: Fault, draw: random.Random) -> str:
    match kind:
        case Fault.LOOP:
            return draw.choice(_PHRASES)
        case Fault.REASONING_LOOP:
            return draw.choice(_THOUGHTS)
        case Fault.MOJIBAKE:
            return double_encoded("".join(draw.choices(_PICTURED, k=_PICTURES)))
        case Fault.LANGUAGE:
            return _PASSAGES[draw.randrange(PASSAGES)]
        case _:
            return ""


def _textless(kind: Fault, vocabulary: Vocabulary, draw: random.Random) -> tuple[int, ...]:
    if kind is Fault.SPECIAL:
        return _some(vocabulary.silent, draw)
    return _some(vocabulary.denied, draw) if kind is Fault.INVALID_ID else ()


def _some(ids: Sequence[int], draw: random.Random) -> tuple[int, ...]:
    return tuple(draw.sample(ids, len(ids)))


def double_encoded(text: str) -> str:
    """The text as it looks when its UTF-8 is read as cp1252; bytes that cp1252 lacks read as
    latin-1, as browsers do."""
    return "".join(
        bytes([byte]).decode("cp1252") if byte not in _HOLES else chr(byte)
        for byte in text.encode()
    )


_HOLES: Final = frozenset({0x81, 0x8D, 0x8F, 0x90, 0x9D})


class Orders:
    """Which jobs have a fault coming; an engine asks here for each segment's further arguments."""

    def __init__(self) -> None:
        self._orders: dict[str, Order] = {}

    def __repr__(self) -> str:
        return f"<Orders {' '.join(f'{job}:{o.kind}' for job, o in self._orders.items())}>"

    def place(self, job_id: str, ordered: Order) -> None:
        """A job's segments have its id, a colon and more in their request's id."""
        self._orders[job_id] = ordered

    def __call__(self, segment: Segment) -> dict[str, Any]:
        """What to put into the request's `extra_args`."""
        for job_id, ordered in self._orders.items():
            if segment.request_id.startswith(f"{job_id}:"):
                return {KEY: to_builtins(ordered.strike(segment.carried, job_id))}
        return {}
