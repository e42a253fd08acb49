"""The candidate: a text that waits for the verdict of the checks."""

from typing import Annotated

from msgspec import Meta, Struct

from .checks import checked, require_type
from .errors import InvalidMessage
from .jobs import GenerationJob
from .limits import MAX_PROMPT_CHARS
from .reasons import Reason
from .results import GenerationResult
from .version import SchemaVersion, this_version


class Candidate(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="candidate"
):
    """A job, and the result that it has if the checks pass it.

    `prompt` is the prompt as text where the job has it as token ids only. The lineage is in the
    result; the job's own ends with the attempt before.
    """

    schema_version: SchemaVersion = this_version()
    job: GenerationJob
    result: GenerationResult
    prompt: Annotated[str, Meta(max_length=4 * MAX_PROMPT_CHARS)] = ""

    @checked
    def __post_init__(self) -> None:
        require_type("job", self.job, GenerationJob, "a GenerationJob")
        require_type("result", self.result, GenerationResult, "a GenerationResult")
        if (self.job.id, self.job.attempt) != (self.result.job_id, self.result.attempt):
            raise InvalidMessage(
                Reason.INVALID_FIELD, "result", "is of another job or attempt than `job`"
            )
        if not self.result.lineage.attempts:
            raise InvalidMessage(Reason.INVALID_FIELD, "result", "has no attempt in its lineage")
