"""The clock of a service jumps where the service looks, and its waits are not moved."""

import subprocess
import sys

from .members import from_checkout

# Loaded first, as by a service; then what modules of ours see is compared with the real clock.
_PROGRAM = """
import os, sys, time, datetime
from sluicegate.worker import attempt, service, check_intake
import runpy
real, monotonic = time.time, time.monotonic
from tests.chaos import clock
clock.install()
def off():
    now = attempt.datetime.now(datetime.UTC)
    assert type(now) is datetime.datetime and isinstance(now, attempt.datetime)
    return round(now.timestamp() - real()), round(time.time() - real())
seen = [off()]
began = monotonic()
for number in (clock.BACK, clock.FORWARD, clock.FORWARD):
    os.kill(os.getpid(), number)
    seen.append(off())
print(seen, round(monotonic() - began) < 60)
"""


def test_an_hour_back_and_forward() -> None:
    path = from_checkout("x")[2].split(";")[1].strip()
    program = f"import sys\n{path}\n{_PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[(0, 0), (-3600, -3600), (0, 0), (3600, 3600)] True\n", done.stderr
