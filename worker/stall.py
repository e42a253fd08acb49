"""Whether an engine that has work brings nothing: a pure clock of its silence."""

from typing import Final

from msgspec import Struct

# Tokens of a prompt that a slow engine reads in a second: several billion parameters on CPU cores.
PREFILL_TOKENS_S: Final = 50.0
# A prompt buys no more time than this many times the limit.
_MOST: Final = 4.0


class Request(Struct):
    """One that the engine has. `prompt_tokens` of it are read before the first piece comes."""

    prompt_tokens: int
    has_begun: bool = False


class StallWatch:
    """How long no piece came for any of the requests that are waited for.

    Only time that was watched counts, `step_s` a look at most: where the whole process or machine
    stood still, the engine is not to blame.
    """

    def __init__(self, limit_s: float, step_s: float) -> None:
        """`limit_s` 0: never stalled."""
        self._limit_s = limit_s
        self._step_s = step_s
        self._requests: dict[str, Request] = {}
        self._last: float | None = None
        self.quiet_s = 0.0

    def __repr__(self) -> str:
        return f"<StallWatch: {len(self._requests)} requests, quiet for {self.quiet_s:.1f} s>"

    @property
    def is_idle(self) -> bool:
        """Whether the engine has nothing to do."""
        return not self._requests

    def begin(self, request_id: str, prompt_tokens: int) -> None:
        """A request goes to the engine."""
        if self.is_idle:
            self.quiet_s = 0.0
        self._requests[request_id] = Request(prompt_tokens)

    def beat(self, request_id: str) -> None:
        """A piece of it came."""
        self.quiet_s = 0.0
        if (request := self._requests.get(request_id)) is not None:
            request.has_begun = True

    def end(self, request_id: str) -> None:
        """It is over, or given up. An end that we made is no sign of life."""
        self._requests.pop(request_id, None)

    def forget(self) -> None:
        """The engine is gone, and its requests with it."""
        self._requests.clear()
        self.quiet_s = 0.0

    def allowed_s(self) -> float:
        """How long it may be silent now: a prompt that is being read needs its time. The longest
        counts, for with each that is read a piece comes."""
        waiting = (each for each in self._requests.values() if not each.has_begun)
        unread = max((each.prompt_tokens for each in waiting), default=0)
        return self._limit_s + min(unread / PREFILL_TOKENS_S, _MOST * self._limit_s)

    def look(self, at: float) -> bool:
        """Whether it is stalled. To be called every `step_s` seconds or so."""
        passed = 0.0 if self._last is None else at - self._last
        self._last = at
        if self.is_idle or not self._limit_s:
            self.quiet_s = 0.0
            return False
        self.quiet_s += max(0.0, min(passed, 2 * self._step_s))
        return self.quiet_s > self.allowed_s()
