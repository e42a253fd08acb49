"""A text that has been in one script all along and goes over into another in mid-sentence.

That is how somebody else's answer looks that got into this one. Writers who change the script set
the other one off, with a quotation mark, a bracket, a colon, a new line, or give a word or two of
it: a term, a name. So it takes three words of the other script, or a long one where words are not
set apart, begun at a mere blank or within a word. Only the first change of script in a text counts:
from then on it is a text in two.
"""

from typing import Final

import regex
from msgspec import Struct

from .finding import Finding, Flaw, Level
from .gate import Step
from .scripts import HOSTS, LATIN, script_of

_LETTER: Final = regex.compile(r"\p{L}")
_SETS_OFF: Final = frozenset("\n()[]{}«»“”\"'„‘’:=/|–—<>*_`#")


class SwitchRules(Struct, frozen=True, kw_only=True):
    """`letters` of one script before, then `words` begun in another, or `run` letters of it. Latin
    names and terms stand in every script's text: of Latin it takes `latin_run` letters."""

    letters: int = 100
    words: int = 3
    run: int = 16
    latin_run: int = 60


class _State(Struct, frozen=True, gc=False):
    """After a token. `own`: the text's script so far, -1: none yet; `letters` of it. `other`: what
    it went over into at `onset` (token, character), with `words` begun and `run` letters so far.
    `over`: a text in two scripts, no longer looked at."""

    own: int = -1
    letters: int = 0
    other: int = -1
    words: int = 0
    run: int = 0
    onset: tuple[int, int] = (0, 0)
    over: bool = False


_NOTHING: Final = _State()
_OVER: Final = _State(over=True)


class SwitchGate:
    """Trips once, when enough of another script has come. Plain text costs one look. Memory
    O(tokens)."""

    name = "switch"

    def __init__(self, rules: SwitchRules | None = None) -> None:
        self._rules = rules or SwitchRules()
        self._states: list[_State] = []
        self._pieces: list[str] = []

    def __repr__(self) -> str:
        return f"<SwitchGate {len(self._states)} tokens>"

    def feed(self, step: Step) -> Finding | None:
        """Judge one more token."""
        state = self._states[-1] if self._states else _NOTHING
        text = step.text
        self._pieces.append(text)
        # What was found once and let be is a text in two scripts.
        if state.over or not text or self._is_enough(state):
            self._states.append(state)
            return None
        if text.isascii() and not state.run and state.own in (-1, LATIN):
            # Most text is this. Once there are letters enough nobody counts them.
            if state.letters < self._rules.letters:
                letters = sum(map(str.isalpha, text))
                if letters:
                    state = _State(own=LATIN, letters=state.letters + letters)
        else:
            state = self._look(state, step)
        self._states.append(state)
        return self._finding(state, step) if self._is_enough(state) else None

    def truncate(self, n_tokens: int) -> None:
        """Forget every step from position `n_tokens` on."""
        del self._states[n_tokens:], self._pieces[n_tokens:]

    def suspected(self) -> int | None:
        """Where the other script began, while it may yet become too much."""
        state = self._states[-1] if self._states else None
        if state is None or not state.run or self._is_enough(state):
            return None
        return state.onset[0]

    def _is_enough(self, state: _State) -> bool:
        rules = self._rules
        if state.other == LATIN:
            return state.run >= rules.latin_run
        return state.run >= rules.run or state.words >= rules.words

    def _look(self, state: _State, step: Step) -> _State:
        own, letters, before = state.own, state.letters, self._before()
        other, words, run, onset = state.other, state.words, state.run, state.onset
        for index, character in enumerate(step.text):
            script = script_of(character)
            if script is None:
                if run and character in _SETS_OFF:
                    return _OVER
            elif own < 0 or (script == own and not run):
                own, letters = script, letters + 1
            elif script == own:
                # It was a word or two.
                return _OVER
            elif run:
                if script != other:
                    return _OVER
                run += 1
                words += not _LETTER.match(before[-1])
            elif letters < self._rules.letters or not _runs_on(own, script, before):
                return _OVER
            else:
                other, words, run = script, 1, 1
                onset = step.position, step.offset + index
                if index == 0 and self._last() == " ":
                    # A blank that is a token of its own goes with what follows.
                    onset = step.position - 1, step.offset - 1
            before = (before + character)[-2:]
        return _State(own, letters, other, words, run, onset)

    def _before(self) -> str:
        """The last two characters before this step, as far as there are any."""
        text = ""
        for piece in reversed(self._pieces[-8:-1]):
            text = piece + text
            if len(text) > 1:
                break
        return text[-2:] or "\n"

    def _last(self) -> str:
        return self._pieces[-2] if len(self._pieces) > 1 else ""

    def _finding(self, state: _State, step: Step) -> Finding:
        rules = self._rules
        by_words = state.other != LATIN and state.words >= rules.words
        run = rules.latin_run if state.other == LATIN else rules.run
        return Finding(
            gate=self.name,
            level=Level.TEXT,
            flaw=Flaw.SCRIPT_SWITCH,
            tokens=(state.onset[0], step.position + 1),
            chars=(state.onset[1], step.offset + len(step.text)),
            score=state.words if by_words else state.run,
            threshold=rules.words if by_words else run,
            detail="words in another script" if by_words else "letters of another script",
        )


def _runs_on(own: int, script: int, before: str) -> bool:
    """Whether the other script begins as if it were the sentence's next word, or within a word."""
    if before[-1] == " ":
        return bool(_LETTER.match(before[0])) or before[0] in ",，、"
    hosted = own in HOSTS and script == LATIN
    return bool(_LETTER.match(before[-1])) and not hosted
