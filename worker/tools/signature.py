"""From a function's parameters to the arguments that a model may give: a struct that decodes and
validates them, and its JSON Schema."""

import copy
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import msgspec

from ...schemas.errors import SluiceError
from .context import ToolContext

_KINDS: Final = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


class NotATool(SluiceError, TypeError):
    """A function that can't be a tool: which, why, and what to change."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the function. `field` is its name in the struct: names of parameters may
    clash with those a struct has anyway. Positional ones can't be given by name."""

    name: str
    field: str
    positional: bool
    is_context: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of a tool: `struct` holds what the model gives, `schema` is its JSON Schema."""

    parameters: tuple[Parameter, ...]
    struct: type[msgspec.Struct]
    schema: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the model's arguments."""
        return tuple(each.name for each in self.parameters if not each.is_context)

    @property
    def takes_context(self) -> bool:
        """Whether the function wants to know of the call."""
        return any(each.is_context for each in self.parameters)

    def read(self, arguments: Mapping[str, Any]) -> msgspec.Struct:
        """The arguments with their types. Raises msgspec.ValidationError."""
        return msgspec.convert(dict(arguments), self.struct, strict=True, str_keys=True)

    def bind(self, read: msgspec.Struct, context: ToolContext) -> tuple[list[Any], dict[str, Any]]:
        """What to call the function with."""
        positional: list[Any] = []
        by_name: dict[str, Any] = {}
        for each in self.parameters:
            value = context if each.is_context else getattr(read, each.field)
            if each.positional:
                positional.append(value)
            else:
                by_name[each.name] = value
        return positional, by_name


def signature_of(function: Callable[..., Any], tool: str) -> Signature:
    """The signature of a function that is to be a tool. Raises NotATool, which names the parameter.

    Types are those of msgspec; constraints and descriptions are said with
    `Annotated[..., msgspec.Meta(...)]`.
    """
    hints = _hints(function, tool)
    parameters: list[Parameter] = []
    fields: list[tuple[str, Any, Any]] = []
    for number, each in enumerate(inspect.signature(function).parameters.values()):
        annotation = _annotation(each, hints, tool)
        is_context = annotation is ToolContext
        one = Parameter(
            name=each.name,
            field=f"argument_{number}",
            positional=each.kind is inspect.Parameter.POSITIONAL_ONLY,
            is_context=is_context,
        )
        parameters.append(one)
        if not is_context:
            _require_type_of_json(annotation, each.name, tool)
            fields.append((one.field, annotation, _field(each)))
    struct = _struct(tool, fields)
    return Signature(tuple(parameters), struct, _schema(struct, tool))


def _hints(function: Callable[..., Any], tool: str) -> dict[str, Any]:
    inner = inspect.unwrap(function)
    said = {
        name: value for name, value in inspect.get_annotations(inner).items() if name != "return"
    }
    # Of the parameters alone: what the function returns may be known to type checkers only.
    holder = types.SimpleNamespace(__annotations__=said)
    known = cast("dict[str, Any]", getattr(inner, "__globals__", {}))
    try:
        return typing.get_type_hints(holder, globalns=known, include_extras=True)
    except NameError as error:
        raise NotATool(
            f"tool {tool}: an annotation can't be resolved ({error}): import what it names at the "
            "top of the module, and not for type checkers alone"
        ) from error
    except Exception as error:
        raise NotATool(f"tool {tool}: an annotation can't be resolved ({error})") from error


def _annotation(each: inspect.Parameter, hints: Mapping[str, Any], tool: str) -> Any:
    if each.kind in _KINDS:
        raise NotATool(
            f"tool {tool}: {_KINDS[each.kind]}{each.name} takes anything, and a model must be told "
            "what there is: name each parameter"
        )
    if each.name not in hints:
        raise NotATool(f"tool {tool}: parameter {each.name} has no type: annotate it")
    return hints[each.name]


def _require_type_of_json(annotation: Any, name: str, tool: str) -> None:
    try:
        msgspec.json.schema(annotation)
        msgspec.json.Decoder(annotation)
    except Exception as error:
        why = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise NotATool(
            f"tool {tool}: parameter {name} is of a type that JSON has no word for ({why}): use "
            "str, int, float, bool, list, dict, an Enum, a dataclass or a msgspec Struct"
        ) from error


def _field(each: inspect.Parameter) -> Any:
    if each.default is inspect.Parameter.empty:
        return msgspec.field(name=each.name)
    default: Any = each.default
    if isinstance(default, list | dict | set):
        again: Callable[[], Any] = partial(copy.deepcopy, cast("Any", default))
        return msgspec.field(name=each.name, default_factory=again)
    return msgspec.field(name=each.name, default=default)


def _struct(tool: str, fields: list[tuple[str, Any, Any]]) -> type[msgspec.Struct]:
    try:
        return msgspec.defstruct(
            tool, fields, kw_only=True, frozen=True, forbid_unknown_fields=True
        )
    except Exception as error:
        raise NotATool(f"tool {tool}: its parameters can't be described ({error})") from error


def _schema(struct: type[msgspec.Struct], tool: str) -> dict[str, Any]:
    try:
        (top,), components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    except Exception as error:
        raise NotATool(f"tool {tool}: its parameters can't be described ({error})") from error
    name = str(top["$ref"]).removeprefix("#/$defs/")
    schema: dict[str, Any] = dict(components.pop(name))
    # The name of a tool is told beside its parameters.
    schema.pop("title", None)
    if components:
        schema["$defs"] = components
    return schema
