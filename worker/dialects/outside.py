"""Text from outside as it stands in a prompt in plain text, where labels and names alone tell who
speaks: none of it can be taken for a call, a result, a word of the system's, or another's turn.

What a line begins with decides. Further lines of a result are indented, and before a line that
begins like one of a prompt's own stands a mark. Indentation costs next to no tokens, a mark on each
line would cost one or two (with the embedded model's tokenizer 0 and 17% of a source file).
"""

from typing import Final

import regex

MARK: Final = "| "
INDENT: Final = "    "
# Whatever may be seen as the end of a line.
_BREAKS: Final = r"\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_START: Final = rf"(?<![^{_BREAKS}])(?:[^\w{_BREAKS}]|_)*+"
_COLON: Final = r"(?:[^\w\n]|_){0,8}[:\uff1a]"
# Labels of the form, and who may be said to speak.
_LABELS: Final = (
    rf"(?:thought|action(?:[^\w\n]{{1,4}}input)?|final[^\w\n]{{1,4}}answer){_COLON}"
    r"|observation(?:[^\w\n]|_){0,8}[:\uff1a(]"
    rf"|(?:system|developer|user|human|assistant|ai|tool){_COLON}"
)
# What only the record and the watchdog say.
_OURS: Final = rf"(?<=\[)round[^\w\n]{{1,4}}\d|note{_COLON}|that could not be read"
_LABELLED: Final = regex.compile(f"{_START}(?:{_LABELS})", regex.IGNORECASE)
_SPOKEN: Final = regex.compile(f"{_START}(?:{_LABELS}|{_OURS})", regex.IGNORECASE)
_FURTHER: Final = regex.compile(rf"(?<=[{_BREAKS}])(?=[^{_BREAKS}])")


def set_in(text: str) -> str:
    """A result, behind its label: each further line is indented, and marked where it must be. O(n)
    in its length; nothing of it is left away."""
    first = _FURTHER.search(text)
    if first is None:
        return text
    further = quoted(text[first.start() :])
    return f"{text[: first.start()]}{INDENT}{_FURTHER.sub(INDENT, further)}"


def quoted(text: str) -> str:
    """What somebody says: lines that begin like a label, a speaker's name, or a word on how the job
    goes are marked. O(n)."""
    return _SPOKEN.sub(_marked, text)


def unlabelled(text: str) -> str:
    """A word on how the job goes, in which others may be quoted: as `quoted`, but that it may speak
    for itself. O(n)."""
    return _LABELLED.sub(_marked, text)


def _marked(found: regex.Match[str]) -> str:
    return f"{MARK}{found[0]}"
