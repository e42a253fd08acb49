"""The clock of a service jumps where the service looks, and its waits are not moved; its signals
mean nothing else."""

import subprocess
import sys

from . import clock
from .members import from_checkout

# Loaded first, as by a service; then what modules of ours see is compared with the real clock.
_PROGRAM = """
import asyncio, os, sys, time, datetime
from sluicegate.worker import attempt, frame, service, check_intake
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
class Service:
    abandoned = 0
    stopped = False
    def stop(self, at_once=False):
        self.stopped = True
    async def run(self):
        for number in (clock.BACK, clock.FORWARD):
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.05)
            seen.append(off())
        return self.stopped
stopped = asyncio.run(frame.until_signalled(Service()))
print(seen, stopped, round(monotonic() - began) < 60)
"""


def test_an_hour_back_and_forward() -> None:
    path = from_checkout("x")[2].split(";")[1].strip()
    program = f"import sys\n{path}\n{_PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )
    hours = [0, -1, 0, 1, 0, 1]
    seen = [(3600 * each, 3600 * each) for each in hours]
    assert done.stdout == f"{seen} False True\n", done.stderr
    assert done.stderr.count(clock.SAID) == len(hours) - 1
