"""What a service lets out of a job whose texts are to be kept in: a real broker, the whole way."""

import asyncio
import io
import json
import logging
import random
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sluicegate.guards.checks.scores import TextScores
from sluicegate.ops.dlq_again import again
from sluicegate.ops.dlq_changes import Changes
from sluicegate.ops.dlq_export import labelled, whole
from sluicegate.ops.dlq_filter import utc_now
from sluicegate.ops.dlq_keys import opened, opener
from sluicegate.ops.dlq_letter import Letter, Properties, read_letter
from sluicegate.ops.dlq_sending import Refusal, Sending
from sluicegate.producer import Failed, Producer, Rejected
from sluicegate.producer.event_feed import EventFeed
from sluicegate.producer.sealing import BadKey, CantOpen, make_pair, opening_key, sealing_key
from sluicegate.producer.secrecy import Secrecy
from sluicegate.schemas import (
    DeadLetter,
    GenerationJob,
    GenerationResult,
    JobEvent,
    Lineage,
    Names,
    Rules,
    decode,
    encode,
)
from sluicegate.schemas.limits import MAX_JOB_BYTES, MAX_OUTCOME_BYTES
from sluicegate.worker import logs
from sluicegate.worker.checker import Checker
from sluicegate.worker.config import Config, ConfigError
from sluicegate.worker.scoring import ScoreRequest, Wants
from sluicegate.worker.scripted import ScriptedEngine, echo
from sluicegate.worker.secrecy import secrecy_of

from ..schemas.test_redacted import letters, pieces_in
from .agent.troupe import Troupe
from .agent.troupe import job as agent_job
from .conftest import Desk, StartWorker

SECRET = "the patient in room 4711 was given seven milligrams"
GARBAGE = "\ufffd" * 80


