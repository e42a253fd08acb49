"""What another attempt changes, reason by reason, and what no reason may do."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.rollback import default_retry_table, next_mutation
from sluicegate.schemas import Flaw, GenerationJob, Mutation, Rules, Sampling, StructuredOutput
from sluicegate.schemas.limits import MAX_INSTRUCTION_CHARS

from .retries import attempt_of, flaw_sets, job_of, jobs, mutation_of, retried, story


def sampling_after(job: GenerationJob, *flaws: Flaw, text: str = "a b c d") -> Sampling:
    return mutation_of(retried(job, *flaws, text=text)).sampling


def said_after(job: GenerationJob, *flaws: Flaw) -> str:
    return mutation_of(retried(job, *flaws)).instruction


@pytest.mark.parametrize(
    "flaw", [Flaw.LOOP, Flaw.WORD_RUN, Flaw.NEAR_DUPLICATES, Flaw.REPETITIVE, Flaw.LOW_NOVELTY]
)
def test_repetition_raises_penalty_and_temperature(flaw: Flaw) -> None:
    own = Sampling(temperature=0.8)
    after = sampling_after(job_of(temperature=0.8), flaw)
    assert after.repetition_penalty > own.repetition_penalty
    assert after.temperature > own.temperature
    assert sampling_after(job_of(temperature=0), flaw).temperature >= 0.7


@pytest.mark.parametrize("flaw", [Flaw.GIBBERISH, Flaw.HIGH_PERPLEXITY, Flaw.DISJOINTED])
def test_gibberish_lowers_temperature_and_tightens_top_p_more_each_time(flaw: Flaw) -> None:
    jobs_ = story(job_of(attempts=4, temperature=1.2), [(flaw,)] * 3)
    in_force = [jobs_[0].sampling, *(mutation_of(job).sampling for job in jobs_[1:])]
    for one, next_ in pairwise(in_force):
        assert next_.temperature < one.temperature
        assert next_.top_p < one.top_p


def test_irrelevant_lowers_temperature() -> None:
    assert sampling_after(job_of(temperature=1.0), Flaw.IRRELEVANT) == Sampling(temperature=0.7)


def test_a_language_is_said_if_it_is_declared_and_else_described() -> None:
    assert said_after(job_of(Rules(language="de")), Flaw.WRONG_LANGUAGE) == "Answer only in German."
    assert "code xyz" in said_after(job_of(Rules(language="xyz")), Flaw.WRONG_LANGUAGE)
    assert "of the question" in said_after(job_of(), Flaw.WRONG_LANGUAGE)


def test_min_tokens_come_from_what_was_missing() -> None:
    text = "one two three four"  # of 8 tokens, by attempt_of
    for rules, least in (
        (Rules(min_words=40), 88),
        (Rules(min_tokens=50), 55),
        (Rules(min_characters=180), 88),
        (Rules(), 18),
    ):
        after = sampling_after(job_of(rules), Flaw.TOO_SHORT, text=text)
        assert after.min_tokens == pytest.approx(least, abs=1), rules
    tight = sampling_after(job_of(Rules(min_words=40), max_tokens=20), Flaw.TOO_SHORT)
    assert tight.min_tokens == 20
    assert said_after(job_of(Rules(min_words=40)), Flaw.TOO_SHORT) == "Write at least 40 words."
    # The gate's own limit is no rule that could be told.
    assert said_after(job_of(), Flaw.TOO_SHORT) == ""


def test_an_empty_text_still_tells_how_long_the_next_must_be() -> None:
    job = job_of(Rules(min_words=40))
    after = mutation_of(retried(job, Flaw.TOO_SHORT, text="", tokens=0)).sampling
    assert after.min_tokens == 88


def test_a_kept_beginning_stands_for_the_whole_text() -> None:
    job = job_of(Rules(min_words=400))
    record = msgspec.structs.replace(
        attempt_of(job, Flaw.TOO_SHORT, text="word " * 20, tokens=200), text_chars=1000
    )
    mutation = next_mutation(job, (Flaw.TOO_SHORT,), record, default_retry_table())
    # 1,000 characters of such words are 200 words of 1 token.
    assert mutation.sampling.min_tokens == pytest.approx(440, abs=1)


def test_what_is_to_be_json_is_held_to_it() -> None:
    schema = {"type": "object", "required": ["a"]}
    by_schema = sampling_after(job_of(Rules(json_schema=schema)), Flaw.SCHEMA_MISMATCH)
    assert by_schema.structured_output == StructuredOutput(json_schema=schema)
    any_json = sampling_after(job_of(Rules(json=True)), Flaw.INVALID_JSON).structured_output
    assert any_json is not None
    assert any_json.json_schema == {"anyOf": [{"type": "object"}, {"type": "array"}]}
    # JSON in a text that may say more: the text is not held to it.
    assert sampling_after(job_of(), Flaw.INVALID_JSON).structured_output is None


def test_a_jobs_own_constraint_stays_and_gets_no_longer() -> None:
    own = StructuredOutput(regex="[ab]+")
    rules = Rules(json=True, min_words=90, must_not_include=("ad",))
    flaws = (Flaw.INVALID_JSON, Flaw.TOO_SHORT, Flaw.EMPTY_ANSWER, Flaw.FORBIDDEN_TEXT)
    after = sampling_after(job_of(rules, structured_output=own), *flaws)
    assert (after.structured_output, after.min_tokens, after.bad_words) == (own, 0, ())


def test_held_to_json_nothing_that_an_earlier_retry_demanded_is_in_its_way() -> None:
    rules = Rules(json=True, min_words=90, must_not_include=("ad",))
    job = job_of(rules, bad_words=("own",), max_tokens=400)
    job = retried(job, Flaw.TOO_SHORT, Flaw.FORBIDDEN_TEXT)
    assert mutation_of(job).sampling.bad_words == ("own", "ad")
    after = mutation_of(retried(job, Flaw.INVALID_JSON)).sampling
    assert (after.min_tokens, after.bad_words) == (0, ("own",))


def test_the_rules_are_told_to_the_model() -> None:
    rules = Rules(must_include=("Mars", "red\nplanet"), must_not_include=("{words}",), max_words=50)
    assert said_after(job_of(rules), Flaw.MISSING_TEXT) == (
        'The answer must contain "Mars", "red planet".'
    )
    assert said_after(job_of(rules), Flaw.FORBIDDEN_TEXT) == (
        'The answer must not contain "{words}".'
    )
    assert said_after(job_of(rules), Flaw.TOO_LONG) == "Write at most 50 words."
    assert "256 words" in said_after(job_of(max_tokens=512), Flaw.CUT_OFF)
    assert said_after(job_of(), Flaw.MISSING_TEXT) == ""


def test_rules_of_a_profile_count_as_the_jobs() -> None:
    job = job_of()
    record = attempt_of(job, Flaw.WRONG_LANGUAGE)
    mutation = next_mutation(
        job, (Flaw.WRONG_LANGUAGE,), record, default_retry_table(), rules=Rules(language="fr")
    )
    assert mutation.instruction == "Answer only in French."


def test_what_was_said_stays_said() -> None:
    job = retried(job_of(Rules(language="de", must_include=("Mars",))), Flaw.MISSING_TEXT)
    job = retried(job, Flaw.WRONG_LANGUAGE)
    assert mutation_of(job).instruction.splitlines() == [
        "Answer only in German.",
        'The answer must contain "Mars".',
    ]
    assert mutation_of(job).flaws == (Flaw.MISSING_TEXT, Flaw.WRONG_LANGUAGE)


def test_a_prompt_of_token_ids_has_no_place_for_words() -> None:
    job = GenerationJob(prompt_token_ids=(1, 2), sampling=Sampling(temperature=0))
    mutation = mutation_of(retried(job, Flaw.WRONG_LANGUAGE))
    assert mutation.instruction == ""
    assert mutation.sampling.temperature > 0


def test_numeric_faults_and_suspect_engines_want_another_worker() -> None:
    for flaw in (Flaw.NON_FINITE_LOGITS, Flaw.UNIFORM_LOGITS, Flaw.ID_OUT_OF_RANGE):
        job = job_of(temperature=0)
        mutation = mutation_of(retried(job, flaw, worker="gpu-1"))
        # Nothing is wrong with the job: it is done elsewhere as it was asked.
        assert (mutation.avoid, mutation.sampling) == (("gpu-1",), job.sampling)
    record = attempt_of(job_of(), Flaw.LOOP, worker="gpu-1")
    suspect = next_mutation(
        job_of(), (Flaw.LOOP,), record, default_retry_table(), engine_fault=True
    )
    assert suspect.avoid == ("gpu-1",)


def test_greedy_stays_greedy_where_the_next_text_differs_anyway_and_only_there() -> None:
    job = job_of(Rules(must_include=("Mars",)), temperature=0)
    job = retried(job, Flaw.MISSING_TEXT)
    assert mutation_of(job).sampling.temperature == 0
    job = retried(job, Flaw.MISSING_TEXT)
    assert mutation_of(job).sampling.temperature == 0.3
    for flaw in (Flaw.IRRELEVANT, Flaw.OWN_RULE, Flaw.HIGH_PERPLEXITY):
        assert sampling_after(job_of(temperature=0), flaw).temperature > 0
        widened = sampling_after(job_of(temperature=0.5, top_k=1, min_p=1.0, top_p=0.01), flaw)
        assert (widened.top_k, widened.min_p, widened.top_p) == (0, 0.1, 0.5)


@settings(deadline=None)
@given(jobs, st.lists(flaw_sets, min_size=9, max_size=9), st.integers(0, 400))
def test_no_attempt_repeats_one_before(
    job: GenerationJob, flaws: list[tuple[Flaw, ...]], tokens: int
) -> None:
    """With heat, another seed is enough. Without, something that the best token depends on differs
    from all that was tried: words, penalties, lengths, constraints, or the worker."""

    def tried(job: GenerationJob) -> object:
        in_force = job.mutation or Mutation(sampling=job.sampling)
        sampling = in_force.sampling
        greedy = (
            sampling.temperature < 0.01
            or sampling.top_k == 1
            or sampling.top_p <= 0.05
            or sampling.min_p >= 0.95
        )
        felt = (sampling.repetition_penalty, sampling.frequency_penalty, sampling.min_tokens)
        rest = (sampling.bad_words, str(sampling.structured_output))
        where = (in_force.instruction, in_force.avoid)
        return (*felt, *rest, *where) if greedy else job.attempt

    attempts = [tried(each) for each in story(job, flaws, tokens=tokens)]
    assert len(set(attempts)) == len(attempts)


@settings(deadline=None)
@given(jobs, st.lists(flaw_sets, min_size=9, max_size=9))
def test_what_a_retry_does_not_touch(job: GenerationJob, flaws: list[tuple[Flaw, ...]]) -> None:
    for each in story(job, flaws)[1:]:
        mutation = mutation_of(each)
        assert len(mutation.instruction) <= MAX_INSTRUCTION_CHARS
        assert "\x07" not in mutation.instruction
        own, now = job.sampling, mutation.sampling
        assert (now.seed, now.max_tokens, now.stop) == (own.seed, own.max_tokens, own.stop)
        assert own.structured_output in (None, now.structured_output)
        assert now.min_tokens <= now.max_tokens
        assert now.top_p >= min(own.top_p, 0.1)


def test_the_workers_to_avoid_are_bounded_and_none_of_them_comes_back() -> None:
    job = job_of(temperature=0, attempts=10)
    for number in range(9):
        before = mutation_of(job).avoid if job.mutation else ()
        job = retried(job, Flaw.UNIFORM_LOGITS, worker=f"gpu-{number}")
        assert mutation_of(job).avoid[: len(before)] == before
    assert len(mutation_of(job).avoid) == 8
    # With no more room the same again would be just that.
    assert mutation_of(job).sampling.temperature == 0.3
