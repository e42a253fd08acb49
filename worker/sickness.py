"""Whether the engine may be trusted: a circuit breaker as a pure state machine.

It is told what was seen, with the time, and says what follows. It does nothing, knows no clock and
draws no lots. Times are seconds of any clock that does not go back.
"""

import math
from collections import deque
from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

Health = Literal["healthy", "probation", "quarantined", "gave_up"]
Outcome = Literal["good", "numeric", "failed"]
# How much a job's numeric fault says about the engine, where an engine elsewhere had one under the
# same job: the job may bring it along.
_BROUGHT_ALONG: Final = 0.5
# How often the engine may run out of memory, and no job be found that is to blame.
_OUT_OF_MEMORY: Final = 2


class Ailment(StrEnum):
    """Why an engine is in quarantine."""

    LOST = "engine_lost"
    STALLED = "stalled"
    HUNG = "hung"
    OUT_OF_MEMORY = "out_of_memory"
    NUMERIC = "numeric_faults"
    CANARY = "canary"
    LOAD = "load_failed"

    @property
    def taints(self) -> bool:
        """Whether what the engine wrote of late is not to be trusted."""
        return self in (Ailment.NUMERIC, Ailment.CANARY)

    @property
    def strikes(self) -> bool:
        """Whether a job that ran then may have been the cause."""
        return self in (Ailment.LOST, Ailment.STALLED, Ailment.HUNG, Ailment.OUT_OF_MEMORY)


class Diagnosis(Struct, frozen=True):
    """What is wrong with the engine, and how it showed."""

    ailment: Ailment
    detail: str

    def __str__(self) -> str:
        return f"{self.ailment.value}: {self.detail}"


# What to do where a worker has given up, or does so again and again.
ADVICE: Final[dict[Ailment, str]] = {
    Ailment.LOST: "look in the log for what its process died of, and in the kernel's (dmesg) for "
    "the out-of-memory killer and the GPU's Xid errors",
    Ailment.STALLED: "see whether the GPU hangs (nvidia-smi); raise engine_stall_s where the "
    "engine is only slow",
    Ailment.HUNG: "see whether the GPU hangs (nvidia-smi) and whether the host has cores to spare",
    Ailment.OUT_OF_MEMORY: "lower gpu_memory_utilization, kv_cache_gib, max_model_len or the slots "
    "in lanes, or free the memory that others hold",
    Ailment.NUMERIC: "test the GPU (dcgmi diag -r 3), and the model's files against their "
    "checksums; a model made for bfloat16 overflows in float16",
    Ailment.CANARY: "see what it answered: a wrong model or dtype, damaged weights or a sick GPU; "
    "where the answer is fine, set canary_prompt and canary_answer to what the model does well",
    Ailment.LOAD: "do what the message says; try `sluice worker` by hand",
}


class Rules(Struct, frozen=True, kw_only=True):
    """When trust ends. `numeric_jobs` distinct jobs of the last `numeric_of` attempts, within
    `window_s`, whose numbers were not to be trusted. At most `restarts` within
    `restart_window_s`, with waits that double from `first_pause_s` to `longest_pause_s`."""

    numeric_jobs: int = 3
    numeric_of: int = 30
    window_s: float = 600.0
    restarts: int = 5
    restart_window_s: float = 1800.0
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0


class _Seen(Struct, frozen=True):
    at: float
    job: str
    outcome: Outcome
    weight: float


