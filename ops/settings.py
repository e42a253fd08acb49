"""Where the configuration comes from: default < file < environment < flag, each value with its
source, so that an error and `sluice config show` can name it."""

import difflib
import functools
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import click
import msgspec
from msgspec import Struct

from ..worker.config import Config, ConfigError, check, secured
from .redaction import hidden

PREFIX: Final = "SLUICE_"
SYSTEM_FILE: Final = Path("/etc/sluicegate/sluice.toml")
LOCAL_FILE: Final = Path("sluice.toml")

# Variables that are no field of Config.
OTHER_VARIABLES: Final[dict[str, str]] = {
    "SLUICE_CONFIG": "the TOML file with the settings",
    "SLUICE_CACHE": "folder for what is made once, such as the embedded model",
    "SLUICE_PYTHON": "the Python that set-up uses",
    "SLUICE_DEBUG": "tracebacks where something fails",
    "SLUICE_DLQ_KEY_PASSWORD": "the password of the key in dlq_key_file, where it has one",
    "SLUICE_MANAGEMENT_URL": "RabbitMQ's management API, for `sluice topology check` and `top`",
    "SLUICE_PROMETHEUS_URL": "Prometheus, for `sluice report`",
}

# Kubernetes puts these into every pod beside a service called `sluice` or `sluice-…`.
_SERVICE_LINK = re.compile(r"SLUICE_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_\w+)?)")

# A topic begins with this field and goes on to the next; new fields fall into place by themselves.
TOPICS: Final[dict[str, str]] = {
    "amqp_url": "Broker",
    "keep_texts": "Texts",
    "worker_id": "Worker",
    "engine": "Engine",
    "engine_stall_s": "Engine's health",
    "reasoning_parser": "Reasoning",
    "gates_file": "Gates and retries",
    "scoring_model": "Checker",
    "agent_slots": "Agents",
    "metrics_host": "Watching",
}

_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "object": "a table",
}
# What a pattern means, for those who don't read patterns.
_PATTERNS: Final = {
    "namespace": "of letters a-z and A-Z, digits, `.`, `_` and `-`, and not begin with `amq.`",
}
# Shorter names of flags, beside their own.
_SHORT_FLAGS: Final = {"dlq_key_file": "--key"}
_METAVARS: Final = {int: "INTEGER", float: "NUMBER", dict: "JSON"}
_META_KEY: Final = "sluicegate.settings"

R = TypeVar("R")


class BadSetting(ConfigError):
    """Settings that can't be used; the message names each with its source."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n       ".join(self.problems))


class Source(Struct, frozen=True):
    """Where a value comes from: `name` is the file and line, the variable or the flag."""

    kind: Literal["default", "file", "env", "flag"]
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.kind


class Settings(Struct, frozen=True):
    """The configuration in force, and the source of each of its fields."""

    config: Config
    sources: dict[str, Source]
    file: Path | None = None


class Field(Struct, frozen=True):
    """One field of Config, as the loader and the help need to know it."""

    name: str
    annotation: Any
    base: type
    choices: tuple[str, ...]
    description: str
    default: Any
    topic: str

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def negation(self) -> str:
        """The flag that says no."""
        return self.flag.replace("--", "--no-", 1)


def _fields() -> dict[str, Field]:
    found: dict[str, Field] = {}
    topic = ""
    for info in msgspec.structs.fields(Config):
        topic = TOPICS.get(info.name, topic)
        plain, meta = get_args(info.type)
        choices = get_args(plain) if get_origin(plain) is Literal else ()
        found[info.name] = Field(
            name=info.name,
            annotation=info.type,
            base=str if choices else get_origin(plain) or plain,
            choices=choices,
            description=meta.description,
            default=getattr(Config(), info.name),
            topic=topic,
        )
    return found


FIELDS: Final[dict[str, Field]] = _fields()


def load(
    *,
    config_file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration in force. Errors as `resolve`."""
    return resolve(config_file=config_file, environ=environ, flags=flags).config


