"""Turn the GGUF file of SmolLM2-135M-Instruct into the folder that vLLM and transformers load.

Runs as a process of its own (`python -m sluicegate.ops.gguf_conversion FILE FOLDER`), so that the
gigabyte that torch takes for it is given back, and says on standard output what it is doing.
"""

import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, Final

CONTEXT_LENGTH: Final = 8192  # tokens
END_OF_TURN: Final = "<|im_end|>"


def convert(gguf: Path, folder: Path) -> None:
    """Write config, generation config, tokenizer with chat template, and weights in bfloat16."""
    # Seconds and a gigabyte: only here. Their own types are no help to a strict checker.
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    pre_tokenizers: Any = import_module("tokenizers.pre_tokenizers")
    transformers.utils.logging.disable_progress_bar()

    _say("reading the tokenizer")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    if not tokenizer.chat_template or tokenizer.eos_token != END_OF_TURN:
        raise ValueError(f"{gguf.name} brings no chat template, or another end than {END_OF_TURN}")
    # The reader of GGUF files leaves out what the original does first: split numbers into digits.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.model_max_length = CONTEXT_LENGTH

    _say("reading the weights")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(gguf.parent),
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )
    for name, weights in model.named_parameters():
        if not torch.isfinite(weights).all():
            raise ValueError(f"{gguf.name} holds numbers that are not finite, in {name}")
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )

    _say("writing 270 MB")
    tokenizer.save_pretrained(str(folder))
    model.save_pretrained(str(folder))


def _say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    """Our parent holds the other end of standard input, and says nothing on it while it lives."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
