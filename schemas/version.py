"""The version of the messages. It goes up when an old consumer could misread a new message."""

from typing import Annotated, Final

from msgspec import Meta, field

SCHEMA_VERSION: Final = 1

SchemaVersion = Annotated[int, Meta(ge=1)]


def this_version() -> int:
    """The current version, as a field that is written out even where defaults are left out."""
    return field(default_factory=lambda: SCHEMA_VERSION)
