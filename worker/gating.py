"""Which thresholds and which policy rule a job: the software's, the deployment's, the job's own."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ..guards.checks.language_names import language_problem
from ..guards.checks.patterns import pattern_problem
from ..guards.kenlm_score import load_scorer
from ..guards.profiles import BadProfile, Profile, profile, profile_names, read_tables
from ..rollback import BadPolicy, Budgets, Table, default_table, read_table
from ..schemas import GenerationJob, InvalidMessage, Reason
from .config import Config, ConfigError, check_tags, file_text


class JobGating(Struct, frozen=True, kw_only=True):
    """What rules one job."""

    profile: Profile
    table: Table
    wrap_up: str = ""

    @property
    def budgets(self) -> Budgets:
        """What the attempt may spend on going back."""
        return Budgets(
            max_rollbacks=self.profile.max_rollbacks,
            max_wasted_tokens=self.profile.max_wasted_tokens,
            max_seconds=self.profile.max_rollback_seconds,
        )


class Gating:
    """What rules the jobs of a deployment. Immutable."""

    def __init__(
        self,
        tables: Mapping[str, Mapping[str, Any]] | None = None,
        policy: Table | None = None,
        wrap_up: str = "",
    ) -> None:
        """`wrap_up` closes reasoning that is cut."""
        self._tables = tables
        self._policy = policy or default_table()
        self._wrap_up = wrap_up

    def of(self, job: GenerationJob) -> JobGating:
        """Raises InvalidMessage for a profile that there is not, for overrides that make no sense,
        and for rules that nothing can be held against."""
        if job.profile not in profile_names():
            raise InvalidMessage(
                Reason.UNSUPPORTED,
                "$.profile",
                f"{job.profile!r} is no profile; there are {', '.join(profile_names())}",
            )
        _require_usable(job)
        try:
            own = profile(job.profile, job.gates, deployment=self._tables)
        except BadProfile as error:
            raise InvalidMessage(Reason.UNSUPPORTED, "$.gates", str(error)) from error
        return JobGating(profile=own, table=self._policy, wrap_up=self._wrap_up)


def _require_usable(job: GenerationJob) -> None:
    """Refuse rules that no checker can hold a text against: better now than behind a whole text."""
    language = job.rules.language
    if language is not None and (problem := language_problem(language)) is not None:
        raise InvalidMessage(Reason.UNSUPPORTED, "$.rules.language", problem)
    for name in ("must_match", "must_not_match"):
        for index, pattern in enumerate(getattr(job.rules, name)):
            if (problem := pattern_problem(pattern)) is not None:
                field = f"$.rules.{name}[{index}]"
                raise InvalidMessage(Reason.UNSUPPORTED, field, problem)


def gating(config: Config) -> Gating:
    """From the files that the configuration names. Blocking: a language model that they name is
    loaded. Raises ConfigError."""
    check_tags(config)
    tables = policy = None
    try:
        if config.gates_file:
            tables = read_tables(file_text(config.gates_file, "gates_file"))
            _load_models(tables)
        if config.policy_file:
            policy = read_table(file_text(config.policy_file, "policy_file"))
    except BadProfile as error:
        raise ConfigError(f"gates_file {config.gates_file}: {error}") from error
    except BadPolicy as error:
        raise ConfigError(f"policy_file {config.policy_file}: {error}") from error
    return Gating(tables, policy, config.reasoning_wrap_up)


def _load_models(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """So that one which can't be had stops the worker, and not each of its jobs. A job may switch
    the rule on by a threshold of its own, so a model counts without one, too."""
    for model in {profile(name, deployment=tables).coherence_model for name in profile_names()}:
        if model:
            load_scorer(model)
