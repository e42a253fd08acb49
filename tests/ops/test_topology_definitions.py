"""`sluice topology definitions`: what it prints. What that does on a broker: `test_permissions`."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sluicegate.ops.cli import main
from sluicegate.ops.topology_definitions import hashed, is_hash
from sluicegate.schemas import topology

URL = ("--amqp-url", "amqp://h/tenant%2F1")
HASH = hashed("a password")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["topology", "definitions", *URL, *arguments])


def printed(*arguments: str) -> dict[str, Any]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_without_users_it_is_the_topology_in_the_virtual_host() -> None:
    made, wanted = printed(), topology()
    assert made.keys() == {"vhosts", "exchanges", "queues", "bindings"}
    assert made["vhosts"] == [{"name": "tenant/1"}]
    assert [each["name"] for each in made["queues"]] == [each.name for each in wanted.queues]
    assert len(made["bindings"]) == len(wanted.bindings)
    assert {each["vhost"] for each in made["queues"]} == {"tenant/1"}


def test_nobody_has_a_password_that_was_not_given() -> None:
    result = run("--users", "--reply", "orders")
    users = json.loads(result.stdout)["users"]
    assert {each["name"] for each in users} >= {"operator", "worker", "checker", "orders"}
    assert {each["password_hash"] for each in users} == {""}
    assert "without a password, and so without a login by one: operator" in result.stderr


def test_passwords_come_as_hashes_or_from_files(tmp_path: Path) -> None:
    file = tmp_path / "word"
    file.write_text("a secret\nmore\n")
    users = printed("--users", f"--hash=worker={HASH}", f"--password-file=agent={file}")["users"]
    hashes = {each["name"]: each["password_hash"] for each in users}
    assert hashes["worker"] == HASH
    raw = base64.b64decode(hashes["agent"])
    assert raw[4:] == hashlib.sha256(raw[:4] + b"a secret").digest()
    assert hashes["checker"] == ""


def test_rights_alone_touch_no_password() -> None:
    made = printed("--rights", "--tool", "search")
    assert "users" not in made
    assert "tool-search" in {each["user"] for each in made["permissions"]}
    assert "sluice.v1.tools.search" in {each["name"] for each in made["queues"]}


def test_a_backend_of_its_own_has_its_queue_and_its_keys_alone() -> None:
    made = printed("--users", "--reply", "orders", "--prefix", "prod-", "--namespace", "a-b.c")
    rights = {each["user"]: each for each in made["permissions"]}["prod-orders"]
    assert rights["configure"].startswith(r"^(a\-b\.c\.results\.orders|")
    topics = {
        each["exchange"]: each["read"]
        for each in made["topic_permissions"]
        if each["user"] == "prod-orders"
    }
    assert topics == {"a-b.c.events": r"^orders\.#$", "a-b.c.results": "^orders$"}
    assert {"a-b.c.results.orders"} <= {each["name"] for each in made["queues"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--users", "--rights"), "one too many"),
        (("--reply", "orders"), "say --users, or --rights"),
        (("--users", "--reply", "a.b"), "--reply 'a.b'"),
        (("--users", "--tool", "a b"), "--tool 'a b'"),
        (("--users", "--reply", "worker"), "two users of the same name"),
        (("--users", "--hash", f"nobody={HASH}"), "USER is one of operator"),
        (("--users", "--hash", "worker=plain-password"), "--hash worker: is no hash"),
        (("--users", "--password-file", "worker=/no/file"), "can't be read"),
    ],
)
def test_what_cant_be_meant(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "plain-password" not in result.output


def test_the_list_is_for_people() -> None:
    result = run("--list", "--reply", "orders")
    assert result.exit_code == 0
    assert "sluice results --reply orders" in result.output


def test_a_salt_makes_equal_passwords_differ() -> None:
    assert hashed("x") != hashed("x")
    assert is_hash(hashed("x"))
    assert not is_hash("x")
