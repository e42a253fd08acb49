"""A tool: a Python function that a model may call, and how its calls are to be handled."""

import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

import msgspec

from ...schemas.errors import SluiceError, tame
from ...schemas.limits import MAX_TOOL_NAME_CHARS
from ...schemas.tools import ToolSpec
from .signature import NotATool, Signature, signature_of

# Of a problem with the arguments, as the model is told of it.
MAX_PROBLEM_CHARS: Final = 400
_NAME: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_TOOL_NAME_CHARS - 1}}}")

Release = Callable[[str], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A registered function. Called like the function itself, it is that function."""

    spec: ToolSpec
    function: Callable[..., Any]
    signature: Signature
    is_async: bool
    release: Release | None = None

    def __call__(self, *arguments: Any, **by_name: Any) -> Any:
        return self.function(*arguments, **by_name)

    def __repr__(self) -> str:
        return f"<Tool {self.name} of {self.where}>"

    @property
    def name(self) -> str:
        """As the model says it."""
        return self.spec.name

    @property
    def module(self) -> str:
        """Where a child process imports it from."""
        if self.function.__module__ == "__main__":
            spec = getattr(sys.modules["__main__"], "__spec__", None)
            if spec is not None:
                return str(spec.name)
        return self.function.__module__

    @property
    def where(self) -> str:
        """`module:qualified name`, by which it can be found again."""
        return f"{self.module}:{self.function.__qualname__}"

    def validate(self, arguments: dict[str, Any]) -> str | None:
        """What is wrong with the arguments, for the model; None where nothing is."""
        try:
            self.signature.read(arguments)
        except Exception as error:  # a type's own checks may raise anything
            return problem(error, self.signature.names)
        return None


def problem(error: Exception, names: Sequence[str]) -> str:
    """What is wrong with arguments in a sentence that names the field, short and fit to show."""
    text = str(error) or type(error).__name__
    if "required field" in text or "unknown field" in text:
        there = ", ".join(names) or "none"
        return f"{tame(text, MAX_PROBLEM_CHARS)}. Arguments: {tame(there, MAX_PROBLEM_CHARS)}"
    return tame(text, MAX_PROBLEM_CHARS)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    quota: int | None = None,
    timeout_s: float = 30.0,
    needs_approval: bool = False,
    approval_timeout_s: float = 3_600.0,
    idempotent: bool = False,
    polls: bool = False,
    changes_state: bool = False,
    loop_key: Sequence[str] | None = None,
    volatile: Sequence[str] = (),
    release: Release | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(  # noqa: PLR0913 - what there is to say of a tool
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    quota: int | None = None,
    timeout_s: float = 30.0,
    needs_approval: bool = False,
    approval_timeout_s: float = 3_600.0,
    idempotent: bool = False,
    polls: bool = False,
    changes_state: bool = False,
    loop_key: Sequence[str] | None = None,
    volatile: Sequence[str] = (),
    release: Release | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: `@tool`, or `@tool(quota=10, ...)`.

    The model is told the function's name (or `name`), its docstring, and the JSON Schema of its
    parameters, each of which needs a type; one annotated `ToolContext` is not the model's. What it
    returns goes to the model: text as it is, anything else as JSON.

    An async function runs in the service's own event loop and must not block it. A sync one runs in
    a child process for each call, which imports its module, and is killed when its time is over.

    - `quota`: calls in one job; None: as many as the job's budget has.
    - `timeout_s`: seconds for one call, a child's start among them.
    - `needs_approval`: a person must say yes to each call within `approval_timeout_s` seconds.
    - `idempotent`: running it twice with one effect id does what running it once does, so that a
      call whose result was lost may be run again.
    - `polls`: asking the same again is legal. `changes_state`: what other calls read may be
      different after it.
    - `loop_key`: names of the arguments by which two calls are the same; None: all of them.
    - `volatile`: fields of the result that change without meaning, such as a time it took.
    - `release`: called with the job's id when a job ends, to let go of what was kept for it. It
      runs in the service's process.

    Raises NotATool.
    """
    options: dict[str, Any] = {
        "quota": quota,
        "timeout_s": timeout_s,
        "needs_approval": needs_approval,
        "approval_timeout_s": approval_timeout_s,
        "idempotent": idempotent,
        "polls": polls,
        "changes_state": changes_state,
        "loop_key": loop_key,
        "volatile": volatile,
    }

    def make(made: Callable[..., Any]) -> Tool:
        return make_tool(made, name, options, release)

    return make if function is None else make(function)


def make_tool(
    function: Callable[..., Any],
    name: str | None,
    options: dict[str, Any],
    release: Release | None,
) -> Tool:
    """What `tool` does once it has the function. Raises NotATool."""
    called = _name(function, name)
    is_async = inspect.iscoroutinefunction(function)
    _require_runnable(function, called, is_async)
    signature = signature_of(function, called)
    if release is not None and not callable(release):
        raise NotATool(f"tool {called}: release must be a function of the job's id")
    description = inspect.getdoc(function) or ""
    return Tool(
        spec=_spec(called, description, signature, options),
        function=function,
        signature=signature,
        is_async=is_async,
        release=release,
    )


def _name(function: Callable[..., Any], name: str | None) -> str:
    if not inspect.isfunction(function):
        raise NotATool(
            f"{function!r} can't be a tool: put @tool, or @tool(...), on a function of a module"
        )
    called = name if name is not None else function.__name__
    if called == "<lambda>":
        raise NotATool("a lambda has no name that a model could call: write a function")
    if not isinstance(called, str) or not _NAME.fullmatch(called):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NotATool(
            f"{called!r} can't be a tool's name: letters a-z and A-Z, digits, _ and -, no digit "
            f"or - first, at most {MAX_TOOL_NAME_CHARS} of them. Give it another with name=..."
        )
    return called


def _require_runnable(function: Callable[..., Any], called: str, is_async: bool) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise NotATool(f"tool {called}: it yields; a tool returns its whole result at once")
    if not is_async and "<" in function.__qualname__:
        raise NotATool(
            f"tool {called}: a child process can't import {function.__qualname__} by name. Put the "
            "function at the top of a module, or make it async"
        )


def _spec(called: str, description: str, signature: Signature, options: dict[str, Any]) -> ToolSpec:
    for option in ("loop_key", "volatile"):
        if isinstance(options[option], str):
            raise NotATool(
                f"tool {called}: {option} is a sequence of names, such as ({options[option]!r},)"
            )
    said = {key: value for key, value in options.items() if value is not None}
    said |= {"name": called, "description": description, "parameters": signature.schema}
    try:
        spec = msgspec.convert(said, ToolSpec)
    except (SluiceError, msgspec.ValidationError, TypeError, ValueError) as error:
        raise NotATool(f"tool {called}: {error}") from error
    unknown = set(spec.loop_key or ()) - set(signature.names)
    if unknown:
        raise NotATool(
            f"tool {called}: loop_key names {', '.join(sorted(unknown))}, which is no parameter; "
            f"there are: {', '.join(signature.names) or 'none'}"
        )
    return spec
