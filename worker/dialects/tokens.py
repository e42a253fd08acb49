"""The model's tokenizer and chat template, without the model: prompts, and how long they are."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

import regex

from ...schemas import InvalidMessage, Reason
from ..config import ConfigError
from ..model_tokenizer import ModelTokenizer
from .dialect import Prompt

Role = Literal["system", "user", "assistant"]
_NAMES: Final[dict[Role, str]] = {"system": "System", "user": "User", "assistant": "Assistant"}


class Message(NamedTuple):
    """One turn as a chat template has it."""

    role: Role
    content: str


class Tokens(Protocol):
    """Counts exactly, and puts a conversation before the model."""

    def count(self, text: str) -> int:
        """How many tokens it is, without anything around it."""
        ...

    def chat(self, messages: Sequence[Message]) -> Prompt:
        """The conversation, up to where the model is to speak. Raises InvalidMessage where the
        model's template refuses it."""
        ...

    def plain(self, text: str) -> str:
        """A text from outside in which nothing is spelled like one of the model's own tokens: it
        would be one, and could end the turn and begin another's."""
        ...


class ByteTokens:
    """For an engine without a model: a token is a byte of UTF-8, and a prompt is text."""

    def count(self, text: str) -> int:
        """Its bytes."""
        return len(text.encode(errors="replace"))

    def chat(self, messages: Sequence[Message]) -> Prompt:
        """Each turn with who says it."""
        text = written(messages)
        return Prompt(text=text, tokens=self.count(text))

    def plain(self, text: str) -> str:
        """No text is spelled like anything else."""
        return text


class ModelTokens:
    """By the model's own tokenizer and chat template, or `template` in its place. A model without
    any is given the turns with the names of who speaks. For several threads."""

    def __init__(self, model: ModelTokenizer, template: str | None = None) -> None:
        """Raises ConfigError for a template that can't be used."""
        self._tokenizer: Any = model.tokenizer
        self._template: Any = template or getattr(self._tokenizer, "chat_template", None)
        # The fast tokenizers refuse to be used by two threads at once while one changes them.
        self._lock = threading.Lock()
        self._special = special_tokens(self._tokenizer)
        self._has_system = True
        if self._template:
            self._probe()

    def count(self, text: str) -> int:
        """What the tokenizer makes of it."""
        with self._lock:
            return len(self._tokenizer.encode(text, add_special_tokens=False))

    def chat(self, messages: Sequence[Message]) -> Prompt:
        """Through the chat template. O(length of the conversation)."""
        try:
            ids = self._ids(messages)
        except Exception as error:  # a template is the model's own program and may raise anything
            raise InvalidMessage(
                Reason.UNSUPPORTED, "$.task", f"the model's chat template refuses it: {error}"
            ) from error
        return Prompt(token_ids=tuple(ids), tokens=len(ids))

    def plain(self, text: str) -> str:
        """With a blank in whatever is spelled like a special token."""
        if self._special is None:
            return text
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def _ids(self, messages: Sequence[Message]) -> list[int]:
        with self._lock:
            if not self._template:
                return list(self._tokenizer.encode(written(messages)))
            turns = messages if self._has_system else without_system(messages)
            ids: list[int] = self._tokenizer.apply_chat_template(
                [turn._asdict() for turn in turns],
                chat_template=self._template,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
            )
            return ids

    def _probe(self) -> None:
        """Some templates know no system; some refuse whatever they are given."""
        asked = [Message("system", "Be brief."), Message("user", "Hello")]
        try:
            self._ids(asked)
        except Exception:  # as above
            self._has_system = False
        try:
            self._ids(asked)
        except Exception as error:
            raise ConfigError(
                f"chat_template: the template can't be used ({error}); set one that takes a "
                "system's and a user's turn"
            ) from error


def written(messages: Sequence[Message]) -> str:
    """A conversation for a model without a chat template."""
    turns = [f"{_NAMES[message.role]}: {message.content}\n\n" for message in messages]
    return "".join([*turns, f"{_NAMES['assistant']}:"])


def spelled_out(value: Any, plain: Callable[[str], str]) -> Any:
    """JSON in which each text, and each name, is as `plain` gives it."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [spelled_out(one, plain) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        own = cast("dict[str, Any]", value)
        return {plain(name): spelled_out(one, plain) for name, one in own.items()}
    return value


def without_system(messages: Sequence[Message]) -> list[Message]:
    """What the system says put before what the first user says."""
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return list(messages)
    first = Message("user", f"{messages[0].content}\n\n{messages[1].content}")
    return [first, *messages[2:]]


def special_tokens(tokenizer: Any) -> regex.Pattern[str] | None:
    """What the tokenizer takes for tokens of its own, whatever stands around it: its special
    tokens, and those that are added in brackets. None where it has none."""
    special = {str(token) for token in tokenizer.all_special_tokens}
    added = {name for name in tokenizer.get_added_vocab() if name[:1] in "<[" and len(name) > 2}
    spelled = sorted(special | added, key=lambda one: (-len(one), one))
    return regex.compile("|".join(map(regex.escape, spelled))) if spelled else None
