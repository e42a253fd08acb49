"""A worker, a checker or an agent service that has something to show in its metrics, as a program:

    python -m tests.ops.watched_services worker '{"amqp_url": ...}'

The model plays what the prompt asks for: `ECHO ...` is said back, `LOOP ...` goes round in circles,
`SLIP ...` does until it is taken back once, `THINK ...` thinks in circles, and then answers.
Anything else is a round of an agent, which calls one tool and is done.
"""

import asyncio
import sys
from collections.abc import Sequence

import msgspec
from sluicegate.guards.checks.scores import TextScores
from sluicegate.worker.agent.service import Orchestrator
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config
from sluicegate.worker.engine import Segment
from sluicegate.worker.frame import Service, until_signalled
from sluicegate.worker.scoring import ScoreRequest, Wants
from sluicegate.worker.scripted import ScriptedEngine
from sluicegate.worker.service import Worker

from ..worker.agent.troupe import answer, call, round_of

START, END = "<think>", "</think>"
_THOUGHT = "The train leaves at nine and takes four hours, so lunch would be at one in the town. "
_GOOD = (
    "The sky looks blue because air scatters short waves of light more than long ones. Blue light "
    "comes to us from every side, while red light goes straight on, which we see in the evening."
)


def play(segment: Segment, prompt: str) -> str:
    """The whole answer, what is carried over included."""
    word, _, rest = prompt.partition(" ")
    match word:
        case "ECHO":
            return rest
        case "LOOP":
            return "and so on " * 60
        case "SLIP":
            said = bytes(segment.prompt_token_ids[-segment.carried :]) if segment.carried else b""
            return said.decode() + _GOOD if said else "This is how it begins. " + "and so on " * 40
        case "THINK":
            asked = len(segment.prompt_token_ids) - segment.carried
            said = bytes(segment.prompt_token_ids[asked:]).decode()
            return said + _GOOD if END in said else START + _THOUGHT * 20
        case _ if round_of(prompt) == 1:
            return call("calculator", expression="6 * 7")
        case _:
            return answer("It is 42, as everybody knows who has read about it.")


class NoModel:
    """Scores nothing, so that no check of the scores has anything to say."""

    name = "none"

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        """Empty scores."""
        del wants
        return [TextScores(model=self.name, chars=(), logprobs=()) for _ in requests]

    def close(self) -> None:
        """There is nothing to close."""


def service(kind: str, config: Config) -> Service:
    """The service, not running yet."""
    match kind:
        case "worker":
            engine = ScriptedEngine(play, chunk=16, max_model_len=200_000, tags=(START, END))
            return Worker(config, engine)
        case "checker":
            return Checker(config, NoModel())
        case "agent":
            return Orchestrator(config)
        case _:
            raise SystemExit(f"what is {kind!r}?")


if __name__ == "__main__":
    settings = msgspec.convert(msgspec.json.decode(sys.argv[2]), Config)
    sys.exit(asyncio.run(until_signalled(service(sys.argv[1], settings))))
