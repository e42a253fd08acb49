"""Calls as the model's own chat template has them, by vLLM's renderer and parsers, without its
engine. All of the dialects that knows vLLM (0.32): these are interfaces of its own, which change
without a word; a test with golden values watches over them.

Importing it imports vLLM, which takes ten seconds: `choose` does so when it must.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from vllm.config import DeviceConfig, VllmConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager
from vllm.renderers import registry
from vllm.renderers.params import ChatParams, TokenizeParams

from ...schemas import (
    FinishReason,
    InvalidMessage,
    Reason,
    StructuredOutput,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
)
from ..config import Config, ConfigError
from ..engine import EngineUnavailable
from ..model_tokenizer import load_tokenizer
from .dialect import Came, Parsed, Prompt, Said, Told, Turn
from .native_marks import Marks, Read, bounded, defused, marks_of, prose_of, read
from .tokens import ModelTokens, spelled_out
from .wording import came_otherwise, result_text

# Of a tool without a schema: what the model is told, and what the grammar lets through, which takes
# the first for an empty object.
_NOTHING: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_ANYTHING: Final[dict[str, Any]] = {"type": "object", "additionalProperties": True}
# Names and words that no template has of itself.
_PROBE: Final = ToolSpec(
    name="sluice_probe_tool",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
_PROBE_RESULT: Final = "sluice-probe-result"
_INSTEAD: Final = (
    "set chat_template to a file with a template that has a branch for tools, or leave tool_parser "
    "empty, so that calls are made in plain text"
)


class NativeDialect:
    """One for all jobs, and for several threads."""

    name = "native"
    stop: tuple[str, ...] = ()

    def __init__(
        self, renderer: Any, parser: Any, tokens: ModelTokens, template: str | None
    ) -> None:
        """`parser` is a class of vLLM's: it keeps what it saw, so each reading has its own."""
        self._renderer = renderer
        self._parser = parser
        self._template = template
        self._lock = threading.Lock()
        self._marks = Marks()
        self.tokens = tokens
        self.max_model_len: int = renderer.model_config.max_model_len
        tag = self._structural_tag([_PROBE], "auto")
        self._marks = marks_of(tag, parser.tool_parser_cls)

    def __repr__(self) -> str:
        return f"<NativeDialect {self._parser.tool_parser_cls.__name__} {self._marks.openers}>"

    @property
    def openers(self) -> tuple[str, ...]:
        """Where vLLM says so; empty where it doesn't."""
        return self._marks.openers

    @property
    def spans(self) -> tuple[tuple[str, str], ...]:
        """Likewise."""
        return self._marks.spans

    def prompt(self, turns: Sequence[Turn], tools: Sequence[ToolSpec]) -> Prompt:
        """Through the template. Raises InvalidMessage where that refuses the conversation."""
        try:
            ids = self._ids(turns, tools)
        except Exception as error:  # a template is the model's own program and may raise anything
            raise InvalidMessage(
                Reason.UNSUPPORTED, "$.task", f"the model's chat template refuses it: {error}"
            ) from error
        return Prompt(token_ids=tuple(ids), tokens=len(ids))

    def grammar(
        self, tools: Sequence[ToolSpec], *, may_answer: bool = True
    ) -> StructuredOutput | None:
        """Free text with calls of these tools alone, or such calls alone. Without tools, text in
        which no call begins. None where vLLM has no grammar for the model's calls."""
        if not tools:
            return self._no_calls()
        choice = "auto" if may_answer else "required"
        own = [tool if tool.parameters else _loose(tool) for tool in tools]
        tag = self._structural_tag(own, choice)
        if tag is None:
            return None
        try:
            return StructuredOutput(structural_tag=tag)
        except InvalidMessage:
            # The schemas are too large together, or too deep.
            tag = self._structural_tag([_loose(tool) for tool in tools], choice)
            return None if tag is None else StructuredOutput(structural_tag=tag)

    def parse(
        self, text: str, finish_reason: FinishReason | None, tools: Sequence[ToolSpec]
    ) -> Parsed:
        """By vLLM's parser, and strictly beyond that."""

        def calls(said: str) -> list[Read]:
            request = _request(tools, "auto")
            parser = self._parser(self._renderer.tokenizer, request.tools)
            _, _, found = parser.parse(said, request, enable_auto_tools=True)
            return [Read(call.id or "", call.name, call.arguments) for call in found or ()]

        return read(text, finish_reason, self._marks, calls)

    def answer(self, text: str) -> str:
        """Without calls and their markup."""
        return prose_of(text, self._marks)

    def probe(self) -> None:
        """Raises ConfigError where the template drops tools or results in silence, or where calls
        would be in tokens that have no text."""
        calls = (
            ToolCall(
                id="call00000",
                name=_PROBE.name,
                arguments={"word": "x"},
                effect_id="probe",
                result=ToolResult(status=ToolStatus.OK, content=_PROBE_RESULT),
            ),
        )
        turns: list[Turn] = [Told("system", "Be brief."), Told("user", "Look it up.")]
        asked = self._shown(turns, "tools")
        if _PROBE.name not in asked:
            raise ConfigError(f"tool_parser: the chat template has no place for tools; {_INSTEAD}")
        came = self._shown([*turns, Said("", calls), Came(calls)], "calls")
        if came.count(_PROBE.name) <= asked.count(_PROBE.name) or _PROBE_RESULT not in came:
            raise ConfigError(
                f"tool_parser: the chat template leaves calls away, or their results; {_INSTEAD}"
            )
        if not self.openers:
            raise ConfigError(
                "tool_parser: vLLM does not say what opens a call for this parser, so a broken one "
                "could be taken for an answer; choose another, or leave it empty, so that calls "
                "are made in plain text"
            )
        tokenizer = self._renderer.tokenizer
        for mark in {mark for pair in self._marks.spans for mark in pair} | {*self.openers}:
            ids: list[int] = tokenizer.encode(mark, add_special_tokens=False)
            if any(token in tokenizer.all_special_ids for token in ids):
                raise ConfigError(
                    f"tool_parser: {mark} is a special token of the model, and such have no text; "
                    "leave tool_parser empty, so that calls are made in plain text"
                )

    def _shown(self, turns: Sequence[Turn], what: str) -> str:
        try:
            ids = self._ids(turns, [_PROBE])
        except Exception as error:
            raise ConfigError(
                f"tool_parser: the chat template can't be used with {what} ({error}); {_INSTEAD}"
            ) from error
        return str(self._renderer.tokenizer.decode(ids))

    def _no_calls(self) -> StructuredOutput | None:
        if not self.openers:
            return None
        text = {"type": "any_text", "excludes": list(self.openers)}
        return StructuredOutput(structural_tag={"type": "structural_tag", "format": text})

    def _ids(self, turns: Sequence[Turn], tools: Sequence[ToolSpec]) -> list[int]:
        plain = self.tokens.plain
        messages = [message for turn in turns for message in self._messages(turn)]
        params = ChatParams(
            chat_template=self._template,
            chat_template_kwargs={
                "tools": [spelled_out(_function(tool), plain) for tool in tools] or None,
                "add_generation_prompt": True,
            },
        )
        # However long: whether it fits is for others to see.
        whole = TokenizeParams(max_total_tokens=None, add_special_tokens=False)
        with self._lock:
            _, prompts = self._renderer.render_chat([messages], params, whole)
        return list(prompts[0]["prompt_token_ids"])

    def _messages(self, turn: Turn) -> Iterator[dict[str, Any]]:
        plain = self.tokens.plain
        match turn:
            case Told(role="system"):
                yield {"role": "system", "content": turn.text}
            case Told():
                yield {"role": turn.role, "content": plain(turn.text)}
            case Said(calls=()):
                yield {"role": "assistant", "content": plain(turn.text.strip())}
            case Said():
                prose = plain(prose_of(turn.text, self._marks))
                yield {
                    "role": "assistant",
                    "content": prose or None,
                    "tool_calls": [_tool_call(call, plain) for call in turn.calls],
                }
            case Came():
                for call in turn.calls:
                    yield {
                        "role": "tool",
                        "tool_call_id": plain(call.id),
                        "name": plain(call.name),
                        "content": plain(defused(result_text(call))),
                    }
                if told := "\n".join(came_otherwise(turn)):
                    yield {"role": "user", "content": plain(told)}

    def _structural_tag(self, tools: Sequence[ToolSpec], choice: str) -> dict[str, Any] | None:
        request = _request(tools, choice)
        parser = self._parser(self._renderer.tokenizer, request.tools)
        asked = parser.adjust_request(request).structured_outputs
        if asked is None or asked.structural_tag is None:
            return None
        return bounded(json.loads(asked.structural_tag))


