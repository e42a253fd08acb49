"""The pure part of comparing topologies: the broker's words, the comparison, the versions."""

import http.server
import threading
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from sluicegate.ops import management
from sluicegate.ops.console import table
from sluicegate.ops.topology_amqp import UNTOLD, Conflict, Seen, parse_conflict, read_refusal
from sluicegate.ops.topology_check import (
    Difference,
    ExchangeBinding,
    Observed,
    Properties,
    compare,
    describe,
    exchange_properties,
    notes,
    queue_properties,
)
from sluicegate.producer.versions import (
    OLDEST,
    WrongBroker,
    refusal,
    remarks,
    require_version,
)
from sluicegate.schemas import Topology, topology
from sluicegate.schemas.topology import Binding

ASKED: Properties = {
    "durable": True,
    "x-max-length": 1_000_000,
    "x-overflow": "reject-publish",
}


def inequivalent(key: str, rest: str) -> str:
    where = f"inequivalent arg '{key}' for queue 'it's' in vhost '/a b': {rest}"
    return f"PRECONDITION_FAILED - {where}"


class TestTheBrokersWords:
    @pytest.mark.parametrize(
        ("key", "rest", "value"),
        [
            ("x-max-length", "received '1000000' but current is '5'", 5),
            ("durable", "received 'true' but current is 'false'", False),
            ("x-overflow", "received 'reject-publish' but current is 'drop-head'", "drop-head"),
            (
                "x-delivery-limit",
                "received none but current is the value '5' of type 'byte'",
                5,
            ),
            (
                "x-expires",
                "received none but current is the value '-70000' of type 'signedint'",
                -70_000,
            ),
            (
                "x-single-active-consumer",
                "received none but current is the value 'true' of type 'bool'",
                True,
            ),
            (
                "x-dead-letter-exchange",
                "received none but current is the value 'it's' of type 'longstr'",
                "it's",
            ),
            (
                "x-max-length",
                "received the value '1000000' of type 'signedint' but current is none",
                None,
            ),
        ],
    )
    def test_a_difference_is_read_with_its_type(self, key: str, rest: str, value: Any) -> None:
        conflict = parse_conflict(inequivalent(key, rest), ASKED)
        assert conflict is not None
        assert conflict == Conflict(key, value)
        assert type(conflict.value) is type(value)

    def test_other_words_are_no_difference(self) -> None:
        assert parse_conflict("PRECONDITION_FAILED - unknown delivery tag 1", ASKED) is None

    def test_a_refusal_because_of_the_guard_means_missing(self) -> None:
        queue = "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost '/' of queue"
        exchange = "PRECONDITION_FAILED - invalid type 'byte' for arg 'alternate-exchange' in"
        assert read_refusal(queue, ASKED, "x-max-age") == Seen(None)
        assert read_refusal(exchange, ASKED, "alternate-exchange") == Seen(None)

    def test_a_refusal_that_is_not_understood_is_said(self) -> None:
        assert read_refusal("odd", ASKED, "x-max-age") == Seen(ASKED, "odd")

    def test_an_answer_that_was_cut_off_still_names_the_property(self) -> None:
        text = inequivalent("x-max-length", "received '1000000' but curr...")
        seen = read_refusal(text, ASKED, "x-max-age")
        assert isinstance(seen, Seen)
        assert seen.properties == ASKED | {"x-max-length": UNTOLD}
        assert seen.unchecked

    def test_an_answer_about_the_guard_that_was_cut_off_is_no_difference(self) -> None:
        text = inequivalent("alternate-exchange", "received the va...")
        seen = read_refusal(text, ASKED, "alternate-exchange")
        assert isinstance(seen, Seen)
        assert seen.properties == ASKED
        assert seen.unchecked

    def test_a_stream_compares_the_guard(self) -> None:
        text = inequivalent("x-max-age", "received '1s' but current is '5D'")
        seen = read_refusal(text, ASKED, "x-max-age")
        assert isinstance(seen, Seen)
        assert seen.properties == ASKED | {"x-queue-type": "stream"}
        assert seen.unchecked

    def test_where_a_stream_is_asked_for_its_age_is_a_property_like_any_other(self) -> None:
        text = inequivalent("x-max-age", "received '7D' but current is '5D'")
        assert read_refusal(text, ASKED, "x-max-priority") == Conflict("x-max-age", "5D")
        text = inequivalent("x-max-priority", "received '1' but current is none")
        seen = read_refusal(text, ASKED, "x-max-priority")
        assert isinstance(seen, Seen)
        assert seen.properties == ASKED | {"x-queue-type": "classic"}


def as_observed(made: Topology) -> Observed:
    return Observed(
        exchanges={each.name: exchange_properties(each) for each in made.exchanges},
        queues={each.name: queue_properties(each) for each in made.queues},
        bindings=made.bindings,
    )