def resolve(
    *,
    config_file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """The configuration in force, with the source of each value.

    `flags` holds what was said on the command line, by field; text is read as a variable's would
    be. Raises BadSetting, which names every problem at once, or ConfigError where settings that are
    fine alone don't go together.
    """
    problems: list[str] = []
    file = find_file(config_file, environ)
    layers = [
        _from_file(file, problems) if file else {},
        _from_environment(environ, problems),
        _from_flags(flags or {}),
    ]
    values: dict[str, Any] = {}
    sources = {name: Source("default") for name in FIELDS}
    for layer in layers:
        for name, (raw, source) in layer.items():
            try:
                values[name] = _convert(FIELDS[name], raw, said_as_text=source.kind != "file")
                sources[name] = source
            except ValueError as error:
                problems.append(f"{source}: {error}")
    if problems:
        raise BadSetting(problems)
    config = Config(**values)
    # Rules that need more than one field belong to the services, which know why.
    check(config)
    return Settings(secured(config), sources, file)


def find_file(config_file: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The file to read: as told, or else the first of the usual ones that is there."""
    if config_file is not None:
        return config_file
    if named := environ.get("SLUICE_CONFIG"):
        return Path(named)
    return next((path for path in (LOCAL_FILE, SYSTEM_FILE) if path.is_file()), None)


_Layer = dict[str, tuple[Any, Source]]


def _from_file(path: Path, problems: list[str]) -> _Layer:
    try:
        # Editors on Windows put a byte order mark at the beginning.
        text = path.read_text(encoding="utf-8-sig")
        content = tomllib.loads(text)
    except OSError as error:
        raise BadSetting([f"{path}: can't read the settings: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise BadSetting([f"{path}: is not UTF-8 text"]) from error
    except tomllib.TOMLDecodeError as error:
        raise BadSetting([f"{path}: is not TOML: {error}"]) from error
    layer: _Layer = {}
    for key, value in content.items():
        source = Source("file", f"{path}:{_line_of(key, text)}")
        if key in FIELDS:
            layer[key] = (value, source)
        elif isinstance(value, dict) and any(inner in FIELDS for inner in value):  # pyright: ignore[reportUnknownVariableType]
            problems.append(f"{source}: no table [{key}] here: keys stand at the top of the file")
        else:
            problems.append(f"{source}: unknown key {key!r}{_nearest(key, FIELDS)}")
    return layer


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> _Layer:
    by_variable = {field.variable: field for field in FIELDS.values()}
    layer: _Layer = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        if field := by_variable.get(variable):
            # Compose files and unit files pass on empty what was never set.
            if environ[variable]:
                layer[field.name] = (environ[variable], Source("env", variable))
        elif variable not in OTHER_VARIABLES and not _SERVICE_LINK.fullmatch(variable):
            known = [*by_variable, *OTHER_VARIABLES]
            problems.append(f"unknown environment variable {variable}{_nearest(variable, known)}")
    return layer


def _from_flags(flags: Mapping[str, Any]) -> _Layer:
    return {
        name: (value, Source("flag", _said(FIELDS[name], value))) for name, value in flags.items()
    }


def _said(field: Field, value: Any) -> str:
    return field.negation if value is False else field.flag


def _convert(field: Field, raw: Any, *, said_as_text: bool) -> Any:
    """The value as the field's type. Raises ValueError that says what it must be."""
    value = raw
    try:
        if said_as_text and field.base is dict and isinstance(raw, str):
            value = msgspec.json.decode(raw)
        converted = msgspec.convert(value, field.annotation, strict=not said_as_text)
    except msgspec.ValidationError as error:
        raise ValueError(_must_be(field, value, str(error))) from None
    except msgspec.DecodeError as error:
        raise ValueError(f"{field.name} must be a table as JSON: {error}") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ValueError(_must_be(field, raw, "out of range"))
    if field.name == "amqp_url" and isinstance(converted, str):
        _check_url(converted)
    return converted


def _check_url(url: str) -> None:
    # The broker's client takes its time to load, and `--help` doesn't need it.
    from ..producer.connection import parse_url  # noqa: PLC0415

    try:
        parse_url(url)
    except ValueError as error:
        raise ValueError(f"amqp_url {error}") from None


def _must_be(field: Field, raw: Any, detail: str) -> str:
    """What a value must be. Quotes what was said instead, without any secret."""
    if field.name == "amqp_url" and isinstance(raw, str):
        _check_url(raw)  # says it
    if field.choices:
        wanted = f"one of {', '.join(field.choices)}"
    elif "out of range" in detail:
        wanted = "a finite number" if field.base is float else "a whole number that is not so large"
    elif "regex" in detail and field.name in _PATTERNS:
        wanted = _PATTERNS[field.name]
    else:
        wanted = detail.removeprefix("Expected ").partition(", got ")[0].replace("`", "")
        kind, _, rest = wanted.partition(" ")
        wanted = f"{_WORDS.get(kind, kind)} {rest}".rstrip()
    quoted = repr(hidden(raw))
    return f"{field.name} must be {wanted}, not {_short(quoted)}"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _line_of(key: str, text: str) -> int:
    """The line where a top-level key or table is set; tomllib doesn't tell. At least 1."""
    name = re.escape(key)
    setter = re.compile(rf"\s*(\[\s*)?([\"']?){name}\2\s*[\].=]")
    for number, line in enumerate(text.splitlines(), 1):
        if setter.match(line):
            return number
    return 1


class SettingOption(click.Option):
    """A flag made from a field of Config."""

    topic: str = ""


class ByTopic(click.Command):
    """A command whose many flags are listed under their topics."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                topic = parameter.topic if isinstance(parameter, SettingOption) else "Options"
                groups.setdefault(topic, []).append(record)
        for topic, records in groups.items():
            with formatter.section(topic):
                formatter.write_dl(records)


def option_flags(*names: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a click command a flag for each named field (all of them without a name), and call it
    with `config`, the whole configuration in force."""
    chosen = names or tuple(FIELDS)

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def with_config(**values: Any) -> R:
            said = {name: values.pop(f"setting_{name}") for name in chosen}
            flags = {name: value for name, value in said.items() if value is not None}
            context = click.get_current_context()
            file = values.pop("config_file") or context.find_root().params.get("config_file")
            settings = resolve(config_file=file, flags=flags)
            context.meta[_META_KEY] = settings
            return function(config=settings.config, **values)

        decorated: Callable[..., R] = click.option(
            "--config",
            "config_file",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Read the settings from this TOML file. [env: SLUICE_CONFIG]",
        )(with_config)
        for name in reversed(chosen):
            decorated = _flag(FIELDS[name])(decorated)
        return decorated

    return decorate


def current_settings() -> Settings:
    """The settings that `option_flags` resolved for the running command."""
    settings: Settings = click.get_current_context().meta[_META_KEY]
    return settings


def _flag(field: Field) -> Callable[[Callable[..., R]], Callable[..., R]]:
    attributes: dict[str, Any] = {"help": _help(field), "default": None}
    declaration = field.flag
    if field.base is bool:
        declaration = f"{field.flag}/{field.negation}"
    elif field.choices:
        attributes["type"] = click.Choice(field.choices)
    else:
        attributes["metavar"] = _METAVARS.get(field.base, "TEXT")

    flags = [declaration, *filter(None, [_SHORT_FLAGS.get(field.name)])]

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        decorated: Callable[..., R] = click.option(
            f"setting_{field.name}", *flags, cls=SettingOption, **attributes
        )(function)
        _params(decorated)[-1].topic = field.topic
        return decorated

    return decorate


def _params(function: Any) -> list[SettingOption]:
    """The options that click has hung on a function so far."""
    return function.__click_params__


def _help(field: Field) -> str:
    # No need to load the broker's client for our own default.
    default = hidden(field.default)
    text = default if isinstance(default, str) else msgspec.json.encode(default).decode()
    if field.base is dict or default == "":
        return f"{field.description} [env: {field.variable}]"
    return f"{field.description} [env: {field.variable}; default: {text}]"
