"""Bans that still hold."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.rollback import Changes, Note, Rollback, Trip, standing_bans
from sluicegate.schemas import Flaw

from .attempts import finding


def cut(keep: int, banned: int | None = None) -> Trip:
    return Trip(
        finding=finding(Flaw.LOOP, keep, keep + 10),
        action=Rollback(keep=keep, changes=Changes(ban=banned is not None)),
        tokens=keep + 10,
        banned=banned,
    )


def test_bans_at_one_place_add_up_and_fall_when_what_is_before_them_goes() -> None:
    trips = [cut(50, 7), cut(50, 8), cut(60, 9)]
    assert standing_bans(trips) == ((50, 7), (50, 8), (60, 9))
    assert standing_bans([*trips, cut(50, 1)]) == ((50, 7), (50, 8), (50, 1))
    assert standing_bans([*trips, cut(49)]) == ()


def test_a_note_takes_nothing_back() -> None:
    note = Trip(finding=finding(Flaw.INCOHERENT, 0, 5), action=Note(), tokens=5)
    assert standing_bans([cut(50, 7), note]) == ((50, 7),)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.none() | st.integers(0, 5)), max_size=20))
def test_a_ban_holds_as_long_as_its_prefix_stands(cuts: list[tuple[int, int | None]]) -> None:
    expected = [
        (keep, banned)
        for number, (keep, banned) in enumerate(cuts)
        if banned is not None and all(later >= keep for later, _ in cuts[number + 1 :])
    ]
    assert list(standing_bans([cut(*each) for each in cuts])) == expected
