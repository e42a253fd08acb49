"""One sound body of every message, from the page that documents them."""

import json
import re
from pathlib import Path
from typing import Any, Final

from sluicegate.schemas.codec import MESSAGE_TYPES, Message, tag_of

_PAGE: Final = Path(__file__).parents[2] / "docs" / "protocol.md"
KINDS: Final[dict[str, type[Message]]] = {tag_of(kind): kind for kind in MESSAGE_TYPES}


def examples() -> list[tuple[type[Message], bytes]]:
    """Each with its kind. The page has one of each but the smallest."""
    found: list[tuple[type[Message], bytes]] = []
    for block in re.findall(r"^```json\n(.*?)^```", _PAGE.read_text(), re.DOTALL | re.MULTILINE):
        body: Any = json.loads(block)
        if "type" in body:
            found.append((KINDS[body["type"]], block.encode()))
    return found
