"""Values of the kinds that messages are made of."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

clean = st.characters(exclude_characters="\x00", exclude_categories=("Cs",))
text = st.text(clean, max_size=40)
short = st.text(clean, min_size=1, max_size=20)
spoken = text.filter(lambda said: bool(said.strip()))
ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_:-]{0,127}", fullmatch=True)
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def moment(microseconds: int, zone: timezone) -> datetime:
    return datetime.fromtimestamp(microseconds / 1e6, zone)


moments = st.builds(moment, st.integers(0, 2**52), st.just(UTC) | zones)
counts = st.integers(0, 10**9)
seconds = st.floats(0, 1e9)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
)
keys = st.text(st.characters(exclude_categories=("Cs",)), max_size=10)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)
objects = st.dictionaries(keys, json_values, max_size=4)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy
