"""`@tool`: what a function becomes, and what can't become one."""

import asyncio
import enum
import functools
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Meta, Struct
from sluicegate.schemas.limits import MAX_TOOL_NAME_CHARS
from sluicegate.worker.tools import NotATool, Tool, ToolContext, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.0


class Item(Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=20)]
    tags: list[str] = []


@tool(
    quota=10,
    timeout_s=12.5,
    needs_approval=True,
    approval_timeout_s=60,
    idempotent=True,
    polls=True,
    changes_state=True,
    loop_key=("path",),
    volatile=("took_s",),
)
async def read_file(
    context: ToolContext, path: Annotated[str, Meta(description="which")], start: int = 0
) -> str:
    """Read a text file.

    From a place on.
    """
    return f"{path}:{start}:{context.effect_id}"


@tool
async def many_types(  # noqa: PLR0917
    text: str,
    /,
    number: Annotated[int, Meta(ge=-(10**9), le=10**9)],
    ratio: float,
    flag: bool,
    colour: Colour,
    point: Point,
    item: Item,
    mode: Literal["a", "b"] = "a",
    maybe: str | None = None,
    names: list[str] = ["x"],  # noqa: B006 - each call gets its own
    table: dict[str, list[int]] = {},  # noqa: B006
    *,
    last: tuple[int, ...] = (),
) -> list[Any]:
    """Take everything."""
    names.append("seen")
    return [text, number, ratio, flag, colour, point, item, mode, maybe, names, table, last]


NOTHING = object()
CONTEXT = ToolContext(job_id="j", round=1, effect_id="e1")


def test_what_the_model_is_told() -> None:
    spec = read_file.spec
    assert spec.name == "read_file"
    assert spec.description == "Read a text file.\n\nFrom a place on."
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "which"},
            "start": {"type": "integer", "default": 0},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert (spec.quota, spec.timeout_s, spec.approval_timeout_s) == (10, 12.5, 60)
    assert spec.needs_approval
    assert spec.idempotent
    assert spec.polls
    assert spec.changes_state
    assert (spec.loop_key, spec.volatile) == (("path",), ("took_s",))
    assert not spec.remote


def test_bare_it_has_the_usual_options() -> None:
    spec = many_types.spec
    assert (spec.quota, spec.timeout_s, spec.loop_key, spec.volatile) == (None, 30.0, None, ())
    assert not spec.idempotent


def test_called_it_is_the_function() -> None:
    assert asyncio.run(read_file(CONTEXT, "x", start=2)) == "x:2:e1"


def test_nested_types_are_described_in_place() -> None:
    definitions = many_types.spec.parameters["$defs"]
    assert set(definitions) == {"Colour", "Point", "Item"}
    assert many_types.spec.parameters["properties"]["item"] == {"$ref": "#/$defs/Item"}


def test_a_default_that_can_change_does_not() -> None:
    arguments = {
        "text": "t",
        "number": 1,
        "ratio": 1.5,
        "flag": True,
        "colour": "red",
        "point": {"x": 1},
        "item": {"name": "n"},
    }
    for _ in range(2):
        read = many_types.signature.read(arguments)
        positional, by_name = many_types.signature.bind(read, CONTEXT)
        result = asyncio.run(many_types(*positional, **by_name))
        assert result[4:7] == [Colour.RED, Point(1.0), Item("n")]
        assert result[9] == ["x", "seen"]


def test_a_parameter_may_be_called_anything() -> None:
    @tool
    async def odd(__struct_fields__: int, copy: str, größe: int = 1) -> str:  # noqa: PLC2401
        return f"{__struct_fields__}{copy}{größe}"

    read = odd.signature.read({"__struct_fields__": 1, "copy": "c", "größe": 3})
    positional, by_name = odd.signature.bind(read, CONTEXT)
    assert asyncio.run(odd(*positional, **by_name)) == "1c3"


def test_a_wrapped_function_keeps_its_parameters() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        async def inner(*arguments: Any, **by_name: Any) -> Any:
            return await function(*arguments, **by_name)

        return inner

    @tool
    @logged
    async def wrapped(number: int) -> int:
        return number

    assert wrapped.spec.parameters["required"] == ["number"]


def test_annotations_as_text_are_understood() -> None:
    namespace: dict[str, Any] = {"__name__": "somewhere"}
    source = (
        "from __future__ import annotations\n"
        "from typing import Annotated\n"
        "from msgspec import Meta\n"
        "async def late(x: Annotated[int, Meta(ge=3)]) -> OnlyForTypeCheckers:\n"
        "    return x\n"
    )
    exec(source, namespace)  # noqa: S102
    assert tool(namespace["late"]).validate({"x": 2}) is not None
    exec(source.replace("Annotated[int, Meta(ge=3)]", "Missing"), namespace)  # noqa: S102
    with pytest.raises(NotATool, match="Missing"):
        tool(namespace["late"])


# --- what can't be one ---


def takes_all(*paths: str) -> None: ...
def takes_names(**options: str) -> None: ...
def untyped(path: Any) -> None: ...
def complex_one(value: complex) -> None: ...
def odd_default(value: Any = NOTHING) -> None: ...
def fine(value: int) -> None: ...
def _größe(value: int) -> None: ...  # noqa: PLC2401


del untyped.__annotations__["path"]
unnamed: Any = lambda: 1  # noqa: E731


def yields(value: int) -> Any:
    yield value


async def yields_async(value: int) -> Any:
    yield value


