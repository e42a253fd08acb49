"""What to say of a name that is none."""

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(key: str, names: Iterable[str], kind: str) -> str | None:
    """That `key` is no `kind`, and what may be meant; None where it is one of the names."""
    known = list(names)
    if key in known:
        return None
    near = get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
    return f"{key} is no {kind}; {hint}"
