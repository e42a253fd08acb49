"""What sluicegate is worth: the same jobs and faults with it and without, on the real engine.

`python -m tests.proof --help` from the root of the checkout, or `make proof`.
"""

import asyncio
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click
import msgspec
from sluicegate.ops.console import CANNOT_START, FAILED
from sluicegate.ops.embedded_model import offline_environment, resolve_model
from sluicegate.schemas import SluiceError
from sluicegate.worker import logs
from sluicegate.worker.config import Config

from .options import ROOT, Options, Options as _Options

__all__ = ["main"]