def nested() -> Any:
    def inner(value: int) -> int:
        return value

    return inner


class Callable:
    def __call__(self, value: int) -> int:
        return value


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (takes_all, r"\*paths"),
        (takes_names, r"\*\*options"),
        (untyped, "parameter path has no type"),
        (complex_one, "parameter value .* JSON"),
        (odd_default, "parameters can't be described"),
        (yields, "it yields"),
        (yields_async, "it yields"),
        (nested(), "can't import nested.<locals>.inner by name"),
        (unnamed, "a lambda has no name"),
        (_größe, "can't be a tool's name"),
        (Callable(), "put @tool"),
        (functools.partial(fine, 1), "put @tool"),
        (print, "put @tool"),
        (Point, "put @tool"),
        (3, "put @tool"),
    ],
)
def test_what_can_not_be_a_tool(function: Any, said: str) -> None:
    with pytest.raises(NotATool, match=said):
        tool(function)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "two words"}, "two words"),
        ({"name": ""}, "can't be a tool's name"),
        ({"name": "x" * (MAX_TOOL_NAME_CHARS + 1)}, "can't be a tool's name"),
        ({"name": 3}, "can't be a tool's name"),
        ({"quota": -1}, "quota"),
        ({"quota": "3"}, "quota"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"timeout_s": 1e9}, "timeout_s"),
        ({"approval_timeout_s": -1}, "approval_timeout_s"),
        ({"idempotent": "yes"}, "idempotent"),
        ({"loop_key": "value"}, "sequence of names"),
        ({"loop_key": ("path",)}, "names path, which is no parameter; there are: value"),
        ({"loop_key": 3}, "loop_key"),
        ({"volatile": "took_s"}, "sequence of names"),
        ({"volatile": ("not a name",)}, "volatile"),
        ({"release": 3}, "release"),
    ],
)
def test_options_that_can_not_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(NotATool, match=said):
        tool(**options)(fine)


def test_a_description_that_is_too_long() -> None:
    def long(value: int) -> None: ...

    long.__doc__ = "x" * 10_000
    long.__qualname__ = "long"
    with pytest.raises(NotATool, match="description"):
        tool(long)


# --- arguments ---


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "missing required field `path`. Arguments: path, start"),
        ({"path": "x", "strat": 1}, "unknown field `strat`. Arguments: path, start"),
        ({"path": 1}, "Expected `str`, got `int` - at `$.path`"),
        ({"path": "x", "start": "1"}, "Expected `int`, got `str` - at `$.start`"),
        ({"path": "x", "context": {}}, "unknown field `context`"),
        ({"path": "x", "\x1b[31m": 1}, "unknown field `?[31m`"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(arguments: dict[str, Any], said: str) -> None:
    told = read_file.validate(arguments)
    assert told is not None
    assert said in told


def test_what_is_said_is_short() -> None:
    told = read_file.validate({"path": "x", "y" * 100_000: 1})
    assert told is not None
    assert len(told) < 1_000


_texts = st.text(max_size=20)
_arguments: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "text": _texts,
        "number": st.integers(-(10**9), 10**9),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "flag": st.booleans(),
        "colour": st.sampled_from(["red", "blue"]),
        "point": st.fixed_dictionaries({"x": st.floats(-1e9, 1e9)}),
        "item": st.fixed_dictionaries(
            {"name": st.text("abc", min_size=1, max_size=20)},
            optional={"tags": st.lists(_texts, max_size=3)},
        ),
    },
    optional={
        "mode": st.sampled_from(["a", "b"]),
        "maybe": st.none() | _texts,
        "names": st.lists(_texts, max_size=3),
        "table": st.dictionaries(_texts, st.lists(st.integers(0, 9), max_size=3), max_size=3),
        "last": st.lists(st.integers(0, 9), max_size=3),
    },
)


@given(_arguments)
def test_what_is_encoded_of_the_arguments_is_valid(arguments: dict[str, Any]) -> None:
    read = many_types.signature.read(arguments)
    again = msgspec.json.decode(msgspec.json.encode(read))
    assert many_types.validate(again) is None
    assert many_types.signature.read(again) == read


@given(_arguments, st.text(max_size=30), st.none() | st.integers() | _texts)
def test_an_unknown_field_never_is(arguments: dict[str, Any], name: str, value: Any) -> None:
    assume(name not in many_types.signature.names)
    assert many_types.validate({**arguments, name: value}) is not None


@given(
    st.dictionaries(
        st.sampled_from(["path", "start", "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_arguments_of_any_kind_are_judged_as_their_schema_says(arguments: dict[str, Any]) -> None:
    path, start = arguments.get("path"), arguments.get("start", 0)
    whole = isinstance(start, int | float) and not isinstance(start, bool)
    whole = whole and start == start and start not in (float("inf"), float("-inf"))  # noqa: PLR0124
    fits = (
        isinstance(path, str)
        and "other" not in arguments
        and whole
        and (isinstance(start, int) or start.is_integer())
    )
    assert (read_file.validate(arguments) is None) == fits


def test_importing_it_is_light() -> None:
    """Whoever writes a tool needs neither a broker's client nor an engine."""
    heavy = {"torch", "vllm", "transformers", "aio_pika", "aiormq", "asyncio"}
    program = f"import sys; import sluicegate.worker.tools; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"set()"


def test_a_tool_says_what_it_is() -> None:
    assert repr(read_file) == f"<Tool read_file of {__name__}:read_file>"
    assert isinstance(read_file, Tool)
