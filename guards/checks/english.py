"""How far a text is English, by its commonest words: no model, no list of languages, no doubt about
code, names or ciphers."""

from typing import Final

import regex

_WORD: Final = regex.compile(r"\p{L}++(?:['’]\p{L}++)?")
# What sentences are held together by, and the words that requests are made with; none that is a
# common word of other languages, too, such as `in`, `was` or `me`.
_COMMON: Final = (
    "about after also and any are at be because been before but by can could did does for from has "
    "have he his how if into it its make may more most must my new not of one only other our out "
    "please should some such than that the their them then there these they this those to up were "
    "what when where which who why with would you your describe explain give list show tell "
    "write"
)
_SET: Final = frozenset(_COMMON.split())


def english(text: str) -> float:
    """The share of common English words among all words, 0 to 1: of prose about 0.3, of lists of
    things 0.1, of anything else 0.0 or little more; 0 without words."""
    words = [found[0].casefold() for found in _WORD.finditer(text)]
    return sum(word in _SET for word in words) / len(words) if words else 0.0
