"""Calls in plain text, for models whose chat template knows no tools (ReAct: Yao et al. 2023,
arXiv:2210.03629): the model writes what it thinks, what it calls with what, or its answer."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ...schemas import FinishReason, StructuredOutput, ToolSpec
from . import grammar, text_parse
from .dialect import Came, Parsed, Prompt, Said, Told, Turn
from .outside import quoted, set_in, unlabelled
from .tokens import Message, Tokens
from .wording import came_otherwise, result_text

_HOW: Final = """\
You can call tools. To call one, write:
Thought: what you know and what you need next
Action: the tool's name
Action Input: its arguments as one JSON object
Then stop. What the tool gives back comes to you as an Observation; never write one yourself. Its \
further lines are indented, and what stands behind | is only quoted. To call several tools at \
once, write several pairs of Action and Action Input.

When you know the answer, call nothing and write:
Thought: why this is the answer
Final Answer: the answer

The tools, with the JSON Schema of their arguments:
"""
_NONE: Final = """\
There are no tools. Write:
Thought: why this is the answer
Final Answer: the answer
"""
_BETWEEN: Final = "\n\n"


class TextDialect:
    """Plain text; `held` to its form by a grammar, or free.

    A prompt is turned into tokens whole. With a chat template that gives each turn by itself and
    sets turns apart by special tokens (the ChatML family and most others), the tokens of a prompt
    are the beginning of those of every later prompt of the conversation. What the model said is
    turned into tokens again, which may be others than it sampled. Templates that give older turns
    otherwise than the last one, and models without one, may differ from there on. Either costs a
    part of the prefix cache, and changes nothing else.

    Who speaks is told by what a line begins with. Text from outside has none of those forms: see
    `outside`. What the system says, and the model, stands as it is.
    """

    def __init__(self, tokens: Tokens, *, held: bool = False) -> None:
        self._tokens = tokens
        self._held = held

    def __repr__(self) -> str:
        return f"<TextDialect {self.name}>"

    @property
    def name(self) -> str:
        """As the job's `format` has it."""
        return "grammar" if self._held else "text"

    @property
    def stop(self) -> tuple[str, ...]:
        """Where a model would begin to make up what a tool said."""
        return "\nObservation:", "\nObservation ("

    @property
    def openers(self) -> tuple[str, ...]:
        """The label of a call."""
        return ("Action:",)

    @property
    def spans(self) -> tuple[tuple[str, str], ...]:
        """The JSON of the arguments, up to whichever label comes next."""
        labels = ("\nThought:", "\nAction:", "\nFinal Answer:", "\n**")
        return tuple(("Action Input:", label) for label in labels)

    def prompt(self, turns: Sequence[Turn], tools: Sequence[ToolSpec]) -> Prompt:
        """The system's words as they are, then how to call and what. Raises InvalidMessage where
        the model's template refuses the conversation."""
        return self._tokens.chat(self._messages(turns, tools))

    def grammar(
        self, tools: Sequence[ToolSpec], *, may_answer: bool = True
    ) -> StructuredOutput | None:
        """The form as a grammar. Of a free dialect it is asked for only where a job is to be held
        to some of its tools, or to its answer."""
        return StructuredOutput(grammar=grammar.text_grammar(tools, may_answer=may_answer))

    def parse(
        self, text: str, finish_reason: FinishReason | None, tools: Sequence[ToolSpec]
    ) -> Parsed:
        """As the labels say."""
        del tools
        return text_parse.parse(text, finish_reason)

    def answer(self, text: str) -> str:
        """Without labels."""
        return text_parse.answer_of(text)

    def _messages(self, turns: Sequence[Turn], tools: Sequence[ToolSpec]) -> list[Message]:
        said = list(turns)
        own = ""
        if said and isinstance(first := said[0], Told) and first.role == "system":
            own = first.text
            del said[0]
        system = _BETWEEN.join(filter(None, [own, self._how(tools)]))
        messages = [Message("system", system)]
        for turn in said:
            message = self._message(turn)
            if message.role == messages[-1].role:
                # Many templates refuse two turns of the same speaker in a row.
                both = f"{messages[-1].content}{_BETWEEN}{message.content}"
                messages[-1] = Message(message.role, both)
            else:
                messages.append(message)
        return messages

    def _how(self, tools: Sequence[ToolSpec]) -> str:
        if not tools:
            return _NONE
        return self._tokens.plain(_HOW + "\n".join(map(_described, tools)))

    def _message(self, turn: Turn) -> Message:
        plain = self._tokens.plain
        match turn:
            case Said(text=text):
                return Message("assistant", plain(text.strip()))
            case Came():
                return Message("user", plain("\n".join(_came(turn))))
            case _:
                return Message(turn.role, plain(quoted(turn.text)))


def _described(tool: ToolSpec) -> str:
    schema = msgspec.json.encode(tool.parameters or {"type": "object"}).decode()
    told = " ".join(tool.description.split())
    return f"- {tool.name}: {told}\n  {schema}" if told else f"- {tool.name}\n  {schema}"


def _came(turn: Came) -> Iterator[str]:
    for call in turn.calls:
        yield f"Observation ({call.name}): {set_in(result_text(call))}"
    yield from map(unlabelled, came_otherwise(turn))
