"""Which way to say what is called: by the configuration, and by the job."""

from typing import Any, Final

from ...schemas import AgentJob, InvalidMessage, Reason
from ...schemas.limits import MAX_STOP_STRINGS
from ..config import Config, ConfigError, file_text
from ..engine import EngineUnavailable
from ..model_tokenizer import NEEDS, load_tokenizer
from .dialect import Dialect
from .text import TextDialect
from .tokens import ByteTokens, ModelTokens, Tokens

_SCRIPTED_LEN: Final = 8192
# What models call the length of their context.
_LENGTHS: Final = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


class Dialects:
    """Those of one deployment. `max_model_len`: the model's context in tokens, answer included."""

    def __init__(self, tokens: Tokens, max_model_len: int, native: Dialect | None = None) -> None:
        """`native`: as the model's own chat template has it, where it knows of tools."""
        self._tokens = tokens
        self._free = TextDialect(tokens)
        self._held = TextDialect(tokens, held=True)
        self._native = native
        self.max_model_len = max_model_len

    def of(self, job: AgentJob) -> Dialect:
        """The one for a job. Raises InvalidMessage for a job that none can serve."""
        dialects: dict[str, Dialect] = {
            "auto": self._native or self._free,
            "text": self._free,
            "grammar": self._held,
        }
        found = dialects.get(job.format)
        if found is None:
            raise InvalidMessage(
                Reason.UNSUPPORTED, "$.format", f"{job.format!r} is none of {', '.join(dialects)}"
            )
        if len(job.sampling.stop) + len(found.stop) > MAX_STOP_STRINGS:
            raise InvalidMessage(
                Reason.UNSUPPORTED,
                "$.sampling.stop",
                f"{len(found.stop)} of the {MAX_STOP_STRINGS} stop strings are taken by format "
                f"{found.name}",
            )
        return found

    def count(self, text: str) -> int:
        """How many tokens a text is for the model."""
        return self._tokens.count(text)


def make_dialects(config: Config) -> Dialects:
    """Blocking: a tokenizer takes seconds to load, and so does vLLM, where its parser is asked for.
    Raises EngineUnavailable where they can't be had, ConfigError where the settings don't go with
    the model."""
    if config.engine == "scripted":
        if config.tool_parser:
            raise ConfigError("tool_parser: the scripted engine has no parser; leave it empty")
        return Dialects(ByteTokens(), _asked_len(config) or _SCRIPTED_LEN)
    template = file_text(config.chat_template, "chat_template") if config.chat_template else None
    if config.tool_parser:
        return _native(config, template)
    tokens = ModelTokens(load_tokenizer(config.model), template)
    return Dialects(tokens, _asked_len(config) or _model_len(config.model))


def _asked_len(config: Config) -> int:
    """As the engine reads it: its own arguments come last."""
    return int(config.engine_args.get("max_model_len") or config.max_model_len)


def _native(config: Config, template: str | None) -> Dialects:
    """vLLM is imported here, and only if it is wanted: that takes ten seconds."""
    try:
        from .native import open_native  # noqa: PLC0415
    except ImportError as error:
        raise EngineUnavailable(
            f"tool_parser: vLLM can't be imported ({error}); install sluicegate[gpu], or "
            "sluicegate[cpu] where there is no GPU, or leave tool_parser empty"
        ) from error
    native = open_native(config, template)
    return Dialects(native.tokens, native.max_model_len, native)


def _model_len(model: str) -> int:
    try:
        from transformers import AutoConfig  # noqa: PLC0415  as in load_tokenizer
    except ImportError:
        raise EngineUnavailable(NEEDS) from None
    auto: Any = AutoConfig
    text_config: Any = auto.from_pretrained(model).get_text_config()
    lengths = [getattr(text_config, name, None) for name in _LENGTHS]
    known = [length for length in lengths if isinstance(length, int) and length > 0]
    if not known:
        raise ConfigError(f"max_model_len: {model} does not say how long its context is; set it")
    return min(known)
