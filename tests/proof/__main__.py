"""What sluicegate is worth: the same jobs and faults with it and without, on the real engine.

`python -m tests.proof --help` from the root of the checkout, or `make proof`.
"""

__all__ = ["main"]
