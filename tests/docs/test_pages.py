"""What the pages name exists: other pages, files, targets, commands, flags, settings, versions."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from sluicegate.ops.cli import COMMANDS, main
from sluicegate.ops.settings import FIELDS, OTHER_VARIABLES, resolve

from .pages import PAGES, ROOT, anchor, blocks, code_spans, headings, links, read, section

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
# The languages of code blocks that hold commands.
SHELL = ("sh", "console")


def test_the_reader_reads() -> None:
    """A reader that sees nothing holds nothing true."""
    text = "# One `x`, two\n[a](b.md#c)\n```sh\nls\n# no heading\n```\n`code`\n"
    assert headings(text) == ["One `x`, two"]
    assert anchor("One `x`, two") == "one-x-two"
    assert links(text) == ["b.md#c"]
    assert blocks(text, "sh") == ["ls\n# no heading\n"]
    assert code_spans(text) == ["x", "code"]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        name, _, place = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if place:
            titles = map(anchor, headings(target.read_text(encoding="utf-8")))
            assert place in titles, f"{page.name} links to {link}"


def test_every_page_can_be_found_from_the_index() -> None:
    linked = {
        (ROOT / "docs" / link.partition("#")[0]).resolve() for link in links(read("docs/README.md"))
    }
    assert set((ROOT / "docs").glob("*.md")) - {ROOT / "docs/README.md"} <= linked


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_that_are_named_are_there(page: Path) -> None:
    folders = "schemas|guards|rollback|producer|worker|ops|tests|docs|locks"
    for span in code_spans(page.read_text(encoding="utf-8")):
        if re.fullmatch(rf"({folders})/[\w./@-]*", span):
            assert (ROOT / span).exists(), f"{page.name} names {span}"


def commands(page: Path) -> Iterator[str]:
    """Every command that a page gives: in shell blocks, and in backticks."""
    text = page.read_text(encoding="utf-8")
    for language in SHELL:
        for block in blocks(text, language):
            for line in block.replace("\\\n", " ").splitlines():
                # In a session only what stands behind the prompt is a command.
                if language != "console":
                    yield line
                elif line.startswith("$ "):
                    yield line[2:]
    yield from (span for span in code_spans(text) if span.startswith(("make ", "sluice ")))


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_targets_of_make_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):.*##", read("Makefile"), re.MULTILINE))
    for line in commands(page):
        if line.startswith("make "):
            assert line.split()[1] in targets, f"{page.name}: {line}"
            for path in re.findall(r"\btests/[\w./]+", line):
                assert (ROOT / path).exists(), f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_and_flags_exist(page: Path) -> None:
    for line in commands(page):
        for words in _calls(line):
            _check_call(words, f"{page.name}: {line}")


def test_the_check_of_commands_finds_what_is_wrong() -> None:
    for line in ("sluice nonsense", "sluice topology bless", "x | sluice submit --no-such 1"):
        (words,) = _calls(line)
        with pytest.raises(AssertionError):
            _check_call(words, line)
    _check_call(_calls('SLUICE_MODEL=x sluice submit --prompt "a b" --wait')[0], "")
    _check_call(_calls("sluice agent serve-tools --agent-tools shop.tools")[0], "")
    assert list(_calls("pip install sluicegate")) == []
    assert _calls("sluice results | jq -r .text && sluice config show") == [
        ["results"],
        ["config", "show"],
    ]


def _calls(line: str) -> list[list[str]]:
    """The words behind each `sluice` that is called in a line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    calls: list[list[str]] = []
    at_start, ours = True, False
    for word in lexer:
        if set(word) <= set("();<>|&"):
            at_start, ours = True, False
        elif at_start and re.match(r"[A-Z_]+=", word):
            pass
        elif at_start:
            at_start, ours = False, word == "sluice" or word.endswith("/sluice")
            calls += [[]] if ours else []
        elif ours:
            calls[-1].append(word)
    return calls


def _check_call(words: list[str], where: str) -> None:
    command: click.Command = main
    context = click.Context(main)
    for word in words:
        if word.startswith("-") and word != "-":
            flags = {flag for each in command.get_params(context) for flag in _flags(each)}
            assert word.partition("=")[0] in flags, f"{where}: no flag {word}"
        elif isinstance(command, click.Group) and re.fullmatch("[a-z-]+", word):
            inner = command.get_command(context, word)
            assert inner is not None, f"{where}: no command {word}"
            command = inner


def _flags(parameter: click.Parameter) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_variables_exist(page: Path) -> None:
    known = {field.variable for field in FIELDS.values()} | set(OTHER_VARIABLES)
    for variable in re.findall(r"\bSLUICE_[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8")):
        assert variable in known, f"{page.name} names {variable}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_settings_with_a_unit_exist(page: Path) -> None:
    """A setting that was renamed goes on being named so in prose, if nobody looks."""
    for span in code_spans(page.read_text(encoding="utf-8")):
        if re.fullmatch(
            r"(attempt|drain|publish|consumer|connect|heartbeat|engine_start)\w*_s", span
        ):
            assert span in FIELDS, f"{page.name} names {span}"


def test_the_settings_file_is_one(tmp_path: Path) -> None:
    (text,) = blocks(section(read("docs/deploy.md"), "Settings"), "toml")
    file = tmp_path / "sluice.toml"
    file.write_text(text)
    settings = resolve(config_file=file, environ={})
    said = {name for name, source in settings.sources.items() if source.kind == "file"}
    assert said == set(tomllib.loads(text))


def test_the_readme_lists_every_command() -> None:
    spans = code_spans(read("README.md"))
    missing = [name for name in COMMANDS if not any(s.startswith(f"sluice {name}") for s in spans)]
    assert missing == []


def test_the_changelog_is_up_to_date() -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    changes = read("CHANGELOG.md")
    assert "Unreleased" in headings(changes)[1]
    assert f"What will be {version}" in changes or f"## [{version}]" in changes


def test_the_pages_say_what_python_is_needed() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    supported = [
        each.rpartition(" ")[2]
        for each in project["classifiers"]
        if each.startswith("Programming Language :: Python :: 3.")
    ]
    for version in (supported[0], supported[-1]):
        assert version in section(read("README.md"), "Requirements")
    assert project["license"] in read("README.md")
