"""Synthetic traces of agents that do their work, a function for each kind; much of it looks like a
loop."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import structs

from ..schemas.tools import ToolStatus
from .agent_trace_parts import (
    READ,
    UNDECLARED,
    call,
    file_of,
    moment,
    one,
    page,
    path,
    reading,
    some,
    step,
    trace,
)
from .agent_trace_words import Words
from .agent_traces import Trace, TraceRound


def polling(draw: random.Random, words: Words) -> Trace:
    """Twenty rounds of it, as the tool declares."""
    service = draw.choice(words.services)
    rounds = [
        one(
            f"The {service} job is still running; I will check its status again in a moment.",
            call(
                "job_status",
                {"service": service},
                {"state": "running" if n < 19 else "done", "checked_at": moment(draw, n)},
            ),
        )
        for n in range(20)
    ]
    return trace("polling", [*rounds, reading(draw, words, words.topics[0])])


def brief_wait(draw: random.Random, words: Words) -> Trace:
    """Three looks, by a tool that does not say that it polls, until it is done."""
    where = {"service": draw.choice(words.services)}
    looks = [
        one(draw.choice(words.talk), call("job_status", where, {"state": state}))
        for state in ("running", "running", "running", "done")
    ]
    rounds = [*some(draw, words, 3), *looks, *some(draw, words, 3)]
    return trace("brief wait", rounds, tools=(UNDECLARED, READ))


def edit_and_test(draw: random.Random, words: Words) -> Trace:
    """The same tests behind every edit; twice an edit changes nothing of their result."""
    topic = draw.choice(words.topics)
    rounds: list[TraceRound] = []
    failing = 9
    for n in range(12):
        old, new = draw.sample(words.topics, 2)
        edit = {"path": path(words, topic), "old": f"{old}({n})", "new": f"{new}({n})"}
        rounds.append(one(f"I replace {old} by {new}.", call("edit_file", edit, "edited")))
        failing -= n not in (3, 4, 7)
        result = {"passed": 40 - failing, "failed": failing, "seconds": draw.random()}
        rounds.append(one("Now the tests.", call("run_tests", {"suite": "all"}, result)))
    return trace("edit and test", rounds, task_type="coding")


def transient_error(draw: random.Random, words: Words) -> Trace:
    """Two or three times in vain, then it works; and once more later."""
    rounds: list[TraceRound] = []
    for times in (2, 3):
        topic = draw.choice(words.topics)
        good = file_of(draw, words, topic)
        bad = call("read_file", good.arguments, "connection reset", ToolStatus.ERROR)
        again = "The connection was reset; I try the same file again."
        rounds += [one(again, bad)] * times
        rounds += [one(again, good), *some(draw, words, 4)]
    return trace("transient error", rounds)


def timeouts(draw: random.Random, words: Words) -> Trace:
    """A tool that ran out of time twice."""
    query = {"query": " ".join(draw.sample(words.topics, 3))}
    late = call("search", query, "", ToolStatus.TIMEOUT)
    good = call("search", query, page(draw, words, words.topics[1]))
    rounds = [one("Searching.", late)] * 2 + [one("Searching.", good), *some(draw, words, 5)]
    return trace("timeouts", rounds)


def empty_searches(draw: random.Random, words: Words) -> Trace:
    """Different queries that all find nothing."""
    rounds = [
        one(
            "Nothing was found, so I look for something else.",
            call(
                "search", {"query": f"documents about {topic} in {draw.choice(words.places)}"}, []
            ),
        )
        for topic in draw.sample(words.topics, 12)
    ]
    return trace("searches that find nothing", rounds)


def empty_searches_narrowed(draw: random.Random, words: Words) -> Trace:
    """The same by ever other words and filters."""
    rounds: list[TraceRound] = []
    for n, topic in enumerate(draw.sample(words.topics, 10)):
        query = f"{topic} {draw.choice(words.adjectives)} {words.topics[n]}"
        found: dict[str, Any] = {
            "total": 0,
            "hits": [],
            "message": "No documents match your query.",
        }
        arguments = {"query": query, "year": 2010 + n}
        rounds.append(one(f"Then {topic}, perhaps.", call("search", arguments, found)))
    return trace("searches, narrowed", rounds)


def one_source(draw: random.Random, words: Words) -> Trace:
    """Three questions about one thing lead to the same page, the others to others."""
    topic, *others = draw.sample(words.topics, 7)
    found = page(draw, words, topic, 10)
    asked = (f"history of the {topic}", f"who invented a {topic}", f"{topic} parts and their names")
    rounds = [one("I look it up.", call("search", {"query": query}, found)) for query in asked]
    for other in others:
        query = {"query": f"{other} and {topic} compared"}
        rounds.append(one("On to the next.", call("search", query, page(draw, words, other))))
    return trace("one source", rounds)


def same_subject(draw: random.Random, words: Words) -> Trace:
    """Many questions about one thing, with answers of their own."""
    topic, *others = draw.sample(words.topics, 15)
    rounds = [
        one(
            "I look it up.",
            call("search", {"query": f"{other} of the {topic}"}, page(draw, words, other)),
        )
        for other in others
    ]
    return trace("one subject", rounds)


def read_after_write(draw: random.Random, words: Words) -> Trace:
    """A file is read, written, read again; now and then it is as it was."""
    topic = draw.choice(words.topics)
    where = {"path": path(words, topic)}
    rounds: list[TraceRound] = []
    text = page(draw, words, topic)
    for n in range(8):
        rounds.append(one("I read the file.", call("read_file", where, text)))
        written = text if n % 3 == 1 else page(draw, words, topic)
        write = {**where, "text": f"{written}\n{n}"}
        rounds.append(one("I write it.", call("write_file", write, "ok")))
        text = written
    return trace("read after write", rounds, task_type="coding")


def long_analysis(draw: random.Random, words: Words) -> Trace:
    """Forty-five rounds of different calls."""
    rounds: list[TraceRound] = []
    for n in range(45):
        topic = words.topics[n % len(words.topics)]
        if n % 3 == 0:
            rounds.append(reading(draw, words, topic))
            continue
        query = f"{topic} {draw.choice(words.places)} {draw.choice(words.adjectives)} {n}"
        found = page(draw, words, topic)
        rounds.append(one(draw.choice(words.talk), call("search", {"query": query}, found)))
    return trace("long analysis", rounds, task_type="analysis")


def verified_twice(draw: random.Random, words: Words) -> Trace:
    """Every result is looked up a second time."""
    rounds: list[TraceRound] = []
    for topic in draw.sample(words.topics, 15):
        file = file_of(draw, words, topic)
        rounds.append(one(step(draw, words, topic), file))
        rounds.append(one("To be sure, I read it once more.", file))
    return trace("verified twice", rounds)


def verified_at_the_end(draw: random.Random, words: Words) -> Trace:
    """Three files of ten are read again before the answer."""
    rounds = some(draw, words, 10)
    again = [structs.replace(each, prose="Let me verify what I noted.") for each in rounds[4:7]]
    return trace("verified at the end", [*rounds, *again, *some(draw, words, 2)])


def alternating_tools(draw: random.Random, words: Words) -> Trace:
    """A1, B1, A2, B2."""
    rounds: list[TraceRound] = []
    for topic in draw.sample(words.topics, 12):
        found = {"files": [path(words, topic)]}
        rounds.append(one("I search for it.", call("search", {"query": topic}, found)))
        rounds.append(one("I read what was found.", file_of(draw, words, topic)))
    return trace("two tools", rounds)


def template_prose(draw: random.Random, words: Words) -> Trace:
    """What is said is the same but for a word, and so is what every tool gives back."""
    rounds = [
        one(
            f"I have finished the previous summary and saved it; next I will write the summary of "
            f"the section on {topic} in the same format, with a title, dates, sums, and sources.",
            call(
                "write_file",
                {"path": f"out/{topic}.md", "text": page(draw, words, topic)},
                "ok",
            ),
        )
        for topic in words.topics[:32]
    ]
    return trace("summaries by a template", rounds)


def notes(draw: random.Random, words: Words) -> Trace:
    """Short notes by a template, each acknowledged in the same way."""
    rounds = [
        one(
            f"I add a note on {topic} to the list.",
            call(
                "add_note", {"title": f"Note on {topic}", "text": f"Ask about {topic} soon"}, "ok"
            ),
        )
        for topic in draw.sample(words.topics, 20)
    ]
    return trace("notes", rounds)


def status_between(draw: random.Random, words: Words) -> Trace:
    """A look at the same list between files."""
    rounds: list[TraceRound] = []
    for n, topic in enumerate(draw.sample(words.topics, 20)):
        if n % 4 == 3:
            rounds.append(one("What is left?", call("list_items", {}, "as before")))
        rounds.append(reading(draw, words, topic))
    return trace("status between", rounds)


def corrected_arguments(draw: random.Random, words: Words) -> Trace:
    """Twice wrong, then right."""
    bad = [
        call("weather", {"town": place}, "town: no such field", ToolStatus.INVALID_ARGUMENTS)
        for place in words.places[:2]
    ]
    good = [
        call("weather", {"city": place}, {"celsius": n}) for n, place in enumerate(words.places)
    ]
    rounds = [*(one("I ask.", each) for each in (*bad, *good)), *some(draw, words, 3)]
    return trace("corrected arguments", rounds)


def cities(draw: random.Random, words: Words) -> Trace:
    """The same question for other places, with the same answer."""
    rounds = [
        one(
            f"Now the weather in {place}, for the table.",
            call("weather", {"city": place, "question": f"weather in {place} today"}, "7 degrees"),
        )
        for place in draw.sample(words.places, 6)
    ]
    return trace("cities", rounds, task_type="qa")


HEALTHY: Final[Sequence[Callable[[random.Random, Words], Trace]]] = (
    polling,
    brief_wait,
    edit_and_test,
    transient_error,
    timeouts,
    empty_searches,
    empty_searches_narrowed,
    one_source,
    same_subject,
    read_after_write,
    long_analysis,
    verified_twice,
    verified_at_the_end,
    alternating_tools,
    template_prose,
    notes,
    status_between,
    corrected_arguments,
    cities,
)
"""Every kind."""