def open_native(config: Config, template: str | None) -> NativeDialect:
    """Blocking, for seconds. Raises EngineUnavailable for a parser or a model that there is not,
    ConfigError where they don't go together."""
    own = load_tokenizer(config.model)
    arguments: dict[str, Any] = {"model": config.model, "dtype": config.dtype}
    if config.max_model_len:
        arguments["max_model_len"] = config.max_model_len
    make_renderer: Any = getattr(registry, "renderer_from_config")  # noqa: B009  its type is half unknown
    try:
        model = AsyncEngineArgs(**arguments | config.engine_args).create_model_config()
        settings = VllmConfig(model_config=model, device_config=DeviceConfig(device="cpu"))
        renderer: Any = make_renderer(settings)
    except Exception as error:  # vLLM raises whatever went wrong
        raise EngineUnavailable(
            f"vLLM can't render prompts for {config.model} ({error}); check model and engine_args"
        ) from error
    try:
        parser = ParserManager.get_parser(
            tool_parser_name=config.tool_parser,
            enable_auto_tools=True,
            tool_strict_level="parameter",
            tokenizer=renderer.tokenizer,
        )
        native = NativeDialect(renderer, parser, ModelTokens(own, template), template)
    except ConfigError:
        raise
    except Exception as error:  # each parser has its own way to say that the model is not its own
        raise ConfigError(
            f"tool_parser: {config.tool_parser!r} can't be used with {config.model} ({error}); "
            "choose the model's own, or leave it empty, so that calls are made in plain text"
        ) from error
    native.probe()
    # What can't be read is told to the model, and need not be in the log with a traceback.
    logging.getLogger("vllm.tool_parsers").setLevel(logging.CRITICAL)
    return native


def _request(tools: Sequence[ToolSpec], choice: str) -> Any:
    request: Any = ChatCompletionRequest  # whose types ask for what has a default
    return request(
        messages=[{"role": "user", "content": ""}],
        tools=[_function(tool) for tool in tools] or None,
        tool_choice=choice if tools else "none",
    )


def _loose(tool: ToolSpec) -> ToolSpec:
    return ToolSpec(name=tool.name, parameters=_ANYTHING)


def _function(tool: ToolSpec) -> Any:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or _NOTHING,
    }
    return {"type": "function", "function": function}


def _tool_call(call: ToolCall, plain: Callable[[str], str]) -> dict[str, Any]:
    arguments = json.dumps(spelled_out(call.arguments, plain), ensure_ascii=False)
    return {
        "id": plain(call.id),
        "type": "function",
        "function": {"name": plain(call.name), "arguments": arguments},
    }
