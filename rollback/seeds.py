"""Seeds are derived, not drawn: the same job gives the same lineage on the same engine build."""

from hashlib import blake2b

from ..schemas.limits import MAX_SEED


def base_seed(job_id: str, given: int | None) -> int:
    """The job's seed: the one given, or one derived from the job's id."""
    return given if given is not None else _hash(job_id.encode())


def derive_seed(base: int, attempt: int, rollback: int) -> int:
    """The seed of a segment. The first segment of the first attempt keeps the job's own seed."""
    if attempt == 1 and rollback == 0:
        return base
    return _hash(f"{base}:{attempt}:{rollback}".encode())


def _hash(material: bytes) -> int:
    return int.from_bytes(blake2b(material, digest_size=8).digest(), "big") & MAX_SEED
