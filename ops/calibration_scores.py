"""The scores of labelled texts that thresholds are set by, kept in a file.

What the scoring model says costs nearly all the time and does not depend on the thresholds, so it
is computed once: a first line says what the scores depend on besides the texts, then one line a
text, added as batches are done. Interrupted, the next run goes on.
"""

import hashlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..guards.checks.judge import check_all
from ..guards.checks.subject import Subject
from ..guards.checks.thresholds import CALIBRATED, Thresholds, profile_names, thresholds
from ..worker.config import ConfigError
from ..worker.scoring import Scorer
from .whole_texts import scored, wants

_NAMES: Final = frozenset(each.score for each in CALIBRATED)


class ScoresFileError(ConfigError):
    """The file of scores is another one's, or none: which, and what to do."""


class Head(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What scores depend on besides the text. `settings`: a digest of what the checks are set to,
    sizes of windows and the like."""

    kind: str = "sluicegate scores"
    version: str
    scoring_model: str
    embedding_model: str
    settings: str


class Scored(Struct, frozen=True, kw_only=True):
    """One text: a digest of it and of all that was known of it, and its scores by name."""

    text: str
    scores: dict[str, float]


class Memory:
    """A store that is gone afterwards."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, float]] = {}

    def get(self, digest: str) -> dict[str, float] | None:
        """Those of a text, if they are there."""
        return self._rows.get(digest)

    def add(self, rows: Sequence[Scored]) -> None:
        """Keep some."""
        self._rows |= {row.text: row.scores for row in rows}


class ScoresFile(Memory):
    """A store in a file of JSON Lines. Raises ScoresFileError where it holds anything else than
    scores that depend on the same, and where it can't be read or written."""

    def __init__(self, path: Path, head: Head) -> None:
        super().__init__()
        self._path = path
        with self._told():
            self._open(head)

    def add(self, rows: Sequence[Scored]) -> None:
        """Keep some; they are in the file when this returns."""
        super().add(rows)
        with self._told(), self._path.open("ab") as file:
            file.write(msgspec.json.Encoder().encode_lines(rows))

    def _open(self, head: Head) -> None:
        path = self._path
        first = msgspec.json.encode(head) + b"\n"
        if not path.exists() or not path.stat().st_size:
            path.write_bytes(first)
            return
        written = path.read_bytes()
        # A line without its end was being written when the run was killed.
        whole = written[: written.rfind(b"\n") + 1]
        lines = whole.splitlines()
        self._check(lines[0] if lines else written, head)
        try:
            super().add([msgspec.json.decode(line, type=Scored) for line in lines[1:]])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ScoresFileError(f"{path}: not a file of scores ({error})") from None
        if len(whole) < len(written):
            with path.open("r+b") as file:
                file.truncate(len(whole))

    @contextmanager
    def _told(self) -> Generator[None]:
        """A full disk and the like are an error of the file that was named."""
        try:
            yield
        except OSError as error:
            raise ScoresFileError(f"{self._path}: {error.strerror or error}") from error

    def _check(self, line: bytes, head: Head) -> None:
        try:
            found = msgspec.json.decode(line, type=Head)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ScoresFileError(
                f"{self._path} is not a file of scores; name a new one, it will be made"
            ) from None
        for field in Head.__struct_fields__:
            theirs, ours = getattr(found, field), getattr(head, field)
            if theirs != ours:
                raise ScoresFileError(
                    f"{self._path}: the scores in it were made with another {field} ({theirs!r}, "
                    f"now {ours!r}); name another file, or delete this one"
                )


def probing(profile: str, deployment: Mapping[str, Mapping[str, Any]]) -> Thresholds:
    """The profile's thresholds with every one that is calibrated switched on, and none of the
    checks that have no such threshold."""
    on = {each.key: 1.0 for each in CALIBRATED}
    found = thresholds(profile, deployment=deployment)
    return msgspec.structs.replace(found, check_structure=False, check_rules=False, **on)


def head(
    scoring_model: str, embedding_model: str, deployment: Mapping[str, Mapping[str, Any]]
) -> Head:
    """What the scores of this run depend on."""
    settings = [probing(profile, deployment) for profile in profile_names()]
    return Head(
        version=version("sluicegate"),
        scoring_model=scoring_model,
        embedding_model=embedding_model,
        settings=_digest(settings),
    )


def digest(subject: Subject) -> str:
    """Of the text and all that is known of it."""
    return _digest(subject)


def score_batch(
    scorer: Scorer, subjects: Sequence[Subject], rules: Sequence[Thresholds]
) -> list[dict[str, float] | str]:
    """The scores of each text, by name, as far as its profile's checks have something to say; or
    why there are none."""
    results: list[dict[str, float] | str] = []
    with_scores = scored(scorer, subjects, wants(rules))
    for subject, thresholds_of_it in zip(with_scores, rules, strict=True):
        if isinstance(subject, str):
            results.append(f"the scoring model: {subject}")
            continue
        records = list(check_all(subject, thresholds_of_it))
        broken = [record.detail for record in records if record.outcome == "failed"]
        scores = {
            record.check: record.score
            for record in records
            if record.check in _NAMES and record.score is not None
        }
        results.append(broken[0] if broken else scores)
    return results


def _digest(value: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=16).hexdigest()