class TestComparison:
    def test_what_is_as_it_should_be(self) -> None:
        made = topology("n")
        assert compare(made, as_observed(made)) == []
        assert notes(made, as_observed(made)) == []

    def test_an_empty_broker_lacks_everything(self) -> None:
        made = topology("n")
        found = compare(made, Observed(bindings=()))
        assert len(found) == len(made.exchanges) + len(made.queues) + len(made.bindings)
        assert {each.kind for each in found} == {"missing"}

    def test_bindings_that_could_not_be_seen_are_not_missing(self) -> None:
        made = topology("n")
        assert compare(made, structs.replace(as_observed(made), bindings=None)) == []

    @settings(deadline=None)
    @given(st.data())
    def test_one_change_is_one_difference(self, data: st.DataObject) -> None:
        made = topology("n")
        observed = as_observed(made)
        name = data.draw(st.sampled_from(sorted(observed.queues)))
        key = data.draw(st.sampled_from(sorted(observed.queues[name])))
        changed = {**observed.queues[name], key: "odd"}
        found = compare(made, structs.replace(observed, queues={**observed.queues, name: changed}))
        wanted = observed.queues[name][key]
        assert found == [Difference("different", f"queue {name}", key, wanted, "odd")]

    def test_things_of_others_are_no_note(self) -> None:
        made = topology("n")
        observed = as_observed(made)
        others = structs.replace(
            observed,
            exchanges={**observed.exchanges, "": {}, "amq.topic": {}, "nn": {}},
            queues={**observed.queues, "nn.odd": {}, "amq.gen-1": {}},
            bindings=(*made.bindings, Binding("amq.topic", "nn.odd", "#")),
        )
        assert notes(made, others) == []

    def test_things_of_ours_are(self) -> None:
        made = topology("n")
        observed = as_observed(made)
        more = structs.replace(
            observed,
            exchanges={**observed.exchanges, "n.odd": {}},
            queues={**observed.queues, "n.results.a": {}, "n.results.b": {}, "n.odd": {}},
        )
        assert notes(made, more) == [
            "queue n.odd is no part of the topology",
            "2 more reply queue(s) under n.results.*",
            "exchange n.odd is no part of the topology",
        ]

    @pytest.mark.parametrize(
        ("binding", "why"),
        [
            (Binding("n.dlx", "n.jobs.batch"), ": dead jobs come back to life"),
            (Binding("n.dlx", "elsewhere"), ""),
            (Binding("n", "elsewhere", "jobs.batch"), ": messages are copied, or go astray"),
            (Binding("n", "n.jobs.batch", "jobs.interactive"), ": messages are copied, or go"),
            (Binding("n.results", "n.results.a", "b"), ": messages are copied, or go astray"),
            (Binding("n.results", "n.dead", "default"), ": messages are copied, or go astray"),
            (Binding("n.retry", "elsewhere"), ""),
            (Binding("n.events", "n.jobs.batch", "#"), ""),
            (Binding("n.control", "n.jobs.batch"), ""),
            (Binding("amq.topic", "n.jobs.batch", "#"), ""),
        ],
    )
    def test_a_binding_that_may_harm_is(self, binding: Binding, why: str) -> None:
        made = topology("n")
        observed = structs.replace(as_observed(made), bindings=(*made.bindings, binding))
        (note,) = notes(made, observed)
        assert note.startswith(f"{describe(binding)} is no part of the topology{why}")

    @pytest.mark.parametrize(
        "binding",
        [
            Binding("n.results", "n.results.shop", "shop"),
            Binding("n.events", "n.events.0f", "shop.#"),
            Binding("n.events", "log", "#"),
            Binding("n.control", "amq.gen-1"),
        ],
    )
    def test_a_binding_of_whoever_listens_is_not(self, binding: Binding) -> None:
        made = topology("n")
        observed = structs.replace(as_observed(made), bindings=(*made.bindings, binding))
        assert notes(made, observed) == []

    def test_a_binding_to_an_exchange(self) -> None:
        made = topology("n")
        observed = structs.replace(
            as_observed(made),
            exchange_bindings=(ExchangeBinding("n.dlx", "n"), ExchangeBinding("a", "b")),
        )
        assert notes(made, observed) == ["binding n.dlx -> exchange n is no part of the topology"]


