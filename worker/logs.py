"""Structured logs: for people or as JSON, with job and attempt on every line that has one."""

import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TextIO

from .log_secrecy import hidden, without_messages
from .orphan_guard import guard

_job: ContextVar[tuple[str, int] | None] = ContextVar("job", default=None)

# Where `for_vllm` says which file the errors go to; a child process inherits it.
_ERRORS: Final = "_SLUICE_ENGINE_ERRORS"
_VLLM_CONFIG: Final = "VLLM_LOGGING_CONFIG_PATH"
# A password in a URL, wherever it turns up: in messages, in exceptions, in other people's logs.
_PASSWORD: Final = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]*://[^\s:/@]*):[^\s@/]+@", re.IGNORECASE
)
# What drives an operator's terminal, turns the direction of what is written on it, or hides in it.
_CONTROLS: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


@contextmanager
def about(job_id: str, attempt: int) -> Generator[None]:
    """Log lines inside name this job and attempt. Tasks that start inside inherit it."""
    token = _job.set((job_id, attempt))
    try:
        yield
    finally:
        _job.reset(token)


def clean(text: str) -> str:
    """The text without passwords and controls."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", _PASSWORD.sub(r"\g<scheme>:***@", text))


class _JobFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.sluice_job = _job.get()
        return True


class _OurFormatter(logging.Formatter):
    """`hides`: texts of jobs stay out of it."""

    def __init__(self, *, hides: bool = False) -> None:
        super().__init__()
        self._hides = hides

    def _seen(self, record: logging.LogRecord) -> logging.LogRecord:
        return hidden(record) if self._hides else record

    def _error(self, record: logging.LogRecord) -> str:
        """The traceback of a record, empty where it has none."""
        if not record.exc_info or record.exc_info[1] is None:
            return ""
        if self._hides:
            return without_messages(record.exc_info[1])
        return self.formatException(record.exc_info)


class HumanFormatter(_OurFormatter):
    """`12:00:01 INFO  worker.service  job=... attempt=1  message`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it."""
        record = self._seen(record)
        job: tuple[str, int] | None = getattr(record, "sluice_job", None)
        when = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        who = f" job={job[0]} attempt={job[1]}" if job else ""
        # Set in where it goes on: no text in it can pass for a line of its own.
        said = "\n".join(filter(None, (record.getMessage(), self._error(record))))
        said = said.replace("\n", "\n    ")
        return clean(f"{when} {record.levelname:<7} {_short(record.name)}{who}  {said}")


class JsonFormatter(_OurFormatter):
    """One JSON object a line: time, level, logger, message, job_id, attempt, error."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        record = self._seen(record)
        job: tuple[str, int] | None = getattr(record, "sluice_job", None)
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clean(record.getMessage()),
        }
        if job:
            line |= {"job_id": job[0], "attempt": job[1]}
        if error := self._error(record):
            line["error"] = clean(error)
        return json.dumps(line, ensure_ascii=False)


def configure(
    form: Literal["human", "json"], level: str, stream: TextIO | None = None, *, hides: bool = False
) -> None:
    """Send the process's logs to a stream, standard error by default; `hides`: without texts of
    jobs."""
    handler = logging.StreamHandler(stream or sys.stderr)
    kind = JsonFormatter if form == "json" else HumanFormatter
    handler.setFormatter(kind(hides=hides))
    handler.addFilter(_JobFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("sluicegate").setLevel(level.upper())
    # It logs what it raises as well, and we say that in our own words.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)


@contextmanager
def for_vllm(form: Literal["human", "json"], level: str, *, hides: bool = False) -> Generator[None]:
    """Make vLLM log as we do, in its child processes, too. What the user has set for it stands.

    It says a lot at `info`; only `debug` of ours asks for that. Its errors also go to a file, in
    which `engine_errors` finds what a child process died of.
    """
    kind = JsonFormatter if form == "json" else HumanFormatter
    with tempfile.TemporaryDirectory(prefix="sluice-worker-") as folder:
        errors = Path(folder, "errors.log")
        config = Path(folder, "vllm.json")
        config.write_text(json.dumps(_vllm_config(kind, level, errors, hides=hides)))
        # Its sockets go there, too: the engine of a worker that was killed leaves them behind.
        ours = {_VLLM_CONFIG: str(config), _ERRORS: str(errors), "VLLM_RPC_BASE_PATH": folder}
        ours = {name: value for name, value in ours.items() if name not in os.environ}
        os.environ.update(ours)
        try:
            yield
        finally:
            for name in ours:
                del os.environ[name]


def engine_formatter(name: str, *, hides: bool = False) -> logging.Formatter:
    """The formatter of vLLM's processes; they must not outlive the worker from here on."""
    guard()
    kind = JsonFormatter if name == JsonFormatter.__name__ else HumanFormatter
    return kind(hides=hides)


def engine_errors(since: int = 0) -> str:
    """What vLLM's processes have logged as errors, with tracebacks, behind the first `since`
    characters; empty if that is unknown."""
    try:
        return Path(os.environ[_ERRORS]).read_text(errors="replace")[since:]
    except (KeyError, OSError):
        return ""


def _vllm_config(
    kind: type[logging.Formatter], level: str, errors: Path, *, hides: bool
) -> dict[str, object]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        # Called in each of its processes when it begins, long before it loads plug-ins.
        "formatters": {
            "ours": {
                "()": f"{__name__}.engine_formatter",
                "name": kind.__name__,
                "hides": hides,
            }
        },
        "handlers": {
            "ours": {"class": "logging.StreamHandler", "formatter": "ours"},
            "errors": {
                "class": "logging.FileHandler",
                "filename": str(errors),
                "delay": True,
                "level": "ERROR",
            },
        },
        "loggers": {
            "vllm": {
                "handlers": ["ours", "errors"],
                "level": "INFO" if level == "debug" else "WARNING",
                "propagate": False,
            }
        },
    }


def _short(name: str) -> str:
    return name.removeprefix("sluicegate.")
