"""What is remembered of settled attempts is bounded by the text it holds."""

from datetime import UTC, datetime

from sluicegate.schemas import ChatMessage, Completed, GenerationJob, GenerationResult
from sluicegate.worker.attempt import Attempt
from sluicegate.worker.publications import Publication, Settlement, Verb
from sluicegate.worker.registry import Registry


def settlement(text: str) -> Settlement:
    result = GenerationResult(
        job_id="x", attempt=1, outcome=Completed(), text=text, finished_at=datetime.now(UTC)
    )
    return Settlement((Publication("e", "k", result, "x"),), Verb.ACK, Completed())


def test_the_oldest_are_forgotten_first() -> None:
    registry: Registry[Attempt] = Registry(remember=31_500)
    for number in range(10):
        registry.remember((f"job-{number}", 1), settlement("x" * 8_000))
    kept = [number for number in range(10) if registry.settled((f"job-{number}", 1))]
    assert kept == [7, 8, 9]


def test_the_newest_stays_however_large() -> None:
    registry: Registry[Attempt] = Registry(remember=1_000)
    registry.remember(("small", 1), settlement("x"))
    registry.remember(("large", 1), settlement("x" * 50_000))
    assert registry.settled(("small", 1)) is None
    assert registry.settled(("large", 1)) is not None


def test_remembering_again_counts_once_and_makes_it_the_newest() -> None:
    registry: Registry[Attempt] = Registry(remember=25_000)
    registry.remember(("a", 1), settlement("x" * 8_000))
    registry.remember(("b", 1), settlement("x" * 8_000))
    for _ in range(5):
        registry.remember(("a", 1), settlement("x" * 8_000))
    registry.remember(("c", 1), settlement("x" * 8_000))
    assert registry.settled(("b", 1)) is None
    assert registry.settled(("a", 1)) is not None
    assert registry.settled(("c", 1)) is not None


def test_token_ids_and_messages_weigh_what_they_take() -> None:
    ids = GenerationJob(prompt_token_ids=tuple(range(10_000)))
    said = GenerationJob(messages=(ChatMessage(role="user", content="x" * 100_000),))
    for job, least in ((ids, 300_000), (said, 100_000)):
        waiting = Settlement((Publication("e", "k", job, "x"),), Verb.ACK, over=True)
        assert waiting.weight > least
