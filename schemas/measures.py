"""Units of the records: bounded, so that sums of them stay numbers that JSON can carry."""

from typing import Annotated

from msgspec import Meta

from .limits import MAX_DETAIL, MAX_QUOTE_CHARS

Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Span = Annotated[tuple[Count, ...], Meta(min_length=2, max_length=2)]
WorkerName = Annotated[str, Meta(max_length=256)]
Name = Annotated[str, Meta(max_length=256)]
Sentence = Annotated[str, Meta(max_length=MAX_DETAIL)]
Quote = Annotated[str, Meta(max_length=MAX_QUOTE_CHARS)]
