"""Whether a grammar can be compiled and walked through, as a program that bounds itself.

It reads `[kind, specification]` from standard input and does with it what the engine will do, for a
vocabulary made up for that: read it, compile it, and find out what may come next, some steps far.
It says on standard output what it begins with. Each stage has so many seconds of CPU, and all have
so much memory; the system ends it where that is not enough. It is run by its path, so it imports
nothing of ours.
"""

import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any, Final

# Of CPU time. The engine's frontend reads a grammar while all other jobs wait, and its scheduler
# asks what may come next at each step; compiling is done beside.
READING_S: Final = 1
COMPILING_S: Final = 10
WALKING_S: Final = 2
_MEMORY: Final = 2 << 30  # bytes, beyond what the program itself takes
_STEPS: Final = 48
_TOKENS: Final = 32_000


def main() -> None:
    """Try it. Exit status 0: it was done, or is no grammar that xgrammar knows."""
    try:
        import xgrammar  # noqa: PLC0415 - of vLLM, on most machines
    except ImportError:
        return

    # Its types are unknown.
    xgr: Any = xgrammar
    kind, said = json.load(sys.stdin)
    virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (virtual + _MEMORY, virtual + _MEMORY))
    # One byte each, then pieces of two to nine of one kind.
    single = [bytes([byte]) for byte in range(256)]
    pieces = [bytes([32 + at % 95]) * (2 + at // 95 % 8) for at in range(_TOKENS - len(single))]
    compiler = xgr.GrammarCompiler(xgr.TokenizerInfo(single + pieces), max_threads=1)
    _begin("reading", READING_S)
    try:
        grammar = _read(xgr, kind, said)
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        # Another backend of the engine may know it, or the engine says in its own words what it is.
        sys.stdout.write(f"unknown {str(error)[:200]!a}\n")
        return
    _begin("compiling", COMPILING_S)
    matcher = xgr.GrammarMatcher(compiler.compile_grammar(grammar))
    _begin("walking", WALKING_S)
    _walk(xgr, matcher)


def _begin(stage: str, seconds: int) -> None:
    sys.stdout.write(f"{stage}\n")
    sys.stdout.flush()
    # Whole seconds that are over count.
    limit = int(time.process_time()) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _read(xgr: Any, kind: str, said: Any) -> Any:
    match kind:
        case "json_schema":
            return xgr.Grammar.from_json_schema(json.dumps(said), any_whitespace=False)
        case "regex":
            return xgr.Grammar.from_regex(said)
        case "structural_tag":
            return xgr.Grammar.from_structural_tag(json.dumps(said))
        case _:
            return xgr.Grammar.from_ebnf(said)


def _walk(xgr: Any, matcher: Any) -> None:
    """Somewhere through the grammar, by single bytes."""
    draw = random.Random(1)  # noqa: S311 - no secret
    mask = xgr.allocate_token_bitmask(1, _TOKENS)
    for _ in range(_STEPS):
        matcher.fill_next_token_bitmask(mask, 0)
        words = mask[0].tolist()
        open_ = [byte for byte in range(256) if words[byte // 32] >> byte % 32 & 1]
        if not open_ or not matcher.accept_token(draw.choice(open_)) or matcher.is_terminated():
            return


if __name__ == "__main__":
    main()
