"""Tools: what a model may call. For those who write some: `tool`, `ToolContext`."""

from .context import ToolContext
from .signature import NotATool
from .tool import Tool, tool

__all__ = ["NotATool", "Tool", "ToolContext", "tool"]
