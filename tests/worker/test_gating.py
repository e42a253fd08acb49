"""Which thresholds and policy rule: the software's, the deployment's, the job's own."""

from pathlib import Path

import msgspec
import pytest
from sluicegate.rollback import default_table
from sluicegate.schemas import GenerationJob, InvalidMessage, Reason, Rules
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.gating import Gating, gating


def written(folder: Path, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(text)
    return str(path)


def test_the_jobs_own_goes_over_the_deployments_and_that_over_the_softwares(tmp_path: Path) -> None:
    path = written(tmp_path, "[base]\nword_run = 7\nmax_rollbacks = 3\n[code]\ncharacter_run = 8\n")
    ours = gating(Config(gates_file=path))
    code = ours.of(GenerationJob(prompt="x", profile="code", gates={"word_run": 9}))
    assert code.profile.word_run == 9
    assert code.profile.character_run == 8
    assert code.budgets.max_rollbacks == 3
    chat = Gating().of(GenerationJob(prompt="x"))
    assert chat.profile.character_run not in (7, 8)
    assert chat.table is default_table()


def test_a_policy_of_ones_own(tmp_path: Path) -> None:
    path = written(tmp_path, '[loop]\nthen = "note"\n')
    table = gating(Config(policy_file=path)).of(GenerationJob(prompt="x")).table
    (row,) = (row for row in table.rows if row.name == "loop")
    assert row.then == "note"


@pytest.mark.parametrize("setting", ["gates_file", "policy_file"])
@pytest.mark.parametrize("text", ["not toml", "[nonsense]\nx = 1\n", "[base]\nword_run = -1\n"])
def test_files_that_make_no_sense_stop_the_worker_at_the_start(
    tmp_path: Path, setting: str, text: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=f"{setting}.*own.toml"):
        gating(msgspec.structs.replace(Config(), **{setting: path}))


@pytest.mark.parametrize("setting", ["gates_file", "policy_file"])
def test_a_file_that_is_not_there_is_named(setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting}: /nowhere.toml can't be read"):
        gating(msgspec.structs.replace(Config(), **{setting: "/nowhere.toml"}))


def test_a_profile_that_there_is_not_names_those_there_are() -> None:
    with pytest.raises(InvalidMessage, match=r"there are .*chat"):
        Gating().of(GenerationJob(prompt="x", profile="talk"))


@pytest.mark.parametrize("table", ["base", "code"])
def test_a_language_model_that_cannot_be_had_stops_the_worker_at_the_start(
    tmp_path: Path, table: str
) -> None:
    said = f"[{table}]\ncoherence_model = '/nowhere.bin'\ncoherence_score_threshold = -4.0\n"
    path = written(tmp_path, said)
    with pytest.raises(ConfigError, match=r"gates_file .*own.toml: coherence_model: .*/nowhere"):
        gating(Config(gates_file=path))


def test_a_model_is_loaded_at_the_start_whether_or_not_a_threshold_goes_with_it(
    tmp_path: Path,
) -> None:
    """A job may set the threshold."""
    path = written(tmp_path, "[chat]\ncoherence_model = '/nowhere.bin'\n")
    with pytest.raises(ConfigError, match=r"there is no file /nowhere\.bin"):
        gating(Config(gates_file=path))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(", "no pattern"), ("((a{1000}){1000}){1000}", "elements"), ("(?R)", "calls itself")],
)
def test_a_pattern_that_no_checker_would_search_with_is_refused_at_once(
    pattern: str, said: str
) -> None:
    rules = Rules(must_match=("fine", pattern))
    with pytest.raises(InvalidMessage, match=said) as refused:
        Gating().of(GenerationJob(prompt="x", rules=rules))
    assert refused.value.reason is Reason.UNSUPPORTED
    assert refused.value.field == "$.rules.must_match[1]"


def test_a_language_that_there_is_not_is_refused_at_once() -> None:
    with pytest.raises(InvalidMessage, match="ISO 639") as refused:
        Gating().of(GenerationJob(prompt="x", rules=Rules(language="xx")))
    assert refused.value.field == "$.rules.language"
    assert Gating().of(GenerationJob(prompt="x", rules=Rules(language="pt")))
