"""What may be said where a message has a word that is not in its list: for the error alone."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from msgspec import inspect

_STEP: Final = re.compile(r"\.([^.\[\]]+)|(\[[^\]]*\])")


def choices(kind: type[Any], path: str) -> tuple[str, ...]:
    """The values that the list at a path such as `$.sampling.effort` or `$.tools[0].mode` holds, as
    msgspec writes paths; none where there is no list. O(length of the path)."""
    places: list[inspect.Type] = [_info(kind)]
    for name, _ in _STEP.findall(path):
        places = [below for place in places for below in _below(place, name)]
    found = (value for place in places for each in _members(place) for value in _values(each))
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=32)
def _info(kind: type[Any]) -> inspect.Type:
    return inspect.type_info(kind)


def _members(place: inspect.Type) -> tuple[inspect.Type, ...]:
    return place.types if isinstance(place, inspect.UnionType) else (place,)


def _below(place: inspect.Type, name: str) -> Iterator[inspect.Type]:
    """What lies under a field's name or, where that is empty, in a list or a table."""
    for each in _members(place):
        match each:
            case inspect.StructType(fields=fields) if name:
                yield from (field.type for field in fields if field.encode_name == name)
            case inspect.CollectionType(item_type=inside) if not name:
                yield inside
            case inspect.TupleType(item_types=inside) if not name:
                yield from inside
            case inspect.DictType(value_type=inside) if not name:
                yield inside
            case _:
                pass


def _values(place: inspect.Type) -> Iterator[str]:
    match place:
        case inspect.LiteralType(values=values):
            yield from map(str, values)
        case inspect.EnumType(cls=cls):
            yield from (str(each.value) for each in cls)
        case _:
            pass
