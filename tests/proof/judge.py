"""The gates and checks of this project on a finished answer, for the contender that judges at the
end. It is given more than a gateway has: the token ids."""

from collections.abc import Sequence

from sluicegate.guards.checks.judge import check_all
from sluicegate.guards.checks.subject import Subject
from sluicegate.guards.checks.thresholds import read_tables, thresholds
from sluicegate.guards.coherence import Acting
from sluicegate.guards.pipeline import streaming_gates
from sluicegate.guards.profiles import profile
from sluicegate.ops.evaluation import Labelled, judge
from sluicegate.schemas import GenerationJob
from sluicegate.worker.model_tokenizer import ModelTokenizer


class Judge:
    """Judges whole answers. Blocking, some milliseconds each."""

    def __init__(self, loaded: ModelTokenizer, checks: str) -> None:
        """`checks`: the checker's thresholds, as TOML."""
        self._loaded = loaded
        self._denied = loaded.denied()
        self._profile = profile("chat")
        self._thresholds = thresholds("chat", deployment=read_tables(checks))

    def problem(self, job: GenerationJob, text: str, ids: Sequence[int]) -> str:
        """What is wrong with an answer; empty where nothing is."""
        content = [one for one in ids if one not in self._loaded.stop_ids]
        line = Labelled(id=job.id, text=text, label="good", token_ids=content)
        gates = streaming_gates(
            self._profile, vocabulary_size=len(self._loaded.tokenizer), denied=self._denied
        )
        acting = Acting(
            gates, findings=self._profile.coherence_findings, span=self._profile.coherence_span
        )
        found = judge(line, self._loaded.steps(content), acting.feed, self._profile).finding
        if found is not None:
            return found.flaw.value
        if job.checks == "off":
            return ""
        subject = Subject(text=text, prompt=job.prompt or "", rules=job.rules, tokens=len(content))
        records = check_all(subject, self._thresholds)
        return next((one.check for one in records if one.outcome == "rejected"), "")
