"""Going back: checkpoints, what to do about a finding, changed sampling, seeds."""

from .actions import Action, Changes, GiveUp, Note, Rollback
from .checkpoints import Checkpoint, CheckpointStack, checkpoint_interval
from .history import Budgets, Situation, Trip, standing_bans
from .mutation import differences, mutate
from .policy import decide
from .seeds import base_seed, derive_seed
from .table import BadPolicy, Table, default_table, read_table

__all__ = [
    "Action",
    "BadPolicy",
    "Budgets",
    "Changes",
    "Checkpoint",
    "CheckpointStack",
    "GiveUp",
    "Note",
    "Rollback",
    "Situation",
    "Table",
    "Trip",
    "base_seed",
    "checkpoint_interval",
    "decide",
    "default_table",
    "derive_seed",
    "differences",
    "mutate",
    "read_table",
    "standing_bans",
]
