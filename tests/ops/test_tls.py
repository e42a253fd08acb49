"""Producer, worker and commands against a real RabbitMQ that speaks TLS, both ways."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from sluicegate.ops.broker_node import free_ports
from sluicegate.ops.private_broker import PrivateBroker
from sluicegate.ops.service_process import ServiceFailed, ServiceProcess
from sluicegate.ops.settings import load
from sluicegate.producer import BrokerUnreachable, GenerationJob, Producer
from sluicegate.producer.connection import close, connect
from sluicegate.producer.tls import is_checked
from yarl import URL

from ..certificates import Authority, Pair
from ..conftest import apply_namespace

pytestmark = pytest.mark.broker

WAIT_S = 60.0
NAMESPACE = "tls"
KEY_PASSWORD = "the key's password"


@dataclass(frozen=True)
class Secure:
    """A broker that takes clients with a certificate alone. Another port of it, for the metrics of
    the broker, shows a certificate that has expired."""

    broker: PrivateBroker
    folder: Path
    authority: Authority
    client: Pair
    port: int
    api_port: int
    expired_port: int

    @property
    def settings(self) -> dict[str, str]:
        return {
            "amqp_url": f"amqps://guest:guest@localhost:{self.port}/",
            "amqp_ca_file": str(self.authority.certificate),
            "amqp_cert_file": str(self.client.certificate),
            "amqp_key_file": str(self.client.key),
        }

    def url(self, host: str = "localhost", *, port: int = 0, **other: str) -> str:
        query = {
            "cafile": str(self.authority.certificate),
            "certfile": str(self.client.certificate),
            "keyfile": str(self.client.key),
        }
        query |= other
        said = "&".join(f"{name}={value}" for name, value in query.items() if value)
        return f"amqps://guest:guest@{host}:{port or self.port}/?{said}"


@pytest_asyncio.fixture(scope="module")
async def secure(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Secure]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "authority")
    server, client = authority.sign("localhost"), authority.sign("client")
    expired = authority.sign("localhost", lives=-timedelta(hours=1), file="expired")
    port, api_port, expired_port = free_ports(3)
    config = f"""
listeners.ssl.1 = 127.0.0.1:{port}
ssl_options.cacertfile = {authority.certificate}
ssl_options.certfile = {server.certificate}
ssl_options.keyfile = {server.key}
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
ssl_cert_login_from = common_name
management.ssl.ip = 127.0.0.1
management.ssl.port = {api_port}
management.ssl.cacertfile = {authority.certificate}
management.ssl.certfile = {server.certificate}
management.ssl.keyfile = {server.key}
prometheus.ssl.ip = 127.0.0.1
prometheus.ssl.port = {expired_port}
prometheus.ssl.cacertfile = {authority.certificate}
prometheus.ssl.certfile = {expired.certificate}
prometheus.ssl.keyfile = {expired.key}
"""
    plugins = ["rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_auth_mechanism_ssl"]
    async with PrivateBroker(config=config, plugins=plugins) as broker:
        await apply_namespace(broker.url, NAMESPACE)
        yield Secure(broker, folder, authority, client, port, api_port, expired_port)


async def sluice(settings: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Run a command with these settings; its exit status and all that it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).parent / "sluice",
        *arguments,
        env={**kept, **{f"SLUICE_{name.upper()}": value for name, value in settings.items()}},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(WAIT_S):
        out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def refused(url: str, *, timeout_s: float = 10.0) -> str:
    """What is said where there is no connection."""
    with pytest.raises(BrokerUnreachable) as caught:
        await close(await connect(url, timeout_s=timeout_s, name="tests"))
    return str(caught.value)


async def test_producer_worker_and_command_work_with_the_right_certificates(
    secure: Secure, tmp_path: Path
) -> None:
    settings = {**secure.settings, "namespace": NAMESPACE, "engine": "scripted"}
    async with ServiceProcess(tmp_path, settings) as worker:
        await worker.ready(WAIT_S)
        async with Producer(secure.url(), namespace=NAMESPACE) as producer:
            handle = await producer.publish(GenerationJob(prompt="hello"))
            assert (await handle.result(timeout=WAIT_S)).text == "hello"
    # By the management API's own TLS: it alone tells the bindings.
    api = f"https://localhost:{secure.api_port}"
    code, said = await sluice(
        {**secure.settings, "namespace": NAMESPACE},
        *("topology", "check", "--json", "--management-url", api),
    )
    assert (code, json.loads(said)["complete"]) == (0, True), said
    assert str(secure.client.key) not in worker.log_file.read_text()


async def test_the_certificate_can_be_the_login(secure: Secure) -> None:
    """`auth=external`: the user is the certificate's name; there is no password at all."""
    url = secure.url(auth="external").replace("guest:guest@", "")
    assert "refused the login" in await refused(url)  # there is no user `client` yet
    await _add_user(secure.broker, "client")
    await close(await connect(url, timeout_s=10, name="tests"))


async def _add_user(broker: PrivateBroker, name: str) -> None:
    from ..docs.test_permissions import put

    def add() -> None:
        put(broker, f"users/{name}", {"password_hash": "", "tags": ""})
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        put(broker, f"permissions/%2F/{name}", rights)

    await asyncio.to_thread(add)


