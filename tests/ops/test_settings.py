"""Where settings come from, which one wins, and what is said about bad ones."""

import json
import os
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from sluicegate.ops.cli import main
from sluicegate.ops.cmd_config import template
from sluicegate.ops.console import redact
from sluicegate.ops.settings import (
    FIELDS,
    TOPICS,
    BadSetting,
    Field,
    find_file,
    load,
    option_flags,
    resolve,
)
from sluicegate.worker.config import Config, ConfigError

SECRET = "hunter2"
NAMESPACE = "of letters a-z and A-Z, digits, `.`, `_` and `-`, and not begin with `amq.`"
URL = f"amqp://user:{SECRET}@broker:5672/vhost"


@pytest.fixture(autouse=True)
def _away_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable and no file of this machine's may play a part."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("SLUICE_"):
            monkeypatch.delenv(name)


def sluice(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, arguments, env=env)


def another(field: Field) -> Any:
    """A value that is not the field's default, but goes with all the others' defaults."""
    if field.choices:
        return next(choice for choice in field.choices if choice != field.default)
    special: dict[str, Any] = {
        "amqp_url": "amqps://elsewhere.example/",
        "lanes": "batch=2",
        "traces_endpoint": "https://elsewhere.example/v1/traces",
        "gpu_memory_utilization": 0.5,
        "engine_args": {"block_size": 32, "nested": {"a": [1, True]}},
    }
    if field.name in special:
        return special[field.name]
    match field.default:
        case bool():
            return not field.default
        case int() | float():
            return field.default + 1
        case _:
            return "other"


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def as_toml(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{ block_size = 32, nested = { a = [1, true] } }"


# It passes for a URL at first sight, or is half of one.
NO_URLS = [
    f"amqp://u:{SECRET}/pw@h/",
    f"amqp://u:pw/{SECRET}@h/",
    f"amqp://u:{SECRET}#pw@h/",
    f"amqp://u:{SECRET}?pw@h/",
    f"amqp://u:12/{SECRET}@h/",
    f"amqp://u:12?{SECRET}@h/",
    f"guest:{SECRET}@h",
    f"http://guest:{SECRET}@h/",
    f"amqp://[u:{SECRET}@h",
]


class TestEveryField:
    """A field is a key, a variable and a flag, and nothing has to be done for a new one."""

    @pytest.mark.parametrize("name", FIELDS)
    def test_from_the_file(self, name: str, tmp_path: Path) -> None:
        value = another(FIELDS[name])
        file = tmp_path / "s.toml"
        file.write_text(f"# first line\n{name} = {as_toml(value)}\n")
        settings = resolve(config_file=file, environ={})
        assert getattr(settings.config, name) == value
        assert str(settings.sources[name]) == f"{file}:2"

    @pytest.mark.parametrize("name", FIELDS)
    def test_from_the_environment(self, name: str) -> None:
        value = another(FIELDS[name])
        variable = f"SLUICE_{name.upper()}"
        settings = resolve(environ={variable: as_text(value)})
        assert getattr(settings.config, name) == value
        assert (settings.sources[name].kind, str(settings.sources[name])) == ("env", variable)

    @pytest.mark.parametrize("name", FIELDS)
    def test_from_a_flag(self, name: str) -> None:
        value = another(FIELDS[name])
        flag = "--" + name.replace("_", "-")
        arguments = [flag] if isinstance(value, bool) else [flag, as_text(value)]
        shown = json.loads(sluice("config", "show", "--json", *arguments).stdout)
        assert shown["settings"][name] == {
            "value": value,
            "source": {"kind": "flag", "name": flag},
        }

    @pytest.mark.parametrize("name", FIELDS)
    def test_the_help_names_the_variable(self, name: str) -> None:
        words = re.sub(r"\s+", " ", sluice("worker", "--help").stdout)
        assert FIELDS[name].flag in words
        assert f"[env: {FIELDS[name].variable}" in words

    @pytest.mark.parametrize("name", FIELDS)
    def test_it_has_a_description_and_a_topic(self, name: str) -> None:
        assert FIELDS[name].description
        assert FIELDS[name].topic in TOPICS.values()


class TestWhichWins:
    def test_flag_over_variable_over_file_over_default(self, tmp_path: Path) -> None:
        file = tmp_path / "s.toml"
        file.write_text('model = "file"\ndtype = "file"\nnamespace = "file"\n')
        settings = resolve(
            config_file=file,
            environ={"SLUICE_MODEL": "env", "SLUICE_DTYPE": "env"},
            flags={"model": "flag"},
        )
        config, sources = settings.config, settings.sources
        assert (config.model, config.dtype, config.namespace) == ("flag", "env", "file")
        kinds = [sources[name].kind for name in ("model", "dtype", "namespace", "lanes")]
        assert kinds == ["flag", "env", "file", "default"]

    def test_nothing_said_gives_the_defaults(self) -> None:
        settings = resolve(environ={})
        assert settings.config == Config()
        assert settings.file is None
        assert {source.kind for source in settings.sources.values()} == {"default"}

    def test_the_file_told_then_the_variable_then_the_usual_places(self, tmp_path: Path) -> None:
        (tmp_path / "sluice.toml").write_text("")
        named = {"SLUICE_CONFIG": "named.toml"}
        assert find_file(Path("told.toml"), named) == Path("told.toml")
        assert find_file(None, named) == Path("named.toml")
        assert find_file(None, {}) == Path("sluice.toml")

    def test_an_empty_variable_is_as_good_as_none(self) -> None:
        assert load(environ={"SLUICE_METRICS_PORT": "", "SLUICE_MODEL": ""}) == Config()

    def test_no_flag_turns_off_what_the_file_turned_on(self, tmp_path: Path) -> None:
        (tmp_path / "sluice.toml").write_text("enforce_eager = true\n")
        shown = json.loads(sluice("config", "show", "--json", "--no-enforce-eager").stdout)
        assert shown["settings"]["enforce_eager"] == {
            "value": False,
            "source": {"kind": "flag", "name": "--no-enforce-eager"},
        }
        assert shown["file"] == "sluice.toml"

    def test_the_config_flag_may_stand_before_or_after_the_command(self, tmp_path: Path) -> None:
        file = tmp_path / "s.toml"
        file.write_text('model = "m"\n')
        before = sluice("--config", str(file), "config", "show")
        after = sluice("config", "show", "--config", str(file))
        assert before.stdout == after.stdout
        assert f"# file: {file}" in before.stdout


class TestWhatIsWrong:
    def problems(self, **sources: Any) -> tuple[str, ...]:
        everything: dict[str, Any] = {"environ": {}, **sources}
        with pytest.raises(BadSetting) as caught:
            resolve(**everything)
        return caught.value.problems

    def file(self, tmp_path: Path, text: str) -> Path:
        path = tmp_path / "s.toml"
        path.write_text(text)
        return path

    def test_an_unknown_key_suggests_the_nearest(self, tmp_path: Path) -> None:
        file = self.file(tmp_path, "\nmodl = 'x'\n")
        assert self.problems(config_file=file) == (
            f"{file}:2: unknown key 'modl'; did you mean model?",
        )

    def test_a_key_in_a_table(self, tmp_path: Path) -> None:
        file = self.file(tmp_path, "[broker]\namqp_url = 'amqp://x'\n")
        (problem,) = self.problems(config_file=file)
        assert problem.startswith(f"{file}:1: no table [broker] here")

    def test_an_unknown_variable_suggests_the_nearest(self) -> None:
        assert self.problems(environ={"SLUICE_AMQP_ULR": "x"}) == (
            "unknown environment variable SLUICE_AMQP_ULR; did you mean SLUICE_AMQP_URL?",
        )

    @pytest.mark.parametrize(
        "name",
        [
            "SLUICE_SERVICE_HOST",
            "SLUICE_PORT",
            "SLUICE_PORT_9464_TCP_ADDR",
            "SLUICE_WORKER_SERVICE_PORT_METRICS",
            "SLUICE_CONFIG",
            "SLUICE_CACHE",
            "SLUICE_MANAGEMENT_URL",
        ],
    )
    def test_variables_of_others_are_let_be(self, name: str, tmp_path: Path) -> None:
        value = str(self.file(tmp_path, ""))
        assert load(environ={name: value}) == Config()

    @pytest.mark.parametrize(
        ("field", "said", "must"),
        [
            ("metrics_port", "abc", "a whole number, not 'abc'"),
            ("metrics_port", "70000", "a whole number <= 65535, not '70000'"),
            ("metrics_port", "1.5", "a whole number, not '1.5'"),
            ("attempt_timeout_s", "0", "a number > 0.0, not '0'"),
            ("attempt_timeout_s", "nan", "a number > 0.0, not 'nan'"),
            ("attempt_timeout_s", "inf", "a finite number, not 'inf'"),
            ("attempt_timeout_s", "1e400", "a finite number, not '1e400'"),
            ("enforce_eager", "yes", "true or false, not 'yes'"),
            ("engine", "vlm", "one of vllm, scripted, not 'vlm'"),
            ("namespace", "a b", f"{NAMESPACE}, not 'a b'"),
            ("namespace", "ä", f"{NAMESPACE}, not 'ä'"),
            ("namespace", "a\n", f"{NAMESPACE}, not 'a\\n'"),
            ("namespace", "amq.x", f"{NAMESPACE}, not 'amq.x'"),
            ("namespace", "amq", f"{NAMESPACE}, not 'amq'"),
            ("engine_args", "[1]", "a table, not [1]"),
            ("engine_args", '["--api-key", "x"]', "a table, not ['--api-key', '***']"),
            ("engine_args", '[{"password": "x"}]', "a table, not [{'password': '***'}]"),
        ],
    )
    def test_a_wrong_value_names_its_source(self, field: str, said: str, must: str) -> None:
        variable = f"SLUICE_{field.upper()}"
        assert self.problems(environ={variable: said}) == (f"{variable}: {field} must be {must}",)
        flag = "--" + field.replace("_", "-")
        assert self.problems(flags={field: said}) == (f"{flag}: {field} must be {must}",)

    def test_a_file_has_types(self, tmp_path: Path) -> None:
        file = self.file(tmp_path, 'metrics_port = "9464"\nlog_level = 5\n')
        assert self.problems(config_file=file) == (
            f"{file}:1: metrics_port must be a whole number, not '9464'",
            f"{file}:2: log_level must be one of debug, info, warning, error, not 5",
        )

    def test_a_whole_number_will_do_for_a_number(self, tmp_path: Path) -> None:
        file = self.file(tmp_path, "drain_grace_s = 5\n")
        assert load(config_file=file, environ={}).drain_grace_s == 5.0

    def test_broken_json(self) -> None:
        (problem,) = self.problems(environ={"SLUICE_ENGINE_ARGS": "{"})
        assert problem.startswith("SLUICE_ENGINE_ARGS: engine_args must be a table as JSON")

    def test_everything_wrong_is_said_at_once(self, tmp_path: Path) -> None:
        file = self.file(tmp_path, "modl = 1\nmetrics_port = -1\n")
        problems = self.problems(
            config_file=file, environ={"SLUICE_X": "1"}, flags={"heartbeat_s": "no"}
        )
        assert len(problems) == 4

    @pytest.mark.parametrize(
        ("content", "said"),
        [(b"model = ", "is not TOML"), (b"model = '\xff'", "is not UTF-8")],
    )
    def test_a_file_that_is_none(self, content: bytes, said: str, tmp_path: Path) -> None:
        file = tmp_path / "s.toml"
        file.write_bytes(content)
        (problem,) = self.problems(config_file=file)
        assert said in problem
        assert str(file) in problem

    def test_a_byte_order_mark_does_no_harm(self, tmp_path: Path) -> None:
        file = tmp_path / "s.toml"
        file.write_bytes(b"\xef\xbb\xbfmodel = 'm'\nmetrics_port = 1\n")
        settings = resolve(config_file=file, environ={})
        assert (settings.config.model, settings.config.metrics_port) == ("m", 1)
        assert str(settings.sources["model"]) == f"{file}:1"

    @pytest.mark.parametrize("url", [*NO_URLS, "amqp://", "amqp://h:99999/", ""])
    def test_a_brokers_address_that_is_none(self, url: str, tmp_path: Path) -> None:
        file = self.file(tmp_path, f"amqp_url = {json.dumps(url)}\n")
        for (problem,) in (
            self.problems(flags={"amqp_url": url}),
            self.problems(config_file=file),
        ):
            assert "amqp_url must look like amqp://host:5672/vhost" in problem
            assert SECRET not in problem

    @pytest.mark.parametrize(
        "command",
        [["topology", "check"], ["submit", "--prompt", "x"], ["results"], ["config", "show"]],
    )
    @pytest.mark.parametrize("url", NO_URLS)
    def test_it_is_bad_usage_everywhere(self, command: list[str], url: str) -> None:
        result = sluice("--debug", *command, "--amqp-url", url)
        assert result.exit_code == 2
        assert result.stderr.count("Error: --amqp-url: amqp_url must look like") == 1
        assert SECRET not in result.output

    def test_a_file_that_is_missing(self) -> None:
        result = sluice("--config", "nowhere.toml", "config", "show")
        assert result.exit_code == 2
        assert "nowhere.toml: can't read the settings" in result.stderr

    def test_settings_that_do_not_go_together(self) -> None:
        with pytest.raises(ConfigError, match="attempt_timeout_s"):
            load(environ={"SLUICE_ATTEMPT_TIMEOUT_S": "1000"})
        result = sluice("config", "show", env={"SLUICE_ATTEMPT_TIMEOUT_S": "1000"})
        assert result.exit_code == 2


class TestNoSecretIsShown:
    @pytest.mark.parametrize("form", [[], ["--json"]])
    def test_in_config_show(self, form: list[str], tmp_path: Path) -> None:
        file = tmp_path / "s.toml"
        file.write_text(f'amqp_url = "{URL}"\n[engine_args]\nhf_token = "{SECRET}"\n')
        for result in (
            sluice("config", "show", *form, env={"SLUICE_AMQP_URL": URL}),
            sluice("config", "show", *form, "--amqp-url", URL),
            sluice("--config", str(file), "config", "show", *form),
        ):
            assert result.exit_code == 0
            assert SECRET not in result.output
            assert "user:***@broker" in result.output

    @pytest.mark.parametrize("form", [[], ["--json"]])
    @pytest.mark.parametrize(
        "url",
        [
            f"amqp://user:a {SECRET}@broker/",
            f"amqp://user:{SECRET} b@broker/",
            f"amqp://user:'{SECRET}\"<@broker/",
            f"amqp://user:x@{SECRET}@broker/",
            f"amqp://user:x@broker/?password={SECRET}",
            f"amqp://user%3A{SECRET}@broker/",
        ],
    )
    def test_in_a_strange_address(self, url: str, form: list[str]) -> None:
        result = sluice("config", "show", *form, env={"SLUICE_AMQP_URL": url})
        assert result.exit_code == 0
        assert SECRET not in result.output
        assert "amqp://user:***@broker/" in result.output

    @pytest.mark.parametrize("form", [[], ["--json"]])
    @pytest.mark.parametrize(
        "arguments",
        [
            *(
                {key: SECRET}
                for key in (
                    "hf-token",
                    "HF_TOKEN",
                    "hfToken",
                    "secret_key",
                    "passwd",
                    "Password",
                    "credentials",
                    "api_key",
                    "apikey",
                    "aws_access_key",
                )
            ),
            {"nested": {"deep": [{"api_key": SECRET}]}},
            {"tokens": [SECRET]},
            {"credentials": {"user": SECRET}},
            {"args": ["--api-key", SECRET]},
            {"args": [f"--token={SECRET}", f"HF_TOKEN={SECRET}"]},
            {"args": [f"hf_{SECRET}", f"Authorization: Bearer {SECRET}"]},
            {"proxy": f"http://u:{SECRET}@x"},
            {"proxies": [[f"use http://u:a {SECRET}'b@x"]]},
            {f"http://u:{SECRET}@x": 1},
            {"url": f"http://x/?api_key={SECRET}&a=1"},
        ],
    )
    def test_in_engine_args(self, arguments: dict[str, Any], form: list[str]) -> None:
        said = json.dumps({**arguments, "max_num_batched_tokens": 8192})
        result = sluice("config", "show", *form, "--engine-args", said)
        assert result.exit_code == 0
        assert SECRET not in result.output
        assert "***" in result.output
        assert "8192" in result.output

    def test_in_any_other_text(self) -> None:
        result = sluice("config", "show", "--model", f"https://u:{SECRET} x@h/m")
        assert SECRET not in result.output
        assert "https://u:***@h/m" in result.output

    def test_in_help(self) -> None:
        for command in (["worker"], ["config", "show"], ["topology", "check"]):
            result = sluice(*command, "--help", env={"SLUICE_AMQP_URL": URL})
            assert SECRET not in result.output
            assert "guest:guest" not in result.output

    @pytest.mark.parametrize(
        "arguments",
        [
            ["topology", "check", "--amqp-url", f"amqp://u:{SECRET}@127.0.0.1:1/"],
            ["topology", "check", "--amqp-url", f"http://u:{SECRET}@127.0.0.1/"],
            ["--debug", "topology", "check", "--amqp-url", f"amqp://u:{SECRET}@127.0.0.1:1/"],
            ["topology", "check", "--management-url", f"ftp://u:{SECRET}@x/"],
            ["--debug", "topology", "check", "--management-url", f"http://u:{SECRET}/w@x/"],
            ["--debug", "topology", "check", "--management-url", f"http://u:1/{SECRET}@x/"],
            ["--debug", "topology", "check", "--management-url", f"http://x/?password={SECRET}"],
            ["worker", f"amqp://u:{SECRET}@x/"],
        ],
    )
    def test_in_errors(self, arguments: list[str]) -> None:
        result = sluice(*arguments)
        assert result.exit_code in (2, 3)
        assert "Error: " in result.stderr
        assert SECRET not in result.output

    @pytest.mark.parametrize(
        ("text", "safe"),
        [
            (URL, "amqp://user:***@broker:5672/vhost"),
            ("see amqps://u:p@h/ and amqp://v:q@i/", "see amqps://u:***@h/ and amqp://v:***@i/"),
            ("amqp://u:p@ss@h/", "amqp://u:***@h/"),
            ("amqp://u:p/ss@h/", "amqp://u:***@h/"),
            ("'amqp://u:it's@h/'", "'amqp://u:***@h/'"),
            ("http://a,http://u:p@h", "http://a,http:***@h"),
            ("int() with base 10: 'pw'", "int() with base 10: '***'"),
            ("see http://h/?token=x&b=1", "see http://h/?token=***&b=1"),
            ("max_tokens=5", "max_tokens=5"),
            ("amqp://u@h/", "amqp://u@h/"),
            ("amqp://h/", "amqp://h/"),
            ("mail@example.org", "mail@example.org"),
        ],
    )
    def test_redaction(self, text: str, safe: str) -> None:
        assert redact(text) == safe


def test_the_template_says_the_defaults(tmp_path: Path) -> None:
    text = template()
    assert load(config_file=_written(tmp_path, text), environ={}) == Config()
    uncommented = re.sub(r"^#(\w+ = )", r"\1", text, flags=re.MULTILINE)
    settings = resolve(config_file=_written(tmp_path, uncommented), environ={})
    assert settings.config == Config()
    assert {source.kind for source in settings.sources.values()} == {"file"}


def _written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "template.toml"
    file.write_text(text)
    return file


def test_a_command_gets_only_the_flags_it_names() -> None:
    seen: list[tuple[Config, str]] = []

    @click.command()
    @option_flags("amqp_url", "namespace")
    @click.option("--model")
    def command(config: Config, model: str) -> None:
        seen.append((config, model))

    env = {"SLUICE_LOG_LEVEL": "debug"}
    result = CliRunner().invoke(command, ["--namespace", "n", "--model", "mine"], env=env)
    assert result.exit_code == 0
    ((config, model),) = seen
    assert (config.namespace, config.log_level, config.model, model) == ("n", "debug", "", "mine")
    refused = CliRunner().invoke(command, ["--log-level", "debug"])
    assert refused.exit_code == 2
