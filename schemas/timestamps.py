"""Points in time on the wire: always with an offset."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

Timestamp = Annotated[datetime, Meta(tz=True)]
