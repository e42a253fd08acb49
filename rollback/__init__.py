"""Going back: seeds, and the room for checkpoints, policy and mutation."""

from .seeds import base_seed, derive_seed

__all__ = ["base_seed", "derive_seed"]
