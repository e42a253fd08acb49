"""Seeds are derived, not drawn: the same job gives the same lineage on the same engine build."""

from hashlib import blake2b

from ..schemas.limits import MAX_SEED


def attempt_seed(job_id: str, given: int | None, attempt: int) -> int:
    """The seed of an attempt. The first keeps the job's own: the one given, or one derived from the
    job's id. That of a later one comes from the job's id, its number and the job's own."""
    base = given if given is not None else _hash(job_id)
    return base if attempt == 1 else _hash(f"{job_id}:{attempt}:{base}")


def derive_seed(seed: int, rollback: int) -> int:
    """The seed of a segment, from that of its attempt, which the first segment (0) keeps."""
    return seed if rollback == 0 else _hash(f"{seed}:{rollback}")


def _hash(material: str) -> int:
    digest = blake2b(material.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") & MAX_SEED
