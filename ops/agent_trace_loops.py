"""Synthetic traces of agents that go round in circles, a function for each kind."""

import random
from collections.abc import Callable
from typing import Final

from ..schemas.tools import ToolStatus
from .agent_trace_parts import (
    BEHIND,
    KEYED,
    UNDECLARED,
    call,
    file_of,
    moment,
    one,
    page,
    path,
    reading,
    step,
    trace,
)
from .agent_trace_words import Words
from .agent_traces import Trace, TraceRound


def same_call(draw: random.Random, words: Words) -> Trace:
    """One file, for ever."""
    topic = draw.choice(words.topics)
    again = one(step(draw, words, topic), file_of(draw, words, topic))
    return trace("same call", [again] * (1 + BEHIND), onset=2)


def alternating(draw: random.Random, words: Words) -> Trace:
    """A, B, A, B."""
    return _cycle("A-B-A-B", draw, words, 2)


def period_three(draw: random.Random, words: Words) -> Trace:
    """A, B, C, A, B, C."""
    return _cycle("period 3", draw, words, 3)


def period_four(draw: random.Random, words: Words) -> Trace:
    """A, B, C, D, A, B, C, D."""
    return _cycle("period 4", draw, words, 4)


def wandering(draw: random.Random, words: Words) -> Trace:
    """Between three files, in no order; the fourth round has only what was there."""
    files = [file_of(draw, words, topic) for topic in draw.sample(words.topics, 3)]
    rest = [draw.choice(files) for _ in range(BEHIND)]
    rounds = [one(draw.choice(words.says["en"]), file) for file in (*files, *rest)]
    return trace("wandering", rounds, onset=4)


def reordered_keys(draw: random.Random, words: Words) -> Trace:
    """The same arguments in another order."""
    place, found = draw.choice(words.places), page(draw, words, words.topics[0])
    rounds: list[TraceRound] = []
    for _ in range(1 + BEHIND):
        pairs = [("city", place), ("units", "metric"), ("days", 3), ("source", {"a": 1, "b": [2]})]
        draw.shuffle(pairs)
        rounds.append(one(draw.choice(words.talk), call("weather", dict(pairs), found)))
    return trace("reordered keys", rounds, onset=2)


def one_and_one_point_zero(draw: random.Random, words: Words) -> Trace:
    """1, 1.0, and letters composed in two ways."""
    place, found = draw.choice(words.places), {"celsius": 7, "wind": "north"}
    forms = [
        {"city": place, "days": 1, "note": "Café"},
        {"note": "Cafe\u0301", "days": 1.0, "city": place},
    ]
    rounds = [one(words.talk[0], call("weather", forms[n % 2], found)) for n in range(1 + BEHIND)]
    return trace("1 and 1.0", rounds, onset=2)


def volatile_json(draw: random.Random, words: Words) -> Trace:
    """Every result has another time and another id, which its tool calls volatile."""
    place = draw.choice(words.places)
    rounds = [
        one(
            draw.choice(words.talk),
            call(
                "weather",
                {"city": place},
                {
                    "data": {"celsius": 11, "observed_at": moment(draw, n)},
                    "request_id": f"{draw.getrandbits(64):x}",
                },
            ),
        )
        for n in range(1 + BEHIND)
    ]
    return trace("volatile result", rounds, onset=2)


def volatile_text(draw: random.Random, words: Words) -> Trace:
    """The same in plain text."""
    place = draw.choice(words.places)
    rounds = [
        one(
            draw.choice(words.talk),
            call(
                "weather",
                {"city": place},
                f"{moment(draw, n)} {place}: 11 degrees\nrequest_id: {draw.getrandbits(32):x}\n"
                f"took {draw.randrange(5, 90)} ms",
            ),
        )
        for n in range(1 + BEHIND)
    ]
    return trace("volatile text", rounds, onset=2)


def unknown_tool(draw: random.Random, words: Words) -> Trace:
    """A tool that there is not, by one name or by several."""
    names = [f"get_{topic}" for topic in draw.sample(words.topics, 4)]
    rounds = [
        one(
            draw.choice(words.talk),
            call(draw.choice(names), {"n": n}, "no such tool", ToolStatus.UNKNOWN_TOOL),
        )
        for n in range(1 + BEHIND)
    ]
    return trace("unknown tool", rounds, onset=2)


def invalid_arguments(draw: random.Random, words: Words) -> Trace:
    """Arguments that never fit, each in another way."""
    rounds = [
        one(
            draw.choice(words.says["en"]),
            call(
                "weather",
                {"town": draw.choice(words.places), "days": n},
                f"town: no such field; days: {n} is not text",
                ToolStatus.INVALID_ARGUMENTS,
            ),
        )
        for n in range(1 + BEHIND)
    ]
    return trace("invalid arguments", rounds, onset=2)


def unreadable(draw: random.Random, words: Words) -> Trace:
    """Answers that are neither a call nor an end."""
    rounds = [one(draw.choice(words.talk), failed=True) for _ in range(1 + BEHIND)]
    return trace("unreadable answers", rounds, onset=2)


def prose_only(draw: random.Random, words: Words) -> Trace:
    """The same announcement again, and nothing is called."""
    topic = draw.choice(words.topics)
    rounds = [one(step(draw, words, topic)) for _ in range(1 + BEHIND)]
    return trace("announcements", rounds, onset=2)


