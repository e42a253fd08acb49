"""How the losses are counted: by made results and dead letters, without a broker."""

from .losses import Letter, counted, table

SOUND, FAILING = ("sound-0", "sound-1", "sound-2"), ("fails-0", "fails-1")


def test_what_nobody_heard_of_again_is_lost() -> None:
    results = [("sound-0", True), ("sound-0", True), ("sound-1", True), ("fails-0", False)]
    found = counted("x", SOUND, FAILING, results, [], begun=9, left=0)
    assert (found.answered, found.lost, found.twice, found.told) == (2, 1, 1, 1)
    # One of the failing ones, and both that can't be read.
    assert found.vanished == 3


def test_a_letter_a_result_or_a_place_in_the_queue_is_a_trace() -> None:
    letters = [Letter(failing=False, explained=True)] * 2 + [Letter(failing=True, explained=False)]
    found = counted("x", SOUND, FAILING, [], letters, begun=2, left=1)
    assert (found.vanished, found.with_reason, found.without_reason) == (0, 2, 1)
    assert "| x | 0 of 3 | 3 |" in "\n".join(table([found]))
