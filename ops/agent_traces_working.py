"""Synthetic traces of healthy agents whose tools declare nothing, or whose work is much the same
again and again."""

import random
import uuid
from collections.abc import Callable
from typing import Any, Final

from ..schemas.tools import ToolSpec, ToolStatus
from .agent_trace_parts import call, one, page, path, reading, trace
from .agent_trace_words import Words
from .agent_traces import Trace, TraceRound

_CHECKED: Final = (
    "Now the checks once more, to see whether the last change has mended what was broken in the "
    "module, or whether there is more to be done."
)


def lint_and_test(draw: random.Random, words: Words) -> Trace:
    """Edits that don't mend it yet, and the same checks behind each; no tool says what it does."""
    failed = f"{draw.randrange(2, 9)} failed, 17 passed: {', '.join(draw.sample(words.topics, 3))}"
    rounds: list[TraceRound] = []
    for n, topic in enumerate(draw.sample(words.topics, 9)):
        edit = {"path": path(words, topic), "old": f"{topic}({n})", "new": f"{topic}({n + 1})"}
        rounds += [
            one(f"I change how {topic} is counted.", call("edit", edit, "ok")),
            one(_CHECKED, call("lint", {}, "All checks passed!")),
            one(_CHECKED, call("test", {}, failed)),
        ]
    tools = tuple(ToolSpec(name=name) for name in ("edit", "lint", "test"))
    return trace("edit, lint, test", rounds, tools=tools, task_type="coding")


def one_shell(draw: random.Random, words: Words) -> Trace:
    """All of it by one tool, declared as changing the state or not."""
    failed = f"{draw.randrange(2, 9)} failed, 17 passed: {', '.join(draw.sample(words.topics, 3))}"
    rounds: list[TraceRound] = []
    checks = ("ruff check .", "mypy src", "pytest -q")[draw.randrange(2) :]
    for topic in draw.sample(words.topics, 8):
        change = f"sed -i 's/{topic}_old/{topic}_new/' src/{topic}.py"
        rounds.append(one(f"I rename {topic}.", call("bash", {"command": change}, "")))
        for check in checks:
            found = failed if "pytest" in check else "All checks passed!"
            rounds.append(one(_CHECKED, call("bash", {"command": check}, found)))
    spec = ToolSpec(name="bash", changes_state=draw.random() < 0.5)
    return trace("one shell", rounds, tools=(spec,), task_type="coding")


def failed_edits(draw: random.Random, words: Words) -> Trace:
    """The text to be replaced is not found, so the file is read again."""
    topic = draw.choice(words.topics)
    where = {"path": path(words, topic)}
    text = page(draw, words, topic)
    rounds: list[TraceRound] = []
    for other in draw.sample(words.topics, 5):
        bad = call("edit_file", {**where, "old": other}, "text not found", ToolStatus.ERROR)
        rounds += [one("I replace it.", bad), one(_CHECKED, call("read_file", where, text))]
    tools = (ToolSpec(name="edit_file", changes_state=True), ToolSpec(name="read_file"))
    return trace("failed edits", rounds, tools=tools, task_type="coding")


def one_document(draw: random.Random, words: Words) -> Trace:
    """Different questions that one document answers."""
    topic = draw.choice(words.topics)
    found = f"{topic}-report.pdf: yearly report on the {topic}, by the board"
    asked = (
        f"who wrote the {topic} report",
        f"when was the {topic} report published",
        f"how many pages does the {topic} report have",
        f"which company paid for the {topic} report",
        f"what does the {topic} report say of costs",
        f"is there a risk that the {topic} report names",
    )
    rounds = [
        one(f"Next: {query}.", call("search", {"query": query}, found))
        for query in draw.sample(asked, len(asked))
    ]
    return trace("one document", rounds, tools=(ToolSpec(name="search"),), task_type="qa")


def labels(draw: random.Random, words: Words) -> Trace:
    """Short texts, alike, that get the same label."""
    said = '{"sentiment": "mixed feelings", "confidence": "rather high overall"}'
    good, bad = draw.sample(words.topics, 2)
    texts = (
        f"the {good} was fine and the {bad} was slow",
        f"the {bad} was fine but the {good} came late",
        f"slow {bad}, though the {good} was really fine",
        f"{good} fine, but the {bad} really slow today",
        f"the {bad} was slow and the {good} late",
        f"late {good} and slow {bad}",
        f"the {good} is what I like, the {bad} is not",
        f"never again the {bad}, but the {good} was fine",
    )
    name = draw.choice(("text", "review", "sentence"))
    rounds = [
        one("The next one.", call("classify", {name: text}, said))
        for text in draw.sample(texts, len(texts))
    ]
    return trace("labels", rounds, tools=(ToolSpec(name="classify"),))


