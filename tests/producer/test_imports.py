"""What a backend's process must not be made to load."""

import subprocess
import sys

FORBIDDEN = ("torch", "vllm", "transformers", "numpy", "sluicegate.worker", "sluicegate.guards")


def test_the_client_is_light() -> None:
    code = (
        "import sys; from sluicegate.producer import GenerationJob, Producer, BlockingProducer; "
        "print(*sys.modules, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(done.stdout.split())
    assert "sluicegate.producer.producer" in loaded
    forbidden = [*FORBIDDEN, "sluicegate.rollback", "sluicegate.ops"]
    assert not loaded.intersection(forbidden)
