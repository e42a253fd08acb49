"""What can be done about a finding: a closed union."""

from msgspec import Struct


class Changes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the segment after a rollback does differently from the job's own sampling.

    `ban`: the token that stood at the cut, if one did, is not sampled at that position; bans of
    earlier rollbacks stay as `standing_bans` says.
    `guide`: text that is put in at the cut, as if the model had said it.
    `reseed`: the seed is derived anew, with the number of this rollback (`derive_seed`).
    `tokens`: for how many tokens from the cut the changed sampling is in force; 0: to the end. A
    ban, a guide and a seed are not taken back.
    """

    ban: bool = False
    # The new temperature is the job's, times the one and at least the other.
    temperature_times: float = 1.0
    temperature_at_least: float = 0.0
    greedy: bool = False
    top_p_at_most: float = 1.0
    top_k_at_most: int = 0  # 0: as the job has it
    repetition_penalty_by: float = 0.0  # added
    guide: str = ""
    reseed: bool = False
    tokens: int = 0
    # The reasoning ends at the cut, and what follows is the answer.
    close: bool = False


class Note(Struct, frozen=True, kw_only=True, tag=True):
    """Write it down and go on. `counts`: it is one of those that add up to a rollback; the others
    need not be kept in the situation's trips (a gate may find the same with each further token).

    Where the finding has ended the engine's request, going on means a new segment."""

    counts: bool = True


class Rollback(Struct, frozen=True, kw_only=True, tag=True):
    """Keep the first `keep` tokens, and go on from there with `changes`; of a reasoning that is
    closed there, also below what a client has seen. `fresh_cache`: read
    nothing from the prefix cache. `row` and `rung` say where in the table this comes from."""

    keep: int
    changes: Changes
    fresh_cache: bool = False
    row: str = ""
    rung: int = 0


class GiveUp(Struct, frozen=True, kw_only=True, tag=True):
    """The attempt ends. `detail`: why, and what would help. `engine_fault`: it looks like the
    engine's fault, not the model's: another worker should have the job, and this one is suspect."""

    detail: str
    engine_fault: bool = False


Action = Note | Rollback | GiveUp