def pauses(draw: random.Random, words: Words) -> Trace:
    """A declared poll, and a pause before each."""
    service = draw.choice(words.services)
    pause, said = draw.choice((("sleep", "slept for 30 seconds"), ("wait", "ok"), ("hold", "")))
    rounds: list[TraceRound] = []
    for n in range(14):
        state = "running" if n < 13 else "done"
        rounds += [
            one(_CHECKED, call(pause, {"seconds": 30}, said)),
            one(_CHECKED, call("job_status", {"service": service}, state)),
        ]
    tools = (ToolSpec(name=pause), ToolSpec(name="job_status", polls=True))
    return trace("pauses", rounds, tools=tools)


def pauses_behind_errors(draw: random.Random, words: Words) -> Trace:
    """A server that is down for a while: a pause behind each error."""
    rounds: list[TraceRound] = []
    for topic in draw.sample(words.topics, 3):
        address = {"url": f"https://example.org/{topic}"}
        down = one("I fetch it.", call("fetch", address, "503", ToolStatus.ERROR))
        rest = one("I wait a little.", call("sleep", {"seconds": 5}, "ok"))
        there = one("Once more.", call("fetch", address, page(draw, words, topic)))
        rounds += [*[down, rest] * draw.randrange(1, 4), there]
    tools = (ToolSpec(name="fetch"), ToolSpec(name="sleep"))
    return trace("pauses behind errors", rounds, tools=tools)


def all_checks_again(draw: random.Random, words: Words) -> Trace:
    """Six checks that say "ok", and all of them again behind each repair."""
    checks = [
        one(
            f"I run the check of the {topic}, to see whether it passes, as the list of tasks says.",
            call("check", {"name": topic}, "ok"),
        )
        for topic in draw.sample(words.topics, 6)
    ]
    rounds = list(checks)
    for topic in draw.sample(words.topics, 3):
        rounds += [one("I mend it.", call("repair", {"what": topic}, "done")), *checks]
    tools = (ToolSpec(name="check"), ToolSpec(name="repair"))
    return trace("all checks again", rounds, tools=tools)


def keys(draw: random.Random, words: Words) -> Trace:
    """A key thrice, and what is to be seen then."""
    press = one("Further down.", call("key", {"name": "PageDown"}, "ok"))
    rounds: list[TraceRound] = []
    for topic in draw.sample(words.topics, 6):
        seen = call("screenshot", {}, page(draw, words, topic))
        rounds += [press, press, press, one("What is to be seen?", seen)]
    tools = (ToolSpec(name="key", changes_state=draw.random() < 0.5), ToolSpec(name="screenshot"))
    return trace("keys", rounds, tools=tools)


def orders(draw: random.Random, words: Words) -> Trace:
    """Orders by their ids, which all have the same state."""
    del words
    name = draw.choice(("id", "order_id", "order"))
    result: Any = draw.choice(("shipped", {"status": "shipped", "paid": True, "by": "sea mail"}))
    rounds = [
        one("The next order.", call("get_order", {name: _uuid(draw), "query": "status"}, result))
        for _ in range(14)
    ]
    return trace("orders", rounds, tools=(ToolSpec(name="get_order"),))


def appointments(draw: random.Random, words: Words) -> Trace:
    """One call gives the next of them each time: they differ in their dates alone."""
    title = f"{draw.choice(words.topics)} in {draw.choice(words.places)}"
    as_text = draw.random() < 0.5
    rounds: list[TraceRound] = []
    for n in range(1, 11):
        start = f"2026-03-{n:02}T{8 + n}:30:00Z"
        found = f"{title}, {start}, room 4" if as_text else {"title": title, "start": start}
        rounds.append(one("The next one.", call("next_appointment", {}, found)))
    return trace("appointments", rounds, tools=(ToolSpec(name="next_appointment"),))


def quiet_hours(draw: random.Random, words: Words) -> Trace:
    """The log, hour by hour, in which nothing happened."""
    service = draw.choice(words.services)
    rounds = [
        one(
            "The next hour.",
            call(
                "count_errors",
                {"service": service, "from": f"2026-01-05T{hour:02}:00:00Z", "query": "fatal"},
                {"errors": 0, "warnings": 0, "requests": 1200, "state": "healthy"},
            ),
        )
        for hour in range(20)
    ]
    last = reading(draw, words, draw.choice(words.topics))
    tools = (ToolSpec(name="count_errors"), ToolSpec(name="read_file"))
    return trace("quiet hours", [*rounds, last], tools=tools)


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


WORKING: Final[tuple[Callable[[random.Random, Words], Trace], ...]] = (
    lint_and_test,
    one_shell,
    failed_edits,
    one_document,
    labels,
    pauses,
    pauses_behind_errors,
    all_checks_again,
    keys,
    orders,
    appointments,
    quiet_hours,
)
"""Every kind."""
