"""What the doctor asks the model: its folder, its tokenizer, and whether our plug-in would run in
the engine. Loads no weights."""

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from ..worker.config import Config
from .doctor_findings import Finding, note, ok, trouble, unknown
from .embedded_model import ModelUnavailable, offline_environment, resolve_model

_ASK_S: Final = 120.0
_SPARE: Final = 1.2


class Told(Struct, frozen=True):
    """What vLLM makes of the configuration. Lengths are in tokens, sizes in bytes."""

    trouble: str = ""
    model: str = ""
    max_model_len: int = 0
    vocabulary: int = 0
    denied: int = 0
    sentinels: int = 0
    has_plugin: bool = False
    has_template: bool = False
    device: str = ""
    device_free: int = 0
    device_total: int = 0


async def look(config: Config) -> AsyncGenerator[Finding]:
    """All of it, one by one. Takes ten seconds or so: vLLM is asked in a process of its own."""
    if config.engine != "vllm":
        yield ok("model", "the scripted engine needs none")
        return
    if importlib.util.find_spec("vllm") is None:
        yield unknown(
            "engine",
            "vLLM is not installed here: workers need it, checkers and backends don't",
            "on a worker's host install the extra `gpu`; elsewhere give --no-model",
        )
        return
    try:
        model = await asyncio.to_thread(resolve_model, config.model, progress=_silent)
    except ModelUnavailable as error:
        yield trouble("model", str(error), "set model to a folder with a model, or a hub name")
        return
    size = weights(Path(model))
    told = await ask(structs.replace(config, model=model), offline=not config.model)
    for each in findings(told, config, size):
        yield each


def weights(folder: Path) -> int:
    """Bytes of the model's weights; 0 where it is no folder here."""
    if not folder.is_dir():
        return 0
    return sum(each.stat().st_size for each in folder.glob("*.safetensors"))


def findings(told: Told, config: Config, size: int) -> list[Finding]:
    """What there is to say of it."""
    if told.trouble:
        return [trouble("model", told.trouble, "as it says; `sluice worker` would not start")]
    found = [
        ok("model", f"{told.model}, context {told.max_model_len:,} tokens"),
        ok("tokenizer", f"{told.vocabulary:,} tokens, {told.denied} that must never come")
        if told.has_template
        else note(
            "tokenizer",
            "the model has no chat template: jobs with prompt or messages are refused",
            "set chat_template, or publish prompt_token_ids",
        ),
    ]
    if told.has_plugin:
        found.append(ok("plug-in", f"in force, speaks by {told.sentinels} sentinels"))
    else:
        found.append(
            note(
                "plug-in",
                "can't run in this engine: logits and tokens are watched from outside, late",
                "without speculative decoding, and with a vLLM that is supported, it can",
            )
        )
    found.append(_memory(told, config, size))
    return found


def _memory(told: Told, config: Config, size: int) -> Finding:
    if not told.device_total or not size:
        return unknown(
            "model memory",
            f"the device ({told.device or 'none'}) does not tell",
            "start the worker: it says what it lacks",
        )
    if told.device == "cpu":
        wanted = int(size * _SPARE + config.kv_cache_gib * 2**30)
        remedy = "lower kv_cache_gib, or use a smaller model"
    else:
        wanted = int(size * _SPARE)
        remedy = "free the device, or use a smaller model"
    said = f"{told.device}: {_gib(told.device_free)} free, {_gib(wanted)} wanted at least"
    if told.device_free < wanted:
        return trouble("model memory", said, remedy)
    if told.device != "cpu":
        share = config.gpu_memory_utilization * told.device_total
        if told.device_free < share:
            return trouble(
                "model memory",
                f"{said}, and gpu_memory_utilization asks for {_gib(int(share))}",
                "free the device, or lower gpu_memory_utilization",
            )
    return ok("model memory", said)


async def ask(config: Config, *, offline: bool) -> Told:
    """What vLLM says, in a process of its own: it prints what it likes, and may be killed."""
    environment = dict(os.environ) | (offline_environment() if offline else {})
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "sluicegate.ops.doctor_model",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
    )
    try:
        async with asyncio.timeout(_ASK_S):
            said, _ = await process.communicate(msgspec.json.encode(config))
    except TimeoutError:
        return Told(trouble=f"vLLM did not answer within {_ASK_S:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        # vLLM may have printed before it.
        return msgspec.json.decode(said.splitlines()[-1], type=Told)
    except (IndexError, msgspec.MsgspecError):
        return Told(trouble=f"vLLM ended with status {process.returncode} and said nothing")


def tell(config: Config) -> Told:
    """In that process: ask vLLM."""
    from ..worker.engine import EngineUnavailable  # noqa: PLC0415  as below
    from ..worker.vllm_loading import prepare  # noqa: PLC0415  minutes of imports elsewhere

    try:
        ready = prepare(config)
    except EngineUnavailable as error:
        return Told(trouble=str(error))
    device, free, total = _device()
    return Told(
        model=ready.tokenizer.name,
        max_model_len=ready.vllm_config.model_config.max_model_len,
        vocabulary=ready.tokenizer.vocabulary_size,
        denied=len(ready.constants.denied),
        sentinels=len(ready.constants.sentinels),
        has_plugin=ready.has_plugin,
        has_template=bool(config.chat_template or ready.tokenizer.tokenizer.chat_template),
        device=device,
        device_free=free,
        device_total=total,
    )


def _device() -> tuple[str, int, int]:
    import psutil  # noqa: PLC0415  comes with vLLM
    import torch  # noqa: PLC0415  the same

    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        return torch.cuda.get_device_name(), free, total
    memory = psutil.virtual_memory()
    return "cpu", int(memory.available), int(memory.total)


def _silent(line: str) -> None:
    del line


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


if __name__ == "__main__":
    told = tell(msgspec.json.decode(sys.stdin.buffer.read(), type=Config))
    sys.stdout.write(json.dumps(structs.asdict(told)) + "\n")