class TestVersions:
    @pytest.mark.parametrize("version", [(3, 9, 29), (3, 8, 0), (2, 0, 0)])
    def test_too_old(self, version: tuple[int, int, int]) -> None:
        why = refusal(version)
        assert why is not None
        assert "3.10.0" in why
        with pytest.raises(WrongBroker, match="too old"):
            require_version(version)

    @pytest.mark.parametrize("version", [OLDEST, (3, 13, 7), (4, 1, 0), (5, 0, 0), (0, 0, 0)])
    def test_new_enough_or_unknown(self, version: tuple[int, int, int]) -> None:
        assert refusal(version) is None
        require_version(version)

    @pytest.mark.parametrize(
        ("version", "words"),
        [
            ((3, 10, 8), ["no consumer timeout per queue", "priorities"]),
            ((3, 11, 28), ["no consumer timeout per queue", "priorities"]),
            ((3, 12, 0), ["policy key", "priorities"]),
            ((3, 13, 1), ["policy key", "3.13.3", "priorities"]),
            ((3, 13, 3), ["policy key", "priorities"]),
            ((4, 0, 1), ["policy key"]),
            ((4, 3, 1), ["4.3.3", "4.3.7", "delivery limit"]),
            ((4, 3, 7), ["delivery limit"]),
            ((0, 0, 0), ["does not tell"]),
            ((3, 9, 0), []),
        ],
    )
    def test_what_a_version_can_not_do(
        self, version: tuple[int, int, int], words: list[str]
    ) -> None:
        said = remarks(version)
        assert len(said) == len(words)
        for sentence, word in zip(said, words, strict=True):
            assert word in sentence


class TestAccess:
    @pytest.mark.parametrize(
        ("amqp", "told", "url", "user", "password", "vhost"),
        [
            ("amqp://u:p@h:5672/", None, "http://h:15672", "u", "p", "/"),
            ("amqp://h", None, "http://h:15672", "guest", "guest", "/"),
            ("amqp://u:p@h/%2Fprod", None, "http://h:15672", "u", "p", "/prod"),
            ("amqp://u:p@h/prod", None, "http://h:15672", "u", "p", "prod"),
            # The password must not travel in the clear.
            ("amqps://u:p@h/", None, "https://h:15671", "u", "p", "/"),
            ("amqp://u:p@h/", "https://m/rabbit/", "https://m/rabbit", "u", "p", "/"),
            ("amqp://u:p@h/", "http://v:q@m:1", "http://m:1", "v", "q", "/"),
        ],
    )
    def test_where_and_who(
        self, amqp: str, told: str | None, url: str, user: str, password: str, vhost: str
    ) -> None:
        access = management.access(amqp, told)
        assert access == management.Access(url, user, password, vhost, amqp)

    def test_its_repr_keeps_the_password(self) -> None:
        assert "hunter2" not in repr(management.access("amqp://u:hunter2@h/", None))

    @pytest.mark.parametrize(
        "told",
        [
            "h:15672",
            "ftp://h",
            "file:///etc/passwd",
            "//h",
            "http://u:1/w@h",
            "http://u:w/1@h",
            "http://h/?a",
        ],
    )
    def test_no_address(self, told: str) -> None:
        with pytest.raises(ValueError, match="must look like"):
            management.access("amqp://h/", told)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers all requests alike, and keeps what was asked."""

    code = 200
    body = b"{}"
    location: str | None = None
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(self.code)
        if self.location:
            self.send_header("Location", self.location)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def answers() -> Generator[tuple[str, type[Answers]]]:
    handler = type("Handler", (Answers,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    thread.join()
    server.server_close()


class TestAnOddApi:
    def observe(self, url: str) -> str:
        access = management.Access(url, "u", "secret", "/")
        with pytest.raises(management.NoManagement) as caught:
            management.observe(access, cluster_name="rabbit@h")
        assert "secret" not in str(caught.value)
        return str(caught.value)

    @pytest.mark.parametrize(
        ("code", "body", "said"),
        [
            (401, b"", "refused user u"),
            (404, b"", "answered 404"),
            (500, b"", "answered 500"),
            (200, b"<html>", "is no management API"),
            (200, b"[]", "is no management API"),
            (200, b"[" * 100_000, "is no management API"),
            (200, b'{"cluster_name": "rabbit@other"}', "belongs to another broker"),
        ],
    )
    def test_its_answer_is_not_believed(
        self, code: int, body: bytes, said: str, answers: tuple[str, type[Answers]]
    ) -> None:
        url, handler = answers
        handler.code, handler.body = code, body
        assert said in self.observe(url)

    def test_a_redirect_is_not_followed(self, answers: tuple[str, type[Answers]]) -> None:
        """It would take the password to another host."""
        url, handler = answers
        handler.code, handler.location = 302, f"{url}/elsewhere"
        assert "answered 302" in self.observe(url)
        assert handler.asked == ["/api/overview"]

    def test_nobody_there(self) -> None:
        assert "can't be reached" in self.observe("http://127.0.0.1:1")


def test_a_table_aligns_all_but_its_last_column() -> None:
    rows = [("a", "bb", "one"), ("ccc", "d", "two words"), ("e", "f", "")]
    assert list(table(rows, indent="> ")) == ["> a    bb  one", "> ccc  d   two words", "> e    f"]
    assert list(table([])) == []
