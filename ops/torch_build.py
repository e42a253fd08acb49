"""Which installer gets a CPU build of torch on this machine: plain pip, or uv.

The CPU build of vLLM asks for `torch==X+cpu`, which PyPI does not carry: for Linux it has builds
for CUDA alone. Where pip is set up with an index or a folder that has the CPU build, pip is enough.
Elsewhere uv finds it with `--torch-backend=cpu`. Read by the set-up script before anything of ours
is installed, so the standard library alone:

    pip install --quiet --dry-run --no-deps --report - torch==X | python ops/torch_build.py
"""

import json
import sys
from typing import Literal

Installer = Literal["pip", "uv"]


def installer(report: str, platform: str) -> Installer:
    """Judge by pip's report on what it would install; empty where pip found nothing.

    `platform` as `sys.platform`. Outside Linux PyPI's only build is one for the CPU.
    """
    if platform != "linux":
        return "pip"
    try:
        found = json.loads(report)["install"]
        versions = [item["metadata"]["version"] for item in found]
    except (ValueError, KeyError, TypeError):
        return "uv"
    return "pip" if any(str(version).endswith("+cpu") for version in versions) else "uv"


if __name__ == "__main__":
    sys.stdout.write(f"{installer(sys.stdin.read(), sys.platform)}\n")
