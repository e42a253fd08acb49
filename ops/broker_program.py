"""Where the `rabbitmq-server` program is, and what to install where it is missing."""

import os
import platform
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..schemas import SluiceError

# In this order. Debian's and RPM's `/usr/sbin/rabbitmq-server` switches to the user `rabbitmq`,
# who can't write to a folder of ours; the program in /usr/lib runs as whoever calls it.
KNOWN_SERVERS = ("/usr/lib/rabbitmq/bin/rabbitmq-server",)
RPM_FOLDER = Path("/usr/lib/rabbitmq/lib")
OFF_PATH_SERVERS = (
    "/opt/homebrew/opt/rabbitmq/sbin/rabbitmq-server",
    "/usr/local/opt/rabbitmq/sbin/rabbitmq-server",
)
# Homebrew's and some source builds put `erl` on PATH, but leave `epmd` in the Erlang tree.
ERLANG_FOLDERS = (
    "/usr/lib/erlang",
    "/usr/lib64/erlang",
    "/opt/homebrew/opt/erlang/lib/erlang",
    "/usr/local/opt/erlang/lib/erlang",
)


class BrokerNotInstalled(SluiceError):
    """No RabbitMQ server program is on this machine; the message says what to install."""


def find_server() -> Path | None:
    """The program that starts a node as the current user, or None."""
    on_path = shutil.which("rabbitmq-server")
    candidates = [
        *KNOWN_SERVERS,
        *sorted(map(str, RPM_FOLDER.glob("rabbitmq_server-*/sbin/rabbitmq-server")), reverse=True),
        *([on_path] if on_path else []),
        *OFF_PATH_SERVERS,
    ]
    return _first_program(candidates)


def find_epmd() -> Path | None:
    """Erlang's port mapper, which lies beside `erl` where it is not on PATH; or None."""
    on_path = shutil.which("epmd")
    candidates = [on_path] if on_path else []
    erl = shutil.which("erl")
    homes = [Path(erl).resolve().parent.parent] if erl else []
    for home in [*homes, *map(Path, ERLANG_FOLDERS)]:
        candidates += [
            str(home / "bin" / "epmd"),
            *sorted(map(str, home.glob("erts-*/bin/epmd")), reverse=True),
        ]
    return _first_program(candidates)


def require_programs() -> tuple[Path, Path]:
    """The server and the port mapper; raises `BrokerNotInstalled` where either is missing."""
    server, epmd = find_server(), find_epmd()
    if server is None or epmd is None:
        raise BrokerNotInstalled(install_advice(platform.system(), _distributions()))
    return server, epmd


def install_advice(system: str, distributions: Sequence[str]) -> str:
    """One sentence on what to install.

    `system` as `platform.system()` gives it; `distributions` is the Linux distribution's id and
    those it derives from, nearest first.
    """
    what = "RabbitMQ is missing: install it with"
    otherwise = "or set SLUICE_AMQP_URL to a broker that runs already"
    if system == "Darwin":
        return f"{what} `brew install rabbitmq`, {otherwise}."
    commands = {
        "debian": "sudo apt-get install rabbitmq-server",
        "ubuntu": "sudo apt-get install rabbitmq-server",
        "fedora": "sudo dnf install rabbitmq-server",
        "arch": "sudo pacman -S rabbitmq",
        "alpine": "sudo apk add rabbitmq-server",
        "opensuse": "sudo zypper install rabbitmq-server",
        "suse": "sudo zypper install rabbitmq-server",
    }
    for distribution in distributions:
        if distribution in commands:
            return f"{what} `{commands[distribution]}`, {otherwise}."
    return (
        "RabbitMQ is missing: install it as https://www.rabbitmq.com/docs/download says for this "
        f"platform, {otherwise}."
    )


def _distributions() -> list[str]:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    return [release.get("ID", ""), *release.get("ID_LIKE", "").split()]


def _first_program(candidates: Iterable[str]) -> Path | None:
    for candidate in candidates:
        path = Path(candidate)
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def main() -> int:
    """Print where the server is, or what to install; the set-up script asks this way."""
    try:
        server, _ = require_programs()
    except BrokerNotInstalled as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{server}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
