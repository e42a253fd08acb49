"""What only the system's package manager can install, and is missing: said before any download.

Whoever is not root learns of all of it at once. Read by the set-up script before anything of ours
is installed, so the standard library alone:

    python ops/system_needs.py venv numa broker

prints the advice, or nothing where nothing is missing.
"""

import ctypes
import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

# Where packages put the server beside PATH. The last word on it has `broker_program`.
BROKER_FOLDERS = (
    "/usr/sbin",
    "/usr/lib/rabbitmq/bin",
    "/opt/homebrew/opt/rabbitmq/sbin",
    "/usr/local/opt/rabbitmq/sbin",
)


def missing(needs: Sequence[str], path: str) -> list[str]:
    """Those of `venv`, `numa` and `broker` that are not here. `path` as the variable PATH."""
    checks = {"venv": _has_ensurepip, "numa": _has_numa, "broker": lambda: _has_broker(path)}
    return [need for need in needs if not checks[need]()]


def advice(needs: Sequence[str], version: str, *, apt: bool) -> str:
    """One sentence on how to install them; `version` of Python, as in `3.11`."""
    debian = {"venv": f"python{version}-venv", "numa": "libnuma1", "broker": "rabbitmq-server"}
    others = {
        "venv": f"Python {version} with its module ensurepip",
        "numa": "the library libnuma.so.1 (Fedora: numactl-libs)",
        "broker": "RabbitMQ (rabbitmq-server)",
    }
    what = (
        f"sudo apt-get install {' '.join(debian[need] for need in needs)}"
        if apt
        else ", ".join(others[need] for need in needs)
    )
    otherwise = (
        " Instead of RabbitMQ, SLUICE_AMQP_URL may name a broker." if "broker" in needs else ""
    )
    return f"missing on this system. Install, then run this again: {what}.{otherwise}"


def _has_ensurepip() -> bool:
    return importlib.util.find_spec("ensurepip") is not None


def _has_numa() -> bool:
    """The CPU build of vLLM is linked against it, on Linux."""
    if sys.platform != "linux":
        return True
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        return False
    return True


def _has_broker(path: str) -> bool:
    return shutil.which("rabbitmq-server", path=":".join([path, *BROKER_FOLDERS])) is not None


def main(needs: Sequence[str], path: str) -> str:
    """The advice, or nothing."""
    found = missing(needs, path)
    apt = Path("/etc/debian_version").exists() and shutil.which("apt-get", path=path) is not None
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return advice(found, version, apt=apt) if found else ""


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:], os.environ.get("PATH", "")))
