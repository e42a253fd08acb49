"""The end of a check, decided without a broker."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from sluicegate.producer.subscription import Delivery
from sluicegate.rollback import default_retry_table
from sluicegate.schemas import Candidate, GenerationResult, Verdict
from sluicegate.worker.publications import Settlement
from sluicegate.worker.verdict_settlement import plan_cancelled, plan_expired, plan_verdict

from .relay import WHO
from .test_checker import candidate

NOW = datetime.now(UTC)
DELIVERY = cast(
    "Delivery",
    SimpleNamespace(
        queue="checks",
        routing_key="checks",
        message_id="m",
        correlation_id="c",
        redelivered=False,
        times_returned=0,
        body=b"",
    ),
)


def _refused(text: Candidate) -> Settlement:
    verdict = Verdict(outcome="rejected", checker="c", at=NOW)
    return plan_verdict(WHO, text, DELIVERY, verdict, default_retry_table(), NOW)


ENDS: dict[str, Callable[[Candidate], Settlement]] = {
    "expired": lambda text: plan_expired(WHO, text, DELIVERY, NOW),
    "cancelled": lambda text: plan_cancelled(WHO, text, DELIVERY),
    "rejected": _refused,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_result_without_a_text_has_nothing_of_it(end: str) -> None:
    sent = candidate(max_attempts=1)
    whole = msgspec.structs.replace(sent.result, reasoning="because", stop_string="END")
    settlement = ENDS[end](msgspec.structs.replace(sent, result=whole))
    (result,) = (
        each.message
        for each in settlement.publications
        if isinstance(each.message, GenerationResult)
    )
    assert not result.ok
    assert (result.text, result.reasoning, result.stop_string) == ("", None, None)
