"""The form of calls in plain text as a grammar in EBNF, as xgrammar reads it.

Thoughts and white space are bounded: a small model has to come to the call. Thoughts are counted in
words, in scripts without blanks in clauses: to count characters costs xgrammar 0.2.8 a hundred
times as much to compile, and with long thoughts milliseconds at each token.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ...schemas import ToolSpec
from ...schemas.limits import MAX_SCHEMA_BYTES
from .schema_grammar import COMMON, SchemaRules, free_rules, quoted

_MAX_WORDS: Final = 100
_ENDS: Final = " 。，、！？；"  # of words and clauses
# Small models don't stop of themselves.
_MAX_PARALLEL: Final = 4
# What no line of an answer may begin with, for it would be read as something else. `_`: blanks, if
# any; `.`: one blank.
_LABELS: Final = (
    "_thought_:",
    "_action_:",
    "_action._input_:",
    "_observation_:",
    "_observation_(",
    "_final._answer_:",
    # In bold; a label may close before its colon or behind it.
    "_**_thought_:",
    "_**_thought_**_:",
    "_**_action_:",
    "_**_action_**_:",
    "_**_action._input_:",
    "_**_action._input_**_:",
    "_**_observation_:",
    "_**_observation_**_:",
    "_**_observation_(",
    "_**_final._answer_:",
    "_**_final._answer_**_:",
)
_BLANK: Final = " \t"
_HEAD: Final = "Action: {}\nAction Input: "
# White space and no other controls.
_TEXT: Final = r"\x00-\x08\x0a-\x1f\x7f"


def text_grammar(
    tools: Sequence[ToolSpec], *, may_answer: bool = True, limit: int = MAX_SCHEMA_BYTES
) -> str:
    """Calls of these tools with arguments by their schemas, or a final answer; without tools, a
    final answer alone. At most `limit` bytes: tools whose schemas have no room take any object."""
    goals = ["calls"] if tools else []
    if may_answer or not tools:
        goals.append("answer")
    lines = [
        f"root ::= thought? ({' | '.join(goals)})",
        f'thought ::= "Thought: " word ([{_ENDS}] word){{0,{_MAX_WORDS - 1}}} "\\n"',
        f"word ::= [^{_TEXT}\\t{_ENDS}]*",
    ]
    if "answer" in goals:
        lines += [*_answer()]
    if tools:
        calls = " | ".join(f"call_{number}" for number in range(len(tools)))
        lines += [
            f'calls ::= call ("\\n" call){{0,{_MAX_PARALLEL - 1}}}',
            f"call ::= {calls}",
            COMMON,
            free_rules(),
            *_calls(tools, limit - sum(len(line.encode()) + 1 for line in lines) - _ROOM),
        ]
    return "\n".join(lines)


# For the rules that all schemas share.
_ROOM: Final = len(COMMON) + len(free_rules()) + 2


def _calls(tools: Sequence[ToolSpec], room: int) -> Iterator[str]:
    heads = [
        f"call_{number} ::= {quoted(_HEAD.format(tool.name))} " for number, tool in enumerate(tools)
    ]
    longest = len("free_object") + 1
    room -= sum(len(head) + longest for head in heads)
    for number, (tool, head) in enumerate(zip(tools, heads, strict=True)):
        rules = SchemaRules(tool.parameters, f"a{number}")
        needed = len(rules.text.encode()) + len(rules.root) + 1
        if needed <= room:
            room -= needed
            yield f"{head}{rules.root}\n{rules.text}".rstrip("\n")
        else:
            yield f"{head}free_object"


def _answer() -> Iterator[str]:
    """A text without blank ends, and without a line that could be taken for a label. Line breaks
    come two at a time at most."""
    yield f'answer ::= "Final Answer: " [^{_TEXT} \\t] words ("\\n" "\\n"? line_0)*'
    yield f"words ::= [^{_TEXT}]*"
    start = _closed({(label, 0) for label in _LABELS})
    numbers = {start: 0}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        targets: dict[frozenset[tuple[str, int]], str] = {}
        seen = ""
        for char in sorted({char for label, at in state for char in _chars(label[at])}):
            seen += char
            after = _step(state, char)
            if any(at == len(label) for label, at in after):
                continue
            targets[after] = targets.get(after, "") + char
        options = [f"[^{_TEXT}{_escaped(seen)}] words"]
        for after, chars in targets.items():
            if after not in numbers:
                numbers[after] = len(numbers)
                waiting.append(after)
            options.append(f"[{_escaped(chars)}] line_{numbers[after]}")
        if state != start:
            options.insert(0, '""')
        yield f"line_{numbers[state]} ::= {' | '.join(options)}"


def _chars(wanted: str) -> str:
    return _BLANK if wanted in "_." else "".join({wanted.lower(), wanted.upper()})


def _step(state: frozenset[tuple[str, int]], char: str) -> frozenset[tuple[str, int]]:
    after: set[tuple[str, int]] = set()
    for label, at in state:
        if char in _chars(label[at]):
            after.add((label, at if label[at] == "_" else at + 1))
    return _closed(after)


def _closed(state: set[tuple[str, int]]) -> frozenset[tuple[str, int]]:
    """With what blanks that need not come lead to."""
    for label, at in list(state):
        if at < len(label) and label[at] == "_":
            state.add((label, at + 1))
    return frozenset(state)


def _escaped(chars: str) -> str:
    return "".join(f"\\x{ord(char):02x}" for char in chars)