@pytest.fixture
def log() -> Generator[io.StringIO]:
    """All that a service logs, as it would where texts are kept out."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], logging.getLogger("sluicegate").level
    said = io.StringIO()
    logs.configure("human", "debug", said, hides=True)
    yield said
    root.handlers[:] = handlers
    logging.getLogger("sluicegate").setLevel(level)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str, str]:
    """Private and public key."""
    private, public = tmp_path / "o.key.pem", tmp_path / "o.pub.pem"
    make_pair(private, public)
    return str(private), str(public)


def bad(**fields: Any) -> GenerationJob:
    """A job whose text no gate lets through."""
    return GenerationJob(
        prompt=f"{SECRET} {GARBAGE}", max_attempts=1, metadata={"note": SECRET}, **fields
    )


def hides(body: bytes) -> bool:
    return pieces_in(body, SECRET) == []


@pytest.mark.broker
async def test_a_text_reaches_its_backend_and_nobody_else(
    desk: Desk, start_worker: StartWorker, log: io.StringIO
) -> None:
    events: asyncio.Queue[JobEvent] = asyncio.Queue()
    feed = EventFeed(desk.connection, desk.names, "default.#", events.put_nowait)
    await feed.start(lambda _: None)
    start_worker(ScriptedEngine(echo), keep_texts="redacted")
    await desk.publish(bad(reply_to="default"))
    result = await desk.result()
    assert isinstance(result.outcome, Failed)
    assert SECRET in result.lineage.attempts[0].text  # the backend owns the text
    body = await desk.take(desk.names.dead)
    letter = decode(body, DeadLetter)
    assert hides(body)
    assert (letter.texts, letter.reason, letter.sealed) == ("redacted", "gate_tripped", None)
    assert letter.job is not None
    assert letter.job.lineage.attempts[0].trips
    kind = ""
    async with asyncio.timeout(10):
        while kind != "finished":
            event = await events.get()
            kind = event.kind
            assert hides(encode(event))
    await feed.stop()
    assert "gave up" in log.getvalue() or "failed" in log.getvalue()
    assert hides(json.dumps(log.getvalue()).encode())


@pytest.mark.broker
async def test_what_cant_be_read_leaves_its_size(desk: Desk, start_worker: StartWorker) -> None:
    start_worker(ScriptedEngine(echo), keep_texts="redacted")
    body = json.dumps({"id": "bad-one", "prompt": [SECRET], "reply_to": "default"}).encode()
    huge = json.dumps({"id": "huge", "prompt": SECRET + "x" * MAX_JOB_BYTES}).encode()
    for each in (body, huge):
        await desk.put(each)
        letter = decode(buried := await desk.take(desk.names.dead), DeadLetter)
        assert hides(buried)
        assert (letter.raw_body, letter.raw_body_bytes) == (None, len(each))
        await desk.result()
    # Left to the broker, the large one would lie there whole besides.
    await asyncio.sleep(0.5)
    assert await desk.depth(desk.names.dead) == 0


@pytest.mark.broker
async def test_a_result_that_nobody_takes(desk: Desk, start_worker: StartWorker) -> None:
    start_worker(ScriptedEngine(echo), keep_texts="redacted")
    await desk.publish(GenerationJob(prompt=SECRET, reply_to="nobody"))
    body = await desk.take(desk.names.dead)
    letter = decode(body, DeadLetter)
    assert hides(body)
    assert (letter.reason, letter.origin.routing_key) == ("result_unroutable", "nobody")


@pytest.mark.broker
async def test_an_agent_service_keeps_it_in(broker_url: str, desk: Desk) -> None:
    config = Config(
        amqp_url=broker_url,
        namespace=desk.names.namespace,
        metrics_port=0,
        engine="scripted",
        max_model_len=100_000,
        keep_texts="redacted",
    )
    troupe = Troupe(broker_url, desk.names.namespace, config)
    try:
        await troupe.agents([])
        result = await troupe.result(agent_job(SECRET, system=SECRET, tools=("search",)))
    finally:
        await troupe.stop()
    assert isinstance(result.outcome, Rejected)
    body = await desk.take(desk.names.dead)
    assert hides(body)
    letter = decode(body, DeadLetter)
    assert letter.agent is not None
    assert (letter.agent.job.tools, letter.texts) == (("search",), "redacted")


class NoModel:
    """A scorer for jobs whose profile has nothing to score."""

    name = "none"

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        raise AssertionError(f"nobody should ask for {wants} of {requests}")

    def close(self) -> None:
        pass


@pytest.mark.broker
async def test_a_checker_keeps_it_in(
    broker_url: str, desk: Desk, start_worker: StartWorker
) -> None:
    config = Config(
        amqp_url=broker_url,
        namespace=desk.names.namespace,
        metrics_port=0,
        keep_texts="redacted",
    )
    checker = Checker(config, NoModel())
    running = asyncio.create_task(checker.run())
    start_worker(ScriptedEngine(echo), keep_texts="redacted")
    rules = Rules(must_include=("a phrase that is missing",))
    await desk.publish(
        GenerationJob(prompt=SECRET, profile="off", checks="block", max_attempts=1, rules=rules)
    )
    body = await desk.take(desk.names.dead)
    checker.stop()
    assert hides(body)
    assert b"that is missing" not in body
    letter = decode(body, DeadLetter)
    assert (letter.reason, letter.flaw, letter.found_by) == (
        "checks_rejected",
        "missing_text",
        "must_include",
    )
    async with asyncio.timeout(30):
        await running


@pytest.mark.broker
async def test_a_producer_that_cant_read_a_result(broker_url: str, desk: Desk) -> None:
    names = desk.names
    async with Producer(
        broker_url, namespace=names.namespace, secrecy=Secrecy("redacted")
    ) as producer:
        spoiled = json.dumps({"job_id": "j", "text": SECRET}).encode()
        await desk.publisher.publish(
            names.results, producer.reply_key, spoiled, kind="x", correlation_id="j", timeout_s=10
        )
        body = await desk.take(names.dead)
    assert hides(body)
    assert decode(body, DeadLetter).raw_body_bytes == len(spoiled)


@pytest.mark.broker
async def test_an_operator_opens_what_was_encrypted_and_sends_it_back(
    desk: Desk, start_worker: StartWorker, keys: tuple[str, str]
) -> None:
    private, public = keys
    start_worker(ScriptedEngine(echo), keep_texts="encrypted", operator_key_file=public)
    sent = await desk.publish(bad(reply_to="default"))
    await desk.result()
    body = await desk.take(desk.names.dead)
    assert hides(body)
    closed = read(body)
    assert "say --key FILE" in closed.hidden
    assert list(labelled(closed)) == []
    refusal = again(closed, desk.names, Changes(), utc_now())
    assert isinstance(refusal, Refusal)
    assert "encrypted for key" in refusal.why

    key = opener(Config(dlq_key_file=private))
    letter = read_letter(body, Properties(message_id="m"), 0, key)
    assert (letter.hidden, letter.was_sealed) == ("", True)
    assert letter.job is not None
    assert (letter.job.prompt, letter.job.metadata) == (sent.prompt, {"note": SECRET})
    assert SECRET in next(iter(labelled(letter)))["text"]
    assert whole(letter)["message"].job == letter.job
    sending = again(letter, desk.names, Changes(), utc_now())
    assert isinstance(sending, Sending)
    assert decode(sending.body, GenerationJob).prompt == sent.prompt


def read(body: bytes) -> Letter:
    return read_letter(body, Properties(message_id="m"))


def test_what_was_redacted_cant_be_sent_back() -> None:
    letter = Secrecy("redacted").letter(letters(SECRET)[0])
    refusal = again(read(encode(letter)), Names(), Changes(), utc_now())
    assert isinstance(refusal, Refusal)
    assert "redacted when it was written" in refusal.why


def test_only_the_right_key_opens_and_only_the_same_letter(
    keys: tuple[str, str], tmp_path: Path
) -> None:
    private, public = keys
    secrecy = Secrecy("encrypted", key=sealing_key(Path(public)))
    one, other = (secrecy.letter(each) for each in letters(SECRET)[:2])
    key = opening_key(Path(private))
    assert key.open(one) == letters_by_id(one, letters(SECRET)[0])
    swapped = _with(one, sealed=other.sealed)
    with pytest.raises(CantOpen, match="was changed, or is of another letter"):
        key.open(swapped)
    make_pair(tmp_path / "x.key.pem", tmp_path / "x.pub.pem")
    stranger = opening_key(tmp_path / "x.key.pem")
    with pytest.raises(CantOpen, match="is encrypted for key"):
        stranger.open(one)
    assert "is encrypted for key" in opened(one, stranger)[1]
    # Sealed twice it is not the same: nobody can tell that two letters are equal.
    assert secrecy.letter(letters(SECRET)[0]).sealed != one.sealed


def letters_by_id(sealed: DeadLetter, made: DeadLetter) -> DeadLetter:
    return _with(made, id=sealed.id)


def _with(letter: DeadLetter, **changes: Any) -> DeadLetter:
    return msgspec.structs.replace(letter, **changes)


def test_a_letter_too_large_to_seal_loses_its_lineage_and_never_its_job(
    keys: tuple[str, str],
) -> None:
    draw = random.Random(1)
    noise = "".join(chr(draw.randrange(0x4E00, 0x9FFF)) for _ in range(300_000))
    letter = letters(SECRET)[0]
    job = letter.job
    assert job is not None
    job = msgspec.structs.replace(job, prompt=noise)
    result = GenerationResult(
        job_id="j1",
        attempt=1,
        outcome=Failed(reason=letter.reason, detail=""),
        text=noise,
        finished_at=letter.at,
        lineage=Lineage(),
    )
    (attempt,) = job.lineage.attempts
    many = tuple(
        msgspec.structs.replace(attempt, text=noise[at : at + 20_000])
        for at in range(0, 280_000, 14_000)
    )
    big = _with(letter, job=msgspec.structs.replace(job, lineage=Lineage(attempts=many)))
    big = _with(big, result=result)
    sealed = Secrecy("encrypted", key=sealing_key(Path(keys[1]))).letter(big)
    assert len(msgspec.json.encode(sealed)) <= MAX_OUTCOME_BYTES
    read_again = opening_key(Path(keys[0])).open(sealed)
    assert read_again.job is not None
    assert read_again.job.prompt == noise


def test_a_key_with_a_password(tmp_path: Path) -> None:
    private, public = tmp_path / "k.key.pem", tmp_path / "k.pub.pem"
    made = make_pair(private, public, b"a password")
    assert private.stat().st_mode & 0o077 == 0
    assert opening_key(private, b"a password").id == made == sealing_key(public).id
    with pytest.raises(BadKey, match="set SLUICE_DLQ_KEY_PASSWORD"):
        opening_key(private)
    with pytest.raises(BadKey, match="or its password is another"):
        opening_key(private, b"another")
    with pytest.raises(BadKey, match="is there already"):
        make_pair(private, tmp_path / "other.pem")


def test_a_file_that_holds_no_key_of_ours(tmp_path: Path) -> None:
    # A key of a curve that the library does not know: SM2.
    other = tmp_path / "other.pub.pem"
    other.write_text(
        "-----BEGIN PUBLIC KEY-----\n"
        "MFkwEwYHKoZIzj0CAQYIKoEcz1UBgi0DQgAEdMf5fc9xVPsQy0EEMNTM6VC98Vq+\n"
        "RM0NmBe0LLVLDiWxhGRoxMR3TG/6tMrdZdrNjk1+L4UiNTL57NTPCoQJhA==\n"
        "-----END PUBLIC KEY-----\n"
    )
    for path in (other, Path("~nobody-of-this-name/key.pem")):
        with pytest.raises(BadKey, match=re.escape(str(path))):
            sealing_key(path)
    with pytest.raises(ConfigError, match="text_hash_key_file"):
        secrecy_of(Config(keep_texts="redacted", text_hash_key_file=str(path)))


def test_settings_that_keep_nothing_secret_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs operator_key_file"):
        secrecy_of(Config(keep_texts="encrypted"))
    with pytest.raises(ConfigError, match="can't be read"):
        secrecy_of(Config(keep_texts="encrypted", operator_key_file="/no/file"))
    short = tmp_path / "short"
    short.write_bytes(b"guess me")
    with pytest.raises(ConfigError, match="has 8 bytes, and needs 16"):
        secrecy_of(Config(keep_texts="redacted", text_hash_key_file=str(short)))
    private = tmp_path / "k.key.pem"
    make_pair(private, tmp_path / "k.pub.pem")
    with pytest.raises(ConfigError, match="holds no public key"):
        secrecy_of(Config(keep_texts="encrypted", operator_key_file=str(private)))


class TestLogs:
    def said(self, form: Any, *arguments: Any, name: str = "intake", error: bool = False) -> str:
        stream = io.StringIO()
        root = logging.getLogger()
        handlers = root.handlers[:]
        logger = logging.getLogger(f"sluicegate.worker.{name}")
        try:
            logs.configure(form, "info", stream, hides=True)
            try:
                raise ValueError(SECRET)  # noqa: TRY301
            except ValueError:
                logger.info(*arguments, exc_info=error)
        finally:
            root.handlers[:] = handlers
        return stream.getvalue()

    @pytest.mark.parametrize("form", ["human", "json"])
    def test_words_are_hidden_and_names_and_numbers_are_not(self, form: Any) -> None:
        said = self.said(form, "%s of %s after %d: %s", "rejected", "sluice.v1.jobs.x", 3, SECRET)
        assert f"rejected of sluice.v1.jobs.x after 3: [redacted: {len(SECRET)} characters]" in said

    @pytest.mark.parametrize("form", ["human", "json"])
    def test_of_an_error_its_kind_and_place_stay(self, form: Any) -> None:
        try:
            raise RuntimeError(SECRET) from ValueError(SECRET)  # noqa: TRY301
        except RuntimeError as error:
            said = self.said(form, "it failed: %s", error, error=True)
        assert "it failed: RuntimeError [redacted: " in said
        assert "test_secrecy.py" in said
        assert SECRET not in said

    def test_what_a_tool_prints_is_hidden_to_the_last_word(self) -> None:
        said = self.said("human", "%s: %s", "search", "hunter2hunter2", name="tools.process")
        assert "hunter2" not in said

    def test_of_others_nothing_is_said_but_how_much(self) -> None:
        stream = io.StringIO()
        root = logging.getLogger()
        handlers = root.handlers[:]
        try:
            logs.configure("human", "info", stream, hides=True)
            logging.getLogger("third_party").warning("dumping the input: %s", SECRET)
        finally:
            root.handlers[:] = handlers
        assert "third_party  [redacted: " in stream.getvalue()