class Sickness:
    """The record of one worker's engines.

    `healthy` and `probation` take work; `quarantined` doesn't, until `recover`; `gave_up` is the
    end. On probation, after a restart, less is forgiven.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.health: Health = "healthy"
        self.diagnosis: Diagnosis | None = None
        self._attempts: deque[_Seen] = deque(maxlen=rules.numeric_of)
        self._restarts: deque[float] = deque()
        self._shortages: deque[float] = deque()
        self._good: set[str] = set()
        self._suspected = False
        # Whether the diagnosis is of the engine before the one that is being started.
        self._renewed = False

    def __repr__(self) -> str:
        return f"<Sickness {self.health}, {len(self._restarts)} restarts>"

    @property
    def takes_work(self) -> bool:
        """Whether jobs may be begun."""
        return self.health in ("healthy", "probation")

    @property
    def restarts(self) -> int:
        """Restarts within the window, as far as it was looked at."""
        return len(self._restarts)

    def attempt(self, at: float, job: str, outcome: Outcome, *, elsewhere: bool = False) -> bool:
        """An attempt is over: its numbers were good, were not, or the engine failed it.
        `elsewhere`: another worker had a numeric fault under this job before. Whether the engine
        should be tried with a prompt of our own, to be sure of it."""
        if not self.takes_work:
            return False
        weight = _BROUGHT_ALONG if elsewhere else 1.0
        self._attempts.append(_Seen(at, job, outcome, weight))
        if outcome == "good":
            self._improve(job)
            return False
        jobs = self._weight(at, "numeric")
        limit = self._numeric_limit()
        if jobs >= limit:
            self.fall_ill(
                at,
                Ailment.NUMERIC,
                f"among the last {len(self._attempts)} attempts, {self._count(at)} jobs had logits "
                "that were not finite, or all alike, or led to an id that there is not",
            )
            return False
        # One job proves nothing. From the second on it is worth a look, once.
        suspicious = max(jobs, self._weight(at, "failed")) >= max(1.0, limit - 1)
        asks = suspicious and not self._suspected
        self._suspected = self._suspected or suspicious
        return asks

    def fall_ill(
        self, at: float, ailment: Ailment, detail: str, *, explained: bool = False
    ) -> None:
        """The engine is not to be used any more. `explained`: a job is known that does that to
        engines. Of several ailments of one engine the first one stands."""
        if self.health == "gave_up":
            return
        if self.health != "quarantined" or self._renewed:
            self.diagnosis = Diagnosis(ailment, detail)
            self._renewed = False
        self.health = "quarantined"
        if ailment is Ailment.OUT_OF_MEMORY and not explained:
            self._shortages.append(at)

    def restart(self, at: float, draw: float) -> float | None:
        """How long to wait before the engine is started anew, in seconds; None where that is no use
        any more. `draw`, from [0, 1), spreads the waits of several workers over the last half."""
        if self.health != "quarantined":
            raise ValueError(f"a restart is for an engine in quarantine, and this is {self.health}")
        _forget(self._restarts, at - self.rules.restart_window_s)
        _forget(self._shortages, at - self.rules.restart_window_s)
        used = len(self._restarts)
        if used >= self.rules.restarts or len(self._shortages) >= _OUT_OF_MEMORY:
            self.health = "gave_up"
            return None
        self._restarts.append(at)
        self._renewed = True
        # 2.0 ** 1024 is no float.
        pause_s = min(self.rules.longest_pause_s, self.rules.first_pause_s * 2.0 ** min(used, 60))
        return pause_s * (0.5 + 0.5 * draw)

    def recover(self) -> None:
        """A new engine runs, and has passed its canary."""
        if self.health != "quarantined":
            raise ValueError(f"only an engine in quarantine recovers, and this is {self.health}")
        self.health = "probation"
        self.diagnosis = None
        self._renewed = False
        self._attempts.clear()
        self._good.clear()
        self._suspected = False

    def reassure(self) -> None:
        """The canary that a suspicion asked for was in order: the next one may ask again."""
        self._suspected = False

    def _numeric_limit(self) -> float:
        limit = self.rules.numeric_jobs
        return math.ceil(limit / 2) if self.health == "probation" else limit

    def _improve(self, job: str) -> None:
        if self.health != "probation":
            return
        self._good.add(job)
        if len(self._good) >= self.rules.numeric_jobs:
            self.health = "healthy"

    def _weight(self, at: float, outcome: Outcome) -> float:
        """Of distinct jobs: one that brings its own fault again and again counts once."""
        least = at - self.rules.window_s
        seen = (each for each in self._attempts if each.at >= least and each.outcome == outcome)
        return sum({each.job: each.weight for each in seen}.values())

    def _count(self, at: float) -> int:
        least = at - self.rules.window_s
        return len(
            {each.job for each in self._attempts if each.at >= least and each.outcome == "numeric"}
        )


def _forget(times: deque[float], before: float) -> None:
    while times and times[0] <= before:
        times.popleft()
