"""Chosen dead letters, kept in a file while they are dealt with."""

import asyncio
from collections.abc import Collection
from contextlib import aclosing
from typing import IO

from msgspec import Struct, structs

from ..producer.sealing import OpeningKey
from .dlq_again import twin
from .dlq_changes import Changes
from .dlq_letter import Letter, Properties, read_letter
from .dlq_queue import Dead, Look


class Chosen(Struct, frozen=True):
    """Where the body of a chosen letter lies in the spool, and the keys and tags of all that are
    taken with it: its copies (a publish whose confirmation was lost is made again), and its twins.
    """

    rank: tuple[bool, float, int]
    group: str
    offset: int
    length: int
    properties: Properties
    position: int
    keys: frozenset[str]
    tags: tuple[int, ...]

    def with_(self, other: "Chosen") -> "Chosen":
        """The better of two, with what is taken with either."""
        best = max(self, other, key=lambda each: each.rank)
        return structs.replace(best, keys=self.keys | other.keys, tags=self.tags + other.tags)


class Spool:
    """The chosen letters of a look, their bodies in a file that nobody else sees: they come faster
    than they can be dealt with, and there may be more than memory holds."""

    def __init__(self, file: IO[bytes], changes: Changes) -> None:
        self._file = file
        self._changes = changes
        self._chosen: dict[str, Chosen] = {}
        self._key: OpeningKey | None = None

    async def fill(self, look: Look, keys: Collection[str], stop: asyncio.Event) -> None:
        """Read the queue to its end, or until `stop`."""
        self._key = look.key
        async with aclosing(look.letters()) as letters:
            async for dead in letters:
                if stop.is_set():
                    return
                if dead.letter.head.key in keys:
                    self._keep(dead)

    def _keep(self, dead: Dead) -> None:
        letter = dead.letter
        key = letter.head.key
        chosen = Chosen(
            letter.rank,
            twin(letter, self._changes),
            self._file.tell(),
            len(letter.body),
            letter.properties,
            letter.head.position,
            frozenset({key}),
            (dead.tag,),
        )
        known = self._chosen.get(key)
        if known is None or letter.rank > known.rank:
            self._file.write(letter.body)
        self._chosen[key] = chosen if known is None else known.with_(chosen)

    def chosen(self) -> list[Chosen]:
        """What was kept, one for each group, in the order of their first."""
        groups: dict[str, Chosen] = {}
        for each in self._chosen.values():
            known = groups.get(each.group)
            groups[each.group] = each if known is None else known.with_(each)
        return list(groups.values())

    def letter(self, chosen: Chosen) -> Letter:
        """It once more."""
        self._file.seek(chosen.offset)
        body = self._file.read(chosen.length)
        return read_letter(body, chosen.properties, chosen.position, self._key)
