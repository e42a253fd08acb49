"""Synthetic traces of agents that read much, one thing after the other: healthy ones."""

import random
from collections.abc import Callable
from typing import Final

from .agent_trace_parts import call, file_of, one, page, reading, some, step, trace
from .agent_trace_words import Words
from .agent_traces import Trace, TraceRound


def forty_files(draw: random.Random, words: Words) -> Trace:
    """Forty files, one by one."""
    rounds = [reading(draw, words, topic) for topic in words.topics]
    return trace("forty files", rounds)


def forty_files_quick(draw: random.Random, words: Words) -> Trace:
    """By a quick engine, with prompts that grow: many tokens and many calls a minute."""
    rounds = [
        TraceRound(
            prose=step(draw, words, topic),
            calls=(file_of(draw, words, topic),),
            tokens=1_500 + 250 * n,
            wall_s=0.6,
        )
        for n, topic in enumerate(words.topics)
    ]
    return trace("forty files, quick", rounds)


def forty_files_parallel(draw: random.Random, words: Words) -> Trace:
    """Four at a time."""
    rounds = [
        one(
            step(draw, words, "four"),
            *(file_of(draw, words, each) for each in words.topics[n : n + 4]),
        )
        for n in range(0, 40, 4)
    ]
    return trace("forty files, parallel", rounds)


def empty_files(draw: random.Random, words: Words) -> Trace:
    """Files that are all the same: markers of packages."""
    rounds = [
        one(
            f"The folder {topic} has a marker, too; I open it to see whether anything is in it.",
            call("read_file", {"path": f"{draw.choice(words.folders)}/{topic}/__init__.py"}, ""),
        )
        for topic in words.topics[:30]
    ]
    return trace("empty files", rounds)


def pagination(draw: random.Random, words: Words) -> Trace:
    """Thirty pages."""
    rounds = [
        one(
            f"Page {n} is done, on to page {n + 1} of the list of all items in the archive.",
            call("list_items", {"page": n, "size": 20}, page(draw, words, f"page {n}", 8)),
        )
        for n in range(1, 31)
    ]
    return trace("pagination", rounds)


def pagination_by_cursor(draw: random.Random, words: Words) -> Trace:
    """With a cursor, and a last page."""
    rounds: list[TraceRound] = []
    cursor = ""
    for n in range(30):
        following = f"{draw.getrandbits(40):x}" if n < 29 else None
        found = {"items": draw.sample(words.topics, 5), "next": following}
        rounds.append(one("More.", call("list_items", {"cursor": cursor}, found)))
        cursor = following or ""
    return trace("pagination by cursor", rounds)


def read_again(draw: random.Random, words: Words) -> Trace:
    """Files of long ago, which were folded away, are read again."""
    rounds = some(draw, words, 20)
    return trace("read again", [*rounds, *rounds[2:6], *some(draw, words, 3)])


def chinese(draw: random.Random, words: Words) -> Trace:
    """Files one by one, in Chinese."""
    return _in(draw, words, "zh")


def russian(draw: random.Random, words: Words) -> Trace:
    """In Russian."""
    return _in(draw, words, "ru")


def japanese(draw: random.Random, words: Words) -> Trace:
    """In Japanese."""
    return _in(draw, words, "ja")


def chinese_empty(draw: random.Random, words: Words) -> Trace:
    """Chinese searches that find nothing."""
    rounds = [
        one(
            "没有找到结果,换一个主题。", call("search", {"query": f"关于{topic}的文件"}, "没有结果")
        )
        for topic in draw.sample(words.apart["zh"], 10)
    ]
    return trace("searches zh", rounds)


def slow_rounds(draw: random.Random, words: Words) -> Trace:
    """Each waits minutes in the queue, and some tools are slow."""
    rounds = [
        TraceRound(
            prose=step(draw, words, topic),
            calls=(file_of(draw, words, topic),),
            wall_s=draw.choice((5.0, 100.0)),
            waited_s=300.0,
        )
        for topic in words.topics[:10]
    ]
    return trace("slow rounds", rounds)


def _in(draw: random.Random, words: Words, language: str) -> Trace:
    rounds = [reading(draw, words, topic, language) for topic in words.apart[language]]
    return trace(f"files {language}", rounds)


READING: Final[tuple[Callable[[random.Random, Words], Trace], ...]] = (
    forty_files,
    forty_files_quick,
    forty_files_parallel,
    empty_files,
    pagination,
    pagination_by_cursor,
    read_again,
    chinese,
    russian,
    japanese,
    chinese_empty,
    slow_rounds,
)
"""Every kind."""