async def test_a_key_with_a_password(secure: Secure) -> None:
    locked = secure.authority.sign("client", password=KEY_PASSWORD.encode(), file="locked")
    files = {"certfile": str(locked.certificate), "keyfile": str(locked.key)}
    said = await refused(secure.url(port=0, **files))
    assert "set amqp_key_password_file" in said
    word = secure.folder / "word"
    word.write_text(KEY_PASSWORD + "\n")
    connection = await connect(
        secure.url(port=0, **files, keypasswordfile=str(word)), timeout_s=10, name="tests"
    )
    await close(connection)
    word.write_text("wrong\n")
    said = await refused(secure.url(port=0, **files, keypasswordfile=str(word)))
    assert "the key's password is another" in said


async def test_each_refusal_says_which_and_what_to_do(secure: Secure) -> None:
    stranger = Authority(secure.folder, "stranger")
    unknown = "signed by an authority that is not trusted here"
    assert unknown in await refused(secure.url(cafile=""))
    assert unknown in await refused(secure.url(cafile=str(stranger.certificate)))
    assert "is for another host" in await refused(secure.url("127.0.0.1"))
    assert "has expired" in await refused(secure.url(port=secure.expired_port))
    assert "speaks no TLS at this port" in await refused(
        secure.url(port=int(secure.broker.url.rsplit(":", 1)[1].rstrip("/")))
    )
    plain = f"amqp://guest:guest@localhost:{secure.port}/"
    assert "Does this port speak TLS? Then it is amqps://" in await refused(plain)
    said = await refused(secure.url(certfile="", keyfile=""))
    assert "set amqp_cert_file" in said
    theirs = stranger.sign("client", file="theirs")
    said = await refused(secure.url(certfile=str(theirs.certificate), keyfile=str(theirs.key)))
    assert "take our certificate" in said


async def test_files_that_cant_be_used_are_named(secure: Secure) -> None:
    other = secure.authority.sign("client", file="other")
    assert "amqp_ca_file (cafile) /no/file: can't be read" in await refused(
        secure.url(cafile="/no/file")
    )
    said = await refused(secure.url(keyfile=str(other.key)))
    assert "no certificate in PEM and its own key" in said
    # The key is in no file at all that was named.
    assert "amqp_key_file (keyfile=)" in await refused(secure.url(keyfile=""))
    empty = secure.folder / "empty.pem"
    empty.write_text("")
    assert "holds no certificate in PEM" in await refused(secure.url(cafile=str(empty)))
    assert "a key without its certificate" in await refused(secure.url(certfile=""))


async def test_what_is_not_checked_is_told(
    secure: Secure, caplog: pytest.LogCaptureFixture
) -> None:
    url = secure.url("127.0.0.1", cafile="", no_verify_ssl="1")
    await close(await connect(url, timeout_s=10, name="tests"))
    assert "whoever answers as amqps://guest:***@127.0.0.1" in caplog.text


async def test_the_management_api_is_checked_too(secure: Secure) -> None:
    settings = {**secure.settings, "namespace": NAMESPACE}
    wrong = f"https://127.0.0.1:{secure.api_port}"
    code, said = await sluice(settings, "topology", "check", "--management-url", wrong)
    assert (code, "is for another host" in said) == (3, True), said


async def test_a_worker_that_trusts_nobody_there_says_so(secure: Secure, tmp_path: Path) -> None:
    settings = {**secure.settings, "amqp_ca_file": "", "engine": "scripted"}
    settings |= {"amqp_url": secure.settings["amqp_url"].replace("guest:", "guest:a-secret")}
    async with ServiceProcess(tmp_path, settings) as worker:
        with pytest.raises(ServiceFailed, match="not trusted here"):
            await worker.ready(WAIT_S)
    assert "a-secret" not in worker.log_file.read_text()


async def test_nobody_who_asks_for_tls_gets_a_plain_connection(secure: Secure) -> None:
    plain = secure.broker.url
    config = load(environ={"SLUICE_AMQP_CA_FILE": "/ca.pem", "SLUICE_AMQP_URL": plain})
    assert "is without: write amqps://" in await refused(config.amqp_url)


@pytest.mark.parametrize("said", ["0", "", "false", "n", "never", "maybe"])
def test_only_a_clear_yes_takes_the_check_away(said: str) -> None:
    assert is_checked(URL("amqps://h/").update_query(no_verify_ssl=said))
    assert not is_checked(URL("amqps://h/?no_verify_ssl=True"))


def test_settings_go_where_every_connection_finds_them() -> None:
    config = load(
        environ={"SLUICE_AMQP_CA_FILE": "/a b&c.pem", "SLUICE_AMQP_CERT_FILE": "/mine.pem"},
        flags={"amqp_url": "amqps://h/?certfile=/its-own.pem"},
    )
    assert "cafile=/a+b%26c.pem" in config.amqp_url
    assert "/its-own.pem" in config.amqp_url
    assert "/mine.pem" not in config.amqp_url
