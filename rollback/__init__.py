"""Going back and trying again: checkpoints, what to do about a finding or a verdict, changed
sampling, seeds."""

from .actions import Action, Changes, GiveUp, Note, Rollback
from .checkpoints import Checkpoint, CheckpointStack, checkpoint_interval
from .first_copy import first_copy
from .history import Budgets, Situation, Trip, elsewhere, standing_bans
from .mutation import differences, mutate
from .policy import decide
from .retry import NoRetry, Retry, back_off, decide_retry, flaws_of, pass_on
from .retry_mutation import next_mutation
from .retry_table import RetryLimits, RetryTable, default_retry_table, read_retry_table
from .seeds import attempt_seed, derive_seed
from .table import BadPolicy, Table, default_table, read_table

__all__ = [
    "Action",
    "BadPolicy",
    "Budgets",
    "Changes",
    "Checkpoint",
    "CheckpointStack",
    "GiveUp",
    "NoRetry",
    "Note",
    "Retry",
    "RetryLimits",
    "RetryTable",
    "Rollback",
    "Situation",
    "Table",
    "Trip",
    "attempt_seed",
    "back_off",
    "checkpoint_interval",
    "decide",
    "decide_retry",
    "default_retry_table",
    "default_table",
    "derive_seed",
    "differences",
    "elsewhere",
    "first_copy",
    "flaws_of",
    "mutate",
    "next_mutation",
    "pass_on",
    "read_retry_table",
    "read_table",
    "standing_bans",
]
