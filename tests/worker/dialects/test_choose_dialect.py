"""Which dialect a job gets."""

from pathlib import Path

import pytest
from sluicegate.ops.embedded_model import resolve_model
from sluicegate.schemas import AgentJob, InvalidMessage, Reason, Sampling
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.dialects.choose import Dialects, make_dialects
from sluicegate.worker.dialects.dialect import Told
from sluicegate.worker.dialects.text import TextDialect
from sluicegate.worker.dialects.tokens import ByteTokens
from sluicegate.worker.engine import EngineUnavailable


class Native(TextDialect):
    """Stands in for the one that needs vLLM."""

    @property
    def name(self) -> str:
        return "native"


@pytest.mark.parametrize(
    ("asked", "plain", "native"),
    [("auto", "text", "native"), ("text", "text", "text"), ("grammar", "grammar", "grammar")],
)
def test_by_the_job_and_by_what_there_is(asked: str, plain: str, native: str) -> None:
    job = AgentJob(task="x", format=asked)  # pyright: ignore[reportArgumentType]
    tokens = ByteTokens()
    assert Dialects(tokens, 100).of(job).name == plain
    assert Dialects(tokens, 100, Native(tokens)).of(job).name == native


def test_a_format_that_there_is_not() -> None:
    job = AgentJob(task="x", format="xml")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidMessage) as refused:
        Dialects(ByteTokens(), 100).of(job)
    assert (refused.value.reason, refused.value.field) == (Reason.UNSUPPORTED, "$.format")


def test_stop_strings_for_which_there_is_no_room() -> None:
    dialects = Dialects(ByteTokens(), 100)
    own = tuple(map(str, range(15)))
    with pytest.raises(InvalidMessage) as refused:
        dialects.of(AgentJob(task="x", sampling=Sampling(stop=own)))
    assert (refused.value.reason, refused.value.field) == (Reason.UNSUPPORTED, "$.sampling.stop")
    dialects.of(AgentJob(task="x", sampling=Sampling(stop=own[:14])))


def test_the_scripted_engine() -> None:
    dialects = make_dialects(Config(engine="scripted"))
    assert (dialects.max_model_len, dialects.count("é")) == (8192, 2)
    assert make_dialects(Config(engine="scripted", max_model_len=50)).max_model_len == 50
    asked = Config(engine="scripted", engine_args={"max_model_len": 60})
    assert make_dialects(asked).max_model_len == 60
    with pytest.raises(ConfigError, match="tool_parser"):
        make_dialects(Config(engine="scripted", tool_parser="hermes"))


def test_a_model_and_a_template_of_ones_own(tmp_path: Path) -> None:
    template = tmp_path / "own.jinja"
    template.write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    model = resolve_model(None)
    plain = make_dialects(Config(model=model))
    own = make_dialects(Config(model=model, max_model_len=700, chat_template=str(template)))
    assert (plain.max_model_len, own.max_model_len) == (8192, 700)
    assert plain.count("It is raining.") == own.count("It is raining.") > 0
    job = AgentJob(task="x")
    turns = [Told("user", "Hello")]
    ids = [one.of(job).prompt(turns, ()).token_ids for one in (plain, own)]
    assert ids[0] != ids[1]


def test_what_can_not_be_had(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="no tokenizer"):
        make_dialects(Config(model=str(tmp_path)))
    with pytest.raises(ConfigError, match="chat_template"):
        make_dialects(Config(model=str(tmp_path), chat_template=str(tmp_path / "none.jinja")))
