"""TLS to the broker: what is trusted, who we are, and what a refused handshake means.

The broker's certificate is checked, name included, unless the URL says `no_verify_ssl=1`; a
connection never falls back to plain. Files are read at every connect, so that renewed certificates
count from the next one on.
"""

import asyncio
import base64
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aiormq.connection import TransportFactory
from aiormq.exceptions import AMQPConnectionError
from yarl import URL

from ..schemas.errors import SluiceError

# Parameters of an amqps:// URL, by the setting that stands for each.
PARAMETERS: Final = {
    "amqp_ca_file": "cafile",
    "amqp_cert_file": "certfile",
    "amqp_key_file": "keyfile",
    "amqp_key_password_file": "keypasswordfile",
}
# Anything else is no answer, and checks nothing away.
_YES: Final = ("1", "true", "yes", "on")

# OpenSSL's codes of a failed check (X509_V_ERR_...), where what to do differs.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_REVOKED: Final = 23
_OTHER_NAME: Final = (62, 64)
_UNKNOWN_ISSUER: Final = (2, 18, 19, 20, 21)


class BadTlsFile(SluiceError):
    """A file for TLS can't be used; the message says which, why, and names no secret."""


class CheckedTls(TransportFactory):
    """Opens connections of aiormq by TLS, each with a context made from the URL."""

    async def create(
        self, url: URL, **kwargs: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """As aiormq's own. Raises AMQPConnectionError, by whose cause `tls_error` knows it."""
        kwargs.pop("ssl_context_provider", None)
        try:
            context = await asyncio.to_thread(context_of, url)
            return await asyncio.open_connection(url.host, url.port, ssl=context, **kwargs)
        except (OSError, BadTlsFile) as error:
            raise AMQPConnectionError(*error.args) from error


def is_checked(url: URL) -> bool:
    """Whether the broker's certificate is checked."""
    return url.query.get("no_verify_ssl", "0").lower() not in _YES


def with_files(url: str, files: Mapping[str, str]) -> str:
    """The URL with the files of these settings (see `PARAMETERS`) as its parameters. What it says
    itself is stronger."""
    parsed = URL(url)
    given = {PARAMETERS[name]: path for name, path in files.items() if path}
    return str(parsed.update_query({**given, **parsed.query}))


def context_of(url: URL) -> ssl.SSLContext:
    """What the URL's parameters ask for: `cafile`, `capath` or `cadata` (base64 of PEM) in place of
    the system's authorities, `certfile` and `keyfile` with `keypasswordfile` as our own
    certificate. Blocking. Raises BadTlsFile."""
    query = url.query
    context = _trusting(query.get("cafile"), query.get("capath"), query.get("cadata"))
    if not is_checked(url):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := query.get("certfile"):
        _load_own(context, certificate, query.get("keyfile"), query.get("keypasswordfile"))
    elif query.get("keyfile"):
        raise BadTlsFile("a key without its certificate: set amqp_cert_file (certfile=) as well")
    return context


def _trusting(cafile: str | None, capath: str | None, cadata: str | None) -> ssl.SSLContext:
    # OpenSSL takes a folder that isn't there for one that is empty.
    if capath and not Path(capath).is_dir():
        raise BadTlsFile(f"capath {capath}: is no folder")
    try:
        data = base64.b64decode(cadata, validate=True).decode("ascii") if cadata else None
        return ssl.create_default_context(cafile=cafile, capath=capath, cadata=data)
    except ssl.SSLError as error:
        raise BadTlsFile(
            f"amqp_ca_file (cafile) {cafile or ''}: holds no certificate in PEM ({_said(error)})"
        ) from error
    except OSError as error:
        raise BadTlsFile(_unreadable("amqp_ca_file (cafile)", cafile or "", error)) from error
    except ValueError as error:
        raise BadTlsFile("cadata: is no base64 of certificates in PEM") from error


def _load_own(context: ssl.SSLContext, certificate: str, key: str | None, word: str | None) -> None:
    password = _password(word)

    def asked() -> bytes:
        # Otherwise OpenSSL would ask at the terminal, and a service would hang there.
        if password is None:
            raise BadTlsFile(
                f"{key or certificate}: the key has a password: set amqp_key_password_file "
                "(keypasswordfile=) to a file that holds it"
            )
        return password

    for setting, path in (("amqp_cert_file (certfile)", certificate), ("amqp_key_file", key)):
        try:
            if path:
                Path(path).open("rb").close()
        except OSError as error:
            raise BadTlsFile(_unreadable(setting, path or "", error)) from error
    try:
        context.load_cert_chain(certificate, key, asked)
    except (ssl.SSLError, ValueError, OSError) as error:
        why = _said(error) if isinstance(error, ssl.SSLError) else type(error).__name__
        if key is None:
            raise BadTlsFile(
                f"{certificate}: holds no certificate in PEM with its key, or the key's password "
                f"is another ({why}); a key in a file of its own is amqp_key_file (keyfile=)"
            ) from error
        raise BadTlsFile(
            f"{certificate} and {key} are no certificate in PEM and its own "
            f"key, or the key's password is another ({why})"
        ) from error


def _password(path: str | None) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise BadTlsFile(_unreadable("amqp_key_password_file", path, error)) from error


def _unreadable(setting: str, path: str, error: OSError) -> str:
    return f"{setting} {path}: can't be read ({error.strerror or type(error).__name__})"


def tls_error(error: BaseException) -> ssl.SSLError | BadTlsFile | None:
    """The trouble with TLS that an error comes from, if it is that."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, ssl.SSLError | BadTlsFile):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def explained(where: str, error: ssl.SSLError | BadTlsFile) -> str:
    """What went wrong between us and `where`, and what to do about it."""
    if isinstance(error, BadTlsFile):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _unverified(where, error)
    reason = error.reason or ""
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return (
            f"{where} wants a certificate of ours: set amqp_cert_file and amqp_key_file (certfile= "
            "and keyfile= in the URL)"
        )
    if "ALERT" in reason:
        return (
            f"{where} does not take our certificate ({_said(error)}): is it signed by an authority "
            "that the broker trusts (ssl_options.cacertfile), and not expired?"
        )
    if any(word in reason for word in ("WRONG_VERSION", "RECORD_LAYER", "HTTP", "PACKET_LENGTH")):
        return (
            f"{where} speaks no TLS at this port: the broker's port for TLS is 5671 as a rule, the "
            "management API's 15671. Nothing was sent in the clear"
        )
    return f"no TLS with {where}: {_said(error)}"


def hung_up(url: URL) -> str:
    """What a server may have meant that hung up before it said anything: the reason that it gives
    to its TLS client is lost now and then, with the connection."""
    if url.scheme != "amqps":
        return "Does this port speak TLS? Then it is amqps://."
    if url.query.get("certfile"):
        return (
            "Does the broker take our certificate? It must be signed by an authority that the "
            "broker trusts (ssl_options.cacertfile), and not be expired."
        )
    return "Does the broker want a certificate of ours? Then set amqp_cert_file and amqp_key_file."


def _unverified(where: str, error: ssl.SSLCertVerificationError) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return (
            f"the certificate of {where}, or of the authority that signed it, has expired: renew "
            "it there, and look at the clock here"
        )
    if code == _NOT_YET_VALID:
        return f"the certificate of {where} is not valid yet: are the clocks right, here and there?"
    if code == _REVOKED:
        return f"the certificate of {where} has been revoked: put a new one there"
    if code in _OTHER_NAME:
        return (
            f"the certificate of {where} is for another host ({_told(error)}): connect by a name "
            "that stands in it, or issue one for this name"
        )
    if code in _UNKNOWN_ISSUER:
        return (
            f"the certificate of {where} is signed by an authority that is not trusted here "
            f"({_told(error)}): set amqp_ca_file (cafile= in the URL) to its own certificate"
        )
    return f"the certificate of {where} is refused: {_told(error)}"


def _told(error: ssl.SSLCertVerificationError) -> str:
    return error.verify_message.rstrip(".")


def _said(error: ssl.SSLError) -> str:
    return (error.reason or "unknown").replace("_", " ").lower()
