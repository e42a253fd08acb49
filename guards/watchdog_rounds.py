"""Rounds as the watchdog compares them: what each call is, how often it was there before, and what
of a round is new.

A call is the same as an earlier one where its key and what came of it are, and nothing changed the
state in between; or where, with the same result, it asks the same in other words.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence, Set
from typing import Final

from msgspec import Struct

from ..schemas.agents import CallSample, RoundSample
from ..schemas.tools import ToolStatus
from .signatures import ASKED, NOTHING, nods, tells
from .similarity import overlap
from .watchdog_noise import waits
from .watchdog_thresholds import Watchdog

REFUSED: Final = frozenset(
    {
        ToolStatus.UNKNOWN_TOOL,
        ToolStatus.NOT_ALLOWED,
        ToolStatus.INVALID_ARGUMENTS,
        ToolStatus.QUOTA_SPENT,
        ToolStatus.DENIED,
    }
)
"""Of these nothing ran, and nothing will when it is asked again."""
_ERRORS: Final = frozenset({ToolStatus.ERROR, ToolStatus.TIMEOUT})
# Other calls with the same result that a call is compared with, in words: the last ones.
_COMPARED: Final = 32
# Characters.
_STEM: Final = 5
# Rounds behind a poll in which a wait is part of it.
_POLLED: Final = 4
# After these the state may be another one.
_ACTED: Final = frozenset({ToolStatus.OK, ToolStatus.TIMEOUT, ToolStatus.UNKNOWN})


class SeenCall(Struct, frozen=True):
    """A call; calls with the same `identity` are the same. `before`: how many earlier rounds had
    it; `reworded`: but in other words. `idle`: it waits, or came to no more than "ok". `polls`:
    it is legal polling, or idle beside it."""

    sample: CallSample
    identity: int
    before: int
    reworded: bool
    idle: bool
    polls: bool

    @property
    def refused(self) -> bool:
        """Whether nothing ran."""
        return self.sample.status in REFUSED


class SeenRound(Struct, frozen=True):
    """A round. `token`: equal for two rounds that are the same."""

    sample: RoundSample
    calls: tuple[SeenCall, ...]
    token: tuple[int, ...]

    @property
    def only_polls(self) -> bool:
        """Whether it waits, and does nothing else."""
        return bool(self.calls) and all(call.polls for call in self.calls)

    @property
    def refused(self) -> bool:
        """Whether nothing came of it: all its calls were refused, or it had none and was no end."""
        return all(call.refused for call in self.calls)

    @property
    def only_idle(self) -> bool:
        """Whether it lets time pass, or nearly so."""
        return bool(self.calls) and all(call.polls or call.idle for call in self.calls)

    @property
    def erred(self) -> bool:
        """Whether all its tools gave back errors."""
        return bool(self.calls) and all(call.sample.status in _ERRORS for call in self.calls)

    @property
    def beyond(self) -> bool:
        """Whether all its calls were for pages on which there is nothing."""
        return bool(self.calls) and all(call.sample.fingerprint == NOTHING for call in self.calls)

    @property
    def only_acts(self) -> bool:
        """Whether all its calls changed the state, and came to no more than "ok"."""
        return bool(self.calls) and all(
            call.sample.changes_state and nods(call.sample.fingerprint) for call in self.calls
        )

    @property
    def has_substance(self) -> bool:
        """Whether there is something in it that need not be done twice."""
        return any(not call.polls and not call.refused for call in self.calls)

    @property
    def reworded(self) -> bool:
        """Whether it asks in words that were not there before."""
        return any(call.reworded for call in self.calls)

    @property
    def is_news(self) -> bool:
        """Whether it brought something that was not there before."""
        return any(not call.before and not call.refused for call in self.calls)

    def stale(self, times: int) -> bool:
        """Whether all that it brought was there so often, with this time, or is nothing."""
        return all(call.refused or call.polls or call.before >= times - 1 for call in self.calls)


def outcome(call: CallSample) -> str:
    """What came of a call, as far as it tells two apart."""
    return call.status.value if call.status in REFUSED else call.fingerprint


def seen(samples: Sequence[RoundSample], rules: Watchdog) -> list[SeenRound]:
    """The rounds, in order. Time is proportional to the calls; one that asks in words is compared
    with 32 others."""
    memory = _Memory(rules)
    return [memory.see(sample) for sample in samples]


class _Memory:
    """What the rounds so far had."""

    def __init__(self, rules: Watchdog) -> None:
        self._rules = rules
        self._epoch = 0
        self._changed: set[str] = set()
        self._polled = _POLLED + 1
        self._known: dict[tuple[str, str, int], int] = {}
        self._asked: defaultdict[tuple[str, str, int], deque[tuple[tuple[str, ...], int]]]
        self._asked = defaultdict(lambda: deque(maxlen=_COMPARED))
        self._asks: defaultdict[int, frozenset[str]] = defaultdict(frozenset)
        self._rounds: Counter[int] = Counter()
        self._made = 0

    def see(self, sample: RoundSample) -> SeenRound:
        calls: list[SeenCall] = []
        self._polled += 1
        if any(call.polls for call in sample.calls):
            self._polled = 0
        changes = {call.key for call in sample.calls if self._changes(call)}
        for call in sample.calls:
            # What changes the state is of the state that it makes: the same once more is the same.
            made = len(self._known)
            identity = self._identity(call, self._epoch + (call.key in changes))
            reworded = len(self._known) > made and self._rounds[identity] > 0
            idle = _is_idle(call)
            polls = call.polls or (idle and self._polled <= _POLLED)
            polls = polls and self._rules.polling_is_legal
            calls.append(SeenCall(call, identity, self._rounds[identity], reworded, idle, polls))
        self._rounds.update({call.identity for call in calls})
        # The calls of a round run side by side: what one of them changes is for the next round.
        if changes:
            self._changed |= changes
            self._epoch += 1
        return SeenRound(sample, tuple(calls), tuple(sorted(call.identity for call in calls)))

    def _changes(self, call: CallSample) -> bool:
        """Whether it may have made another state: not so, where it did the same before."""
        renews = self._rules.changes_renew and call.changes_state
        return renews and call.status in _ACTED and call.key not in self._changed

    def _identity(self, call: CallSample, epoch: int) -> int:
        came = outcome(call) if self._rules.results_count else ""
        exact = (call.key, came, epoch)
        if exact in self._known:
            return self._known[exact]
        group = self._asked[call.tool, came, epoch]
        identity = self._near(call, group)
        if identity is None:
            self._made += 1
            identity = self._made
        self._known[exact] = identity
        if self._has_words(call):
            group.append((call.words, identity))
            self._asks[identity] |= _asked(call.words)
        return identity

    def _has_words(self, call: CallSample) -> bool:
        """Not so for what acts: to do something else with the same result is the rule there."""
        near = self._rules.near_calls and self._rules.results_count
        return (
            near
            and any(map(_is_word, call.words))
            and not call.changes_state
            and not call.polls
            and call.status is ToolStatus.OK
        )

    def _near(self, call: CallSample, group: Iterable[tuple[tuple[str, ...], int]]) -> int | None:
        if not self._has_words(call):
            return None
        telling = tells(call.fingerprint)
        least = self._rules.near_overlap_telling if telling else self._rules.near_overlap
        asked = _asked(call.words)
        for words, identity in group:
            others = self._asks[identity]
            if asked and others and asked.isdisjoint(others):
                continue
            if asks_the_same(words, call.words, least):
                return identity
        return None


def _is_idle(call: CallSample) -> bool:
    said_ok = call.status is ToolStatus.OK and (nods(call.fingerprint) or waits(call.tool))
    return said_ok and not call.changes_state


def asks_the_same(one: Sequence[str], other: Sequence[str], least: float) -> bool:
    """Whether two calls ask the same, by their `argument_words`: all that is no word is equal, and
    they share the words, at least so many (Jaccard index). One that has other words in the same
    places is another question: "weather in Rome" and "weather in Oslo"."""
    exact = [{word for word in words if "=" in word} for words in (one, other)]
    if exact[0] != exact[1]:
        return False
    said = [[_stem(word) for word in words if _is_word(word)] for words in (one, other)]
    sets = [frozenset(words) for words in said]
    shared = sets[0] & sets[1]
    if not shared or overlap(sets[0], sets[1]) < least:
        return False
    return sets[0] == sets[1] or _skeleton(said[0], shared) != _skeleton(said[1], shared)


def _asked(words: Iterable[str]) -> frozenset[str]:
    """Whether it asks who, when, where, why or how many."""
    return frozenset(word for word in words if word.startswith(ASKED))


def _is_word(word: str) -> bool:
    return "=" not in word and not word.startswith(ASKED)


def _stem(word: str) -> str:
    """Enough of a word to know it by in another form: "nurse" of "nurses"."""
    return word[:_STEM]


def _skeleton(words: Sequence[str], shared: Set[str]) -> list[str]:
    """The shared words in order, and a blank for whatever others stand between them."""
    bones: list[str] = []
    for word in words:
        if word in shared:
            bones.append(word)
        elif not bones or bones[-1]:
            bones.append("")
    return bones
