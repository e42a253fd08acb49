"""What the doctor asks the machine: Python, packages, memory, disk, descriptors, clock, port.

Each function looks at one thing and gives a finding; none changes anything.
"""

import contextlib
import ctypes
import errno
import importlib.metadata
import os
import re
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

from ..worker.config import Config, slots
from .doctor_findings import Finding, note, ok, trouble, unknown

_GIB: Final = 2**30
# Room for logs, a compiled model and what vLLM caches.
_DISK_LEAST: Final = 2 * _GIB
_MEMORY_LEAST: Final = _GIB // 2
# A connection, its log, and some for each job's tools; far below any default but the smallest.
_FILES_LEAST: Final = 1024
# From adjtimex(2): the kernel's clock is not held to another.
_CLOCK_UNSYNCHRONISED: Final = 0x0040
_OFF_AT_MOST_S: Final = 5.0
_CLOCK_ADVICE: Final = "run chrony, ntpd or systemd-timesyncd (in a container: on its host)"


def look(config: Config) -> Iterator[Finding]:
    """All of it, one by one."""
    yield python()
    yield packages()
    yield descriptors(config)
    yield clock()
    yield memory(Path("/proc/meminfo"))
    yield from disk()
    yield port(config)


def python() -> Finding:
    """Whether this Python is one of those that are supported."""
    told = ".".join(map(str, sys.version_info[:3]))
    wanted = importlib.metadata.metadata("sluicegate")["Requires-Python"]
    if Requirement(f"python{wanted}").specifier.contains(told):
        return ok("python", f"{told}")
    return trouble("python", f"{told}, supported is {wanted}", "make the environment anew with one")


def packages() -> Finding:
    """Whether what is installed is what sluicegate asks for; extras that are not used don't count,
    what is installed of them does."""
    wrong: list[str] = []
    for line in importlib.metadata.requires("sluicegate") or ():
        wanted = Requirement(line)
        of_extra = wanted.marker is not None and "extra" in str(wanted.marker)
        try:
            there = importlib.metadata.version(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            if not of_extra:
                wrong.append(f"{wanted.name} is missing")
            continue
        local = Version(there)
        if not wanted.specifier.contains(local.public, prereleases=True):
            wrong.append(f"{wanted.name} is {there}, wanted {wanted.specifier}")
    if wrong:
        return trouble(
            "packages", "; ".join(dict.fromkeys(wrong)), "pip install --upgrade sluicegate"
        )
    return ok("packages", f"sluicegate {importlib.metadata.version('sluicegate')}, all as wanted")


def descriptors(config: Config) -> Finding:
    """Whether enough files and connections may be open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = max(_FILES_LEAST, 8 * slots(config))
    if soft == resource.RLIM_INFINITY or soft >= least:
        return ok("open files", f"up to {soft}")
    return trouble(
        "open files", f"up to {soft}, wanted {least}", "ulimit -n, or LimitNOFILE= in the unit"
    )


def clock() -> Finding:
    """Whether the machine's clock is kept right: deadlines and queue times go by it."""
    if not sys.platform.startswith("linux"):
        return unknown("clock", "can be told on Linux alone", _CLOCK_ADVICE)
    state = _kernel_clock()
    if state is None:
        return unknown(
            "clock", "the kernel does not tell whether it is synchronised", _CLOCK_ADVICE
        )
    if state & _CLOCK_UNSYNCHRONISED:
        return note(
            "clock",
            "not synchronised, as far as the kernel knows: deadlines are as wrong as it is",
            _CLOCK_ADVICE,
        )
    return ok("clock", "synchronised")


def clock_beside(theirs_s: float, ours_s: float) -> Finding:
    """Whether the broker's host and this one agree on the time (Unix seconds; to the second)."""
    off_s = ours_s - theirs_s
    if abs(off_s) <= _OFF_AT_MOST_S:
        return ok("clock of broker", "agrees with ours")
    way = "ahead of" if off_s > 0 else "behind"
    return trouble(
        "clock of broker",
        f"ours is {abs(off_s):.0f} s {way} the broker host's: deadlines fire wrongly",
        "synchronise both",
    )


def memory(meminfo: Path) -> Finding:
    """Whether there is memory left."""
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        return unknown("memory", f"{meminfo} does not tell", "mount /proc, or look by other means")
    free = int(found[1]) * 1024
    if free < _MEMORY_LEAST:
        return trouble(
            "memory", f"{_gib(free)} available", "stop something, or give the machine more"
        )
    return ok("memory", f"{_gib(free)} available")


def disk() -> Iterator[Finding]:
    """Whether there is room where models and what is compiled of them go."""
    folders = {
        "disk (cache)": Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"),
        "disk (temporary)": Path(tempfile.gettempdir()),
    }
    for name, folder in folders.items():
        yield _room(name, folder)


def _room(name: str, folder: Path) -> Finding:
    there = next((each for each in (folder, *folder.parents) if each.is_dir()), None)
    if there is None:
        return unknown(name, f"{folder} is not there", "set XDG_CACHE_HOME or TMPDIR")
    free = shutil.disk_usage(there).free
    if not os.access(there, os.W_OK):
        return note(name, f"{folder} can't be written to", "set XDG_CACHE_HOME or TMPDIR")
    if free < _DISK_LEAST:
        return trouble(name, f"{folder}: {_gib(free)} free", f"free {_gib(_DISK_LEAST)} or more")
    return ok(name, f"{folder}: {_gib(free)} free")


def port(config: Config) -> Finding:
    """Whether the status port is free."""
    name, where = "status port", f"{config.metrics_host}:{config.metrics_port}"
    if not config.metrics_port:
        return ok(name, "any free one")
    try:
        family, kind, *_, address = socket.getaddrinfo(
            config.metrics_host, config.metrics_port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        said = f"{where} can't be bound: {error.strerror or error}"
        if error.errno != errno.EADDRINUSE:
            return trouble(
                name, said, "set metrics_host, and metrics_port to one that may be opened"
            )
        return note(
            name, said, "it is well if a service of yours runs there; otherwise set metrics_port"
        )
    return ok(name, f"{where} is free")


def _kernel_clock() -> int | None:
    """The kernel's `status` word of adjtimex(2)."""
    with contextlib.suppress(OSError, AttributeError):
        # struct timex: unsigned modes; long offset, freq, maxerror, esterror; int status; ...
        timex = (ctypes.c_long * 64)()
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) >= 0:
            return ctypes.c_int.from_buffer(timex, 5 * ctypes.sizeof(ctypes.c_long)).value
    return None


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
