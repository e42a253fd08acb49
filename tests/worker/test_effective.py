"""The job as an attempt runs it."""

import pytest
from sluicegate.schemas import ChatMessage, GenerationJob, Mutation, Sampling
from sluicegate.worker.effective import effective

CALM = Sampling(temperature=0.3, max_tokens=9)
SAY = Mutation(sampling=CALM, instruction="Answer only in German.")


def test_without_a_mutation_it_is_the_job_itself() -> None:
    job = GenerationJob(prompt="x")
    assert effective(job) is job


def test_the_sampling_of_the_mutation_stands_in_place_of_the_jobs() -> None:
    job = GenerationJob(prompt="x", sampling=Sampling(seed=4), mutation=Mutation(sampling=CALM))
    assert effective(job).sampling == CALM
    assert effective(job).prompt == "x"


def test_an_instruction_is_said_before_a_prompt() -> None:
    turns = effective(GenerationJob(prompt="x", mutation=SAY)).messages
    assert turns == (
        ChatMessage(role="system", content="Answer only in German."),
        ChatMessage(role="user", content="x"),
    )


@pytest.mark.parametrize("own", ["You are kind.", ""])
def test_an_instruction_is_said_at_the_end_of_the_system_message(own: str) -> None:
    said = (ChatMessage(role="system", content=own), ChatMessage(role="user", content="x"))
    turns = effective(GenerationJob(messages=said, mutation=SAY)).messages
    assert turns is not None
    assert turns[0].content == f"{own}\n\nAnswer only in German.".strip()
    assert turns[1:] == said[1:]


def test_a_prompt_of_token_ids_stays_as_it_is() -> None:
    ready = effective(GenerationJob(prompt_token_ids=(1, 2), mutation=SAY))
    assert (ready.prompt_token_ids, ready.messages, ready.sampling) == ((1, 2), None, CALM)
