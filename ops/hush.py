"""Keeps what an engine in this process has to say off the terminal."""

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from ..worker import logs


@contextmanager
def hushed() -> Generator[TextIO]:
    """Inside, standard error is a file: for vLLM and its libraries, from Python and C++, and for
    child processes that start there. What was said is shown only if something fails. Gives the
    standard error that was, to be written to meanwhile."""
    with tempfile.TemporaryFile() as said, logs.for_vllm("human", "warning"):
        sys.stderr.flush()
        kept = os.dup(2)
        failed = True
        os.dup2(said.fileno(), 2)
        try:
            with os.fdopen(kept, "w", buffering=1, closefd=False) as terminal:
                yield terminal
            failed = False
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            if failed:
                said.seek(0)
                sys.stderr.write(said.read().decode(errors="replace"))
                sys.stderr.flush()
