"""What to install where the broker is missing."""

import pytest
from sluicegate.ops.broker_program import install_advice


@pytest.mark.parametrize(
    ("system", "distributions", "command"),
    [
        ("Linux", ["debian"], "apt-get install rabbitmq-server"),
        ("Linux", ["linuxmint", "ubuntu", "debian"], "apt-get install rabbitmq-server"),
        ("Linux", ["rocky", "rhel", "centos", "fedora"], "dnf install rabbitmq-server"),
        ("Linux", ["nobody-knows"], "https://www.rabbitmq.com/docs/download"),
        ("Darwin", [], "brew install rabbitmq"),
    ],
)
def test_the_advice_fits_the_platform(system: str, distributions: list[str], command: str) -> None:
    advice = install_advice(system, distributions)
    assert command in advice
    assert "SLUICE_AMQP_URL" in advice
    assert advice.count(". ") == 0
