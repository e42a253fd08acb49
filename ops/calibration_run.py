"""Scores for all labelled texts: those kept, and those that are missing, with progress."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..guards.checks.subject import Subject
from ..guards.checks.thresholds import Thresholds
from ..worker.config import Config
from . import console
from .calibration import Sample, Tables
from .calibration_scores import Memory, Scored, ScoresFile, digest, head, probing, score_batch
from .evaluation import Labelled
from .labelled_files import BatchProgress, in_batches, open_scorer
from .whole_texts import subject_of

_REASONS_SHOWN: Final = 5


def all_samples(
    lines: Sequence[Labelled],
    config: Config,
    *,
    default_profile: str,
    deployment: Tables,
    scores_file: Path | None = None,
) -> tuple[list[Sample], str]:
    """The texts by their scores, and the scoring model's name. It is loaded only if some are not
    in the file. What is scored is in the file, batch by batch, whatever happens then. Raises
    ScoresFileError, CannotStart."""
    about = head(config.scoring_model or "embedded", config.embedding_model, deployment)
    store = Memory() if scores_file is None else ScoresFile(scores_file, about)
    profiles = [line.profile or default_profile for line in lines]
    rules = {profile: probing(profile, deployment) for profile in set(profiles)}
    subjects = [
        # No check that is calibrated asks for the number of tokens.
        subject_of(line, profile, tokens=0)
        for line, profile in zip(lines, profiles, strict=True)
    ]
    digests = [digest(subject) for subject in subjects]
    # Each once, however often it is there.
    missing = {
        key: subject
        for key, subject in zip(digests, subjects, strict=True)
        if store.get(key) is None
    }
    if missing:
        _score(missing, rules, store, config, total=len(lines))
    return [
        Sample(profile=profile, good=line.label == "good", kind=line.kind, scores=scores)
        for line, profile, key in zip(lines, profiles, digests, strict=True)
        if (scores := store.get(key)) is not None
    ], about.scoring_model


def _score(
    missing: Mapping[str, Subject],
    rules: Mapping[str, Thresholds],
    store: Memory,
    config: Config,
    *,
    total: int,
) -> None:
    """Score what is missing, by digest, into the store."""
    scorer = open_scorer(config)
    progress = BatchProgress(total, total - len(missing), sys.stderr)
    failures: Counter[str] = Counter()
    try:
        for batch in in_batches(missing.items(), config.check_batch):
            some = [subject for _, subject in batch]
            found = score_batch(scorer, some, [rules[each.profile] for each in some])
            rows: list[Scored] = []
            for (key, _), scores in zip(batch, found, strict=True):
                if isinstance(scores, str):
                    failures[scores] += 1
                else:
                    rows.append(Scored(text=key, scores=scores))
            store.add(rows)
            progress.batch(len(batch), failed=len(batch) - len(rows))
    finally:
        progress.end()
        scorer.close()
    for reason, count in failures.most_common(_REASONS_SHOWN):
        console.warning(f"{count} texts have no scores and don't count: {reason}")