def undeclared_polling(draw: random.Random, words: Words) -> Trace:
    """It waits by a tool that does not say that it polls."""
    service = draw.choice(words.services)
    rounds = [
        one(
            f"The {service} job is still pending; I will check its status again in a moment.",
            call(
                "job_status",
                {"service": service},
                {"state": "pending", "checked_at": moment(draw, n)},
            ),
        )
        for n in range(1 + BEHIND)
    ]
    return trace("undeclared polling", rounds, onset=2, tools=(UNDECLARED,))


def late(draw: random.Random, words: Words) -> Trace:
    """It begins behind eight good rounds."""
    topics = draw.sample(words.topics, 8)
    good = [reading(draw, words, topic) for topic in topics]
    return trace("late", [*good, *[good[-1]] * BEHIND], onset=9)


def late_cycle(draw: random.Random, words: Words) -> Trace:
    """And goes round between two files."""
    good = [reading(draw, words, topic) for topic in draw.sample(words.topics, 9)]
    return trace("late A-B-A-B", [*good, *good[-2:] * (BEHIND // 2)], onset=10)


def parallel(draw: random.Random, words: Words) -> Trace:
    """Three calls at once, in any order."""
    files = [file_of(draw, words, topic) for topic in draw.sample(words.topics, 3)]
    rounds = [one(draw.choice(words.says["en"]), *draw.sample(files, 3)) for _ in range(1 + BEHIND)]
    return trace("parallel calls", rounds, onset=2)


def counted(draw: random.Random, words: Words) -> Trace:
    """Each call has another number, of which its tool says that it means nothing."""
    topic, found = draw.choice(words.topics), page(draw, words, words.topics[1])
    rounds = [
        one(draw.choice(words.talk), call("look_up", {"topic": topic, "attempt": n}, found))
        for n in range(1 + BEHIND)
    ]
    return trace("counted calls", rounds, onset=2, tools=(KEYED,))


def small_talk(draw: random.Random, words: Words) -> Trace:
    """Always something else to say."""
    file = file_of(draw, words, draw.choice(words.topics))
    talk = [*words.talk, *words.says["en"]]
    rounds = [one(" ".join(draw.sample(talk, 2)), file) for _ in range(1 + BEHIND)]
    return trace("small talk", rounds, onset=2)


def small_talk_between(draw: random.Random, words: Words) -> Trace:
    """Every other round is talk alone, which is no answer."""
    file = file_of(draw, words, draw.choice(words.topics))
    rounds = [
        one(draw.choice(words.talk), failed=True) if n % 2 else one(draw.choice(words.talk), file)
        for n in range(1 + BEHIND)
    ]
    return trace("small talk between", rounds, onset=3)


def same_change(draw: random.Random, words: Words) -> Trace:
    """What changes state, again and again."""
    topic = draw.choice(words.topics)
    write = call("write_file", {"path": path(words, topic), "text": page(draw, words, topic)}, "ok")
    rounds = [one(draw.choice(words.says["en"]), write) for _ in range(1 + BEHIND)]
    return trace("same change", rounds, onset=2, task_type="coding")


def change_and_look(draw: random.Random, words: Words) -> Trace:
    """It writes the same and reads the same."""
    topic = draw.choice(words.topics)
    text = page(draw, words, topic)
    write = call("write_file", {"path": path(words, topic), "text": text}, "written")
    read = call("read_file", {"path": path(words, topic)}, text)
    rounds = [one(draw.choice(words.talk), (write, read)[n % 2]) for n in range(1 + BEHIND)]
    return trace("change and look", rounds, onset=3, task_type="coding")


def same_error(draw: random.Random, words: Words) -> Trace:
    """A tool that fails each time in the same way."""
    topic = draw.choice(words.topics)
    failed = call("read_file", {"path": path(words, topic)}, "permission denied", ToolStatus.ERROR)
    rounds = [one(draw.choice(words.says["en"]), failed) for _ in range(1 + BEHIND)]
    return trace("same error", rounds, onset=2)


def polling_between(draw: random.Random, words: Words) -> Trace:
    """Legal polling is no excuse for what is read in between."""
    file = file_of(draw, words, draw.choice(words.topics))
    poll = call("job_status", {"service": words.services[0]}, {"state": "pending"})
    rounds = [one(draw.choice(words.talk), (file, poll)[n % 2]) for n in range(1 + BEHIND)]
    return trace("polling between", rounds, onset=3)


def _cycle(kind: str, draw: random.Random, words: Words, period: int) -> Trace:
    calls = [file_of(draw, words, topic) for topic in draw.sample(words.topics, period)]
    rounds = [one(draw.choice(words.says["en"]), calls[n % period]) for n in range(period + BEHIND)]
    return trace(kind, rounds, onset=period + 1)


LOOPS: Final[tuple[Callable[[random.Random, Words], Trace], ...]] = (
    same_call,
    alternating,
    period_three,
    period_four,
    wandering,
    reordered_keys,
    one_and_one_point_zero,
    volatile_json,
    volatile_text,
    unknown_tool,
    invalid_arguments,
    unreadable,
    prose_only,
    undeclared_polling,
    late,
    late_cycle,
    parallel,
    counted,
    small_talk,
    small_talk_between,
    same_change,
    change_and_look,
    same_error,
    polling_between,
)
"""Every kind."""
